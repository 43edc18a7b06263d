"""Tables that look like given data and have a known number of components, drawn from a fit.

Divided by the noise of their row and of each column, the data are scores times directions plus
white noise. A drawn table keeps the mean, the directions, and the noise of rows and columns. Its
scores are those of random rows, so groups and heavy tails remain; its residuals are permuted within
columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.filtering import filtered, stationary, unfiltered
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit
from bayespca.sources.rounding import grid_steps
from bayespca.spectrum.strengths import recoverable_strength

# Least share of a column's noise that is drawn where rounding is said to be all of it.
LEAST_UNROUNDED = 0.05


@dataclass(frozen=True, eq=False)
class Likeness:
    """A fit from which tables like its data are drawn.

    Attributes
    ----------
    mean, scale
        Mean of each column, and standard deviation of its noise before the filter; (p,).
    level
        Standard deviation of the noise of each row, relative to the others; (n, 1).
    components
        Directions wₕ in units of the noise: (k, p), orthonormal.
    strengths
        Variance of the scores along each, in units of the noise; (k,).
    scores, residuals
        Values to draw from: scores uncorrelated and of variance 1, (n, k); residuals, (n, p).
    first, steps
        The grid on which the values of each column lie: one of its points, and its step; 0 where
        values are not rounded.
    shape
        L and M of the whitened matrix.
    partials
        Partial autocorrelations of the noise of neighbouring columns.
    """

    mean: FloatArray
    scale: FloatArray
    level: FloatArray
    components: FloatArray
    strengths: FloatArray
    scores: FloatArray
    residuals: FloatArray
    first: FloatArray
    steps: FloatArray
    shape: tuple[float, float]
    partials: tuple[float, ...] = ()

    def number(self, strengths: FloatArray) -> int:
        """The number of components of such strengths that can be recovered."""
        return int(np.count_nonzero(strengths > recoverable_strength(*self.shape)))

    def likely_strengths(self, rng: np.random.Generator) -> FloatArray:
        """Strengths that the data may have: log(1 + v) has the sampling error √(2/M)."""
        errors = np.sqrt(2 / self.shape[1]) * rng.normal(size=self.strengths.size)
        return np.maximum(np.expm1(np.log1p(self.strengths) + errors), 0.0)

    def table(self, strengths: FloatArray, rng: np.random.Generator) -> FloatArray:
        """A table in the units of the data, whose components have these strengths."""
        n = len(self.residuals)
        T = self.scores[rng.integers(n, size=n)] * np.sqrt(strengths)
        Z = (T @ self.components + rng.permuted(self.residuals, axis=0)) * self.level
        X = self.mean + unfiltered(Z, self.partials) * self.scale
        step = np.where(self.steps > 0, self.steps, 1.0)
        rounded = self.first + step * np.rint((X - self.first) / step)
        return np.where(self.steps > 0, rounded, X)


def likeness(X: FloatArray, fit: PCAFit, *, center: bool) -> Likeness:
    """The likeness of complete data, from a fit to them without noise of single cells.

    The strength of a component is γγ̂/(Mσ²), that of the population which gives γ on average
    (Baik and Silverstein 2006).
    """
    posterior, (L, M) = fit.posterior, fit.spectrum.shape
    assert isinstance(posterior, Posterior)
    sigma, W = float(np.sqrt(posterior.noise_variance)), on_host(posterior.components)
    scale, level = sigma * on_host(posterior.scale), np.ones(len(X))
    if fit.noise.samples is not None:
        logs = np.log(fit.noise.samples)
        level = np.exp(0.5 * (logs - logs.mean()))
    mean = on_host(posterior.mean)
    Z = filtered((X - mean) / scale, posterior.partials) / level[:, None]
    T = Z @ W.T
    E = Z - T @ W
    shrunk = on_host(posterior.shrinkage) * fit.kept_singular_values**2
    steps = grid_steps(X)
    noise = scale**2 * np.mean(level**2) * stationary(posterior.partials)
    drawn = np.sqrt(np.maximum(1 - steps**2 / 12 / noise, LEAST_UNROUNDED))
    return Likeness(
        mean=mean,
        scale=scale,
        level=level[:, None],
        components=W,
        strengths=shrunk / (M * sigma**2),
        scores=_sphered(T - T.mean(axis=0) * center),
        residuals=_of_unit_size(E - E.mean(axis=0)) * drawn,
        first=X[0],
        steps=steps,
        shape=(L, M),
        partials=posterior.partials,
    )


def _sphered(T: FloatArray) -> FloatArray:
    """The uncorrelated scores of variance 1 that are closest to the given ones."""
    U, _, V = np.linalg.svd(T, full_matrices=False)
    return np.asarray(np.sqrt(len(T)) * U @ V)


def _of_unit_size(E: FloatArray) -> FloatArray:
    """Columns divided by their root mean squares; columns of zeros stay."""
    size = np.sqrt((E**2).mean(axis=0))
    return np.asarray(E / np.where(size > 0, size, 1.0))
