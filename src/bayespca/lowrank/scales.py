"""Noise variances of many rows, columns or cells under a gamma prior that they teach.

A variance uᵢ of which only Nᵢ squares are known is uncertain itself, and taken at face value it
would overfit. So 1/uᵢ ~ Gamma(α, β), with α and β learned from all of them. Their posterior is

    1/uᵢ ~ Gamma(α + Nᵢ/2, β + Rᵢ/2),   Rᵢ the expected sum of the Nᵢ squares at variance 1,

and integrating them out makes what they scale Student's t with 2α degrees of freedom. What is left
of the free energy is

    −Σᵢ [log Γ(α + Nᵢ/2) − log Γ(α) + α log β − (α + Nᵢ/2) log(β + Rᵢ/2)],

which is least where α and β are best. α grows without bound where the variances are all equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammainc, gammaincinv, gammaln

from bayespca.arrays.types import FloatArray, Vector

# Variances that differ by less than this α allows are equal: their logarithms spread by 1/√α.
LARGEST_SHAPE = 1e6
LEAST_SHAPE = 0.05
# An outlier has a standard deviation of more than so many typical ones.
FAR = 3.0


@dataclass(frozen=True, eq=False)
class Scales:
    """r(u) of some variances, relative to the noise of all.

    Attributes
    ----------
    precision
        ⟨1/u⟩.
    log_variance
        ⟨log u⟩.
    shape, rate
        α and β of the prior; infinite where the variances are given.
    divergence
        KL divergence of r(u) from the prior.
    counts
        Nᵢ: how many squares each was found from.
    """

    precision: Vector
    log_variance: Vector
    shape: float = np.inf
    rate: float = np.inf
    divergence: float = 0.0
    counts: FloatArray | float = np.inf

    @property
    def variance(self) -> FloatArray:
        """1/⟨1/u⟩: what data are divided by."""
        return 1 / self.precision

    @property
    def looseness(self) -> FloatArray:
        """⟨log u⟩ + log⟨1/u⟩ ≥ 0: what the spread of r(u) costs for each number that u scales."""
        return self.log_variance + np.log(self.precision)

    @property
    def degrees_of_freedom(self) -> float:
        """2α: those of Student's t, which the variances make of the normal distribution."""
        return 2 * self.shape

    def times(self, factor: float) -> Scales:
        """All variances multiplied by a number, and their prior with them."""
        return replace(
            self,
            precision=self.precision / factor,
            log_variance=self.log_variance + np.log(factor),
            rate=self.rate * factor,
        )

    def at_unit_scale(self) -> Scales:
        """With a geometric mean of 1."""
        return self.times(float(np.exp(np.log(self.precision).mean())))


def given(variances: FloatArray) -> Scales:
    """Variances that are known."""
    return Scales(1 / variances, np.log(variances))


def most_likely(squares: FloatArray, counts: FloatArray | float) -> Scales:
    """Rᵢ/Nᵢ, for maximum likelihood: nothing is learned from the others."""
    return given(np.maximum(squares / counts, np.finfo(np.float64).tiny))


def learned(squares: FloatArray, counts: FloatArray | float) -> Scales:
    """The best r(u) and the best prior, from Rᵢ and Nᵢ."""
    squares = np.maximum(squares, np.finfo(np.float64).tiny)
    counts = _one_number(counts)
    alpha, beta = _best_prior(squares, counts)
    shape, rate = alpha + 0.5 * counts, beta + 0.5 * squares
    precision, log_variance = shape / rate, np.log(rate) - digamma(shape)
    return Scales(
        precision,
        log_variance,
        float(alpha),
        float(beta),
        float(_divergence(shape, rate, alpha, beta).sum()),
        counts,
    )


def _one_number(counts: FloatArray | float) -> FloatArray | float:
    """Counts, one for all where they are equal: special functions take their time."""
    N = np.asarray(counts, dtype=np.float64)
    same = bool(N.size) and bool((N == N.flat[0]).all())
    return float(N.flat[0]) if same else N


def gained(squares: FloatArray, counts: FloatArray | float) -> tuple[Scales, float]:
    """The best r(u), and by how many nats it is better than one variance for all."""
    found = learned(squares, counts)
    N = np.broadcast_to(np.asarray(counts, dtype=np.float64), squares.shape)
    total = float(N.sum())
    equal = 0.5 * total * (np.log(float(squares.sum()) / total) + 1)
    own = 0.5 * float(found.precision @ squares + N @ found.log_variance) + found.divergence
    return found, float(equal - own)


def _divergence(
    shape: FloatArray | float, rate: FloatArray, alpha: float, beta: float
) -> FloatArray:
    """KL(Gamma(shape, rate) ‖ Gamma(alpha, beta))."""
    gain = (shape - alpha) * digamma(shape) - gammaln(shape) + gammaln(alpha)
    return gain + alpha * np.log(rate / beta) + shape * (beta / rate - 1)


def _best_prior(squares: FloatArray, counts: FloatArray | float) -> tuple[float, float]:
    """α and β where the marginal energy is lowest, in the coordinates log α and log β/α."""
    mean = float((squares / counts).mean())
    unit = squares / mean
    spread = np.log(np.maximum(unit / counts, 1e-300)).var() - np.mean(2 / counts)
    begin = np.array([-np.log(np.clip(spread, 1e-5, 10.0)), 0.0])
    bounds = [(np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE)), (-30.0, 30.0)]
    found = minimize(
        marginal_energy,
        begin,
        args=(unit, counts),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 100},
    )
    alpha = float(np.exp(found.x[0]))
    return alpha, alpha * float(np.exp(found.x[1])) * mean


def marginal_energy(
    at: FloatArray, squares: FloatArray, counts: FloatArray | float
) -> tuple[float, FloatArray]:
    """The energy per variance at (log α, log β/α) with r(u) at its best, and its gradient."""
    alpha = np.exp(at[0])
    beta = alpha * np.exp(at[1])
    shape, rate = alpha + 0.5 * counts, beta + 0.5 * squares
    logs = np.log(rate)
    energy = gammaln(alpha) - alpha * np.log(beta) + np.mean(shape * logs - gammaln(shape))
    of_beta = -alpha + beta * float(np.mean(shape / rate))
    of_alpha = digamma(alpha) - np.log(beta) - 1 + np.mean(logs - digamma(shape))
    slope = alpha * of_alpha + of_beta + alpha
    return float(energy), np.array([slope, of_beta])


def probability_of_outlier(scales: Scales) -> FloatArray:
    """Probability that each standard deviation is more than `FAR` times the median of the prior."""
    if not np.isfinite(scales.shape):
        return np.zeros_like(scales.precision)
    typical = gammaincinv(scales.shape, 0.5) / scales.rate
    shape = scales.shape + 0.5 * scales.counts
    return np.asarray(gammainc(shape, typical / FAR**2 * shape / scales.precision))
