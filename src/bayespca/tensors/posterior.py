"""Results of a fitted Tucker factorization: scores of slices, cells, and their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.checks import are_finite, check_moments, check_sizes
from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.packing import inverses, packed
from bayespca.arrays.places import at
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray, Matrix, Vector

from .holes import seconds_of_rows
from .modes import outer, times, unfolded
from .records import LARGEST_CORE, Core, TuckerRows, spread_of_cells
from .state import TuckerState

# Most rounds of filling holes, and the relative change of the data that ends them.
FILLINGS = 500
FILLED = 1e-9


@dataclass(frozen=True, eq=False)
class TuckerPosterior:
    """Factors with orthonormal columns, and their core, in units of the data.

    Slices of the core along each mode are orthogonal to each other, largest first (the form of the
    higher-order SVD). `precision` (H, H) is the prior precision of rows of the first factor, `mean`
    the mean of the slices along the first mode; it and its variance are 0 if the data were not
    centred. `noise_variance` is the mean over cells, `relative_noise` that of the slices of each
    mode, with a mean of 1; empty if all are equal.
    """

    factors: tuple[TuckerRows, ...]
    core: Core
    precision: Matrix
    noise_variance: float
    mean: FloatArray
    mean_variance: FloatArray
    relative_noise: tuple[Vector, ...] = ()

    @property
    def weights(self) -> list[FloatArray]:
        """Precisions of slices along the modes after the first, relative to the mean noise."""
        if not self.relative_noise:
            return [np.ones(len(rows.mean)) for rows in self.factors[1:]]
        return [1 / one for one in self.relative_noise[1:]]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rows.rank for rows in self.factors)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        slices = tuple(len(rows.mean) for rows in self.factors[1:])
        agree = len(self.factors) > 2 and self.ranks == self.core.mean.shape
        agree = agree and self.precision.shape == (self.ranks[0], self.ranks[0])
        agree = agree and self.mean.shape == self.mean_variance.shape == slices
        sizes = [one.size for one in self.relative_noise]
        agree = agree and sizes in ([], [len(rows.mean) for rows in self.factors])
        check_sizes("a TuckerPosterior", agree)
        moments = (self.precision, self.mean, self.mean_variance, *self.relative_noise)
        positive = (self.mean_variance >= 0).all() and 0 < self.noise_variance < np.inf
        positive = positive and all((one > 0).all() for one in self.relative_noise)
        # Eigenvalues need finite numbers.
        positive = positive and are_finite(*moments)
        positive = positive and (np.linalg.eigvalsh(self.precision) > 0).all()
        check_moments("a TuckerPosterior", *moments, positive=bool(positive))


def of_state(
    state: TuckerState, *, unit: float, mean: FloatArray, mean_variance: FloatArray
) -> TuckerPosterior:
    """The state in the coordinates of the higher-order SVD, in units of the data."""
    rows, core, precision = list(state.rows), state.core, np.diag(1 / state.priors[0])
    variances = [one.variance for one in state.scales]
    rows = [rows[n].times(np.sqrt(one)) for n, one in enumerate(variances)] or rows
    noise = state.noise_variance * unit**2
    if variances:
        # A new slice of the first mode has the mean variance, in its noise and in its prior.
        noise *= math.prod(float(one.mean()) for one in variances)
        precision /= variances[0].mean()
    for n in range(len(rows)):
        root = np.linalg.qr(rows[n].mean)[1]
        rows[n], core = rows[n].turned(np.linalg.inv(root)), core.turned(n, root)
        precision = root @ precision @ root.T if n == 0 else precision
    turns = [_turn(core, rows, n) for n in range(len(rows))]
    for n, R in enumerate(turns):
        rows[n], core = rows[n].turned(R), core.turned(n, R.T)
    precision = turns[0].T @ precision @ turns[0]
    return TuckerPosterior(
        tuple(rows),
        core.scaled(unit),
        precision,
        noise,
        mean * unit,
        mean_variance * unit**2,
        tuple(one / one.mean() for one in variances),
    )


def _turn(core: Core, rows: list[TuckerRows], n: int) -> FloatArray:
    """Left singular vectors of the core along a mode, with signs fixed by the factor."""
    W = np.linalg.svd(unfolded(core.mean, n), full_matrices=False)[0]
    # The SVD has fewer vectors than components if the other modes have too few.
    W = completed(W, len(W))
    turned = rows[n].mean @ W
    signs = np.sign(np.sum(fixed_signs(turned.T) * turned.T, axis=1))
    return np.asarray(W * np.where(signs == 0, 1.0, signs))


# --- slices along the first mode ---------------------------------------------------------------


def scores(posterior: TuckerPosterior, T: Array) -> TuckerRows:
    """Rows of the first factor for slices with NaN in their holes.

    Σ = (C⁻¹ + Σ⟨xxᵀ⟩/σ²)⁻¹ and a = ΣΣ⟨x⟩y/σ² over the observed cells, x = G₍₁₎(⊗_{m>1}aₘ).
    """
    xp, others = array_namespace(T), posterior.factors[1:]
    s2, core = posterior.noise_variance, posterior.core
    holes = xp.isnan(T)
    if core.mean.size > LARGEST_CORE and bool(xp.any(holes)):
        return _scores_by_filling(posterior, T)
    values = at(T, T) - at(T, posterior.mean)
    values = xp.where(holes, xp.zeros_like(values), values)
    pairs = list(zip(posterior.weights, others, strict=True))
    # The first mode is skipped.
    along = times(values, [values, *((w[:, None] * r.mean).T for w, r in pairs)], skip=0)
    cross = to_numpy(unfolded(along, 0)) @ unfolded(core.mean, 0).T
    if bool(xp.any(holes)):
        squares = [(w[:, None] * packed(r.second_of_each)).T for w, r in pairs]
        seen = at(T, ~holes)
        second = seconds_of_rows(core, times(seen, [seen, *squares], skip=0), 0)
    else:
        of_others = (np.tensordot(w, r.second_of_each, axes=1) for w, r in pairs)
        seconds = (np.eye(posterior.ranks[0]), *of_others)
        second = core.second_along(0, seconds)[None]
    # In units of the noise, whose square may underflow.
    cov, _ = inverses(posterior.precision + second / s2)
    mean = (cov @ (cross / s2)[:, :, None])[:, :, 0]
    return TuckerRows(mean, np.broadcast_to(cov, (len(mean), *cov.shape[1:])), float(len(mean)))


def _scores_by_filling(posterior: TuckerPosterior, T: Array) -> TuckerRows:
    """`scores` for cores too large for sums over cells: holes are filled until they settle.

    The means are those of `scores`; the covariances are those of slices without holes.
    """
    xp = array_namespace(T)
    holes, size = xp.isnan(T), float(xp.max(xp.abs(xp.where(xp.isnan(T), xp.zeros_like(T), T))))
    filled = xp.where(holes, at(T, posterior.mean), at(T, T))
    for _ in range(FILLINGS):
        found = scores(posterior, filled)
        new = xp.where(holes, at(T, cells(posterior, found)), filled)
        change, filled = float(xp.max(xp.abs(new - filled))), new
        if change <= FILLED * size:
            break
    return found


# --- cells -------------------------------------------------------------------------------------


def cells(posterior: TuckerPosterior, first: TuckerRows) -> FloatArray:
    """Posterior mean of every cell of slices with these rows of the first factor."""
    means = [first.mean, *(rows.mean for rows in posterior.factors[1:])]
    return np.asarray(times(posterior.core.mean, means) + posterior.mean)


def variances(posterior: TuckerPosterior, first: TuckerRows) -> FloatArray:
    """Posterior variance of every cell, without noise.

    Raise ValueError if the core is too large for that.
    """
    core = posterior.core.mean
    if core.size > LARGEST_CORE:
        raise ValueError(
            f"a core of {'×'.join(map(str, core.shape))} is too large for standard deviations "
            f"({core.size:,} entries, at most {LARGEST_CORE:,}): fit with smaller `ranks`."
        )
    spread = spread_of_cells([first, *posterior.factors[1:]], posterior.core)
    return np.asarray(spread + posterior.mean_variance)


def noise_of_cells(posterior: TuckerPosterior, *, fitted: bool) -> FloatArray | float:
    """Noise variance of every cell, of the fitted slices or of new ones."""
    if not posterior.relative_noise:
        return posterior.noise_variance
    first, *others = posterior.relative_noise
    return posterior.noise_variance * outer([first if fitted else np.ones(1), *others])


def padded(
    posterior: TuckerPosterior, ranks: tuple[int, ...]
) -> tuple[FloatArray, list[FloatArray]]:
    """Core and factors padded to the given ranks; added components are 0 in the core."""
    core = np.zeros(ranks)
    core[tuple(slice(H) for H in posterior.ranks)] = posterior.core.mean
    pairs = zip(posterior.factors, ranks, strict=True)
    return core, [completed(rows.mean, rank) for rows, rank in pairs]


def completed(U: FloatArray, rank: int) -> FloatArray:
    """Orthonormal columns, completed up to `rank`."""
    if rank <= U.shape[1]:
        return U
    more = np.linalg.qr(np.column_stack([U, np.eye(len(U))]))[0]
    return np.column_stack([U, more[:, U.shape[1] : rank]])
