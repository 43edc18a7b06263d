"""Noise of its own for each feature: closed-form PCA of rescaled data, in turns with the noise.

With noise variances ψⱼ the data divided by √ψⱼ have unit noise, so given ψ the posterior is that of
the closed form with σ² = 1, and given the posterior the best ψⱼ is the mean expected squared
residual of feature j. Both steps minimise the free energy, to which the change of scale adds
M/2·Σ log ψⱼ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.engines.gram import solved
from bayespca.inference.loop import Info
from bayespca.lowrank.feature_noise import best_noise
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES

from .data import FeatureMoments

# Share of the variance of a feature that is its noise where the iteration starts.
NOISE_AT_START = 0.5


@dataclass(frozen=True)
class PerFeatureState:
    """Noise variances, and the closed-form solution that they lead to."""

    psi: FloatArray
    solution: Solution
    spectrum: Spectrum
    components: FloatArray


Solve = Callable[[Spectrum], Solution]


def start(data: FeatureMoments, solve: Solve) -> PerFeatureState:
    """Half of each feature's variance as its noise."""
    return _solved(data, solve, NOISE_AT_START * data.squares / data.M)


def step(
    state: PerFeatureState, data: FeatureMoments, solve: Solve
) -> tuple[PerFeatureState, Info]:
    """Noise given the posterior, then the posterior given the noise."""
    psi = best_noise(
        state.psi,
        data.squares,
        solution=state.solution,
        spectrum=state.spectrum,
        components=state.components,
    )
    new = _solved(data, solve, psi)
    F = new.solution.free_energy + 0.5 * data.M * float(np.log(new.psi).sum())
    return new, Info(F, new.solution.rank, float(new.psi.mean()))


def _solved(data: FeatureMoments, solve: Solve, psi: FloatArray) -> PerFeatureState:
    variances = data.squares / data.M
    live = variances > 0
    psi = np.where(live, np.maximum(psi, LEAST_NOISE_OF_FEATURES * variances), 1.0)
    total = float((data.squares / psi).sum())

    def spectrum(squares: FloatArray) -> Spectrum:
        named = np.maximum(squares[: min(data.p, data.M)], 0)
        return Spectrum(np.sqrt(named), (data.p, data.M), total)

    found = solved(data.gram, data.rows, np.sqrt(psi), spectrum=spectrum, plan=solve)
    return PerFeatureState(psi, found.solution, found.spectrum, found.right(found.solution.rank))
