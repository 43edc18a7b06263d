"""Noise variances of many rows, columns or cells under a gamma prior that is learned from them.

A variance uᵢ that is estimated from only Nᵢ squares is itself uncertain, and would overfit if taken
at face value. So 1/uᵢ ~ Gamma(α, β), with α and β learned from all of them. The posterior is

    1/uᵢ ~ Gamma(α + Nᵢ/2, β + Rᵢ/2),   Rᵢ the expected sum of the Nᵢ squares at variance 1,

and integrating the variances out gives Student's t with 2α degrees of freedom. The remaining free
energy is

    −Σᵢ [log Γ(α + Nᵢ/2) − log Γ(α) + α log β − (α + Nᵢ/2) log(β + Rᵢ/2)],

which the best α and β minimise. α grows without bound if the variances are all equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammainc, gammaincinv, gammaln

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray, Vector
from bayespca.spectrum.tolerances import LOG_2PI

# Limits of α. At the largest, variances are as good as equal: their logarithms spread by 1/√α.
LARGEST_SHAPE = 1e6
LEAST_SHAPE = 0.05
# Newton's method: most steps, the longest step in log α or log β, a slope per variance that counts
# as flat, relative to √α, and the relative rounding error of the energy.
MOST_STEPS = 60
LONGEST = 2.0
FLAT = 1e-13
ROUNDING = 1e-14
# The standard deviation of an outlier is more than this many times the typical one.
FAR = 3.0

# Largest move of log β, and options that find α and β to the last digits.
FARTHEST = 50.0
EXACT: Any = {"maxiter": 200, "ftol": 1e-15, "gtol": 1e-11}


@dataclass(frozen=True, eq=False)
class Scales:
    """r(u) of some variances, relative to the common noise variance.

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
        Nᵢ: the number of squares that each was estimated from.
    known
        Known factors of the variances, which the prior does not describe.
    """

    precision: Vector
    log_variance: Vector
    shape: float = np.inf
    rate: float = np.inf
    divergence: float = 0.0
    counts: FloatArray | float = np.inf
    known: FloatArray | float = 1.0

    @property
    def variance(self) -> FloatArray:
        """1/⟨1/u⟩: data are divided by its root."""
        return 1 / self.precision

    @property
    def degrees_of_freedom(self) -> float:
        """2α: those of Student's t, which results from integrating the variances out."""
        return 2 * self.shape

    @property
    def taught(self) -> float:
        """N/(N + 2α), on average: the share of the information about a variance that comes from its
        own squares, not from the prior.
        """
        if not np.isfinite(self.shape):
            return 0.0
        return float(np.mean(self.counts / (self.counts + 2 * self.shape)))

    def with_precision(self, precision: FloatArray) -> Scales:
        """r(u) with other means of 1/u, as certain as these, and the same prior."""
        if not np.isfinite(self.shape):
            return replace(self, precision=precision, log_variance=-np.log(precision))
        shape = self.shape + 0.5 * np.asarray(self.counts)
        rate = shape / precision
        own = rate / self.known
        return replace(
            self,
            precision=precision,
            log_variance=np.log(rate) - digamma(shape),
            divergence=float(_divergence(shape, own, self.shape, self.rate).sum()),
        )

    def times(self, factor: float) -> Scales:
        """All variances multiplied by a number, and their prior with them."""
        return replace(
            self,
            precision=self.precision / factor,
            log_variance=self.log_variance + np.log(factor),
            rate=self.rate * factor,
        )

    def times_each(self, factors: FloatArray) -> Scales:
        """Each variance multiplied by a known number of its own."""
        return replace(
            self,
            precision=self.precision / factors,
            log_variance=self.log_variance + np.log(factors),
            known=self.known * factors,
        )

    @property
    def size(self) -> float:
        """The geometric mean of the variances."""
        return float(np.exp(-np.log(self.precision).mean()))

    def at_unit_scale(self) -> Scales:
        """The scales with a geometric mean of 1."""
        return self.times(1 / self.size)


def nats_per_component(rows: Scales | None, columns: Scales | None) -> float:
    """Nats that a component's log evidence gains when variances are integrated out with it.

    A component takes one direction from the squares that variances are learned from. In log u the
    curvature of the log evidence falls from N/2 to N/2·(1 − h)², with h the component's leverage,
    which sums to 1 over all rows, and over all columns. So the log volume of the variances,
    −½Σ log(α + N/2·(1 − h)²), grows by N/(N + 2α) for each side.
    """
    return float(sum(side.taught for side in (rows, columns) if side is not None))


def given(variances: FloatArray) -> Scales:
    """Scales of known variances."""
    return Scales(1 / variances, np.log(variances))


