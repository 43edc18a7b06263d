"""Complete data with noise of rows, columns or neighbours, as a model fitted by `inference.fit`."""

from __future__ import annotations

import math
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
from .order import MOST_GAINED, highest_order, most_promising_order
from .squares import Products, products_of_columns
from .start import as_in, start
from .step import Rounds, ScaledState, mean_noise, stationary

# Nats by which a fit that is reached from fewer components must be lower.
LOWER = 0.1


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
    return _fitted(table, form, looping, noise, other)


def _fitted(
    table: NoisyTable,
    form: ClosedForm,
    looping: inference.Looping,
    noise: NoiseModel,
    other: PCAFit | None,
) -> PCAFit:
    return inference.fit(ScaledModel(form, noise, other, looping.tol), table, looping)


def of_best_order(
    fit: PCAFit, table: NoisyTable, form: ClosedForm, looping: inference.Looping
) -> PCAFit:
    """The fit, whose noise of neighbours has order one, or one of the order with the most evidence.

    The order that the residuals of the best fit promise the most is tried, until there is a fit of
    that order, or it would stay above `to_beat`; each partial autocorrelation costs ½ log of the
    number of cells. A fit of a new order starts from the best one, and also from the filter alone
    (`start.from_the_filter`).
    """
    price, tried = 0.5 * math.log(table.n_samples * table.p), {1}
    while (left := _products(fit, table, form)) is not None:
        order, promised = most_promising_order(left, price)
        if order in tried or fit.free_energy - looping.to_beat > MOST_GAINED * promised:
            break
        tried.add(order)
        for other in (fit, None):
            # A fit is given up once it is clear that it has less evidence.
            more = price * (order - len(fit.noise.partials))
            least = min(looping.to_beat, fit.free_energy - more)
            noise, again = replace(fit.noise.model, order=order), replace(looping, to_beat=least)
            end = _fitted(table, form, again, noise, other)
            if end.free_energy < fit.free_energy - more:
                fit = end
    return fit


def _products(fit: PCAFit, table: NoisyTable, form: ClosedForm) -> Products | None:
    """Products of neighbours up to the highest order; None if data have no noise."""
    noise = replace(fit.noise.model, order=highest_order(table.p))
    if not fit.noise_variance:
        return None
    found = table.whitened(as_in(fit, Rounds(table, noise, form)), form)
    return products_of_columns(found, table) if found.solution.noise_variance else None


def with_fewer(
    fit: PCAFit, table: NoisyTable, form: ClosedForm, looping: inference.Looping
) -> PCAFit:
    """The fit, or a lower one that is reached from one component less.

    What neighbours have in common passes for a component while little is known of the noise, and
    closed forms do not let go of it.
    """
    while fit.n_components:
        fewer = replace(form, exactly=fit.n_components - 1)
        less = _fitted(table, fewer, looping, fit.noise.model, fit)
        end = _fitted(table, form, looping, fit.noise.model, less)
        if not end.free_energy < fit.free_energy - LOWER:
            break
        fit = end
    return fit


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
            components=components * signs_of(unfiltered(components, whitening.partials))[:, None],
            gamma=found.spectrum.singular_values * found.spectrum.scale,
            mean=to_namespace(mean, like, array_namespace(like).float64),
            scale=to_namespace(scale, like),
            M=data.M,
        )
        tails = Tails() if rows is None else Tails(rows.shape, rows.rate)
        return replace(posterior, partials=whitening.partials, tails=tails)

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
            partials=whitening.partials,
            outliers=None if rows is None else probability_of_outlier(rows),
            per_component=nats_per_component(rows, columns),
        )
