"""How far the components that were found may be from the principal axes of the population.

A factorised posterior knows how far a direction may lean out of the subspace of all components, and
little of how far components may turn within it, which is far where two have similar variances. Both
follow from the asymptotic covariance of the eigenvectors of n rows (Anderson, "Asymptotic theory
for principal component analysis", Annals of Mathematical Statistics 34, 1963),

    cov(wₕ) = Σ_{l≠h} λₕλₗ/(n(λₕ − λₗ)²)·wₗwₗᵀ,

λ = σ²(1 + ℓ) for components of strength ℓ and σ² for all other directions. Five things are added:

* Holes: a row whose scores are known to the share R = fℓ/(1 + fℓ) tells (ℓₕ − ℓₗ)²/(ℓₕℓₗ)·RₕRₗ of
  the angle of two axes, the Fisher information of its normal likelihood; a column with nⱼ cells
  tells nⱼℓₕRₕ of an entry of wₕ. f is the share of cells that are there, less what it loses by
  their being different ones in each row: (WₛWₛᵀ)⁻¹ of the cells s of a row is, to second order,
  (1 + (K + 2)(1 − f)/(fp))/f on average, K the number of components.
* Strengths that holes leave uncertain: an estimate of ℓ has the variance 2ℓ²/(nR²), and
  2(1 + ℓ)²/n without holes, where Anderson's formula holds at the strengths of the sample. ⟨sin²θ⟩
  is averaged over the difference.
* Angles that are not small have the density of a Bingham distribution, exp(−κ sin²θ), κ half of
  that information: ⟨sin²θ⟩ = ½(1 − I₁(κ/2)/I₀(κ/2)) is never more than ½.
* Directions that are not few: together they take n/(n + p/ℓ) of what the formula gives them, the
  limit for large matrices (Paul, "Asymptotics of sample eigenstructure for a large dimensional
  spiked covariance model", Statistica Sinica 17, 2007, Theorem 4).
* Components that were left out turn an axis like others, in a direction that is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ive

from bayespca.arrays.types import FloatArray

# Strengths are kept between these, and what is known of an angle is limited beyond this: data may
# have no noise.
WEAKEST, STRONGEST, SURE = 1e-50, 1e50, 1e6
# Ratios of strengths beyond exp(FAR) are as good as infinite.
FAR = 300.0
# Gauss's points for averages over a standard normal variable.
NODES, WEIGHTS = hermegauss(9)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Axes:
    """What the spread of k components in p features depends on.

    Attributes
    ----------
    components
        Orthonormal directions: (k, p).
    strengths
        ℓ: variance along each, without the noise and in units of it; (k,).
    left_out
        The same of components that were left out, and how probable each is: (m, 2).
    counts
        How many cells of each column were seen: (p,).
    n
        Rows.
    """

    components: FloatArray
    strengths: FloatArray
    left_out: FloatArray
    counts: FloatArray
    n: float

    @property
    def share(self) -> float:
        """f, of cells that are there, as much as it is worth."""
        k, p = self.components.shape
        f = float(self.counts.mean() / self.n)
        # The first of those left out stands for all that cannot be seen.
        n_components = k + float(self.left_out[1:, 1].sum())
        return f / (1 + (n_components + 2) * (1 - f) / (f * p))


def standard_deviations(
    axes: Axes, directions: FloatArray | None = None, correlation: float = 0.0
) -> FloatArray:
    """Root mean square distance of the entries of the population's axes from those found: (k, p).

    An axis is cos·wₕ + Σₗ sin θₕₗ·wₗ and a direction outside; what cos is less than 1 counts too.
    Where a filter L for noise of this correlation was used, `directions` are L⁻¹wₕ, and so are
    those that are compared; the entries of L⁻¹L⁻ᵀ's diagonal are 1/(1 − φ²).
    """
    squares = (axes.components if directions is None else directions) ** 2
    within = turns(axes.strengths, axes.strengths, axes)
    np.fill_diagonal(within, 0.0)
    leaning = leaning_out(axes)
    room = np.maximum(1 - (axes.components**2).sum(axis=0), 0.0)
    out_of_all = (leaning * room).sum(axis=1)
    cosines = np.sqrt(np.maximum(1 - within.sum(axis=1) - out_of_all, 0.0))
    outside = leaning * np.maximum(1 / (1 - correlation**2) - squares.sum(axis=0), 0.0)
    return np.sqrt((1 - cosines)[:, None] ** 2 * squares + within @ squares + outside)


def turns(some: FloatArray, others: FloatArray, axes: Axes) -> FloatArray:
    """⟨sin²θ⟩ of the angle in the plane of each two components of these strengths."""
    v, w = _bounded(some)[:, None, None], _bounded(others)[None, :, None]
    of_v, of_w = _moved_by_holes(v, axes), _moved_by_holes(w, axes)
    gaps = np.log(v / w) + np.sign(NODES) * np.hypot(of_v, of_w)
    # Where it is nearer to the other, the weaker one is stronger, and better known.
    stronger_v = v * np.exp(np.where(NODES > 0, of_v, 0.0))
    stronger_w = w * np.exp(np.where(NODES < 0, of_w, 0.0))
    known = _known(_bounded(stronger_v), axes) * _known(_bounded(stronger_w), axes)
    kappa = 2 * axes.n * known * np.sinh(0.5 * np.clip(gaps, -FAR, FAR)) ** 2
    return np.asarray(_of_bingham(kappa) @ WEIGHTS)


def _of_bingham(kappa: FloatArray) -> FloatArray:
    """½(1 − I₁(κ/2)/I₀(κ/2))"""
    x = np.minimum(kappa, SURE) / 2
    return np.asarray(
        0.5 * (1 - ive(1, x) / ive(0, x)) * np.minimum(1.0, SURE / np.maximum(kappa, 1.0))
    )


def _moved_by_holes(v: FloatArray, axes: Axes) -> FloatArray:
    """How far log ℓ is moved by holes at Gauss's points: with a relative error e of ℓ, whose square
    is 2/n·((1 + 1/fℓ)² − (1 + 1/ℓ)²), by z·log(1 + e).

    The error may be much larger than ℓ: beyond one standard deviation, ℓ has no more than ze added.
    """
    inverse, z = 1 / axes.share, np.abs(NODES)
    square = 2 / axes.n * (inverse - 1) / v * (2 + (inverse + 1) / v)
    error = np.sqrt(square)
    return np.asarray(np.minimum(z * np.log1p(error), np.log1p(z * error)))


def leaning_out(axes: Axes) -> FloatArray:
    """Variance of each entry in the directions outside: 1/(Rₕ(nⱼℓₕ + p)), and what components that
    were left out add; (k, p).
    """
    v, p = _bounded(axes.strengths)[:, None], axes.components.shape[1]
    of_noise = 1 / (_known(v, axes) * (axes.counts * v + p))
    strengths, probabilities = axes.left_out.T
    return np.asarray(of_noise + (turns(v[:, 0], strengths, axes) @ probabilities)[:, None] / p)


def variances_along(axes: Axes) -> FloatArray:
    """Variance that new rows have along the axes that were found, without the noise and in units
    of it, at Gauss's points for what is not known of it: (k, 9), to be weighed by `WEIGHTS`.

    An axis that was found leans towards stronger ones, along which new rows vary more: by
    Σₗ(ℓₗ − ℓₕ)⟨sin²θₕₗ⟩. The rows that it was found from vary as much less along it than along the
    population's (Lawley, "Tests of significance for the latent roots of covariance and correlation
    matrices", Biometrika 43, 1956), so that this counts twice.
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