def most_likely(squares: FloatArray, counts: FloatArray | float) -> Scales:
    """Scales Rᵢ/Nᵢ of maximum likelihood, where variances do not inform each other."""
    return given(np.maximum(squares / counts, np.finfo(np.float64).tiny))


def learned(squares: FloatArray, counts: FloatArray | float) -> Scales:
    """The best r(u) and the best prior, from Rᵢ and Nᵢ."""
    squares = np.maximum(squares, np.finfo(np.float64).tiny)
    # One number if all are equal, because special functions are slow.
    counts = np.asarray(counts, dtype=np.float64)
    if counts.size and (counts == counts.flat[0]).all():
        counts = float(counts.flat[0])
    alpha, beta = best_prior(squares, counts)
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


def gained(squares: FloatArray, counts: FloatArray | float) -> tuple[Scales, float]:
    """The best r(u), and its gain in nats over one variance for all."""
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


def best_prior(
    squares: FloatArray, counts: FloatArray | float, weights: FloatArray | None = None
) -> tuple[float, float]:
    """α and β that minimise the marginal energy, by Newton's method in log α and log β.

    `weights` says how often each of the squares occurs, if not once.
    """
    mean = float(np.average(squares / counts, weights=weights))
    unit = squares / mean
    spread = np.log(np.maximum(unit / counts, 1e-300)).var() - np.mean(2 / counts)
    at = np.repeat(-np.log(np.clip(spread, 1e-5, 10.0)), 2)
    energy, slope, bend = _marginal(at, unit, counts, weights)
    for _ in range(MOST_STEPS):
        if np.abs(slope).max() < FLAT * np.exp(at[0]) ** 0.5:
            break
        # A step of Newton's method with absolute curvatures, shortened until the energy falls.
        values, vectors = np.linalg.eigh(bend)
        values = np.maximum(np.abs(values), 1e-12 * np.abs(values).max() + 1e-300)
        full = -vectors @ (vectors.T @ slope / values)
        full *= min(1.0, LONGEST / float(np.abs(full).max()))
        for part in (1.0, 0.25, 0.05, 0.005):
            new = at + part * full
            new = new + (np.clip(new[0], np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE)) - new[0])
            found = _marginal(new, unit, counts, weights)
            if found[0] <= energy + ROUNDING * (1 + abs(energy)):
                break
        # Where the energy is flat to its last digit, the slope still leads on.
        same = abs(found[0] - energy) <= ROUNDING * (1 + abs(energy))
        flatter = np.abs(found[1]).max() < np.abs(slope).max()
        if not (found[0] < energy or (same and flatter)):
            break
        at, (energy, slope, bend) = new, found
    alpha, beta = np.exp(at)
    return float(alpha), float(beta) * mean


def _marginal(
    at: FloatArray,
    squares: FloatArray,
    counts: FloatArray | float,
    weights: FloatArray | None = None,
) -> tuple[float, FloatArray, FloatArray]:
    """The energy per variance at (log α, log β) for the best r(u), its gradient and Hessian."""
    alpha, beta = np.exp(at)
    shape, rate = alpha + 0.5 * counts, beta + 0.5 * squares
    logs, inverse = np.log(rate), 1 / rate
    means = shape * inverse

    # np.average takes as long as everything else here.
    total = squares.size if weights is None else weights.sum()

    def mean(x: FloatArray) -> FloatArray:
        if not np.ndim(x):
            return x
        return np.asarray((x if weights is None else x * weights).sum() / total)

    energy = gammaln(alpha) - alpha * at[1] + mean(shape * logs - gammaln(shape))
    a = alpha * (digamma(alpha) - at[1] + mean(logs - digamma(shape)))
    b = beta * mean(means) - alpha
    aa = a + alpha**2 * (_trigamma(alpha) - mean(_trigamma(shape)))
    ab = alpha * (beta * mean(inverse) - 1)
    bb = b + alpha - beta**2 * mean(means * inverse)
    return float(energy), np.array([a, b]), np.array([[aa, ab], [ab, bb]])


def _trigamma(x: FloatArray | float) -> FloatArray:
    """ψ′(x) to ten digits, in a tenth of SciPy's time."""
    x = np.asarray(x, dtype=np.float64)
    total = sum(1 / (x + i) ** 2 for i in range(6))
    y = 1 / (x + 6)
    square = y * y
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30))
    return np.asarray(total + y + 0.5 * square + y * square * series)


def probability_of_outlier(scales: Scales) -> FloatArray:
    """Probability that each standard deviation is more than `FAR` times the median of the prior."""
    if not np.isfinite(scales.shape):
        return np.zeros_like(scales.precision)
    typical = gammaincinv(scales.shape, 0.5) / scales.rate
    shape, own = scales.shape + 0.5 * scales.counts, scales.precision * scales.known
    return np.asarray(gammainc(shape, typical / FAR**2 * shape / own))


