"""EM over the covariance of the features, for data with holes: EVB's closed form is the M-step.

A row has mean μ and covariance C. With P = C⁻¹, its holes m have, given its observed cells o,

    ⟨x_m⟩ = μ_m − P_mm⁻¹P_mo(x_o − μ_o),    Cov(x_m) = P_mm⁻¹,

where P_mm is h×h for h holes, however many components there are. EVB's closed form (aistats2014)
of the expected products S of complete rows gives the next C: variance σ²/(1 − shrinkage) along each
direction, and σ² off them. The free energy F(S) − Σ entropy of the holes is a close upper bound on
that of sweeps, because it takes loadings to be as certain as if no cell were missing. No round
raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

# NumPy's linear algebra only: SciPy's has threads of its own, which would compete with NumPy's.
import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray, Index, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.inference.loop import Info
from bayespca.spectrum.records import Moments, Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import EPS, LOG_2PI, RESOLUTION_OF_SQUARES, TINY

from .aligning import LARGEST
from .holes import BLOCK, Holes
from .kernels import by_numpy, given_gram, kernel_for

# Dummy features: patterns whose numbers of holes differ by at most this many are solved together.
PADDING = 3
# Up to this many pairs of holes, their places are kept however small the data are.
FEW_PAIRS = 1 << 21
# Rounds that a run can be expected to take, for the choice of the solver.
USUAL_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class RowNormal:
    """Mean and log C of a row, and the result of EVB's closed form: directions (p, k), moments of
    the components, noise. `exactly` is the rank to keep; None lets the closed form choose it.
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

    def with_one_less(self) -> RowNormal | None:
        """This distribution without its weakest component; None if it has no components."""
        k, s2 = self.rank - 1, self.noise_variance
        if k < 0:
            return None
        V = self.directions[:, :k]
        spread = np.exp(np.einsum("pk,pq,qk->k", V, self.logs, V, optimize=True)) - s2
        return row_normal(self.mean, V * np.sqrt(np.maximum(spread, 0.0)), s2, k)

    @cached_property
    def precision(self) -> FloatArray:
        """P = C⁻¹"""
        values, V = np.linalg.eigh(self.logs)
        return np.asarray((V * np.exp(np.clip(-values, -LARGEST, LARGEST))) @ V.T)

    @cached_property
    def padded_precision(self) -> FloatArray:
        """P, followed by the dummy features, which are independent and have variance 1."""
        p = self.mean.size
        P = np.eye(p + PADDING)
        P[:p, :p] = self.precision
        return P


def row_normal(
    mean: FloatArray, loadings: FloatArray, noise_variance: float, exactly: int | None = None
) -> RowNormal:
    """C = LLᵀ + σ²I for loadings L (p, k)."""
    p, _ = loadings.shape
    values, V = np.linalg.eigh(loadings @ loadings.T)
    logs = (V * np.log(np.maximum(values, 0.0) + noise_variance)) @ V.T
    return RowNormal(mean, logs, np.empty((p, 0)), None, noise_variance, exactly)


# --- rows with equally many holes --------------------------------------------------------------


class HoleGroup(NamedTuple):
    """Patterns with about equally many holes: their holes (m, h), their rows, where each pattern's
    rows begin among these, and the places of pairs of holes in P, None if they are not kept.
    """

    holes: Index
    rows: Index
    starts: Index
    places: Index | None


