"""A step of the descent: a few iterations of L-BFGS, then removal of unneeded dimensions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Index, Vector
from bayespca.inference.descent import Descent, begun, descended
from bayespca.inference.loop import Info

from .bound import NotPositiveError, energy_at, evaluate
from .data import GPData
from .kernels import KernelHyper, Latent
from .statistics import Gradients

# Range of logarithms of variances and of parameters of kernels.
LEAST_LOG, MOST_LOG = -30.0, 12.0
# Step sizes of inducing points and parameters, relative to those that rows alone would give.
POINTS_GO, PARAMETERS_GO = 4.0, 16.0
# Iterations of L-BFGS in a step.
ITERATIONS = 10
# Held ratios are released when a step lowers the free energy by less than this share.
LEAST_FALL = 1e-3
# Dimensions may be dropped once ratios are held for at most this many further steps.
FORMING = 5
# A dimension is dropped if that costs at most this share of the step's gain, and at most NATS.
SPENT, NATS = 0.5, 2.0


@dataclass(frozen=True, eq=False)
class GPState:
    """State of a descent.

    Attributes
    ----------
    descent
        The point as a vector: means, logarithms of variances, inducing points, logarithms of the
        parameters of the kernel.
    log_ratios
        log s of each noise variance.
    n_dimensions
        Dimensions of the latent space.
    held
        Number of steps for which the ratios are still held.
    noise
        Mean noise variance.
    jitter
        The largest share of K's diagonal that had to be added to it.
    """

    descent: Descent
    log_ratios: Vector
    n_dimensions: int
    held: int
    noise: float
    jitter: float


def corners(Q: int, *, bias: bool) -> FloatArray:
    """Inducing points of a linear kernel: a unit vector along each dimension, and 0 for a bias."""
    units = np.eye(Q)
    return np.concatenate([units, np.zeros((1, Q))]) if bias else units


@dataclass(frozen=True, eq=False)
class LatentPoint:
    """The parts of a state's vector."""

    latent: Latent
    Z: FloatArray
    hyper: KernelHyper

    @property
    def vector(self) -> FloatArray:
        parts = (self.latent.mean, np.log(self.latent.variance), self.Z, self.hyper.logs)
        return np.concatenate([np.ravel(part) for part in parts])

    def moved(self, x: FloatArray) -> LatentPoint:
        """The point with another vector of the same size."""
        (N, Q), M = self.latent.shape, len(self.Z)
        mean, logs, Z, hyper = np.split(x, np.cumsum([N * Q, N * Q, M * Q]))
        variance = np.exp(np.clip(logs, LEAST_LOG, MOST_LOG)).reshape(N, Q)
        latent = Latent(mean.reshape(N, Q), variance)
        clipped = np.clip(hyper, LEAST_LOG, MOST_LOG)
        return LatentPoint(latent, Z.reshape(M, Q), self.hyper.with_logs(clipped))

    def slope(self, found: Gradients) -> FloatArray:
        """Gradient with respect to the vector."""
        spread = found.variance * self.latent.variance
        logs = found.hyper * self.hyper.vector
        parts = (found.mean, spread, found.Z, logs)
        return np.concatenate([np.ravel(part) for part in parts])

    @property
    def metric(self) -> FloatArray:
        """Approximate inverse curvature of the free energy along each coordinate of the vector.

        It is S for a mean and 2 for the logarithm of a variance: at its best S is the inverse
        curvature. Inducing points and length scales depend on all rows, with the sum of their
        precisions 1/S in the dimension where it is largest. Without this metric, means known to
        1 % and length scales that all rows depend on would move at the same pace, and the descent
        would end thousands of nats higher.
        """
        (_, Q), M, hyper = self.latent.shape, len(self.Z), self.hyper
        mean, variance = self.latent.mean, self.latent.variance
        known = float((1 / variance).sum(axis=0).max())
        stretched = float((mean**2 / variance + 1).sum(axis=0).max())
        points = np.full(M * Q, POINTS_GO * M / known)
        # A dimension is stretched by exp(½ log w).
        parameters = np.full(hyper.vector.size, 4 * PARAMETERS_GO / stretched)
        return np.concatenate([variance.ravel(), np.full(variance.size, 2.0), points, parameters])

    def of_dimensions(self, kept: Index) -> LatentPoint:
        latent = Latent(self.latent.mean[:, kept], self.latent.variance[:, kept])
        hyper = self.hyper.of_dimensions(kept)
        # Straight lines do not depend on where their inducing points are, if there are enough.
        bias = bool(hyper.b.size)
        least = self.latent.shape[1] + bias
        straight = not hyper.w.size and len(self.Z) == least
        Z = corners(len(kept), bias=bias) if straight else self.Z[:, kept]
        return LatentPoint(latent, Z, hyper)

    @property
    def relevance(self) -> FloatArray:
        """Variance of each dimension in units of its squared length scale."""
        spread = self.latent.mean.var(axis=0) + self.latent.variance.mean(axis=0)
        return self.hyper.relevance * spread


