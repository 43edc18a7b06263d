"""Fits of complete data with one noise model after another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray, Input
from bayespca.engines.records import Decomposition
from bayespca.linear import fit as closed
from bayespca.linear.fit import Decomposed, decomposed
from bayespca.linear.scaled import fit as scaled
from bayespca.linear.scaled.cells import GRAM
from bayespca.linear.scaled.data import NoisyTable
from bayespca.linear.scaled.reading import gram_of, noisy_table
from bayespca.lowrank.noise_models import AUTOREGRESSIVE, ISOTROPIC, NOISES, NoiseModel
from bayespca.lowrank.recognising import digests
from bayespca.lowrank.records import NoiseFound, PCAFit
from bayespca.missing.dense import fit as dense
from bayespca.sources.constant import constant_columns
from bayespca.sources.data import Where, where_of
from bayespca.sources.records import Partitions
from bayespca.sources.rounding import is_coarse, rounding_variances
from bayespca.sources.tasks import SomeRows, every_nth
from bayespca.spectrum.forms import ClosedForm

from . import advice, residuals
from .asked import Asked, by_likelihood, compares
from .choosing import CHOICES, MOST_TO_SWEEP, choose
from .errors import errors_as
from .signs import FEW_TO_ORDER, FEWEST_IN_ORDER, Signs, other_orders

# Most cells for which sparse data are made dense, as unequal noise requires.
MOST_DENSE = 200_000_000
# Cells above which some of the rows choose the noise model for all.
MANY_CELLS = 2_000_000
# Most columns for which rows on workers are fitted with unequal noise: in each round the client
# decomposes a square matrix of that size.
MOST_COLUMNS = 3000
OUT_OF_REACH = (
    f"for Dask collections it is limited to {MOST_COLUMNS:,} columns, or {MOST_DENSE:,} cells if "
    "there are more columns than rows; fit fewer columns, or some of the rows in memory."
)
# Nats by which the order of few columns must be better than each of the others.
CLEARLY_IN_ORDER = 3.0
# Nats to which free energies are found if only the evidence of a number of components is wanted.
NATS = 0.02
# Relative fall of the free energy at which the rounds of a sample of the rows end.
TOL_OF_SAMPLE = 1e-6


@dataclass
class Complete:
    """Complete data, to be fitted with one noise model after another.

    `ordered` is whether neighbours may have noise in common, `sweeps` whether cells may have noise
    of their own. `found`, `decomposed` and `plain` keep the results of the closed form once it has
    run, `few` the rows fetched from workers, and `sums` the sums over blocks.
    """

    X: Input
    form: ClosedForm
    looping: inference.Looping
    asked: Asked
    ordered: bool = True
    sweeps: bool = True
    found: Decomposition | None = field(default=None, init=False)
    decomposed: Decomposed | None = field(default=None, init=False)
    plain: PCAFit | None = field(default=None, init=False)
    few: SomeRows | None = field(default=None, init=False)
    sums: NoisyTable | None = field(default=None, init=False)

    def knows(self, other: Complete) -> None:
        """Take over what `other` has computed from the same data."""
        self.found, self.decomposed, self.few = other.found, other.decomposed, other.few
        self.sums = other.sums

    def fit(
        self, noise: NoiseModel, to_beat: float = math.inf, other: PCAFit | None = None
    ) -> PCAFit:
        """Fit a noise model, or give it up once it is clear that it stays above `to_beat`.

        `other`, a fit of other rows or another rank, is where it starts.
        """
        errors = self.asked.errors
        if noise == ISOTROPIC and errors is None:
            return self._closed()
        looping = looping_for(noise, replace(self.looping, to_beat=to_beat), self.asked)
        if noise.cells or (errors is not None and errors.cells is not None):
            return swept(self.X, self.form, looping, self.asked, noise)
        table = self.table(rows=noise.rows)
        if not table.squares.any():
            none = NoiseFound.of_constant(noise, table.n_samples, table.mean_of_row.size)
            return replace(self._constant(table)._closed(), noise=none)
        fit = scaled.fit(table, self.form, looping, noise, other)
        if noise.neighbours and other is None:
            quiet = replace(looping, callback=None, checkpoint=None)
            if not noise.order and compares(self.form):
                fit = scaled.of_best_order(fit, table, self.form, quiet)
            if self.form.exactly is None and fit.converged:
                fit = scaled.with_fewer(fit, table, self.form, quiet)
        return with_rows_known(fit, self.X) if noise.rows else fit

    def _constant(self, table: NoisyTable) -> Complete:
        """The same task with constant data in memory, as blocks may be readable only once."""
        if where_of(self.X) is not Where.BLOCKS:
            return self
        shape = (table.n_samples, table.mean_of_row.size)
        return replace(self, X=np.broadcast_to(table.mean_of_row, shape))

    def _closed(self) -> PCAFit:
        data = decomposed(
            self.X,
            self.form,
            n_needed=self.form.n_needed,
            center=self.asked.center,
            scale=self.asked.scale,
            engine=self.asked.engine,
            random_state=self.looping.random_state,
        )
        self.found, self.decomposed = data.found, data
        self.plain = closed.from_decomposition(data, self.form)
        return self.plain

    def with_rank(self, fit: PCAFit, rank: int) -> PCAFit:
        """Refit the same noise model with `rank` components."""
        noise, form = fit.noise.model, replace(self.form, exactly=rank)
        if noise == ISOTROPIC and self.decomposed is not None:
            return with_evidence(
                closed.from_decomposition(self._known_beyond(rank), form), fit.noise
            )
        looping = replace(self.looping, callback=None, checkpoint=None)
        data = self._asked_again(form, looping)
        ends = [data.fit(noise)]
        if not noise.cells and noise != ISOTROPIC:
            # From scratch, the noise may settle on components that are to be left out.
            ends.append(data.fit(noise, other=fit))
        return with_evidence(min(ends, key=lambda end: end.free_energy), fit.noise)

    def beside(self, fit: PCAFit, rank: int) -> PCAFit:
        """Refit with `rank` components to the accuracy that evidences need, starting from `fit`."""
        tol = NATS / max(abs(fit.free_energy), 1.0)
        looping = replace(self.looping, callback=None, checkpoint=None, tol=tol)
        data = self._asked_again(replace(self.form, exactly=rank), looping)
        return data.fit(fit.noise.model, other=fit)

    def _asked_again(self, form: ClosedForm, looping: inference.Looping) -> Complete:
        again = replace(self, form=form, looping=looping)
        again.knows(self)
        return again

    def _known_beyond(self, rank: int) -> Decomposed:
        """A decomposition with at least `rank` + 1 singular values, if there are as many.

        Engines stop where EVB keeps no more components, which may be too early for a given rank.
        """
        assert self.decomposed is not None
        spectrum = self.decomposed.found.spectrum
        if min(rank + 1, spectrum.full_rank) <= spectrum.singular_values.size:
            return self.decomposed
        more = replace(self, form=by_likelihood(self.form, rank + 1))
        more._closed()
        assert more.decomposed is not None
        self.decomposed = more.decomposed
        return self.decomposed

    def likeliest(self, fit: PCAFit, rank: int) -> PCAFit:
        """Fit `rank` components by maximum likelihood, with the noise model of `fit`."""
        noise, form = fit.noise.model, by_likelihood(self.form, rank)
        if noise == ISOTROPIC and self.decomposed is not None:
            likely = closed.from_decomposition(self._known_beyond(rank), form)
            return with_evidence(likely, fit.noise)
        looping = replace(self.looping, callback=None, checkpoint=None)
        if noise != ISOTROPIC and where_of(self.X) is Where.DENSE:
            return swept_as_in(fit, self.X, form, looping, self.asked)
        return with_evidence(self._asked_again(form, looping).fit(noise), fit.noise)

    def chosen(self) -> PCAFit:
        """Fit the noise model that has the most evidence.

        Equal noise is fitted first. Large data skip it if a few rows show unequal noise, or if the
        matrix is large both ways: unequal noise leaves no gap in the spectrum that would let an
        engine stop early. If there are many cells, some of the rows choose among the models.
        """
        some = self.sample
        if some is not None and (min(self.X.shape) > GRAM or residuals.far_from_equal(some.X)):
            return self._as_in(some)
        fit = self.fit(ISOTROPIC)
        if residuals.NOISE_FREE in fit.status:
            return fit
        if where_of(self.X) is Where.PARTITIONS:
            return self._chosen_here(fit)
        if not self.can_look_again:
            return fit
        seen = self.look(fit)
        if some is not None and seen.seen:
            return self._as_in(some, fit)
        return self._best_of(fit, seen)

    def _best_of(self, fit: PCAFit, seen: Signs) -> PCAFit:
        """Fit the noise model with the most evidence, given a fit and signs in its residuals."""
        shape = (fit.n_samples, self.p)
        allowed = frozenset(self.allowed() if seen.seen else ())
        best = choose(
            (fit, seen), self.fit, self.look, shape, allowed, self._baseline, self._owes_to_order
        )
        if "neighbours" in seen.seen and AUTOREGRESSIVE.name not in allowed and self.ordered:
            return advice.with_constant(best, self._constant_columns())
        return best

    def _owes_to_order(self, fit: PCAFit) -> bool:
        """Whether few columns in other orders have less evidence for noise of neighbours.

        Of few columns that have no order, some happen to stand beside those they resemble. Many
        columns have so many neighbours that residuals show it (`signs`).
        """
        if self.p > FEW_TO_ORDER or self.asked.in_order or where_of(self.X) is not Where.DENSE:
            return True
        quiet = replace(self.looping, callback=None, checkpoint=None)
        for order in other_orders(self.p):
            other = replace(self, X=taken(self.X, order, axis=1), looping=quiet)
            least = fit.free_energy + CLEARLY_IN_ORDER
            if other.fit(AUTOREGRESSIVE, least).free_energy < least:
                return False
        return True

    @property
    def here(self) -> Complete:
        """The same task with the rows fetched from workers; at full tolerance if they are all."""
        assert self.few is not None
        here = replace(self._of(self.few.rows), sweeps=False)
        return replace(here, looping=self.looping) if self.few.are_all else here

    def _chosen_here(self, plain: PCAFit) -> PCAFit:
        """Fit the noise model that some rows of a Dask collection choose, fetched in one pass."""
        self.bring_rows(plain.n_samples)
        if self.few is None:
            return plain
        signs = self.look(plain)
        if self.few.are_all:
            fit = self.here._best_of(plain, signs)
        elif signs.seen and not self._is_in_reach(plain.n_samples):
            return advice.at_least(plain, signs, ISOTROPIC, OUT_OF_REACH)
        else:
            fit = self._as_in(self.here, plain) if signs.seen else self._best_of(plain, signs)
        return fit if is_coarse(self.few.rows) else advice.with_cells(fit, self.look(fit))

    def bring_rows(self, n: int) -> None:
        """Fetch some of the n rows from workers, or all if they have few cells."""
        self.few = rows_here(self.X, n)

    def _is_in_reach(self, n: int) -> bool:
        """Whether unequal noise can be fitted to n rows on workers."""
        return self.p <= MOST_COLUMNS if n > self.p else n * self.p <= MOST_DENSE

    def _baseline(self) -> float | None:
        """Free energy of equal noise with rounding taken into account; None for unrounded numbers.

        Rounding is noise, too; a plain fit of equal noise would explain it by components.
        """
        if self.n is None or self.p > GRAM or self.n <= self.p:
            return None
        table = self.table(rows=False)
        if not table.rounding.any():
            return None
        quiet = replace(self.looping, callback=None, checkpoint=None)
        return scaled.fit(table, self.form, quiet, ISOTROPIC).free_energy

    def _as_in(self, some: Complete, plain: PCAFit | None = None) -> PCAFit:
        """Fit the noise model that some of the rows chose; `plain` is the fit with equal noise."""
        found = some.chosen()
        noise = found.noise.model
        if plain is None or noise != ISOTROPIC:
            plain = self.fit(noise, other=found)
        return with_evidence(advice.with_advice_of(plain, found), found.noise)

    @property
    def sample(self) -> Complete | None:
        """The same task with some of the rows, if there are many cells; otherwise None."""
        if where_of(self.X) is not Where.DENSE or math.prod(self.X.shape) <= MANY_CELLS:
            return None
        rows = residuals.every_few(self.X)
        if rows.shape[0] == self.X.shape[0]:
            return None
        return self._of(rows)

    def _of(self, rows: Array) -> Complete:
        """The same task with some of the rows, which are to choose for all."""
        looping = replace(self.looping, tol=max(self.looping.tol, TOL_OF_SAMPLE))
        return replace(self, X=rows, asked=replace(self.asked, engine="auto"), looping=looping)

    def table(self, *, rows: bool) -> NoisyTable:
        """The data as noise models see them; kept for blocks, which may be readable only once."""
        if self.sums is not None:
            return self.sums
        table = self._table(rows=rows)
        if where_of(self.X) is Where.BLOCKS:
            self.sums = table
        return table

    def _table(self, *, rows: bool) -> NoisyTable:
        errors = self.asked.errors
        return noisy_table(
            self.X,
            center=self.asked.center,
            scale=self.asked.scale,
            rows=rows,
            engine=self.asked.engine,
            found=self.found,
            known=None if errors is None or errors.rows is None else errors.rows**2,
            errors=None if errors is None else errors.columns,
            rounding=None if self.few is None else rounding_variances(self.few.rows),
        )

    def look(self, fit: PCAFit) -> Signs:
        """Signs in the residuals of a fit; of neighbours only if columns may have an order."""
        seen = self._seen(fit)
        if self.asked.in_order:
            return replace(seen, absorbed=seen.absorbed | {"neighbours"})
        if self.asked.in_order is False:
            return replace(seen, neighbours=0.0, absorbed=seen.absorbed - {"neighbours"})
        return seen

    def _seen(self, fit: PCAFit) -> Signs:
        if where_of(self.X).in_memory:
            return residuals.of_complete(self.X, fit, self._scores(fit))
        if self.few is not None:
            return residuals.of_complete(self.few.rows, _of_rows(fit, self.few.places))
        return residuals.of_sums(self.table(rows=False), self.form, fit)

    def _scores(self, fit: PCAFit) -> FloatArray | None:
        """Scores of all rows in a fit with equal noise, up to sign; None if they are unknown."""
        if fit is not self.plain or self.found is None or self.found.left is None:
            return None
        return to_numpy(self.found.left(fit.n_components)) * fit.kept_singular_values

    def allowed(self) -> Iterator[str]:
        """Names of noise models that can be tried."""
        has_rows = where_of(self.X) is not Where.BLOCKS
        for noise in CHOICES:
            served = has_rows or not noise.needs_rows
            ordered = not noise.neighbours or self._has_neighbours
            if served and ordered and (not noise.cells or self.can_sweep):
                yield noise.name

    @property
    def can_sweep(self) -> bool:
        """Whether cells may have noise of their own."""
        small = where_of(self.X) is Where.DENSE and math.prod(self.X.shape) <= MOST_TO_SWEEP
        return small and self.sweeps and not is_coarse(self.X)

    @property
    def _has_neighbours(self) -> bool:
        """Whether features have an order, and all of them vary."""
        declared = self.asked.in_order
        if not self.ordered or declared is False or (self.p < FEWEST_IN_ORDER and not declared):
            return False
        if not where_of(self.X).in_memory and gram_of(self.found) is None:
            return False
        return not self._constant_columns().size

    def _constant_columns(self) -> NDArray[np.intp]:
        """Indices of features that do not vary, as far as that is known."""
        if where_of(self.X).in_memory:
            return constant_columns(self.X, center=self.asked.center)
        gram = gram_of(self.found)
        return np.flatnonzero([] if gram is None else gram.diagonal() <= 0)

    @property
    def p(self) -> int:
        X: Any = self.X
        return int(X.shape[1] if where_of(X).in_memory else X.n_features)

    @property
    def n(self) -> int | None:
        """Number of rows; None if unknown."""
        if where_of(self.X).in_memory:
            return int(self.X.shape[0])
        return None if self.few is None or self.found is None else self.found.n_samples

    @property
    def can_look_again(self) -> bool:
        """Whether residuals can be examined, from rows in memory or from sums over all rows."""
        where = where_of(self.X)
        if where is Where.SPARSE:
            return bool(self.X.shape[0] * self.X.shape[1] <= MOST_DENSE)
        if where.in_memory or self.few is not None:
            return True
        return gram_of(self.found) is not None and self.p <= GRAM


def looping_for(noise: NoiseModel, looping: inference.Looping, asked: Asked) -> inference.Looping:
    """Settings of the iteration: a model that the user did not choose has its own checkpoint."""
    return looping if noise.name == asked.noise else looping.for_part(noise.name)


def swept(
    X: Input,
    form: ClosedForm,
    looping: inference.Looping,
    asked: Asked,
    noise: NoiseModel,
    *,
    rounded: bool = False,
    begin: NoiseFound | None = None,
) -> PCAFit:
    """Fit one noise model by sweeps over the observed cells, starting from the noise `begin`."""
    errors = asked.errors
    return dense.fit(
        X,
        form,
        looping,
        center=asked.center,
        scale=asked.scale,
        noise=noise,
        error_std=None if errors is None else errors.of_cells(X.shape),
        rounded=rounded,
        init=asked.init,
        engine=asked.engine,
        begin=begin,
    )


def swept_as_in(
    fit: PCAFit, X: Array, form: ClosedForm, looping: inference.Looping, asked: Asked
) -> PCAFit:
    """Fit by sweeps, with the noise ratios of rows and columns taken from another fit.

    Left to itself, maximum likelihood would turn a column into a component, not find its noise.
    """
    noise = fit.noise
    if asked.errors is not None or (noise.features is None and noise.samples is None):
        likely = swept(X, form, looping, asked, NOISES[noise.name])
        return with_evidence(likely, noise)
    known = replace(asked, errors=errors_as(noise.features, noise.samples))
    found = swept(X, form, looping, known, ISOTROPIC)
    size = found.noise_variance
    return replace(
        found,
        noise_variance=size * fit.noise_variance,
        noise=replace(
            noise,
            features=None if noise.features is None else size * noise.features,
            samples=None if noise.samples is None else size * noise.samples,
        ),
    )


def with_rows_known(fit: PCAFit, X: Input) -> PCAFit:
    """Make a fit recognise the rows it was learned from, if they are in memory.

    Rows on workers are so many that it does not matter, and reading them again would take long.
    """
    if where_of(X) is not Where.DENSE:
        return fit
    return replace(fit, posterior=replace(fit.posterior, learned_from=digests(X)))


def rows_here(X: Partitions, n: int) -> SomeRows | None:
    """Some of the n rows on workers, fetched in one pass; all rows if they have few cells.

    None if even some rows are too many.
    """
    p = X.n_features
    step = 1 if n * p <= MANY_CELLS else residuals.step_of_few(n, p)
    return every_nth(X, step) if n // step * p <= MOST_DENSE else None


def with_evidence(fit: PCAFit, found: NoiseFound) -> PCAFit:
    return replace(fit, noise=replace(fit.noise, evidence=found.evidence))


def _of_rows(fit: PCAFit, places: NDArray[np.intp]) -> PCAFit:
    """The fit with noise variances of some rows only."""
    samples = fit.noise.samples
    if samples is None:
        return fit
    return replace(fit, noise=replace(fit.noise, samples=samples[places]))