def grouped(data: Holes) -> list[HoleGroup]:
    """Patterns grouped by their number of holes, at most `BLOCK` patterns in a group.

    To keep groups few, patterns with fewer holes than others of their group are filled up with some
    of the `PADDING` dummy features.
    """
    missing = ~np.asarray(data.patterns, dtype=np.bool_)
    counts, found = missing.sum(axis=1), []
    sizes = -(-counts // (PADDING + 1)) * (PADDING + 1)
    n_pairs = int((sizes * (sizes + 1) // 2).sum())
    keeps = n_pairs <= max(data.values.size, FEW_PAIRS)
    for h in np.unique(sizes):
        patterns = np.flatnonzero(sizes == h)
        for some in np.array_split(patterns, -(-patterns.size // BLOCK)):
            padding = np.arange(PADDING) < (h - counts[some])[:, None]
            holes = np.nonzero(np.hstack([missing[some], padding]))[1].reshape(some.size, h)
            n_rows = data.starts[some + 1] - data.starts[some]
            starts = np.concatenate([[0], np.cumsum(n_rows)])
            rows = np.arange(starts[-1]) + np.repeat(data.starts[some] - starts[:-1], n_rows)
            places = _places(holes, data.shape[1]) if keeps else None
            found.append(HoleGroup(holes, rows, starts, places))
    return found


def _places(holes: Index, p: int) -> Index:
    """Flat indices of the pairs of holes in the padded P: (h(h + 1)/2, m)."""
    k, l = np.triu_indices(holes.shape[1])
    return np.asarray(holes[:, k].T * (p + PADDING) + holes[:, l].T)


class _Sums(NamedTuple):
    """Sums over some rows: Σ⟨ddᵀ⟩ and Σ⟨d⟩ of deviations d from the mean, Σ log|Cov| of holes."""

    products: FloatArray
    total: FloatArray
    log_dets: float


def _expected(group: HoleGroup, values: FloatArray, normal: RowNormal, solved: Solver) -> _Sums:
    h, (_, p) = group.holes.shape[1], values.shape
    all_p, P = p + PADDING, normal.padded_precision
    d = np.zeros((group.rows.size, all_p))
    np.subtract(values[group.rows], normal.mean, out=d[:, :p])
    if not h:
        return _Sums(d[:, :p].T @ d[:, :p], d[:, :p].sum(axis=0), 0.0)
    sizes = np.diff(group.starts)
    of_rows = group.holes if sizes.max() == 1 else np.repeat(group.holes, sizes, axis=0)
    np.put_along_axis(d, of_rows, 0.0, axis=1)
    pull = -np.take_along_axis(d @ P, of_rows, axis=1)
    places = _places(group.holes, p) if group.places is None else group.places
    a, cov, log_dets = solved(P.ravel()[places], pull, group.starts)
    np.put_along_axis(d, of_rows, a, axis=1)
    total = np.bincount(places.ravel(), (cov * sizes).ravel(), all_p * all_p)
    total = total.reshape(all_p, all_p)[:p, :p]
    total = total + total.T - np.diag(np.diag(total))
    d = d[:, :p]
    return _Sums(d.T @ d + total, d.sum(axis=0), float(sizes @ log_dets))


# From packed precisions and the pull on each row: means of rows, packed covariances of patterns,
# and log determinants of these.
Solver = Callable[[FloatArray, FloatArray, Index], tuple[FloatArray, FloatArray, FloatArray]]


def _by_kernel(
    precisions: FloatArray, pull: FloatArray, starts: Index
) -> tuple[FloatArray, FloatArray, FloatArray]:
    from .compiled import by_loops

    found = by_loops(precisions, pull, starts, 1.0, np.zeros(pull.shape[1]), 1.0)
    return found.a, found.cov, found.log_dets


def _by_library(
    precisions: FloatArray, pull: FloatArray, starts: Index
) -> tuple[FloatArray, FloatArray, FloatArray]:
    a, cov, log_dets = given_gram(precisions, pull, starts, np.zeros(pull.shape[1]), 1.0)
    return a, packed(cov).T, log_dets


# --- the iteration -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CovarianceEM:
    """EM rounds over data with holes, with `most` components at most. `noise` is the noise variance
    or "auto", and `least_noise` its lower limit. All rows and cells count the same.
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
        # The size at which m equal matrices would cost as much.
        usual = round(float((sizes @ holes**3.0 / m) ** (1 / 3)))
        many = USUAL_ROUNDS * n, USUAL_ROUNDS * m
        return _by_library if kernel_for(*many, usual) is by_numpy else _by_kernel

    def step(self, state: RowNormal) -> tuple[RowNormal, Info]:
        """Expectations of the holes, then the closed form for everything else."""
        data, (n, p), exactly = self.data, self.data.shape, state.exactly
        values = np.asarray(data.values)
        parts = [_expected(group, values, state, self._solver) for group in self.groups]
        products = np.sum([part.products for part in parts], axis=0)
        shift = np.sum([part.total for part in parts], axis=0) / n * data.centred
        n_holes = n * p - float(data.column_counts.sum())
        entropy = 0.5 * (n_holes * (1 + LOG_2PI) + sum(part.log_dets for part in parts))
        squares, V = np.linalg.eigh(products - n * np.outer(shift, shift))
        squares, V = np.maximum(squares[::-1], 0.0), V[:, ::-1]
        found = solve(
            Spectrum(np.sqrt(squares), (p, data.freedom), resolution=RESOLUTION_OF_SQUARES),
            noise_variance=self.noise,
            max_rank=self.most if exactly is None else min(exactly, self.most),
            least_noise=self.least_noise,
            other_ranks=False,
            exactly=exactly,
        )
        k, s2 = found.rank, found.noise_variance
        variances = np.full(p, s2)
        shrinkage = found.shrunk_singular_values / np.sqrt(np.maximum(squares[:k], TINY))
        variances[:k] /= np.maximum(1 - shrinkage, EPS)
        logs = (V * np.log(variances)) @ V.T
        new = RowNormal(state.mean + shift, logs, V[:, :k], found.moments, s2, exactly)
        return new, Info(found.free_energy - entropy, k, s2)


class CovarianceChart:
    """Mean and log C as a vector. C need not be low-rank plus noise: the next round makes it so."""

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
