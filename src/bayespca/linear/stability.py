"""Ranks and directions of half samples, which show how much of a result depends on the sample.

This needs no model of the uncertainty. Rows are divided at random into blocks, whose Gram matrices
are added up for each half, so that a hundred halves need one pass over the rows. Data with more
columns than rows need only the Gram matrix of their rows, of which each half is a part. Where both
are many, each half starts from the leading directions of all rows and improves them twice with its
own rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from bayespca.arrays.types import Counts, FloatArray, Vector
from bayespca.engines.gram import Eigen
from bayespca.spectrum.records import Spectrum

from .scaled.data import spectrum_of_squares

# Blocks of rows, of which each half has ten: there are 184,756 ways to choose them.
BLOCKS = 20
# Size of the largest Gram matrix that is formed, and of the largest that is fully decomposed for
# each half.
LARGEST = 1000
DECOMPOSED = 300
# For larger ones: directions that a half starts with beyond those of the components, and the number
# of times that its own rows improve them.
BEYOND = 20
ROUNDS = 2

Half = tuple[Spectrum, Callable[[int], FloatArray]]


@dataclass(frozen=True, eq=False)
class Halves:
    """The rank of each half sample; and `overlaps` (halves, k): for each half and each component of
    the whole sample, the squared cosine of the angle between the component and the subspace of the
    half's directions.
    """

    ranks: Counts
    overlaps: FloatArray


@dataclass(frozen=True, eq=False)
class WhiteRows:
    """Rows with equal noise.

    `level` is the factor of the mean in each row: 1, or the root of the precision of rows that have
    noise of their own; None where there is no mean. `directions` are those of the whole sample:
    (k, p).
    """

    values: FloatArray
    level: Vector | None
    directions: FloatArray

    @property
    def n_samples(self) -> int:
        return int(self.values.shape[0])

    def shape(self, n: int) -> tuple[int, int]:
        """L and M for n rows."""
        return int(self.values.shape[1]), n - (self.level is not None)


def of_halves(
    rows: WhiteRows, n_halves: int, rng: np.random.Generator, count: Callable[[Spectrum], int]
) -> Halves:
    """Ranks and directions of half samples; `count` finds the rank of a half from its spectrum."""
    n, p = rows.values.shape
    if min(n, p) > LARGEST:
        drawn = _by_products(rows, rng)
    else:
        drawn = _by_rows(rows, rng) if n <= p else _by_columns(rows, rng)
    ranks, overlaps = [], []
    for spectrum, cosines in itertools.islice(drawn, n_halves):
        ranks.append(count(spectrum))
        overlaps.append((cosines(ranks[-1]) ** 2).sum(axis=0))
    shape = (n_halves, len(rows.directions))
    return Halves(np.array(ranks, dtype=np.int64), np.reshape(overlaps, shape))


# --- more rows than columns --------------------------------------------------------------------


def _by_columns(rows: WhiteRows, rng: np.random.Generator) -> Iterator[Half]:
    sums = []
    for chosen in _blocks(rows.n_samples, rng):
        Z = rows.values[chosen]
        r = np.ones(len(Z)) if rows.level is None else rows.level[chosen]
        sums.append(_Sums(len(Z), Z.T @ Z, r @ Z, float(r @ r)))
    start = _leading_of(np.sum([one.gram for one in sums], axis=0), len(rows.directions))
    for chosen in _halves_of(len(sums), rng):
        half = [sums[b] for b in chosen]
        G = np.sum([one.gram for one in half], axis=0)
        if rows.level is not None:
            # Values are about the mean of all rows, so little cancels.
            total = np.sum([one.total for one in half], axis=0)
            G = G - np.outer(total, total) / sum(one.weight for one in half)
        eigen = _decomposed(G, start)
        spectrum = spectrum_of_squares(
            eigen.values[::-1], rows.shape(sum(one.n for one in half)), float(np.trace(G))
        )
        yield spectrum, partial(_cosines, eigen, rows.directions)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the rows of a block: number, ZᵀZ, Zᵀr and rᵀr with the level r of the mean."""

    n: int
    gram: FloatArray
    total: FloatArray
    weight: float


# --- more columns than rows --------------------------------------------------------------------


def _by_rows(rows: WhiteRows, rng: np.random.Generator) -> Iterator[Half]:
    K, T = rows.values @ rows.values.T, rows.values @ rows.directions.T
    start = _leading_of(K, len(rows.directions))
    for chosen in _halves_of(rows.n_samples, rng):
        level = None if rows.level is None else rows.level[chosen]
        product = _without(K[np.ix_(chosen, chosen)], level)
        eigen, scores = _decomposed(product, start[chosen]), T[chosen]
        spectrum = spectrum_of_squares(
            eigen.values[::-1], rows.shape(len(chosen)), float(np.trace(product))
        )
        gamma = spectrum.singular_values
        yield spectrum, partial(_cosines_of_scores, eigen, scores, gamma)


