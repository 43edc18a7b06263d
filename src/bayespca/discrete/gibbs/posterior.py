"""Results from draws: scores of rows are drawn given each draw of loadings.

Given the loadings, rows are independent. A chain of scores passes through the draws of loadings
with a few sweeps for each. The last sweep keeps the distribution of scores given ω rather than a
draw from it, because averages over it have closed forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayespca.arrays.packing import triangle
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray, Matrix, Stacks

from ..cells import moments
from ..data import TableCells, row_blocks
from ..normals import Normals
from .step import drawn, natural, scores_given, sharp_regressors

# Sweeps with the first draw of loadings, and with each later one.
FIRST, EACH = 30, 2


@dataclass(frozen=True, eq=False)
class NaturalDraws:
    """Draws of loadings and means; the first two axes are chain and draw.

    Attributes
    ----------
    b
        Rows of (B, μ), for scores of unit prior variance: (chain, draw, p, H + 1). Columns of B
        may be rotated among each other: compare products, or natural parameters.
    log_likelihood
        log p(x | z) of all observed cells at each draw: (chain, draw).
    seed
        Seed of the draws of scores given these loadings.
    """

    b: Stacks
    log_likelihood: Matrix
    seed: int

    @property
    def size(self) -> int:
        """Number of draws of all chains."""
        return int(self.log_likelihood.size)

    @property
    def variance(self) -> FloatArray:
        """Variance of z over rows, averaged over columns, at each draw: (chain, draw)."""
        return np.asarray((self.b[..., :-1] ** 2).sum(axis=-1).mean(axis=-1))

    def quantities(self) -> dict[str, FloatArray]:
        """Identified quantities, which show whether the chains have mixed."""
        return {"log_likelihood": self.log_likelihood, "variance": self.variance}

    def __iter__(self) -> Iterator[FloatArray]:
        """(B, μ) of all draws, chain by chain."""
        return iter(self.b.reshape(self.size, *self.b.shape[2:]))

    def check(self) -> None:
        """Raise ValueError unless the parts fit together and are finite."""
        chains, n, p, width = self.b.shape
        if self.log_likelihood.shape != (chains, n) or not chains * n * p * width:
            raise ValueError("the arrays of NaturalDraws are empty or of different sizes")
        if not np.isfinite(self.b).all() or self.seed < 0:
            raise ValueError("the draws of NaturalDraws are not finite, or their seed is negative")


class _Mixture(NamedTuple):
    """Mean and variance of a mixture with equal weights."""

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def of(cls, parts: Iterator[tuple[FloatArray, FloatArray]]) -> _Mixture:
        """The mixture of parts with these means and variances."""
        count, mean, square = 0, np.zeros(()), np.zeros(())
        for m, v in parts:
            count, mean, square = count + 1, mean + m, square + m * m + v
        mean = mean / count
        return cls(mean, np.maximum(square / count - mean * mean, 0.0))


def natural_moments(draws: NaturalDraws, data: TableCells) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of z in all cells, given the observed cells of their rows."""

    def of_block(cells: TableCells, rng: np.random.Generator) -> _Mixture:
        return _Mixture.of(
            moments(rows, rows.second_with_one, sharp_regressors(b))
            for b, rows in _walk(draws, cells, rng)
        )

    return _by_block(draws, data, of_block)


def score_moments(
    draws: NaturalDraws, data: TableCells, components: FloatArray, center: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the coordinates of z − center along `components`, for each row."""

    def of_block(cells: TableCells, rng: np.random.Generator) -> _Mixture:
        return _Mixture.of(
            _along(rows, components @ b[:, :-1], components @ (b[:, -1] - center))
            for b, rows in _walk(draws, cells, rng)
        )

    return _by_block(draws, data, of_block)


def drawn_natural(draws: NaturalDraws, data: TableCells, rng: np.random.Generator) -> FloatArray:
    """A draw of z in all cells: a draw of the loadings, and of scores given them."""
    b = list(draws)[int(rng.integers(draws.size))]
    given, parts = sharp_regressors(b), []
    for rows in row_blocks(data):
        cells = data.part(rows)
        a = np.zeros((cells.shape[0], b.shape[1] - 1))
        for _ in range(FIRST):
            a = drawn(scores_given(a, b, given, cells, rng, n_in_all=data.shape[0]), rng)
        parts.append(natural(a, b))
    return np.concatenate(parts)


def _along(rows: Normals, G: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of G·a + offset."""
    turned = rows.mean @ G.T + offset
    k, l = triangle(G.shape[1])
    twice = np.where(k == l, 1.0, 2.0)
    return turned, rows.cov @ (G[:, k] * G[:, l] * twice).T


def _walk(
    draws: NaturalDraws, cells: TableCells, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, Normals]]:
    """Each draw of loadings, and the distribution of scores given it and drawn ω."""
    n = cells.shape[0]
    for chain in draws.b:
        a = np.zeros((n, draws.b.shape[-1] - 1))
        last = chain[0]
        for number, b in enumerate(chain):
            given = sharp_regressors(b)
            a = _carried(a, last, b)
            for _ in range(EACH if number else FIRST):
                rows = scores_given(a, b, given, cells, rng, n_in_all=n)
                a = drawn(rows, rng)
            yield b, rows
            last = b


def _carried(a: FloatArray, last: FloatArray, b: FloatArray) -> FloatArray:
    """Scores whose z under the new loadings is nearest to their z under the last.

    Columns of loadings rotate from draw to draw, and the scores must follow.
    """
    apart = natural(a, last) - b[:, -1]
    return np.asarray(np.linalg.lstsq(b[:, :-1], apart.T, rcond=None)[0].T)


def _by_block(
    draws: NaturalDraws,
    data: TableCells,
    of_block: Callable[[TableCells, np.random.Generator], _Mixture],
) -> _Mixture:
    """The mixtures of all rows, computed in blocks with a generator each."""
    blocks = row_blocks(data)
    rngs = np.random.default_rng(draws.seed).spawn(len(blocks))

    def work(item: tuple[slice, np.random.Generator]) -> _Mixture:
        rows, rng = item
        return of_block(data.part(rows), rng)

    parts = in_turn(work, list(zip(blocks, rngs, strict=True)))
    return _Mixture(*(np.concatenate(each) for each in zip(*parts, strict=True)))