# --- geometric mean 1 --------------------------------------------------------------------------


def at_unit_scale(squares: FloatArray, counts: FloatArray, units: FloatArray) -> Scales:
    """The best r(u) and prior among those whose ⟨1/u⟩·units has a geometric mean of 1."""
    R = np.maximum(squares, np.finfo(np.float64).tiny)
    N, goal = np.asarray(counts, dtype=np.float64), -float(np.log(units).mean())

    def at(logs: FloatArray) -> Scales:
        alpha, beta = np.exp(logs)
        shape = alpha + 0.5 * N
        free = Scales(shape, np.zeros(N.size), float(alpha), float(beta), counts=N)
        return free.with_precision(_with_mean(shape, beta + 0.5 * R, goal))

    def energy(logs: FloatArray) -> tuple[float, FloatArray]:
        """½Σ(⟨1/u⟩R + N⟨log u⟩) + KL per variance, and its slope: that of KL at the best r(u)."""
        new = at(logs)
        value = 0.5 * float(new.precision @ R + N @ new.log_variance) + new.divergence
        by_alpha = new.shape * (digamma(new.shape) - logs[1] + new.log_variance.mean())
        by_beta = new.rate * new.precision.mean() - new.shape
        return value / N.size, np.array([by_alpha, by_beta])

    begin = learned(R, N)
    move = float(np.log(begin.precision).mean()) - goal
    start = np.log([begin.shape, begin.rate]) + np.array([0.0, move])
    # Columns whose squares are 0 leave β undetermined: bounds keep it finite.
    near = (start[1] - FARTHEST, start[1] + FARTHEST)
    bounds = [(np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE)), near]
    found = minimize(energy, start, jac=True, bounds=bounds, method="L-BFGS-B", options=EXACT)
    return at(found.x)


def _with_mean(shape: FloatArray, rate: FloatArray, goal: float) -> FloatArray:
    """(shape − λ)/rate whose logarithms have the mean `goal`, by Newton's method."""
    # λ = min shape − e^t: t is unbounded, and the mean rises with it.
    above, logs, t = shape - shape.min(), np.log(rate), float(np.log(shape.min()))
    for _ in range(MOST_STEPS):
        top = above + np.exp(t)
        gap = float((np.log(top) - logs).mean()) - goal
        t -= float(np.clip(gap / (np.exp(t) / top).mean(), -LONGEST, LONGEST))
        if abs(gap) < ROUNDING:
            break
    return np.asarray((above + np.exp(t)) / rate)


# --- tails of rows -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Tails:
    """α (`shape`) and β (`rate`) of the gamma distribution of 1/u."""

    shape: float = np.inf
    rate: float = np.inf

    @property
    def are_heavy(self) -> bool:
        """Whether variances differ, so that tails are heavier than normal."""
        return bool(np.isfinite(self.shape))

    @property
    def spread(self) -> float:
        """⟨u⟩ for predictions: β/(α − 1), but never more than 3β/α, three times the typical
        variance, because the mean grows without bound as α falls to 1.
        """
        return float(self._mean(0.0, 0.0)) if self.are_heavy else 1.0

    def spread_given(self, distance: Array, p: FloatArray | float) -> Array:
        """`spread` of rows whose p cells lie at these squared distances from the mean."""
        return self._mean(distance, p) if self.are_heavy else distance * 0 + 1.0

    def _mean(self, distance: Array | float, p: FloatArray | float) -> Array:
        shape = self.shape + 0.5 * p
        return (self.rate + 0.5 * distance) / np.maximum(shape - 1, shape / 3)

    def draws_given(
        self, distance: FloatArray, p: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draws of √u for rows whose p cells lie at these squared distances from the mean."""
        if not self.are_heavy:
            return np.ones_like(distance)
        return np.sqrt((self.rate + 0.5 * distance) / rng.gamma(self.shape + 0.5 * p))

    def log_density(self, distance: Array, log_det: Array | float, p: Array | float) -> Array:
        """Log density of rows with p cells, from their squared distances xᵀC⁻¹x and log|C|."""
        if not self.are_heavy:
            return -0.5 * (distance + (p * LOG_2PI + log_det))
        xp, a = array_namespace(distance), self.shape
        constant = gammaln(a + 0.5 * p) - gammaln(a) - 0.5 * p * np.log(2 * np.pi * self.rate)
        logs = xp.log1p(distance / (2 * self.rate))
        return constant - 0.5 * log_det - (a + 0.5 * p) * logs

    def draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draws of √u for n rows."""
        if not self.are_heavy:
            return np.ones(n)
        return np.sqrt(self.rate / rng.gamma(self.shape, 1.0, n))


NORMAL = Tails()