def _without(K: FloatArray, level: Vector | None) -> FloatArray:
    """ZZᵀ of rows without their mean, which is along `level`."""
    if level is None:
        return K
    r = level / np.linalg.norm(level)
    along = K @ r
    return K - np.outer(r, along) - np.outer(along, r) + float(r @ along) * np.outer(r, r)


# --- many of both ------------------------------------------------------------------------------


def _by_products(rows: WhiteRows, rng: np.random.Generator) -> Iterator[Half]:
    """Halves by products of blocks of rows with their directions, without a Gram matrix."""
    seed, k = int(rng.integers(2**31)), len(rows.directions)
    start = randomized_svd(rows.values, k + BEYOND, n_iter=2, random_state=seed)[2].T
    blocks = [
        replace(
            rows,
            values=rows.values[chosen],
            level=None if rows.level is None else rows.level[chosen],
        )
        for chosen in _blocks(rows.n_samples, rng)
    ]
    for chosen in _halves_of(len(blocks), rng):
        half = [blocks[b] for b in chosen]
        T, own = _along(half, start), start
        ends = np.cumsum([len(part.values) for part in half])[:-1]
        for _ in range(ROUNDS):
            back = zip(half, np.split(T, ends), strict=True)
            own = np.linalg.qr(np.sum([part.values.T @ t for part, t in back], axis=0))[0]
            T = _along(half, own)
        eigen, n = Eigen.of(T.T @ T), sum(len(part.values) for part in half)
        spectrum = spectrum_of_squares(eigen.values[::-1], rows.shape(n), _squares(half))
        yield spectrum, partial(_cosines, eigen, rows.directions @ own)


def _along(half: list[WhiteRows], V: FloatArray) -> FloatArray:
    """Coordinates of rows, without their mean, along columns of V."""
    T = np.concatenate([part.values @ V for part in half])
    levels = [part.level for part in half if part.level is not None]
    if not levels:
        return T
    r = np.concatenate(levels)
    return T - np.outer(r, (r @ T) / (r @ r))


def _squares(half: list[WhiteRows]) -> float:
    """Σz² without the mean."""
    total = sum(float(np.vdot(part.values, part.values)) for part in half)
    levels = [(part.level, part.values) for part in half if part.level is not None]
    if not levels:
        return total
    mean = np.sum([r @ Z for r, Z in levels], axis=0)
    return total - float(mean @ mean) / sum(float(r @ r) for r, _ in levels)


# --- decompositions ----------------------------------------------------------------------------


class Leading(NamedTuple):
    """A Gram matrix restricted to a few directions, the columns of `own`, and its eigenvalues."""

    own: FloatArray
    values: FloatArray
    eigen: Eigen

    def top(self, k: int) -> FloatArray:
        return self.own @ self.eigen.top(k)


def _leading_of(product: FloatArray, k: int) -> FloatArray:
    """Leading directions of all rows to start from, as columns; none for a small matrix."""
    size = len(product)
    if size <= DECOMPOSED:
        return np.empty((size, 0))
    return Eigen.of(product).top(min(k + BEYOND, size))


def _decomposed(product: FloatArray, start: FloatArray) -> Eigen | Leading:
    """Eigenvectors of a Gram matrix: all of a small one, leading ones by iteration from a start."""
    if not start.shape[1] or len(product) <= start.shape[1]:
        return Eigen.of(product)
    own = start
    for _ in range(ROUNDS):
        own = np.linalg.qr(product @ own)[0]
    eigen = Eigen.of(own.T @ product @ own)
    return Leading(own, eigen.values, eigen)


def _cosines(eigen: Eigen | Leading, directions: FloatArray, k: int) -> FloatArray:
    """Cosines of the angles of the first k directions of a half with those of the whole sample."""
    return eigen.top(k).T @ directions.T


def _cosines_of_scores(
    eigen: Eigen | Leading, scores: FloatArray, gamma: FloatArray, k: int
) -> FloatArray:
    """As `_cosines` where rows were decomposed: from scores along the whole sample's directions."""
    return (eigen.top(k).T @ scores) / gamma[:k, None]


# --- halves ------------------------------------------------------------------------------------


def _blocks(n: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    return np.array_split(rng.permutation(n), min(BLOCKS, n))


def _halves_of(n: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Endless random halves of n items, each followed by the other half."""
    while True:
        order = rng.permutation(n)
        yield order[: n // 2]
        yield order[n // 2 : 2 * (n // 2)]
