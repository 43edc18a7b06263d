"""`noise="auto"`: the evidence decides whether slices have their own noise.

A few sweeps with equal noise come first. If their residuals are the same in all slices, apart from
chance, the noise is equal. Otherwise noise by slice is fitted, and then equal noise for as long as
it may still catch up. Both free energies are in the units of the data; each learned gamma prior
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

# Sweeps before residuals are examined.
FIRST_SWEEPS = 10
# The fit with equal noise ends when it is this many nats behind, and would still be behind after
# this many steps like the last one.
FAR_BEHIND = 100.0
PATIENCE = 200

# Nats gained by separate variances, from sums of squares and their numbers of cells.
Gain = Callable[[FloatArray, FloatArray], float]


def choose(
    model: TuckerModel, data: TuckerCells, looping: inference.Looping, gain: Gain, least: float
) -> TuckerFit:
    """The fit with the most evidence; noise by slice is tried if it promises `least` nats."""
    quiet = replace(looping, callback=None, checkpoint=None)
    if promised(model, data, quiet, gain) <= least:
        return with_evidence(inference.fit(model, data, looping), {ISOTROPIC: 0.0})
    own = inference.fit(replace(model, has_slices=True), data, looping)
    goal = own.free_energy + learned_by(data.shape) - data.n_cells * float(np.log(data.unit))
    return better(inference.fit(model, data, replace(quiet, callback=_far_behind(goal))), own)


def better(equal: TuckerFit, own: TuckerFit) -> TuckerFit:
    """The fit with more evidence, of one with equal noise and one with noise by slice."""
    gain = equal.free_energy - own.free_energy - learned_by(own.sizes)
    return with_evidence(own if gain > 0 else equal, {ISOTROPIC: 0.0, PER_MODE: gain})


def promised(
    model: TuckerModel, data: TuckerCells, looping: inference.Looping, gain: Gain
) -> float:
    """Nats that separate variances of slices would gain after a few sweeps with equal noise."""
    settled = inference.settle(model, data, replace(looping, max_iter=FIRST_SWEEPS))
    found, squares = settled.data, expected_squares(settled.run.state, settled.data)
    counts = found.cells_along
    return max(
        gain(one[N > 0] / settled.run.state.noise_variance, N[N > 0])
        for one, N in zip(squares, counts, strict=True)
    )


def learned_by(shape: tuple[int, ...]) -> float:
    """Cost of learning a gamma prior for each mode, in nats."""
    return 0.5 * float(np.log(shape).sum())


def with_evidence(fit: TuckerFit, evidence: dict[str, float]) -> TuckerFit:
    return replace(fit, noise=replace(fit.noise, evidence=evidence))


def _far_behind(best: float) -> inference.Callback:
    """A callback that ends a run if its last step shows that it will not get near `best`."""
    last = np.inf

    def callback(number: int, info: inference.Info) -> bool:
        nonlocal last
        fall, last = last - info.free_energy, info.free_energy
        gap = last - best
        return bool(gap > FAR_BEHIND and PATIENCE * fall < gap)

    return callback
