"""Fits of data with holes with one noise model after another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Input
from bayespca.inference import Looping
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, NoiseModel
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Where, where_of
from bayespca.sources.rounding import is_coarse
from bayespca.spectrum.forms import ClosedForm

from . import advice
from .asked import AUTO, EVB, Asked, by_likelihood, compares, first_noise
from .complete import Complete, rows_here, swept, swept_as_in, with_evidence
from .holes import choose_with_holes, filled, fillings, has_empty
from .signs import Signs

# Share of missing cells up to which a filled table shows noise and number.
FEW_HOLES = 0.1


@dataclass(frozen=True)
class Incomplete:
    """Data with holes, to be fitted with one noise model after another.

    Closed forms of filled matrices say which models are worth their sweeps.
    """

    X: Input
    form: ClosedForm
    looping: Looping
    asked: Asked

    def first(self) -> PCAFit:
        """Fit the given noise model, or equal noise."""
        return swept(self.X, self.form, self.looping, self.asked, first_noise(self.asked))

    def fit(self, noise: NoiseModel, to_beat: float = math.inf, *, rounded: bool = False) -> PCAFit:
        """Fit one of the noise models among which the evidence chooses; see `Looping.to_beat`."""
        looping = replace(self.looping, to_beat=to_beat).for_part(noise.name)
        return swept(self.X, self.form, looping, self.asked, noise, rounded=rounded)

    def with_rank(self, fit: PCAFit, rank: int) -> PCAFit:
        """Refit the same noise model with `rank` components, or fewer if some vanish."""
        quiet = replace(self.looping, checkpoint=None)
        data = replace(self, form=replace(self.form, exactly=rank), looping=quiet)
        return with_evidence(data.fit(NOISES[fit.noise.name]), fit.noise)

    @property
    def is_nearly_complete(self) -> bool:
        """Whether so few cells are missing that a filled table shows noise and number."""
        if where_of(self.X) is not Where.DENSE or self.asked.errors is not None:
            return False
        if not compares(self.form) or self.asked.number == EVB or first_noise(self.asked).cells:
            return False
        xp = array_namespace(self.X)
        few = float(xp.mean(xp.astype(xp.isnan(self.X), xp.float64))) <= FEW_HOLES
        return few and not has_empty(self.X)

    def likeliest(self, fit: PCAFit, rank: int) -> PCAFit:
        """Fit `rank` components by maximum likelihood, with the noise model of `fit`."""
        form = by_likelihood(self.form, rank)
        quiet = replace(self.looping, callback=None, checkpoint=None)
        if self.on_workers:
            likely = swept(self.X, form, quiet, self.asked, NOISES[fit.noise.name])
            return with_evidence(likely, fit.noise)
        return swept_as_in(fit, self.X, form, quiet, self.asked)

    def rows_here(self, n: int) -> Input | None:
        """The data in memory, or some of the n rows fetched from workers; None if too many."""
        if not self.on_workers:
            return self.X
        here = rows_here(self.X, n)
        return None if here is None else here.rows

    def chosen(self, plain: PCAFit, few: Input) -> PCAFit:
        """Fit the noise model that has the most evidence; `few` are rows in memory."""
        # If all rows have been fetched, they are fitted here.
        data = replace(self, X=few) if few.shape[0] == plain.n_samples else self
        rounded, coarse = partial(data.fit, ISOTROPIC, rounded=True), is_coarse(few)
        whole, seen = self._noise_of_filled(few, plain)
        best = choose_with_holes(
            few,
            plain,
            data.fit,
            (whole, seen),
            rounded,
            sweeps=not self.on_workers and not coarse,
        )
        best = advice.naming_outliers(best)
        if coarse or not self.on_workers:
            return best
        # Drawn cells have no gross errors, so of two draws the one that shows more is right.
        left, same = self.left(few, best), whole.noise.name == best.noise.name
        return advice.with_cells(best, seen if same and seen.cells > left.cells else left)

    def left(self, few: Input, fit: PCAFit) -> Signs:
        """Signs in the residuals of a matrix that `fit` has filled, under the same noise model."""
        data = self.without_holes(filled(few, fit))
        return data.look(data.fit(NOISES[fit.noise.name]))

    def _noise_of_filled(self, few: Input, plain: PCAFit) -> tuple[PCAFit, Signs]:
        """The fit of a matrix that `plain` has filled, and the signs in its residuals.

        This is the first filling with unequal noise, or the last if noise is equal in all of them.
        """
        for values in fillings(few, plain):
            data = self.without_holes(values)
            fit = data.chosen()
            signs = data.look(fit)
            if fit.noise.name != ISOTROPIC.name or "cells" in signs.seen:
                break
        return fit, signs

    def without_holes(self, values: Input) -> Complete:
        quiet = replace(self.looping, callback=None, checkpoint=None)
        uncapped = replace(self.form, n_components=None)
        auto = replace(self.asked, noise=AUTO)
        return Complete(values, uncapped, quiet, auto, ordered=False, sweeps=False)

    @property
    def on_workers(self) -> bool:
        return where_of(self.X) is Where.PARTITIONS
