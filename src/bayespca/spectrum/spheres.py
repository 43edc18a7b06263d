"""Averages of exp(Σ aⱼuⱼ²) over directions u, by saddlepoints; frames are taken a sphere at a time.

Exponents are counted down from the largest, xⱼ = a₁ − aⱼ ≥ 0, so that an average is at most 1. The
saddlepoint θ solves Σ ½/(θ + xⱼ) = 1; half of 1/(θ + xⱼ) is the mean of uⱼ² (Kume and Wood 2005,
Biometrika 92, with their second-order term, which stays right where singular values are close).
Values come with weights, the number of directions that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .noise_law import quantiles
from .records import FloatArray

# Values next to the contested ones that count by themselves; the others are lumped.
NEAR = 10
# Number of lumps of the other known values, and of the unknown ones.
LUMPS = 12
UNKNOWN = 24
# Points of a table of sphere averages.
POINTS = 48
# Largest number of Newton steps for a saddlepoint, usually four, and the smallest saddlepoint.
STEPS, LEAST = 30, 1e-3
LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Values:
    """Squared singular values from index `first` on, largest first, with their weights.

    The first `n_single` have weight 1: each stands for itself.
    """

    values: FloatArray
    weights: FloatArray
    first: int
    n_single: int


@dataclass(frozen=True)
class Squares:
    """Squared singular values in units of the noise, and the sum of those that are not known.

    The first `n_signal` are probably not noise; the others follow the law of noise.
    """

    shape: tuple[int, float]
    full_rank: int
    g2: FloatArray
    residual: float
    n_signal: int


def lumped(squares: Squares, first: int, last: int) -> Values:
    """Values from `first` on: those up to `last` and a few more as they are, the rest in lumps.

    A lump of known values is two points with their mean and variance. Unknown values are quantiles
    of the Marchenko–Pastur law below the known ones, scaled to their sum of squares. Directions
    beyond the rank of the matrix have the value 0.
    """
    L, g2 = squares.shape[0], squares.g2
    n_single = min(g2.size, last + NEAR)
    parts = [(g2[first:n_single], np.ones(n_single - first)), _two_points(g2[n_single:])]
    if squares.full_rank > g2.size:
        parts.append(_of_the_law(squares, squares.full_rank - g2.size))
    if squares.full_rank < L:
        parts.append((np.zeros(1), np.array([float(L - squares.full_rank)])))
    values, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Values(values, weights, first, n_single - first)


def _two_points(g2: FloatArray) -> tuple[FloatArray, FloatArray]:
    if not g2.size:
        return np.zeros(0), np.zeros(0)
    edges = np.unique(np.round(g2.size * np.linspace(0, 1, LUMPS + 1) ** 1.5).astype(int))
    count = np.diff(edges)
    mean = np.add.reduceat(g2, edges[:-1]) / count
    square = np.add.reduceat(g2**2, edges[:-1]) / count
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    return np.append(mean + spread, mean - spread), np.append(count, count) / 2


def _of_the_law(squares: Squares, n_unknown: int) -> tuple[FloatArray, FloatArray]:
    (L, M), k = squares.shape, min(squares.n_signal, squares.g2.size)
    share = n_unknown / (squares.full_rank - k)
    below = quantiles((L - k) / (M - k), (np.arange(UNKNOWN) + 0.5) / UNKNOWN * share)
    scaled = below * (squares.residual / n_unknown / below.mean())
    most = squares.g2[-1] if squares.g2.size else np.inf
    return np.minimum(scaled, most), np.full(UNKNOWN, n_unknown / UNKNOWN)


def saddlepoints(x: FloatArray, weights: FloatArray, near: FloatArray | None = None) -> FloatArray:
    """θ with Σ ½w/(θ + x) = 1 over the last axis, by Newton's method for 1/Σ, nearly linear in θ.

    The iteration starts from below, or from `near`.
    """
    theta = np.full(x.shape[:-1], 0.5) if near is None else near
    for _ in range(STEPS):
        inverse = 1 / (theta[..., None] + x)
        weighted = weights * inverse
        one = 0.5 * weighted.sum(-1)
        weighted *= inverse
        step = one * (one - 1) / (0.5 * weighted.sum(-1))
        theta = np.maximum(theta + step, LEAST)
        if (np.abs(step) < 1e-7 * theta).all():
            break
    return theta


def log_averages(
    x: FloatArray, weights: FloatArray, near: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log E exp(−Σ xⱼuⱼ²) without its `log_constant`, θ, and the curvature at θ.

    The search for θ starts from `near`.
    """
    theta = saddlepoints(x, weights, near)
    return _at(theta, x, weights) + theta, theta, _curvature(theta, x, weights)


def _curvature(theta: FloatArray, x: FloatArray, weights: FloatArray) -> FloatArray:
    found: FloatArray = 0.5 * (weights / (theta[..., None] + x) ** 2).sum(-1)
    return found


def _at(theta: FloatArray, x: FloatArray, weights: FloatArray) -> FloatArray:
    """The terms of a log average other than θ itself: curvature, product, second-order term."""
    below = theta[..., None] + x
    inverse = 1 / below
    k2 = 0.5 * (weights * inverse**2).sum(-1)
    k3 = (weights * inverse**3).sum(-1)
    k4 = 3 * (weights * inverse**4).sum(-1)
    return (
        -0.5 * np.log(k2)
        - 0.5 * (weights * np.log(below)).sum(-1)
        + k4 / k2**2 / 8
        - 5 * k3**2 / k2**3 / 24
    )


def log_constant(dimension: FloatArray) -> FloatArray:
    """The constant that `log_averages` leaves out: log Γ(d/2) − ½ log 2π."""
    found: FloatArray = gammaln(dimension / 2) - 0.5 * LOG_2PI
    return found


