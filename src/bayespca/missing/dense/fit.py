"""PCA of data with holes as a model: its starts, steps, moves between ranks, and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bayespca import inference
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Info, Run, best_of, run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.inference.search import given_up
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.filling import all_kept, fill
from bayespca.lowrank.holes import IncompleteRows, digests_of_cells
from bayespca.lowrank.holes_posterior import HolesPosterior, latent_variance_of_scores
from bayespca.lowrank.noise_models import ISOTROPIC, NoiseModel
from bayespca.lowrank.observed_spectrum import spectrum_of_observed
from bayespca.lowrank.records import NoiseFound, PCAFit, spectrum_as_if_complete
from bayespca.sources.cluster import watched
from bayespca.spectrum.families import MAP, PB_A, PB_B, VB
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.priors import GivenPrior, Prior
from bayespca.spectrum.rank_posterior import posterior_of_rank
from bayespca.spectrum.records import Status, samples
from bayespca.spectrum.solving import borrowed_noise, near_bound
from bayespca.spectrum.tolerances import (
    GONE,
    LEAST_BORROWED,
    LEAST_NOISE_OF_ML,
    LEAST_NOISE_WITH_HOLES,
    LOG_2PI,
    WIDE,
)

from .data import HolesTable, holes_table
from .posterior import for_all_columns, has_mean, mean_noise, noise_found, scales_from
from .scales import NoiseScales, first_scales
from .start import (
    ByCovariance,
    by_covariance,
    clipped,
    random_start,
    start,
    with_equal_cells,
    with_one_more,
)
from .state import DenseChart, DenseProblem, DenseState, with_more
from .step import step

# Most steps from each of several starts, and the relative fall of the free energy at which they
# end: by then ranks have settled, and it is clear which start is best.
WARMING = 50
CALM_ENOUGH = 1e-5
# Components that a start may have beyond twice those of the smallest start.
MORE = 10
# Sweeps before a new component is judged: at first it has no uncertainty and a rough direction.
BEFORE_JUDGED = 2


def fit(
    X: Array,
    form: ClosedForm,
    looping: inference.Looping,
    *,
    center: bool = True,
    scale: bool = False,
    noise: NoiseModel = ISOTROPIC,
    error_std: FloatArray | None = None,
    rounded: bool = False,
    init: str = "closed",
    engine: str = "auto",
    begin: NoiseFound | None = None,
) -> PCAFit:
    """Fit a matrix with holes, or without; options are those of `BayesianPCA`.

    The search for the noise starts from `begin`, the noise of a similar fit, if there is one.

    `error_std` holds standard deviations S of the measurement errors of cells; an infinite one is a
    hole. Noise then has the variance σ²·S², times the factors of the noise model. The fit reports
    σ², which is estimated unless `noise_variance` is given.

    Unequal noise takes the rounding of numbers into account. With `rounded`, equal noise does so as
    well, so that free energies can be compared.
    """
    asked: dict[str, Any] = {"noise": noise, "error_std": error_std, "rounded": rounded}
    table = holes_table(X, center=center, scale=scale, **asked)
    model = dense_model(table, form, noise=noise, init=init, engine=engine)
    model = replace(model, begin=begin, to_beat=looping.to_beat - model.offset(table))
    # The passes of an iteration on Dask are too short to report progress.
    with watched(None):
        return inference.fit(model, table, looping)


@dataclass(frozen=True)
class DenseModel(DenseProblem, Model[HolesTable, DenseState, PCAFit]):
    """The problem of a closed form for a table with holes; `init` and `engine` as in `BayesianPCA`.

    The form is in units of the table's rows. If its free energy has no usable minimum over the
    noise, the noise is taken from a fit of the model `lends`.
    """

    form: ClosedForm = field(default_factory=ClosedForm)
    init: str = "closed"
    engine: str = "auto"
    lends: DenseModel | None = None
    borrows_noise: bool = False
    begin: NoiseFound | None = field(default=None, repr=False)
    to_beat: float = field(default=np.inf, repr=False)

    # --- the iteration -------------------------------------------------------------------------

    def start(self, data: HolesTable, rng: np.random.Generator) -> DenseState:
        if self.noise.cells:
            # States found with equal noise of cells, with gross errors and with these clipped.
            equal = replace(self, noise=replace(self.noise, cells=False))
            tables = (data, replace(data, rows=clipped(data.rows)))
            begun = [with_equal_cells(equal.start(table, rng), data.rows) for table in tables]
        else:
            begun = self._starts(data, rng)
        return begun[0] if len(begun) == 1 else self._best_of(begun, data)

    def _best_of(self, begun: list[DenseState], data: HolesTable) -> DenseState:
        """The state that the best of several starts reaches after some steps.

        To a start that assumes equal noise, unequal noise looks like many components. So no start
        may have many more components than the smallest.
        """
        begun = sorted(begun, key=lambda state: state.rank)
        most, best = 2 * begun[0].rank + MORE, self.to_beat
        runs: list[Run[DenseState]] = []
        for state in begun:
            fixed = self.keeps_all or self.exactly
            less = state.without_weakest(0 if fixed else max(state.rank - most, 0))
            found = run(
                lambda state: self.step(state, data),
                less,
                max_iter=WARMING,
                tol=CALM_ENOUGH,
                callback=given_up(best),
                chart=self.chart(data),
            )
            runs.append(found)
            best = min(best, best_of(runs).free_energy)
        return best_of(runs).state

    def _starts(self, data: HolesTable, rng: np.random.Generator) -> list[DenseState]:
        rows = data.rows
        units = None if data.errors is None else data.errors.rows
        row_units = None if units is None else 1 / units
        if self.begin is None:
            own_units = data.relative_units, row_units
            starts = first_scales(rows, self.noise, self.estimate, *own_units)
        else:
            starts = [scales_from(self.begin, data, self)]
        begun = [replace(self._start(rows, scales, rng), scales=scales) for scales in starts]
        known = data.errors is not None and data.errors.cells is not None
        return [with_equal_cells(state, rows) for state in begun] if known else begun

    def _start(
        self, data: IncompleteRows, scales: NoiseScales, rng: np.random.Generator
    ) -> DenseState:
        """Start of the iteration for data divided by the root of their scales."""
        rows, noise = scales.divided(data), self._given_noise
        if not self.has_one_start:
            return random_start(rows, self, noise, rng)
        exactly = self.keeps_all or self.exactly
        filled = fill(rows, most=self.most, exactly=exactly, engine=self.engine)
        rank, s2 = len(filled.right), filled.noise_variance
        # The noise of columns is not known yet, so an optimum found without it would not last.
        way = None if self.noise.columns else self._way(rows, scales, rank=rank, noise_variance=s2)
        if way is not None and (found := way.start(filled)) is not None:
            return found
        if self.prunes or self.keeps_all:
            begin = start(rows, self, filled)
            return begin if noise is None else replace(begin, noise_variance=noise)
        # All components that the method might keep are at full strength, before they shrink.
        plan = replace(self.form, n_components=None)
        right, spread, s2 = all_kept(filled, rows, plan, most=self.most, engine=self.engine)
        s2 = max(s2, LEAST_NOISE_WITH_HOLES)
        return start(rows, self, replace(filled, right=right, spread=spread, noise_variance=s2))

    def _way(
        self, rows: IncompleteRows, scales: NoiseScales, *, rank: int, noise_variance: float
    ) -> ByCovariance | None:
        """EM over the covariance of the features, for rows divided by the root of their scales.

        None if rows or cells have weights, or if it does not pay.
        """
        if scales.rows is not None or scales.cells is not None:
            return None
        given = self._given_noise
        return by_covariance(rows, self, rank=rank, noise_variance=noise_variance, given=given)

    @property
    def _given_noise(self) -> float | None:
        noise = self.form.noise_variance
        return None if isinstance(noise, str) else noise

    def step(self, state: DenseState, data: HolesTable) -> tuple[DenseState, Info]:
        return step(state, data.rows, self)

    def chart(self, data: HolesTable) -> DenseChart:
        return DenseChart(data.rows, self)

    def digests(self, data: HolesTable) -> Sequence[Any]:
        return data.rows.total(digests_of_cells)

    def lender(self) -> DenseModel | None:
        return self.lends

    def lent(self, state: DenseState) -> Self:
        form = replace(self.form, noise_variance=max(state.noise_variance, LEAST_BORROWED))
        return replace(self, form=form, least_noise=None, lends=None, borrows_noise=True)

    # --- ranks ---------------------------------------------------------------------------------

    def moves(self, data: HolesTable) -> Sequence[Move[DenseState]]:
        if not self.prunes:
            return []

        def less(state: DenseState) -> DenseState | None:
            if not state.rank:
                return None
            found = self._with_rank(state, state.rank - 1, data)
            return state.without(state.rank - 1) if found is None else found

        def more(state: DenseState) -> DenseState | None:
            if state.rank >= self.most:
                return None
            new, lenient = with_one_more(state, data.rows), replace(self, exactly=True)
            found = self._with_rank(new, new.rank, data)
            if found is not None:
                return found
            for _ in range(BEFORE_JUDGED):
                new, _ = lenient.step(new, data)
            return new

        return [Move(less, more)]

    def _with_rank(self, state: DenseState, rank: int, data: HolesTable) -> DenseState | None:
        """The state with another rank, by EM over the covariance; None if that does not pay."""
        rows, noise = state.scales.divided(data.rows), state.noise_variance
        way = self._way(rows, state.scales, rank=state.rank, noise_variance=noise)
        found = None if way is None else way.with_rank(state, rank)
        return None if found is None else replace(found, scales=state.scales)

    def grown(self, state: DenseState, data: HolesTable) -> DenseState | None:
        """The state with more components if VB has a given prior and none is idle; else None."""
        if not (self.has_idle and state.rank < self.most):
            return None
        if not has_mean(state, data.rows, self).all():
            return None
        return with_more(state, self, min(1 + state.rank // 3, self.most - state.rank))

    # --- results -------------------------------------------------------------------------------

    def posterior(self, state: DenseState, data: HolesTable) -> HolesPosterior:
        for h in np.flatnonzero(~has_mean(state, data.rows, self))[::-1]:
            state = state.without(h)
        return for_all_columns(state, data, self)

    def offset(self, data: HolesTable) -> float:
        rows = data.rows
        return float((rows.column_counts - rows.centred) @ np.log(rows.unit))

    def free_energy(self, run: Run[DenseState], data: HolesTable) -> float:
        """The free energy by the conventions of the closed forms.

        cₐ = 1 and c_b = c for a given prior, the density is 1 for a flat one, and components that a
        learned prior has switched off count nothing.
        """
        state, factors = run.state, self.factors
        energy = run.free_energy + self.offset(data)
        (L, M), prior, family = factors.shape, factors.prior, factors.family
        flat = self.form.prior_variance is None and not prior.is_learned
        if flat and family == VB:
            return np.inf
        if flat and family == MAP:
            return energy - 0.5 * self.most * L * (LOG_2PI + np.log(prior.variance))
        energy = factors.energy_in_units(
            energy, rank=state.rank, n_gone=state.n_gone, unit=data.unit
        )
        if family == PB_B and not prior.is_learned:
            energy -= 0.5 * self.most * M * float(np.log(prior.variance_a))
        return energy

    def status(self, state: DenseState, data: HolesTable) -> Status:
        if not self.borrows_noise:
            return data.status
        return data.status.but(*borrowed_noise(self.form.method.name))

    def described(
        self, found: Fit[HolesPosterior], run: Run[DenseState], data: HolesTable
    ) -> PCAFit:
        posterior = found.posterior
        M = samples(data.n_samples, data.rows.centred)
        variances = latent_variance_of_scores(posterior)
        gamma = np.sqrt(M * (variances + posterior.noise_variance))
        shown = spectrum_of_observed(
            posterior, run.state.scales.applied(data.rows), data.live, data.n_samples
        )
        noise = noise_found(run.state, data, self)
        # Probabilities of the number of components are at the posterior's noise if that was given.
        given = self._given_noise is not None and not self.borrows_noise
        ranks = posterior_of_rank(
            shown.spectrum,
            noise_variance=posterior.noise_variance / shown.share if given else None,
            per_component=noise.per_component,
        )
        # Advice on a rank near its limit, as for complete data; none if noise is given or zero.
        status, least = found.status, self.least_noise
        if not (least is None or self.exactly or run.state.noise_variance <= least * (1 + 1e-6)):
            bound = self.form.method.prior(*self.factors.shape, np.inf)
            status = status + near_bound(bound, run.state.rank)
        return extended(
            found,
            PCAFit,
            spectrum=spectrum_as_if_complete(gamma, (data.live.size, M), posterior.noise_variance),
            shrunk_singular_values=np.sqrt(M * variances),
            rank_posterior=ranks.probabilities if ranks.determined else np.empty(0),
            status=status,
            noise_variance=mean_noise(run.state, data),
            n_samples=data.n_samples,
            noise=noise,
            left_out=left_out(shown.spectrum, ranks, gamma.size, posterior.noise_variance),
        )


def dense_model(
    table: HolesTable,
    form: ClosedForm,
    *,
    noise: NoiseModel = ISOTROPIC,
    init: str = "closed",
    engine: str = "auto",
) -> DenseModel:
    """The model of a table, which must be scaled if columns have noise of their own."""
    rows, inner, method = table.rows, _in_units(form, table), form.method
    shape, c2 = (rows.shape[1], rows.freedom), inner.prior_variance
    prior = method.prior(*shape, np.inf if c2 is None else c2)
    least = LEAST_NOISE_OF_ML if method.needs_rank else LEAST_NOISE_WITH_HOLES
    asked: dict[str, Any] = {"noise": noise, "init": init, "engine": engine}
    borrows = form.noise_variance == "auto" and not form.estimates_noise
    factors = Factors(shape, prior.family, _factor_prior(prior), GONE)
    return DenseModel(
        factors=factors,
        most=_most(rows, form),
        least_noise=least if inner.noise_variance == "auto" else None,
        keeps_all=method.needs_rank,
        exactly=form.exactly is not None,
        form=inner,
        lends=dense_model(table, ClosedForm(n_components=form.n_components), **asked)
        if borrows
        else None,
        **asked,
    )


def _most(rows: IncompleteRows, form: ClosedForm) -> int:
    """The largest rank."""
    n, p = rows.shape
    if not rows.squares.any():
        return 0
    full = min(rows.freedom, p)
    if form.method.estimates_noise(None):
        # A full rank would leave nothing for the noise.
        full = max(min(n - 1, p - 1), 0)
    asked = form.n_components if form.exactly is None else form.exactly
    return full if asked is None else min(asked, full)


def _in_units(form: ClosedForm, table: HolesTable) -> ClosedForm:
    """The closed form in the units of the table's rows."""
    noise, c2, rows = form.noise_variance, form.prior_variance, table.rows
    if noise == "0db":
        cells = float((rows.column_counts - rows.centred).sum())
        half = 0.5 * float(rows.squares.sum()) / max(cells, 1.0)
        noise = max(half, LEAST_NOISE_WITH_HOLES)
    elif noise != "auto":
        usual = 1.0 if table.errors is None else table.errors.usual
        noise = float(noise) * (usual / table.unit) ** 2
    c2 = None if c2 is None else c2 / table.unit**2
    return replace(form, noise_variance=noise, prior_variance=c2)


def _factor_prior(prior: Prior) -> FactorPrior:
    """Prior of the factors: one has the given variance, the other has variance 1.

    The longer of the factors that are integrated out takes the 1, as it is as large as its prior.
    A flat prior stays flat if the posterior is proper nevertheless (PB-A), else it is very wide.
    """
    if not isinstance(prior, GivenPrior):
        return FactorPrior("learned")
    c2, family = prior.prior_variance, prior.family
    l, m = family.sizes(prior.L, prior.M)
    if np.isinf(c2) and family != PB_A:
        c2 = WIDE
    return FactorPrior("given", c2, 1.0) if m >= l else FactorPrior("given", 1.0, c2)
