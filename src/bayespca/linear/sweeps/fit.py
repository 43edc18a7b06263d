"""Fits of complete data by iteration: the problem of the closed forms, solved by sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca import inference
from bayespca.arrays.types import Input
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit
from bayespca.linear.data import Decomposed, decomposed
from bayespca.linear.fit import from_decomposition
from bayespca.linear.posterior import described
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.priors import EmpiricalVB, GivenPrior, Prior
from bayespca.spectrum.records import Solution, Status
from bayespca.spectrum.tolerances import GONE, LEAST_BORROWED_OF_SWEEPS

from .chart import SweepChart
from .posterior import posterior, solution_of
from .start import random_start, start_at
from .step import SweepProblem, SweepState, step


def fit(
    X: Input,
    form: ClosedForm,
    looping: inference.Looping,
    *,
    init: str = "random",
    center: bool = True,
    scale: bool = False,
    engine: str = "auto",
) -> PCAFit:
    """Fit by sweeps, which need only the singular values, but all of them.

    Options are those of `BayesianPCA`.
    """
    data = decomposed(
        X,
        form,
        n_needed=EVERYTHING,
        center=center,
        scale=scale,
        engine=engine,
        random_state=looping.random_state,
    )
    if not data.sum_of_squares:
        return from_decomposition(data, form)
    return fit_decomposed(data, sweep_model(data, form, init=init), looping)


def fit_decomposed(data: Decomposed, model: SweepModel, looping: inference.Looping) -> PCAFit:
    """Fit data that have been decomposed already."""
    return inference.fit(model, data, looping)


@dataclass(frozen=True, kw_only=True)
class SweepModel(SweepProblem, Model[Decomposed, SweepState, PCAFit]):
    """The problem of a closed form, from normal draws of `most` components or its solution."""

    form: ClosedForm
    most: int
    init: str = "random"

    @property
    def has_one_start(self) -> bool:
        return self.init == "closed"

    def start(self, data: Decomposed, rng: np.random.Generator) -> SweepState:
        closed, unit = self._closed(data), data.unit
        noise = closed.noise_variance / (unit * unit)
        if self.has_one_start:
            return start_at(data, self.factors, closed.moments.in_units(1 / unit), noise)
        if self.form.noise_variance == "auto":
            # Half of the mean square until the first sweep, if noise is learned; else EVB's noise.
            least = LEAST_BORROWED_OF_SWEEPS * data.mean_square
            noise = 0.5 * data.mean_square if self.learns_noise else max(noise, least)
        scale = float(data.mean_square**0.25) or 1.0
        return random_start(data, self.factors, self.most, noise, rng, scale)

    def step(self, state: SweepState, data: Decomposed) -> tuple[SweepState, Info]:
        return step(state, data, self)

    def chart(self, data: Decomposed) -> SweepChart | None:
        # Without turning, sweeps must be those of the papers: no acceleration.
        return SweepChart(data, self) if self.settle else None

    def digests(self, data: Decomposed) -> Sequence[object]:
        return [data.gamma, data.unit, data.sum_of_squares, data.log_scale]

    # --- results -------------------------------------------------------------------------------

    def posterior(self, state: SweepState, data: Decomposed) -> Posterior:
        return posterior(state, data, self.factors, self._solution(state, data))

    def unit(self, data: Decomposed) -> float:
        return data.unit

    def free_energy(self, run: Run[SweepState], data: Decomposed) -> float:
        return data.in_units(self._solution(run.state, data).free_energy)

    def status(self, state: SweepState, data: Decomposed) -> Status:
        return data.found.status + self._closed(data).status

    def described(self, found: Fit[PCAPosterior], run: Run[SweepState], data: Decomposed) -> PCAFit:
        return described(found, data.found, self._solution(run.state, data))

    def _closed(self, data: Decomposed) -> Solution:
        return self.form(data.found.spectrum)

    def _solution(self, state: SweepState, data: Decomposed) -> Solution:
        return solution_of(state, data, self.factors, self._closed(data))


def sweep_model(
    data: Decomposed, form: ClosedForm, *, init: str = "random", settle: bool = True
) -> SweepModel:
    """The model of decomposed data whose closed form is `form`."""
    L, M = data.spectrum.shape
    c2 = form.prior_variance
    given = np.inf if c2 is None else float(c2) / (data.unit * data.unit)
    prior = form.method.prior(L, M, given)
    return SweepModel(
        factors=factors_of(data, prior),
        learns_noise=form.estimates_noise,
        settle=settle,
        form=form,
        most=_most(data, form, prior),
        init=init,
    )


def factors_of(data: Decomposed, prior: Prior) -> Factors:
    """A and B under the prior of a method."""
    own = FactorPrior("learned")
    if isinstance(prior, GivenPrior):
        own = FactorPrior("given", prior.prior_variance)
    least = GONE * float(np.sqrt(data.mean_square)) or GONE
    return Factors(data.spectrum.shape, prior.family, own, least)


def _most(data: Decomposed, form: ClosedForm, prior: Prior) -> int:
    """Components to start with; no more than EVB can keep where it learns the noise."""
    cap = data.spectrum.full_rank if form.n_components is None else form.n_components
    most = min(cap, data.gamma.size)
    if isinstance(prior, EmpiricalVB) and form.estimates_noise:
        most = min(most, max(prior.rank_limit, 1))
    return most