def from_each_on(bulk: Values, n: int) -> tuple[FloatArray, FloatArray]:
    """Differences gᵢ − gⱼ, and weights, of all values j from the i-th on, for the first n i."""
    later = np.arange(bulk.values.size) >= np.arange(n)[:, None]
    gaps = np.where(later, bulk.values[:n, None] - bulk.values, 0.0)
    return gaps, np.where(later, bulk.weights, 0.0)


@dataclass(frozen=True)
class SphereTable:
    """log E exp(−t Σ (gᵢ − gⱼ)uⱼ²) of several spheres i, each as a function of log t."""

    log_t: FloatArray
    values: FloatArray

    def __call__(self, i: int, log_t: FloatArray) -> FloatArray:
        """The log average of sphere i, by cubic Hermite interpolation between the points."""
        x, f = self.log_t[i], self.values[i]
        slope = np.gradient(f, x)
        left = np.clip(np.searchsorted(x, log_t) - 1, 0, x.size - 2)
        width = x[left + 1] - x[left]
        r = (log_t - x[left]) / width
        ends = f[left] * (1 + 2 * r) * (1 - r) ** 2 + f[left + 1] * r**2 * (3 - 2 * r)
        bend: FloatArray = slope[left] * r * (1 - r) ** 2 - slope[left + 1] * r**2 * (1 - r)
        return np.asarray(ends + width * bend)


def sphere_table(
    bulk: Values, n: int, dimension: FloatArray, t: tuple[float, float]
) -> SphereTable:
    """Table of the log averages of the first n spheres, for all t between two bounds.

    With y = θ/t the saddlepoint is Σ ½w/(y + gᵢ − gⱼ) = t: explicit in t, so points are chosen by y
    and no equation has to be solved.
    """
    gaps, weights = from_each_on(bulk, n)
    low, high = np.log(0.45 / t[1]), np.log(0.55 * dimension / t[0])
    y = np.exp(high[:, None] + (low - high[:, None]) * np.linspace(0, 1, POINTS))
    at = 0.5 * (weights[:, None, :] / (y[..., None] + gaps[:, None, :])).sum(-1)
    found = _at(at * y, at[..., None] * gaps[:, None, :], weights[:, None, :]) + at * y
    found = found + log_constant(dimension)[:, None]
    return SphereTable(np.log(at), np.where(dimension[:, None] > 1, found, 0.0))


# --- frames ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """Spheres of k orthogonal directions with shares s, each making room for those after it.

    The i-th direction is drawn towards the j-th singular value by sᵢ, but the j-th direction has
    it, which is worth sⱼ: its exponents are (sᵢ − sⱼ)(aᵢ − aⱼ) where there is a j-th direction, and
    sᵢ(aᵢ − aⱼ) elsewhere. That is right in two dimensions, for directions that are certain, and for
    any number of equal ones. `gain` is the log of the average over frames, relative to the product
    of averages over spheres that do not make room; `near` has the saddlepoints of both.
    """

    gain: float
    theta: FloatArray
    curvature: FloatArray
    near: FloatArray


def frame(
    bulk: Values, shares: FloatArray, noise_variance: float, near: FloatArray | None = None
) -> Frame:
    """The frame of directions with these shares; its search starts at the saddlepoints `near`."""
    k, n = shares.size, bulk.values.size
    gaps, weights = from_each_on(bulk, k)
    a = gaps / (2 * noise_variance)
    later = (np.arange(n) < k) & (np.arange(n) > np.arange(k)[:, None])
    taken = np.where(later, np.append(shares, np.zeros(n - k)), 0.0)
    both = np.stack([np.maximum(shares[:, None] - taken, 0.0) * a, shares[:, None] * a])
    begin = np.full((2, k), 0.5)
    if near is not None and near.size:
        begin[:] = near[:, np.minimum(np.arange(k), near.shape[1] - 1)]
    values, theta, curvature = log_averages(both, weights, begin)
    wide = weights.sum(-1) > 1
    gain = float(((values[0] - values[1]) * wide).sum())
    return Frame(gain, theta[0], curvature[0], theta)


def log_room(found: Frame, x: FloatArray, less: FloatArray) -> FloatArray:
    """Growth of each sphere's log average when one exponent falls from x to `less`.

    `found` is a frame of as many directions as x has rows. All other exponents of a sphere act as a
    number of equal ones with the same first and second derivatives at θ.
    """
    theta, curvature = found.theta[:, None], found.curvature[:, None]
    slope = 1 - 0.5 / (theta + x)
    bend = np.maximum(curvature - 0.5 / (theta + x) ** 2, 1e-12 * curvature)
    half, shift = slope**2 / bend, slope / bend - theta
    moved = theta + 0.25
    for _ in range(4):
        f = half / (moved + shift) + 0.5 / (moved + less) - 1
        df = half / (moved + shift) ** 2 + 0.5 / (moved + less) ** 2
        moved = np.clip(moved + f / df, theta, theta + 0.5)
    return _two_kinds(moved, half, shift, less) - _two_kinds(theta, half, shift, x)


def _two_kinds(t: FloatArray, half: FloatArray, shift: FloatArray, x: FloatArray) -> FloatArray:
    """The saddlepoint's value for 2·`half` equal exponents and one more."""
    a, b = 1 / (t + shift), 1 / (t + x)
    k2 = half * a**2 + 0.5 * b**2
    k3 = 2 * half * a**3 + b**3
    k4 = 6 * half * a**4 + 3 * b**4
    value = t + half * np.log(a) + 0.5 * np.log(b) - 0.5 * np.log(k2)
    return np.asarray(value + k4 / k2**2 / 8 - 5 * k3**2 / k2**3 / 24)
