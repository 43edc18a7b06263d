"""Distributions of T² and Q for clean new rows, given a fit to few rows.

A row z, centred and divided by the scales of the columns, has the covariance WᵀDW + σ²I. The k
orthonormal directions W were estimated from effectively ν rows. For the observed cells o of a row,
the least-squares scores and the residuals are

    y = (WₒWₒᵀ)⁻¹Wₒzₒ,    e = zₒ − Wₒᵀy,
    T² = yᵀ(D + σ²(WₒWₒᵀ)⁻¹)⁻¹y/(1 + 1/n),    Q = eᵀe,

for a complete row T² = Σ yₕ²/(dₕ + σ²)/(1 + 1/n) and Q = ‖z‖² − ‖y‖² (Jackson and Mudholkar,
"Control procedures for residuals associated with principal component analysis", Technometrics 21,
1979). The term 1/n accounts for the mean, which was estimated from n rows. D = σ²ℓ′ holds the
variances of *new* rows along the directions, which are smaller than those of the fitted rows: a
component of strength ℓₕ, in units of σ², leans out of W by the share sₕ
(`lowrank.axes.leaning_out`), and towards undetected components of strengths ℓₗ and probabilities
Pₗ: ℓ′ₕ = ℓₕ(1 − sₕ) + Σₗ Pₗℓₗ⟨sin²θₕₗ⟩.

The variances in T² were estimated from ν rows, so T² has the heavy tails of Hotelling's
distribution,

    T² ~ kν/(ν − k + 1)·F(k, ν − k + 1).

Q contains the noise of m − k directions for m cells, the signal that the directions miss,
lₕ = ℓₕsₕ, and components too weak to be detected, which act as noise that the cells share (c,
`intervals.common_noise`). In units of s²(1 + 1/n), with f = m/p,

    ⟨Q⟩ = g(m − k) + f·Σlₕ,    Var Q = (m − k)(w − g² + 2f·c) + 4fg·Σlₕ + 2f²·Σlₕ².

s² is the residual sum of squares of the fitted rows over its (n − k)(p − k) degrees of freedom. A
factorised posterior counts k(n + p) numbers as spent on components, but k² of them only rotate the
components. Its σ² is therefore larger, by a twentieth for six components in 60×20.

g = 1 and w = 3 are the second and the fourth moment of a normal residual. If columns have noise
variances v of their own, known as 1/v ~ Gamma(a, ·), standardised residuals follow Student's t:
g = a/(a − 1), w = 3a²/((a − 1)(a − 2)). With h = 2⟨Q⟩²/Var Q (Satterthwaite, "An approximate
distribution of estimates of variance components", Biometrics Bulletin 2, 1946) and a noise variance
of ν' degrees of freedom,

    Q ~ ⟨Q⟩·F(h, ν').

If rows have noise of their own, with 1/u ~ Gamma(α, β), both statistics are multiplied by u. Limits
are then multiplied by β/α, and the second degrees of freedom ν become those of a product,
2/ν'' = (1 + 2/ν)(1 + 1/α) − 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import f as fisher

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray, Vector
from bayespca.lowrank.axes import Axes, errors_of_strengths, leaning_out, turns
from bayespca.lowrank.combined import independent
from bayespca.lowrank.intervals import axes_of, common_noise
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit, VariationalFit
from bayespca.lowrank.scales import Tails

# Fewest degrees of freedom of a variance.
LEAST = 1.0
# A shape above 2 keeps the fourth moment of residuals finite.
LEAST_SHAPE = 2.5


@dataclass(frozen=True, eq=False)
class RowLaw:
    """The distribution of clean new rows, in units of the scaled data.

    Attributes
    ----------
    components
        W: (k, p), orthonormal.
    spread
        D: variances of new rows along the components, without noise; (k,).
    noise_variance
        σ².
    mean_error
        1 + 1/n; 1 if no mean was removed.
    residual_variance
        s².
    leaking
        lₕ, in units of s²: (k,).
    common
        c.
    rows, degrees
        ν and ν'.
    column_shape
        a; infinite if all columns have the same noise variance.
    tails
        α and β of the noise of rows.
    """

    components: FloatArray
    spread: Vector
    noise_variance: float
    mean_error: float
    residual_variance: float
    leaking: Vector
    common: float
    rows: float
    degrees: float
    column_shape: float
    tails: Tails

    def t2_limit(self, alpha: float) -> float:
        """The limit that T² exceeds in a share α of clean rows; NaN without components."""
        k = len(self.components)
        if not k:
            return float("nan")
        second = max(self.rows - k + 1, LEAST)
        size = k * self.rows / second
        return float(self._unit() * size * fisher.isf(alpha, k, self._second(second)))

    def q_limit(self, alpha: float, cells: int) -> float:
        """The limit that Q exceeds in a share α of clean rows; NaN for at most k cells."""
        k, p = self.components.shape
        if cells <= k:
            return float("nan")
        f = cells / p
        g, w = self._moments_of_residuals()
        mean = g * (cells - k) + f * float(self.leaking.sum())
        variance = (cells - k) * (w - g**2 + 2 * f * self.common)
        variance += 4 * g * f * float(self.leaking.sum())
        variance += 2 * f**2 * float((self.leaking**2).sum())
        size = self._unit() * self.residual_variance * self.mean_error * mean
        second = self._second(self.degrees)
        return float(size * fisher.isf(alpha, 2 * mean**2 / variance, second))

    def _moments_of_residuals(self) -> tuple[float, float]:
        a = self.column_shape
        if a == np.inf:
            return 1.0, 3.0
        return a / (a - 1), 3 * a**2 / ((a - 1) * (a - 2))

    def _unit(self) -> float:
        return self.tails.rate / self.tails.shape if self.tails.are_heavy else 1.0

    def _second(self, degrees: float) -> float:
        of_rows = 1 / self.tails.shape if self.tails.are_heavy else 0.0
        return 2 / ((1 + 2 / degrees) * (1 + of_rows) - 1) if degrees < np.inf or of_rows else 1e9


def row_law(fit: PCAFit | VariationalFit, degrees: float) -> RowLaw:
    """The law of new rows given a fit; its noise variance has `degrees` of freedom."""
    posterior, axes = independent(fit.posterior), axes_of(fit)
    s2 = float(posterior.noise_variance)
    lost, left = _lost(axes), _residual_variance(fit, degrees)
    centred = fit.n_counted > fit.spectrum.shape[1]
    return RowLaw(
        components=np.asarray(on_host(posterior.components), dtype=np.float64),
        spread=s2 * (axes.strengths - lost + _turned_to(axes)),
        noise_variance=s2,
        mean_error=1 + 1 / fit.n_counted if centred else 1.0,
        residual_variance=left,
        leaking=lost * (s2 / left if left > 0 else 1.0),
        common=common_noise(fit),
        rows=_rows_of_variances(axes),
        degrees=degrees,
        column_shape=_shape_of_columns(fit, axes),
        tails=posterior.tails,
    )


def _residual_variance(fit: PCAFit | VariationalFit, degrees: float) -> float:
    """s²; σ² if that was given, or if no degrees of freedom are left.

    For data with holes only σ² is known, and k² is added to its degrees of freedom.
    """
    s2, (p, n), k = float(fit.posterior.noise_variance), fit.spectrum.shape, fit.n_components
    free = (n - k) * (p - k)
    if degrees == np.inf or free <= 0:
        return s2
    if isinstance(fit.posterior, Posterior):
        values = fit.spectrum.singular_values[k:]
        squares = float(values @ values) + fit.spectrum.residual
        return squares * fit.spectrum.scale**2 / free
    return s2 * (1 - k**2 / (k**2 + max(degrees, 1.0)))


def _lost(axes: Axes) -> FloatArray:
    """ℓₕsₕ: the strength along each axis that lies outside the estimated subspace."""
    room = np.maximum(1 - (axes.components**2).sum(axis=0), 0.0)
    return np.asarray(axes.strengths * np.minimum(leaning_out(axes) @ room, 1.0))


def _turned_to(axes: Axes) -> FloatArray:
    """Σₗ Pₗℓₗ⟨sin²θₕₗ⟩: the strength along each axis that undetected components add."""
    strengths, probabilities = axes.left_out.T
    return np.asarray(turns(axes.strengths, strengths, axes) @ (probabilities * strengths))


def _rows_of_variances(axes: Axes) -> float:
    """ν such that √(2/ν) is the relative error of d + σ² along an axis, averaged over axes."""
    if not axes.strengths.size:
        return max(axes.n, LEAST)
    signal = axes.strengths / (1 + axes.strengths)
    errors = errors_of_strengths(axes) * signal**2
    return max(2 / float(errors.mean()), LEAST)


def _shape_of_columns(fit: PCAFit | VariationalFit, axes: Axes) -> float:
    """a = α + (cells of a column − k)/2, where the prior has α = ½ + 1/Var(log v).

    The variance of log v is trigamma(α), which is about 1/(α − ½).
    """
    noise = getattr(fit, "noise", None)
    if noise is None or noise.features is None:
        return float("inf")
    found = noise.features[noise.features > 0]
    spread = float(np.log(found).var()) if found.size else 0.0
    if not spread:
        return float("inf")
    own = max(float(axes.counts.mean()) - fit.n_components, 0.0)
    return max(0.5 + 1 / spread + own / 2, LEAST_SHAPE)
