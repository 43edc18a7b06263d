"""A step of the descent: a few iterations of L-BFGS, then removal of unneeded dimensions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.inference.descent import begun, descended
from bayespca.inference.loop import Info

from .bound import NotPositiveError, energy_at, evaluate
from .data import GPData
from .state import GPState, LatentPoint

# Iterations of L-BFGS in a step.
ITERATIONS = 10
# Held ratios are released when a step lowers the free energy by less than this share.
LEAST_FALL = 1e-3
# Dimensions may be dropped once ratios are held for at most this many further steps.
FORMING = 5
# A dimension is dropped if that costs at most this share of the step's gain, and at most NATS.
SPENT, NATS = 0.5, 2.0


def begin(point: LatentPoint, data: GPData, held: int, log_ratio: float) -> GPState:
    """The state at a point."""
    ratios = np.full(data.n_units, log_ratio)
    work = _Work(point, data, ratios, held > 0)
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
    work = _Work(point, data, state.log_ratios, state.held > 0)
    descent = begun(work, point.vector)
    return GPState(descent, work.ratios, point.latent.shape[1], state.held, work.noise, work.jitter)


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
