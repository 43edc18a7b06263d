"""EM over the covariance of the features, for data with holes: EVB's closed form, holes expected.

A row has mean μ and covariance C. With P = C⁻¹, its holes m have, given the cells o that are there,

    ⟨x_m⟩ = μ_m − P_mm⁻¹P_mo(x_o − μ_o),    Cov(x_m) = P_mm⁻¹,

h×h matrices for h holes, however many components there are. The expected products S of complete
rows have EVB's closed form (aistats2014), whose rows have the variance σ²/(1 − shrinkage) along
each direction and σ² off them: that is the next C. The free energy F(S) − Σ entropy of the holes
bounds that of sweeps from above, by little: loadings are as certain as if all cells were there. No
round raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

# NumPy's linear algebra alone: SciPy's has threads of its own, which would compete with these.
import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.inference.loop import Info
from bayespca.spectrum.records import Moments, Solution, Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import EPS, LOG_2PI, RESOLUTION_OF_SQUARES, TINY

from .aligning import LARGEST
from .holes import BLOCK, Holes
from .kernels import Starts, by_numpy, given_gram, kernel_for


@dataclass(frozen=True, eq=False)
class RowNormal:
    """Mean and log C of a row, and what EVB's closed form found: directions (p, k), moments of the
    components, noise. `exactly` is the rank to keep, None where it is found.
    """

    mean: FloatArray
    logs: FloatArray
    directions: FloatArray
    moments: Moments | None = None
    noise_variance: float = np.nan
    exactly: int | None = None

    @property
    def rank(self) -> int:
        return int(self.directions.shape[1])

    @cached_property
    def precision(self) -> FloatArray:
        """P = C⁻¹"""
        values, V = np.linalg.eigh(self.logs)
        return np.asarray((V * np.exp(np.clip(-values, -LARGEST, LARGEST))) @ V.T)


def row_normal(
    mean: FloatArray, loadings: FloatArray, noise_variance: float, exactly: int | None = None
) -> RowNormal:
    """C = LLᵀ + σ²I for loadings L (p, k)."""
    p, _ = loadings.shape
    values, V = np.linalg.eigh(loadings @ loadings.T)
    logs = (V * np.log(np.maximum(values, 0.0) + noise_variance)) @ V.T
    return RowNormal(mean, logs, np.empty((p, 0)), None, noise_variance, exactly)


# --- rows with as many holes --------------------------------------------------------------------


class HoleGroup(NamedTuple):
    """Patterns with the same number of holes: their holes (m, h), their rows, and where the rows
    of each begin among these.
    """

    holes: NDArray[np.intp]
    rows: NDArray[np.intp]
    starts: Starts


def grouped(data: Holes) -> list[HoleGroup]:
    """Patterns by their number of holes, a block of them at a time."""
    missing = ~np.asarray(data.patterns, dtype=np.bool_)
    counts, found = missing.sum(axis=1), []
    for h in np.unique(counts):
        patterns = np.flatnonzero(counts == h)
        for some in np.array_split(patterns, -(-patterns.size // BLOCK)):
            holes = np.nonzero(missing[some])[1].reshape(some.size, h)
            sizes = data.starts[some + 1] - data.starts[some]
            starts = np.concatenate([[0], np.cumsum(sizes)])
            rows = np.arange(starts[-1]) + np.repeat(data.starts[some] - starts[:-1], sizes)
            found.append(HoleGroup(holes, rows, starts))
    return found


class _Sums(NamedTuple):
    """Over some rows: Σ⟨ddᵀ⟩ and Σ⟨d⟩ of deviations d from the mean, and Σ log|Cov| of holes."""

    products: FloatArray
    total: FloatArray
    log_dets: float


def _expected(group: HoleGroup, values: FloatArray, normal: RowNormal, solved: Solver) -> _Sums:
    h = group.holes.shape[1]
    p, P = normal.mean.size, normal.precision
    d = values[group.rows] - normal.mean
    if not h:
        return _Sums(d.T @ d, d.sum(axis=0), 0.0)
    sizes = np.diff(group.starts)
    of_rows = group.holes if sizes.max() == 1 else np.repeat(group.holes, sizes, axis=0)
    np.put_along_axis(d, of_rows, 0.0, axis=1)
    pull = -np.take_along_axis(d @ P, of_rows, axis=1)
    k, l = np.triu_indices(h)
    places = group.holes[:, k].T * p + group.holes[:, l].T
    a, cov, log_dets = solved(P.ravel()[places], pull, group.starts)
    np.put_along_axis(d, of_rows, a, axis=1)
    total = np.bincount(places.ravel(), (cov * sizes).ravel(), p * p).reshape(p, p)
    total = total + total.T - np.diag(np.diag(total))
    return _Sums(d.T @ d + total, d.sum(axis=0), float(sizes @ log_dets))


# Means of rows and packed covariances of patterns from packed precisions and what pulls at rows.
Solver = Callable[[FloatArray, FloatArray, Starts], tuple[FloatArray, FloatArray, FloatArray]]


def _by_kernel(
    precisions: FloatArray, pull: FloatArray, starts: Starts
) -> tuple[FloatArray, FloatArray, FloatArray]:
    from .compiled import by_loops

    found = by_loops(precisions, pull, starts, 1.0, np.zeros(pull.shape[1]), 1.0)
    return found.a, found.cov, found.log_dets


def _by_library(
    precisions: FloatArray, pull: FloatArray, starts: Starts
) -> tuple[FloatArray, FloatArray, FloatArray]:
    a, cov, log_dets = given_gram(precisions, pull, starts, np.zeros(pull.shape[1]), 1.0)
    return a, packed(cov).T, log_dets


# --- the iteration ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CovarianceEM:
    """Rounds over data with holes: at most so many components, the noise, or "auto", and the least
    that it may be. Rows and cells all count the same.
    """

    data: Holes
    most: int
    noise: float | str = "auto"
    least_noise: float = 0.0

    @cached_property
    def groups(self) -> list[HoleGroup]:
        return grouped(self.data)

    @cached_property
    def _solver(self) -> Solver:
        (n, _), m = self.data.shape, len(self.data.patterns)
        holes = np.array([group.holes.shape[1] for group in self.groups])
        sizes = np.array([len(group.holes) for group in self.groups])
        # As for matrices of one size that take as much work in all.
        usual = round(float((sizes @ holes**3.0 / m) ** (1 / 3)))
        return _by_library if kernel_for(n, m, usual) is by_numpy else _by_kernel

    def step(self, state: RowNormal) -> tuple[RowNormal, Info]:
        """Expect the holes, then solve for everything else."""
        data, (n, p) = self.data, self.data.shape
        parts = list(self._sums(state))
        products = np.sum([part.products for part in parts], axis=0)
        shift = np.sum([part.total for part in parts], axis=0) / n * data.centred
        S = products - n * np.outer(shift, shift)
        n_holes = n * p - float(data.column_counts.sum())
        entropy = 0.5 * (n_holes * (1 + LOG_2PI) + sum(part.log_dets for part in parts))
        new, free_energy = self._solved(S, state.mean + shift, state.exactly)
        return new, Info(free_energy - entropy, new.rank, new.noise_variance)

    def _sums(self, state: RowNormal) -> Iterator[_Sums]:
        values = np.asarray(self.data.values)
        return (_expected(group, values, state, self._solver) for group in self.groups)

    def _solved(
        self, S: FloatArray, mean: FloatArray, exactly: int | None
    ) -> tuple[RowNormal, float]:
        squares, V = np.linalg.eigh(S)
        squares, V = np.maximum(squares[::-1], 0.0), V[:, ::-1]
        found = self._closed_form(np.sqrt(squares), exactly)
        k, s2 = found.rank, found.noise_variance
        variances = np.full(squares.size, s2)
        shrinkage = found.shrunk_singular_values / np.sqrt(np.maximum(squares[:k], TINY))
        variances[:k] /= np.maximum(1 - shrinkage, EPS)
        logs = (V * np.log(variances)) @ V.T
        return RowNormal(mean, logs, V[:, :k], found.moments, s2, exactly), found.free_energy

    def _closed_form(self, gamma: FloatArray, exactly: int | None) -> Solution:
        shape = (gamma.size, self.data.freedom)
        return solve(
            Spectrum(gamma, shape, resolution=RESOLUTION_OF_SQUARES),
            noise_variance=self.noise,
            max_rank=self.most if exactly is None else min(exactly, self.most),
            least_noise=self.least_noise,
            other_ranks=False,
            exactly=exactly,
        )


class CovarianceChart:
    """Mean and log C as a vector: C may be any, a round leads to one of low rank plus noise."""

    def point(self, state: RowNormal, like: Vector | None) -> StatePoint:
        k, l = np.triu_indices(state.mean.size)
        off = np.where(k < l, np.sqrt(2.0), 1.0)
        deviations = np.exp(0.5 * np.diag(state.logs))
        vector = np.concatenate([state.mean, state.logs[k, l] * off])
        return StatePoint(vector, np.concatenate([deviations, np.full(k.size, np.sqrt(2.0))]))

    def at(self, state: RowNormal, vector: Vector) -> RowNormal:
        p = state.mean.size
        k, l = np.triu_indices(p)
        logs = np.empty((p, p))
        logs[k, l] = logs[l, k] = vector[p:] / np.where(k < l, np.sqrt(2.0), 1.0)
        return replace(state, mean=vector[:p], logs=logs)
