"""Complete data with noise of rows, columns or neighbours, as a model fitted by `inference.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.signs import signs_of
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit
from bayespca.linear.fit import with_solution
from bayespca.lowrank.filtering import unfiltered
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.posterior import from_solution
from bayespca.lowrank.records import NoiseFound, PCAFit, PCAPosterior
from bayespca.lowrank.scales import (
    Tails,
    learned,
    most_likely,
    nats_per_component,
    probability_of_outlier,
)
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Status

from .data import NoisyTable
from .start import start
from .step import Rounds, ScaledState, mean_noise, stationary


def fit(
    table: NoisyTable,
    form: ClosedForm,
    looping: inference.Looping,
    noise: NoiseModel,
    other: PCAFit | None = None,
) -> PCAFit:
    """Fit complete data with a noise model, starting from a fit of other rows if there is one."""
    p = table.mean_of_row.size
    if noise.neighbours and table.p < p:
        constant = np.setdiff1d(np.arange(p), table.live)
        raise ValueError(
            f"noise='autoregressive' needs every feature to vary; feature {constant[0]} (counting "
            "from 0) is constant: leave it out."
        )
    if noise.neighbours and p < 3:
        raise ValueError(f"noise='autoregressive' needs at least three features, got {p}.")
    return inference.fit(ScaledModel(form, noise, other, looping.tol), table, looping)


@dataclass(frozen=True)
class ScaledModel(Model[NoisyTable, ScaledState, PCAFit]):
    """A closed form of whitened data, in turns with the noise that whitens them."""

    form: ClosedForm
    noise: NoiseModel
    other: PCAFit | None = field(default=None, repr=False)
    tol: float = field(default=0.0, repr=False)

    @property
    def has_one_start(self) -> bool:
        return True

    def start(self, data: NoisyTable, rng: np.random.Generator) -> ScaledState:
        return start(self._rounds(data), self.other)

    def step(self, state: ScaledState, data: NoisyTable) -> tuple[ScaledState, Info]:
        return self._rounds(data, self.tol).step(state)

    def _rounds(self, data: NoisyTable, tol: float = 0.0) -> Rounds:
        estimate = most_likely if self.form.method.needs_rank else learned
        return Rounds(data, self.noise, self.form, estimate, tol)

    def digests(self, data: NoisyTable) -> Sequence[Any]:
        return [data.mean, data.matrix]

    def posterior(self, state: ScaledState, data: NoisyTable) -> PCAPosterior:
        """The posterior of the whitened data, whose feature scales include the whitening."""
        like, found, whitening = data.like, state.found, state.whitening
        rows = whitening.rows
        scale = data.spread_out(np.sqrt(whitening.columns.variance) * data.units, 1.0)
        components = to_namespace(data.spread_out(found.components, 0.0), like)
        mean = data.mean_of_row.copy()
        mean[data.live] = (data.mean + found.location) * data.units
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

    def offset(self, data: NoisyTable) -> float:
        return data.M * float(np.log(data.units).sum())

    def unit(self, data: NoisyTable) -> float:
        return data.unit

    def status(self, state: ScaledState, data: NoisyTable) -> Status:
        return state.found.solution.status

    def described(
        self, found: Fit[PCAPosterior], run: Run[ScaledState], data: NoisyTable
    ) -> PCAFit:
        state = run.state
        return with_solution(
            found,
            self.form(state.found.spectrum),
            spectrum=state.found.spectrum,
            noise_variance=mean_noise(state, data.known) * data.unit**2,
            n_samples=data.n_samples,
            engine=state.found.engine,
            noise=self._noise_found(state, data),
        )

    def _noise_found(self, state: ScaledState, data: NoisyTable) -> NoiseFound:
        """The noise of features averaged over samples, and that of samples over features."""
        whitening, mean = state.whitening, mean_noise(state, data.known)
        rows, columns = whitening.rows, whitening.columns
        of_rows = stationary(state) * float((columns.variance * data.units**2).mean())
        features = mean * columns.variance / columns.variance.mean()
        # With changed units, scales of columns do not show that noise is equal.
        differ = self.noise.columns or data.unit != 1.0
        return NoiseFound(
            name=self.noise.name,
            features=data.spread_out(features * data.units**2, 0.0) if differ else None,
            samples=None if rows is None else of_rows * rows.variance,
            degrees_of_freedom=np.inf if rows is None else rows.degrees_of_freedom,
            correlation=whitening.phi,
            outliers=None if rows is None else probability_of_outlier(rows),
            per_component=nats_per_component(rows, columns),
        )
