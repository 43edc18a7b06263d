"""Complete data with noise of rows, columns or neighbours, as a model fitted by `inference.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit
from bayespca.linear.posterior import with_solution
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.lowrank.scales import learned, most_likely
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Status

from .data import NoisyTable
from .posterior import noise_found, posterior_of
from .start import start
from .step import Estimate, ScaledState, mean_noise, step


def fit(
    table: NoisyTable,
    form: ClosedForm,
    looping: inference.Looping,
    noise: NoiseModel,
    other: PCAFit | None = None,
) -> PCAFit:
    """Fit complete data with a noise model, starting from a fit of other rows if there is one."""
    if noise.neighbours:
        check_neighbours(table)
    return inference.fit(ScaledModel(form, noise, other, looping.tol), table, looping)


def check_neighbours(data: NoisyTable) -> None:
    """Raise ValueError unless all features vary and there are at least three."""
    p = data.mean_of_row.size
    if data.p < p:
        constant = np.setdiff1d(np.arange(p), data.live)
        raise ValueError(
            f"noise='autoregressive' needs every feature to vary; feature {constant[0]} (counting "
            "from 0) is constant: leave it out."
        )
    if p < 3:
        raise ValueError(f"noise='autoregressive' needs at least three features, got {p}.")


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
        return start(data, self.noise, self.form, self._estimate, self.other)

    def step(self, state: ScaledState, data: NoisyTable) -> tuple[ScaledState, Info]:
        return step(state, data, self.noise, self.form, self._estimate, self.tol)

    @property
    def _estimate(self) -> Estimate:
        return most_likely if self.form.method.needs_rank else learned

    def digests(self, data: NoisyTable) -> Sequence[Any]:
        return [data.mean, data.matrix]

    def posterior(self, state: ScaledState, data: NoisyTable) -> PCAPosterior:
        return posterior_of(state, data)

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
            noise=noise_found(state, data, self.noise),
        )
