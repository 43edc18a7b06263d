"""Distances of the fitted components from the principal axes of the population.

A factorised posterior says how far a direction may lean out of the subspace of all components, but
little about how far components may turn within it, which is far where two have similar variances.
Both follow from the asymptotic covariance of the eigenvectors of n rows (Anderson, "Asymptotic
theory for principal component analysis", Annals of Mathematical Statistics 34, 1963),

    cov(wₕ) = Σ_{l≠h} λₕλₗ/(n(λₕ − λₗ)²)·wₗwₗᵀ,

λ = σ²(1 + ℓ) for components of strength ℓ and σ² for all other directions. Five things are added:

* Holes: a row that determines its scores to the share R = fℓ/(1 + fℓ) has the Fisher information
  (ℓₕ − ℓₗ)²/(ℓₕℓₗ)·RₕRₗ about the angle of two axes, from its normal likelihood; a column with nⱼ
  cells has nⱼℓₕRₕ about an entry of wₕ. f is the share of observed cells, less a loss because they
  differ between rows: (WₛWₛᵀ)⁻¹ of the observed cells s of a row is, to second order,
  (1 + (K + 2)(1 − f)/(fp))/f on average, K the number of components.
* Strengths that holes leave uncertain: an estimate of ℓ has the variance 2ℓ²/(nR²), and
  2(1 + ℓ)²/n without holes, where Anderson's formula holds at the strengths of the sample. ⟨sin²θ⟩
  is averaged over the difference.
* Large angles: they have the density of a Bingham distribution, exp(−κ sin²θ), with κ half of that
  information, so that ⟨sin²θ⟩ = ½(1 − I₁(κ/2)/I₀(κ/2)) is never more than ½.
* Many directions outside: together they take n/(n + p/ℓ) of what the formula gives them, the limit
  for large matrices (Paul, "Asymptotics of sample eigenstructure for a large dimensional spiked
  covariance model", Statistica Sinica 17, 2007, Theorem 4).
* Components that were left out: they turn an axis as others do, in an unknown direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ive

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import times_each
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray

# Limits of strengths, for data without noise, and the κ beyond which ⟨sin²θ⟩ is taken to fall as
# 1/κ.
WEAKEST, STRONGEST, SURE = 1e-50, 1e50, 1e6
# Ratios of strengths beyond exp(FAR) are as good as infinite.
FAR = 300.0
# Gauss–Hermite quadrature for averages over a standard normal variable.
NODES, WEIGHTS = hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

# A variance that is as good as 0.
SMALLEST = 1e-100


@dataclass(frozen=True, eq=False)
class Axes:
    """Quantities that determine the spread of k components in p features.

    Attributes
    ----------
    components
        Orthonormal directions: (k, p).
    strengths
        ℓ: noise-free variance along each, in units of the noise; (k,).
    left_out
        Strength of each component that was left out, and its probability: (m, 2).
    counts
        Number of observed cells of each column: (p,).
    n
        Number of rows.
    """

    components: FloatArray
    strengths: FloatArray
    left_out: FloatArray
    counts: FloatArray
    n: float

    @property
    def share(self) -> float:
        """f: the effective share of observed cells."""
        k, p = self.components.shape
        f = float(self.counts.mean() / self.n)
        # The first component left out stands for all that are too weak to be detected.
        n_components = k + float(self.left_out[1:, 1].sum())
        return f / (1 + (n_components + 2) * (1 - f) / (f * p))


def standard_deviations(
    axes: Axes, directions: FloatArray | None = None, noise: float = 1.0
) -> FloatArray:
    """Root mean square distance of the entries of the population's axes from those found: (k, p).

    An axis is cos·wₕ + Σₗ sin θₕₗ·wₗ plus a direction outside; the difference of cos from 1 counts
    too. Where a filter L for correlated noise was used, `directions` are L⁻¹wₕ, and axes are
    compared after L⁻¹ as well; the diagonal entries of L⁻¹L⁻ᵀ are `noise`.
    """
    squares = (axes.components if directions is None else directions) ** 2
    within = turns(axes.strengths, axes.strengths, axes)
    np.fill_diagonal(within, 0.0)
    leaning = leaning_out(axes)
    room = np.maximum(1 - (axes.components**2).sum(axis=0), 0.0)
    out_of_all = (leaning * room).sum(axis=1)
    cosines = np.sqrt(np.maximum(1 - within.sum(axis=1) - out_of_all, 0.0))
    outside = leaning * np.maximum(noise - squares.sum(axis=0), 0.0)
    return np.sqrt((1 - cosines)[:, None] ** 2 * squares + within @ squares + outside)


def turns(some: FloatArray, others: FloatArray, axes: Axes) -> FloatArray:
    """⟨sin²θ⟩ of the angle in the plane of each pair of components with these strengths."""
    v, w = _bounded(some)[:, None, None], _bounded(others)[None, :, None]
    of_v, of_w = _moved_by_holes(v, axes), _moved_by_holes(w, axes)
    gaps = np.log(v / w) + np.sign(NODES) * np.hypot(of_v, of_w)
    # A component that errors make stronger is also better known.
    stronger_v = v * np.exp(np.where(NODES > 0, of_v, 0.0))
    stronger_w = w * np.exp(np.where(NODES < 0, of_w, 0.0))
    known = _known(_bounded(stronger_v), axes) * _known(_bounded(stronger_w), axes)
    kappa = 2 * axes.n * known * np.sinh(0.5 * np.clip(gaps, -FAR, FAR)) ** 2
    # ½(1 − I₁(κ/2)/I₀(κ/2))
    x = np.minimum(kappa, SURE) / 2
    squares = 0.5 * (1 - ive(1, x) / ive(0, x)) * np.minimum(1.0, SURE / np.maximum(kappa, 1.0))
    return np.asarray(squares @ WEIGHTS)


def _moved_by_holes(v: FloatArray, axes: Axes) -> FloatArray:
    """Shift of log ℓ due to holes at the quadrature points z: z·log(1 + e), with a relative error e
    of ℓ whose square is 2/n·((1 + 1/fℓ)² − (1 + 1/ℓ)²).

    The error may be much larger than ℓ: the shift is at most log(1 + ze).
    """
    inverse, z = 1 / axes.share, np.abs(NODES)
    square = 2 / axes.n * (inverse - 1) / v * (2 + (inverse + 1) / v)
    error = np.sqrt(square)
    return np.asarray(np.minimum(z * np.log1p(error), np.log1p(z * error)))


def leaning_out(axes: Axes) -> FloatArray:
    """Variance of each entry in the directions outside: 1/(Rₕ(nⱼℓₕ + p)), plus that of components
    that were left out; (k, p).
    """
    v, p = _bounded(axes.strengths)[:, None], axes.components.shape[1]
    of_noise = 1 / (_known(v, axes) * (axes.counts * v + p))
    strengths, probabilities = axes.left_out.T
    return np.asarray(of_noise + (turns(v[:, 0], strengths, axes) @ probabilities)[:, None] / p)


def variances_along(axes: Axes) -> FloatArray:
    """Noise-free variance of new rows along the fitted axes, in units of the noise, at the
    quadrature points of its distribution: (k, 9), to be weighted by `WEIGHTS`.

    A fitted axis leans towards stronger ones, along which new rows vary more: by
    Σₗ(ℓₗ − ℓₕ)⟨sin²θₕₗ⟩. The rows that it was fitted to vary less along it than along the
    population's axis, by the same amount (Lawley, "Tests of significance for the latent roots of
    covariance and correlation matrices", Biometrika 43, 1956), so that this counts twice.
    """
    v = _bounded(axes.strengths)
    turned = turns(v, v, axes)
    np.fill_diagonal(turned, 0.0)
    gain = turned @ v - v * turned.sum(axis=1)
    spread = np.minimum(np.log1p(np.sqrt(errors_of_strengths(axes))), FAR)
    usual = np.maximum(v + 2 * gain, WEAKEST)
    return np.asarray(usual[:, None] * np.exp(spread[:, None] * NODES))


def errors_of_strengths(axes: Axes) -> FloatArray:
    """Variance of an estimate of ℓ over ℓ²: 2/(nR²), (k,)."""
    return np.asarray(2 / max(axes.n, 1.0) / _known(_bounded(axes.strengths), axes) ** 2)


def _bounded(strengths: FloatArray) -> FloatArray:
    return np.clip(strengths, WEAKEST, STRONGEST)


def _known(v: FloatArray, axes: Axes) -> FloatArray:
    """R = fℓ/(1 + fℓ)"""
    return np.asarray(axes.share * v / (1 + axes.share * v))


# --- scores of new rows ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NewRows:
    """Distribution of the covariance Δ of the scores of new rows.

    Attributes
    ----------
    expected
        d: the variances that the posterior assumes; (k,).
    variances
        Δₕₕ/dₕ at the quadrature points: (k, 9), to be weighted by `axes.WEIGHTS`.
    between
        Variance of Δₕₗ/√(dₕdₗ), whose mean is 0; (k, k), 0 on the diagonal.
    """

    expected: FloatArray
    variances: FloatArray
    between: FloatArray


def more_variance(
    cov: Array, mean: Array, off: Array, known: NewRows, noise: Array | float = 1.0
) -> Array:
    """⟨(m′ − T)²⟩ + diag⟨C′ − C⟩ of each score of new rows: (n, k), averaged over Δ.

    m and C are mean and covariance at the expected variances, and T = m − `off`. `cov` is C of each
    row (n, k, k), or the diagonal of a diagonal C that all rows share. A change δ of 1/Δₕₕ is of
    rank one: m′ − m = −Ceₕ·fmₕ and C′ − C = −f·CeₕeₕᵀC, f = δ/(1 + δCₕₕ). Changes of Δₕₗ count to
    first order: m′ − m = C(eₕmₗ + eₗmₕ)·Δₕₗ/(dₕdₗ). Where rows have noise of their own, variances
    are in units of that noise, which `noise` gives: (n, 1).
    """
    xp, weights = array_namespace(mean), at(mean, WEIGHTS)
    # Everything is in units of the expected variances, whose squares may overflow.
    d = at(mean, np.where(known.expected > 0, known.expected, 1.0))
    root = xp.sqrt(d)
    mean, off = mean / root, off / root
    cov = cov / d if cov.ndim == 1 else cov / root / root[:, None]
    delta = at(mean, 1 / np.maximum(known.variances, SMALLEST) - 1)
    own = cov if cov.ndim == 1 else xp.linalg.diagonal(cov)
    f = delta / (1 + delta * own[..., None])
    usual = xp.matmul(f, weights)
    spread = xp.matmul((f - usual[..., None]) ** 2, weights)
    across = xp.matmul(mean**2, at(mean, known.between))
    moved = off - _along(cov, usual * mean)
    narrower = noise * _along(cov**2, usual)
    return d * (moved**2 + _along(cov**2, spread * mean**2 + across) - narrower)


def _along(cov: Array, rows: Array) -> Array:
    return cov * rows if cov.ndim == 1 else times_each(cov, rows)
