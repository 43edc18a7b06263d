"""From the last state to the posterior and the noise, in the units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.signs import signs_of
from bayespca.lowrank.filtering import unfiltered
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.posterior import from_solution
from bayespca.lowrank.records import NoiseFound, PCAPosterior
from bayespca.lowrank.scales import Tails, nats_per_component, probability_of_outlier

from .data import NoisyTable
from .step import ScaledState, mean_noise, stationary


def posterior_of(state: ScaledState, data: NoisyTable) -> PCAPosterior:
    """The posterior of the whitened data, whose feature scales include the whitening."""
    like, found, whitening = data.like, state.found, state.whitening
    rows = whitening.rows
    scale = data.spread_out(np.sqrt(whitening.columns.variance) * data.units, 1.0)
    components = to_namespace(data.spread_out(found.components, 0.0), like)
    mean = data.mean_of_all(found.location)
    posterior = from_solution(
        found.solution,
        components=components * signs_of(unfiltered(components, whitening.phi))[:, None],
        gamma=found.spectrum.singular_values * found.spectrum.scale,
        mean=to_namespace(mean, like, array_namespace(like).float64),
        scale=to_namespace(scale, like),
        M=data.M,
    )
    tails = Tails() if rows is None else Tails(rows.shape, rows.rate)
    return replace(posterior, correlation=whitening.phi, tails=tails)


def noise_found(state: ScaledState, data: NoisyTable, noise: NoiseModel) -> NoiseFound:
    """The noise of features averaged over samples, and that of samples averaged over features."""
    whitening, mean = state.whitening, mean_noise(state, data.known)
    rows, columns = whitening.rows, whitening.columns
    of_rows = stationary(state) * float((columns.variance * data.units**2).mean())
    features = mean * columns.variance / columns.variance.mean()
    # With changed units, scales of columns do not show that noise is equal.
    differ = noise.columns or data.unit != 1.0
    return NoiseFound(
        name=noise.name,
        features=data.spread_out(features * data.units**2, 0.0) if differ else None,
        samples=None if rows is None else of_rows * rows.variance,
        degrees_of_freedom=np.inf if rows is None else rows.degrees_of_freedom,
        correlation=whitening.phi,
        outliers=None if rows is None else probability_of_outlier(rows),
        per_component=nats_per_component(rows, columns),
    )
