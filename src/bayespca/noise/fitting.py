"""A PCA with the noise that was asked for, or with the one that the evidence chooses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray, Input
from bayespca.engines.records import Decomposition
from bayespca.linear import fit as closed
from bayespca.linear.data import Decomposed, decomposed
from bayespca.linear.posterior import counted
from bayespca.linear.scaled import fit as scaled
from bayespca.linear.scaled.cells import GRAM
from bayespca.linear.scaled.data import NoisyTable
from bayespca.linear.scaled.reading import gram_of, noisy_table
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, NoiseModel
from bayespca.lowrank.records import NoiseFound, PCAFit
from bayespca.missing.dense import fit as with_holes
from bayespca.sources.constant import constant_columns
from bayespca.sources.data import Where, where_of
from bayespca.sources.fetching import SomeRows, every_nth
from bayespca.sources.records import Partitions
from bayespca.sources.rounding import is_coarse, rounding_variances
from bayespca.spectrum.forms import ClosedForm

from . import advice, residuals
from .choosing import CHOICES, MOST_TO_SWEEP, choose, sides
from .errors import KnownErrors
from .holes import choose_with_holes, filled
from .signs import Signs

AUTO = "auto"
# Sparse data are made dense for noise that is not equal: up to so many cells.
MOST_DENSE = 200_000_000
# From so many cells on, some of the rows choose the noise of all.
MANY_CELLS = 2_000_000
# Up to so many columns, rows on workers are fitted with noise of their own: each round decomposes a
# matrix of that side here.
MOST_COLUMNS = 3000
OUT_OF_REACH = (
    f"Dask collections have it up to {MOST_COLUMNS:,} columns, or {MOST_DENSE:,} cells where there "
    "are more columns than rows: fit fewer columns, or some of the rows in memory."
)
# Relative fall of the free energy at which rounds with some of the rows end.
TOL_OF_SAMPLE = 1e-6
# Up to so many, what would be better than what was asked for is fitted as well, to say so.
FEW_CELLS = 100_000


@dataclass(frozen=True)
class Asked:
    """What was asked of a PCA besides its closed form; names and meanings as in `BayesianPCA`."""

    noise: str = AUTO
    center: bool = True
    scale: bool = False
    engine: str = "auto"
    init: str = "closed"
    errors: KnownErrors | None = None
    probable: bool = False


@dataclass
class Complete:
    """Complete data, to be fitted with one noise model after another.

    `found` is what the closed form has found out about them, once it was asked, and `few` are rows
    that were brought here from workers. `ordered` is whether noise may be alike in neighbours,
    `sweeps` whether cells may have their own.
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

    def fit(self, noise: NoiseModel, other: PCAFit | None = None) -> PCAFit:
        """With a noise model, from what a fit of other rows has found."""
        errors = self.asked.errors
        if noise == ISOTROPIC and errors is None:
            return self._closed()
        if noise.cells or (errors is not None and errors.cells is not None):
            asked = replace(self.asked, noise=noise.name)
            return fit_with_holes(self.X, self.form, self.looping, asked)
        table = self.table(rows=noise.rows)
        if not table.squares.any():
            return replace(self._constant(table)._closed(), noise=silence(noise, table))
        return scaled.fit(table, self.form, self.looping, noise, other)

    def _constant(self, table: NoisyTable) -> Complete:
        """The same where nothing varies: blocks may be gone once they were read."""
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
        """The same noise model with so many components; cells of their own leave the rank alone."""
        noise, form = NOISES[fit.noise.name], replace(self.form, exactly=rank)
        if noise.cells:
            return fit
        if noise == ISOTROPIC and self.decomposed is not None:
            again = closed.from_decomposition(self.decomposed, form)
        else:
            again = replace(self, form=form).fit(noise)
        return _with_evidence(again, fit.noise)

    def chosen(self) -> PCAFit:
        """With the noise that has the most evidence.

        Equal noise first, unless the data are so large that the noise would be a long way round:
        data that are not white have no spectrum that could be cut off. Where many models would have
        to be fitted to many cells, some of the rows choose among them.
        """
        some = self.sample
        if some is not None and min(self.X.shape) > GRAM:
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
        """With the noise that has the most evidence, from a fit and what its residuals show."""
        shape = (fit.n_samples, self.p)
        allowed = frozenset(self.allowed() if seen.seen else ())
        return choose((fit, seen), self.fit, self.look, shape, allowed, self._baseline)

    def better(self, fit: PCAFit, signs: Signs) -> PCAFit:
        """A fit with more evidence than another, or that; without sweeps, which take long."""
        data = self if self.few is None else self._here
        looping = replace(self.looping, callback=None, checkpoint=None)
        quiet = replace(data, looping=looping, form=replace(data.form, counts=False))
        quiet.found, quiet.sweeps = data.found, False
        return quiet._best_of(fit, signs)

    @property
    def _here(self) -> Complete:
        """The rows that were brought here; with as much care as all rows, if they are all."""
        assert self.few is not None
        here = replace(self._of(self.few.rows), sweeps=False)
        return replace(here, looping=self.looping) if self.few.are_all else here

    def _chosen_here(self, plain: PCAFit) -> PCAFit:
        """With the noise that rows of a Dask collection choose, which one pass brings here."""
        self.bring_rows(plain.n_samples)
        if self.few is None:
            return plain
        signs = self.look(plain)
        if self.few.are_all:
            fit = self._here._best_of(plain, signs)
        elif signs.seen and not self._is_in_reach(plain.n_samples):
            return advice.at_least(plain, signs, ISOTROPIC, OUT_OF_REACH)
        else:
            fit = self._as_in(self._here, plain) if signs.seen else self._best_of(plain, signs)
        return fit if is_coarse(self.few.rows) else advice.with_cells(fit, self.look(fit))

    def bring_rows(self, n: int) -> None:
        """Some of the n rows that workers have, or all where cells are not many."""
        self.few = rows_here(self.X, n)

    def _is_in_reach(self, n: int) -> bool:
        """Whether noise of its own can be fitted to n rows on workers."""
        return self.p <= MOST_COLUMNS if n > self.p else n * self.p <= MOST_DENSE

    def _baseline(self) -> float | None:
        """The free energy of equal noise for numbers that were rounded; None where they were not.

        Rounding is noise, too, which components of equal noise would explain.
        """
        if self.n is None or self.p > GRAM or self.n <= self.p:
            return None
        table = self.table(rows=False)
        if not table.rounding.any():
            return None
        quiet = replace(self.looping, callback=None, checkpoint=None)
        return scaled.fit(table, self.form, quiet, ISOTROPIC).free_energy

    def _as_in(self, some: Complete, plain: PCAFit | None = None) -> PCAFit:
        """With the noise that some of the rows have; `plain` is the fit with equal noise."""
        found = some.chosen()
        noise = NOISES[found.noise.name]
        if plain is None or noise != ISOTROPIC:
            plain = self.fit(noise, found)
        return _with_evidence(plain, found.noise)

    @property
    def sample(self) -> Complete | None:
        """Some of the rows, where all are many."""
        if where_of(self.X) is not Where.DENSE or math.prod(self.X.shape) <= MANY_CELLS:
            return None
        rows = residuals.every_few(self.X)
        if rows.shape[0] == self.X.shape[0]:
            return None
        return self._of(rows)

    def _of(self, rows: Array) -> Complete:
        """Some of the rows, which are to choose for all."""
        looping = replace(self.looping, tol=max(self.looping.tol, TOL_OF_SAMPLE))
        return replace(self, X=rows, asked=replace(self.asked, engine="auto"), looping=looping)

    def table(self, *, rows: bool) -> NoisyTable:
        """The data as noise models see them."""
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
        """What a fit leaves over."""
        if where_of(self.X).in_memory:
            return residuals.of_complete(self.X, fit, self._scores(fit))
        if self.few is not None:
            return residuals.of_complete(self.few.rows, _of_rows(fit, self.few.places))
        return residuals.of_sums(self.table(rows=False), self.form, fit)

    def _scores(self, fit: PCAFit) -> FloatArray | None:
        """Scores of all rows in a fit with equal noise, their signs aside, where they are known."""
        if fit is not self.plain or self.found is None or self.found.left is None:
            return None
        return to_numpy(self.found.left(fit.n_components)) * fit.kept_singular_values

    def allowed(self) -> Iterator[str]:
        """Noise models that can be tried."""
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
        if not self.ordered or self.p < 3:
            return False
        if not where_of(self.X).in_memory:
            gram = gram_of(self.found)
            return gram is not None and bool((gram.diagonal() > 0).all())
        return not constant_columns(self.X, center=self.asked.center).size

    @property
    def p(self) -> int:
        X: Any = self.X
        return int(X.shape[1] if where_of(X).in_memory else X.n_features)

    @property
    def n(self) -> int | None:
        """Number of rows; None where that is not known."""
        if where_of(self.X).in_memory:
            return int(self.X.shape[0])
        return None if self.few is None or self.found is None else self.found.n_samples

    @property
    def can_look_again(self) -> bool:
        """Whether residuals can be looked at: in memory, or through sums over all rows."""
        where = where_of(self.X)
        if where is Where.SPARSE:
            return bool(self.X.shape[0] * self.X.shape[1] <= MOST_DENSE)
        if where.in_memory or self.few is not None:
            return True
        return gram_of(self.found) is not None and self.p <= GRAM


