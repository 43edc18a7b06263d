"""Chains of draws of natural parameters."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.inference.chains import Schedule, kept_states

from ..data import TableCells, row_blocks
from .posterior import NaturalDraws
from .step import NaturalDraw, natural, sweep, with_hyperparameters

# Upper bound of seeds, so that files can hold them.
SEEDS = 1 << 31
# Additional components: the variational posterior drops those that it is not sure of.
SPARE = 10
# The size of their loadings at the start.
SMALL = 0.1


def fit(
    cells: TableCells,
    loadings: tuple[FloatArray, FloatArray],
    H: int,
    *,
    schedule: Schedule,
    rng: np.random.Generator,
) -> NaturalDraws:
    """Draws of several chains, each with its own generator.

    They start at `loadings`: (B, μ), and the prior variances of the scores.
    """
    n, p = cells.shape
    shape = (schedule.n_chains, schedule.n_draws)
    b, log_likelihood = np.empty((*shape, p, H + 1)), np.empty(shape)
    for chain, own in enumerate(rng.spawn(schedule.n_chains)):
        first = start(*loadings, n, H, own)
        states = kept_states(first, partial(sweep, cells=cells, rng=own), schedule)
        for draw, state in enumerate(states):
            b[chain, draw] = state.b
            log_likelihood[chain, draw] = _log_likelihood(state, cells)
    return NaturalDraws(b, log_likelihood, int(rng.integers(SEEDS)))


def _log_likelihood(state: NaturalDraw, cells: TableCells) -> float:
    def of_block(rows: slice) -> float:
        z = natural(state.a[rows], state.b)
        return float(cells.part(rows).sites(z, np.zeros_like(z)).log_likelihood.sum())

    return sum(map(of_block, row_blocks(cells)))


def columns(rank: int, most: int | None, shape: tuple[int, int]) -> int:
    """Number of components of draws: `most` if given, else the rank and some spare ones."""
    return min(rank + SPARE if most is None else most, *shape)


def start(
    b: FloatArray, prior: FloatArray, n: int, H: int, rng: np.random.Generator
) -> NaturalDraw:
    """The first state: loadings (B, μ) rescaled to scores of unit prior variance.

    Scores are 0, since a sweep draws them first.
    """
    strongest = np.argsort(-prior)[:H]
    more = SMALL * rng.normal(size=(len(b), H - strongest.size))
    B = b[:, strongest] * np.sqrt(prior[strongest])
    found = NaturalDraw(np.zeros((n, H)), np.column_stack([B, more, b[:, -1]]), np.ones(H), 1.0)
    return with_hyperparameters(found, rng)
