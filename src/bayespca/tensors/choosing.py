"""`noise="auto"`: whether slices have noise of their own, by the evidence.

A few sweeps with equal noise come first. Where what they leave over is the same in all slices, but
for chance, equal noise it is. Else noise of slices is fitted, and equal noise as long as it may
still come near. Free energies are both in the units of the data; each gamma prior that was learned
costs ½ log of the number of its slices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bayespca import inference
from bayespca.arrays.types import FloatArray

from .data import TuckerCells
from .fit import ISOTROPIC, PER_MODE, TuckerFit, TuckerModel
from .noise import expected_squares

# Sweeps before residuals are looked at.
FIRST_SWEEPS = 10
# Nats by which equal noise is behind, and steps like the last one after which it still would be.
FAR_BEHIND = 100.0
PATIENCE = 200

# Nats that variances of their own gain, from sums of squares and their numbers.
Gain = Callable[[FloatArray, FloatArray], float]


def choose(
    model: TuckerModel, data: TuckerCells, looping: inference.Looping, gain: Gain, least: float
) -> TuckerFit:
    """The fit with the most evidence; noise of slices is tried if they promise so many nats."""
    quiet = replace(looping, callback=None, checkpoint=None)
    if promised(model, data, quiet, gain) <= least:
        return with_evidence(inference.fit(model, data, looping), {ISOTROPIC: 0.0})
    own = inference.fit(replace(model, has_slices=True), data, looping)
    goal = own.free_energy + learned_by(data.shape) - data.n_cells * float(np.log(data.unit))
    return better(inference.fit(model, data, replace(quiet, callback=_far_behind(goal))), own)


def better(equal: TuckerFit, own: TuckerFit) -> TuckerFit:
    """The one with more evidence of two fits, with equal noise and with noise of slices."""
    gain = equal.free_energy - own.free_energy - learned_by(own.sizes)
    return with_evidence(own if gain > 0 else equal, {ISOTROPIC: 0.0, PER_MODE: gain})


def promised(
    model: TuckerModel, data: TuckerCells, looping: inference.Looping, gain: Gain
) -> float:
    """Nats that variances of slices would gain after a few sweeps with equal noise."""
    settled = inference.settle(model, data, replace(looping, max_iter=FIRST_SWEEPS))
    found, squares = settled.data, expected_squares(settled.run.state, settled.data)
    counts = found.cells_along
    return max(
        gain(one[N > 0] / settled.run.state.noise_variance, N[N > 0])
        for one, N in zip(squares, counts, strict=True)
    )


def learned_by(shape: tuple[int, ...]) -> float:
    """What learning a prior for each mode costs."""
    return 0.5 * float(np.log(shape).sum())


def with_evidence(fit: TuckerFit, evidence: dict[str, float]) -> TuckerFit:
    return replace(fit, noise=replace(fit.noise, evidence=evidence))


def _far_behind(best: float) -> inference.Callback:
    """Ends a run that will not come near a free energy, going by its last step."""
    last = np.inf

    def callback(number: int, info: inference.Info) -> bool:
        nonlocal last
        fall, last = last - info.free_energy, info.free_energy
        gap = last - best
        return bool(gap > FAR_BEHIND and PATIENCE * fall < gap)

    return callback