def begin(point: LatentPoint, data: GPData, held: int, log_ratios: FloatArray) -> GPState:
    work = _Work(point, data, log_ratios, held > 0)
    descent = begun(work, point.vector)
    return GPState(descent, work.ratios, point.latent.shape[1], held, work.noise, work.jitter)


def step(state: GPState, data: GPData, template: LatentPoint) -> tuple[GPState, Info]:
    """Descend, release the ratios when it is time, and drop dimensions."""
    before = state.descent.energy
    new = _descended(state, data, template)
    fall = before - new.descent.energy
    if new.held and (new.held == 1 or fall < LEAST_FALL * (abs(before) + 1)):
        new = _descended(freed(new, data, template), data, template)
    elif new.held:
        new = replace(new, held=new.held - 1)
    if new.held <= FORMING:
        new = without_idle(new, data, template, SPENT * (before - new.descent.energy))
    return new, Info(new.descent.energy, new.n_dimensions, new.noise)


def point_of(state: GPState, template: LatentPoint) -> LatentPoint:
    """The parts of a state's vector; `template` has its sizes, or more dimensions."""
    kept = np.arange(state.n_dimensions)
    return template.of_dimensions(kept).moved(state.descent.x)


def without_idle(state: GPState, data: GPData, template: LatentPoint, allowed: float) -> GPState:
    """The state without dimensions whose loss costs at most `allowed`, and at most `NATS`."""
    point, energy = point_of(state, template), state.descent.energy
    limit = energy + min(max(allowed, 0.0), NATS)
    while point.latent.shape[1] > 1:
        fewer = without_least(point)
        found = energy_at(
            fewer.latent, fewer.Z, fewer.hyper, data, state.log_ratios, state.held > 0
        )
        if not found - data.all_noise <= limit:
            break
        point = fewer
    if point.latent.shape[1] == state.n_dimensions:
        return state
    return replace(begin_again(point, data, state), held=state.held, jitter=state.jitter)


def without_least(point: LatentPoint) -> LatentPoint:
    """The point without the dimension that matters least."""
    kept = np.delete(np.arange(point.latent.shape[1]), int(np.argmin(point.relevance)))
    return point.of_dimensions(kept)


def begin_again(point: LatentPoint, data: GPData, state: GPState) -> GPState:
    """The state at another point, with the ratios of this one."""
    return begin(point, data, state.held, state.log_ratios)


def _descended(state: GPState, data: GPData, template: LatentPoint) -> GPState:
    point = point_of(state, template)
    work = _Work(point, data, state.log_ratios, state.held > 0)
    descent = descended(work, state.descent, ITERATIONS, work.metric)
    if work.last is not None and not np.array_equal(work.last, descent.x):
        work(descent.x)
    return replace(
        state,
        descent=descent,
        log_ratios=work.ratios,
        noise=work.noise,
        jitter=max(state.jitter, work.jitter),
    )


def freed(state: GPState, data: GPData, template: LatentPoint) -> GPState:
    """The state with its ratios released."""
    return begin_again(point_of(state, template), data, replace(state, held=0))


class _Work:
    """The objective of L-BFGS, which remembers its last point, the ratios there, and the jitter."""

    def __init__(self, point: LatentPoint, data: GPData, ratios: FloatArray, held: bool) -> None:
        self.point, self.data, self.ratios, self.held = point, data, ratios, held
        self.noise, self.jitter = np.nan, 0.0
        self.last: FloatArray | None = None

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        at, self.last = self.point.moved(x), x
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = evaluate(at.latent, at.Z, at.hyper, self.data, self.ratios, held=self.held)
        except NotPositiveError:
            return np.inf, np.zeros_like(x)
        if not np.isfinite(found.energy):
            return np.inf, np.zeros_like(x)
        self.ratios, self.noise = found.log_ratios, float(found.noise.mean())
        self.jitter = max(self.jitter, found.jitter)
        return found.energy - self.data.all_noise, at.slope(found.gradients)

    def metric(self, x: FloatArray) -> FloatArray:
        return self.point.moved(x).metric