def rows_here(X: Partitions, n: int) -> SomeRows | None:
    """Some of the n rows that workers have, all where cells are not many, brought here by one pass;
    None where even some are too many.
    """
    p = X.n_features
    step = 1 if n * p <= MANY_CELLS else residuals.step_of_few(n, p)
    return every_nth(X, step) if n // step * p <= MOST_DENSE else None


def fit_complete(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit complete data."""
    data = Complete(X, form, looping, asked)
    fit = _fitted(data)
    if not asked.probable:
        return fit
    return closed.with_most_probable(fit, partial(data.with_rank, fit))


def _fitted(given: Complete) -> PCAFit:
    form, asked = given.form, given.asked
    if asked.noise != AUTO or asked.errors is not None or not compares(form):
        return _as_asked(given)
    # What a cap on the rank leaves over is not noise: the noise is chosen without.
    data = replace(given, form=replace(form, n_components=None, counts=False))
    fit = advice.naming_outliers(data.chosen())
    given.found, given.decomposed = data.found, data.decomposed
    if form.n_components is None or fit.n_components <= form.n_components:
        return counted(fit, form, fit.noise_variance)
    return _with_evidence(replace(data, form=form).fit(NOISES[fit.noise.name]), fit.noise)


def _as_asked(data: Complete) -> PCAFit:
    """With the noise that was asked for, and a word where residuals show another."""
    asked = data.asked.noise
    noise = ISOTROPIC if asked == AUTO else NOISES[asked]
    fit = advice.naming_outliers(data.fit(noise))
    capped = data.form.n_components is not None
    known = data.asked.errors is not None
    if known or not compares(data.form) or capped or noise.cells:
        return fit
    small = fit.n_samples * data.p <= FEW_CELLS
    if where_of(data.X) is Where.PARTITIONS and (small or noise != ISOTROPIC):
        data.bring_rows(fit.n_samples)
    if not data.can_look_again:
        return fit
    signs = data.look(fit)
    if signs.seen <= sides(noise):
        return fit
    if not small:
        return advice.at_least(fit, signs, noise)
    better = data.better(fit, signs)
    if better.noise.name != noise.name:
        return advice.against(fit, better, asked)
    return advice.at_least(fit, signs.of_cells, noise) if data.can_sweep else fit


def _with_evidence(fit: PCAFit, found: NoiseFound) -> PCAFit:
    return replace(fit, noise=replace(fit.noise, evidence=found.evidence))


def _of_rows(fit: PCAFit, places: NDArray[np.intp]) -> PCAFit:
    """A fit with the noise of some of its rows."""
    samples = fit.noise.samples
    if samples is None:
        return fit
    return replace(fit, noise=replace(fit.noise, samples=samples[places]))


def silence(noise: NoiseModel, table: NoisyTable) -> NoiseFound:
    """The noise of data that do not vary."""
    n, p = table.n_samples, table.mean_of_row.size
    return NoiseFound(
        name=noise.name,
        features=np.zeros(p) if noise.columns else None,
        samples=np.zeros(n) if noise.rows else None,
        outliers=np.zeros(n) if noise.rows else None,
    )


def compares(form: ClosedForm) -> bool:
    """Whether free energies can be compared between noise models: those of empirical VB, with the
    noise to be found.
    """
    return form.method.name == "evb" and form.noise_variance == AUTO


def fit_with_holes(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit data with holes."""

    def fitted(noise: NoiseModel, *, rounded: bool = False, values: Input = X) -> PCAFit:
        return with_holes.fit(
            values,
            form,
            looping,
            center=asked.center,
            scale=asked.scale,
            noise=noise,
            rounded=rounded,
            init=asked.init,
            engine=asked.engine,
            **errors,
        )

    errors: dict[str, Any] = {}
    if asked.errors is not None:
        errors["error_std"] = asked.errors.of_cells(X.shape)

    def without_holes(values: Input) -> Complete:
        """A filled matrix."""
        quiet = replace(looping, callback=None, checkpoint=None)
        uncapped = replace(form, n_components=None, counts=False)
        auto = replace(asked, noise=AUTO)
        return Complete(values, uncapped, quiet, auto, ordered=False, sweeps=False)

    def left(values: Input, fit: PCAFit) -> Signs:
        """What the noise of a fit leaves over of a matrix that the fit has filled."""
        data = without_holes(filled(values, fit))
        return data.look(data.fit(NOISES[fit.noise.name]))

    def chosen(values: Input) -> tuple[PCAFit, Signs]:
        """The noise of a filled matrix."""
        data = without_holes(values)
        fit = data.chosen()
        return fit, data.look(fit)

    noise = ISOTROPIC if asked.noise == AUTO else NOISES[asked.noise]
    fit = advice.naming_outliers(fitted(noise))
    if errors or not compares(form):
        return fit
    few, on_workers = X, where_of(X) is Where.PARTITIONS
    if on_workers:
        here = rows_here(X, fit.n_samples)
        if here is None:
            return fit
        few = here.rows
    if asked.noise == AUTO:
        # What was brought here whole is fitted here.
        fitter = partial(fitted, values=few if few.shape[0] == fit.n_samples else X)
        rounded, found = partial(fitter, ISOTROPIC, rounded=True), chosen(filled(few, fit))
        best = choose_with_holes(few, fit, fitter, found, rounded, sweeps=not on_workers)
        best = advice.naming_outliers(best)
        said = on_workers and not is_coarse(few)
        return advice.with_cells(best, left(few, best)) if said else best
    if noise.cells or form.n_components is not None:
        return fit
    return advice.at_least(fit, left(few, fit), noise)
