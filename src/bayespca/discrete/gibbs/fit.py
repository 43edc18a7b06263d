"""Chains of draws of natural parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.inference.chains import Schedule, kept_states

from ..data import TableCells, row_blocks
from ..draws import NaturalDraws
from .start import start
from .step import NaturalDraw, natural, sweep

# Upper bound of seeds, so that files can hold them.
SEEDS = 1 << 31


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
        for draw, state in enumerate(_chain(first, cells, schedule, own)):
            b[chain, draw] = state.b
            log_likelihood[chain, draw] = _log_likelihood(state, cells)
    return NaturalDraws(b, log_likelihood, int(rng.integers(SEEDS)))


def _chain(
    first: NaturalDraw, cells: TableCells, schedule: Schedule, rng: np.random.Generator
) -> Iterator[NaturalDraw]:
    return kept_states(first, partial(sweep, cells=cells, rng=rng), schedule)


def _log_likelihood(state: NaturalDraw, cells: TableCells) -> float:
    def of_block(rows: slice) -> float:
        z = natural(state.a[rows], state.b)
        return float(cells.part(rows).sites(z, np.zeros_like(z)).log_likelihood.sum())

    return sum(map(of_block, row_blocks(cells)))
