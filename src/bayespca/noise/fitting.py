"""Fits of a PCA with a given noise model, or with the one that the evidence chooses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bayespca import inference
from bayespca.arrays.types import Input
from bayespca.linear import fit as closed
from bayespca.linear.posterior import counted
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, NoiseModel
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Where, where_of
from bayespca.spectrum.forms import ClosedForm

from . import advice
from .asked import AUTO, Asked, compares, first_noise
from .choosing import sides
from .complete import Complete, with_evidence
from .incomplete import Incomplete

# Most cells for which a model that looks better than the given one is fitted for comparison.
FEW_CELLS = 100_000


def fit_complete(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit complete data."""
    data = Complete(X, form, looping, asked)
    return _with_rank_asked(_fitted(data), data)


def _fitted(given: Complete) -> PCAFit:
    form, asked = given.form, given.asked
    if asked.noise != AUTO or asked.errors is not None or not compares(form):
        return _as_asked(given)
    data = _uncapped(given)
    fit = advice.naming_outliers(data.chosen())
    return with_evidence(_capped(given, data, fit), fit.noise)


def _uncapped(data: Complete) -> Complete:
    """The same task without a cap on the rank: components beyond the cap would pass for noise."""
    return replace(data, form=replace(data.form, n_components=None, counts=False))


def _capped(given: Complete, data: Complete, fit: PCAFit) -> PCAFit:
    """Impose the cap of `given` on `fit`, a fit of `data`, which has no cap.

    A fit within the cap stays. Otherwise return the better of two fits with the cap: one from
    scratch, and one that starts from the noise of `fit`. From scratch, the noise may settle on the
    components beyond the cap and stay there.
    """
    form, noise = given.form, NOISES[fit.noise.name]
    given.knows(data)
    if form.n_components is None or fit.n_components <= form.n_components:
        return counted(fit, form, fit.noise_variance)
    if noise == ISOTROPIC or noise.cells:
        return given.fit(noise)
    ends = given.fit(noise), _for_part(given, "capped").fit(noise, fit)
    return min(ends, key=lambda end: end.free_energy)


def _for_part(given: Complete, name: str) -> Complete:
    """The same task as one of several fits, with a checkpoint of its own."""
    data = replace(given, looping=given.looping.for_part(name))
    data.knows(given)
    return data


def _with_noise(given: Complete, noise: NoiseModel) -> PCAFit:
    """Fit a noise model, with a cap on the rank if there is one."""
    form = given.form
    if form.n_components is None or noise == ISOTROPIC or noise.cells or not compares(form):
        return given.fit(noise)
    data = _for_part(_uncapped(given), "uncapped")
    return _capped(given, data, data.fit(noise))


def _as_asked(data: Complete) -> PCAFit:
    """Fit the given noise model; add advice if residuals point to another."""
    noise = first_noise(data.asked)
    fit = advice.naming_outliers(_with_noise(data, noise))
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
        return advice.against(fit, better, data.asked.noise)
    return advice.at_least(fit, signs.of_cells, noise) if data.can_sweep else fit


def fit_with_holes(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit data with holes."""
    data = Incomplete(X, form, looping, asked)
    return _with_rank_asked(_fitted_with_holes(data), data)


def _with_rank_asked(fit: PCAFit, data: Complete | Incomplete) -> PCAFit:
    """Apply n_components="probable" and min_components, if they are given."""
    again = partial(data.with_rank, fit)
    if data.asked.probable:
        fit = closed.with_most_probable(fit, again)
    return closed.with_at_least(fit, data.asked.least, again, partial(data.likeliest, fit))


def _fitted_with_holes(data: Incomplete) -> PCAFit:
    form, asked = data.form, data.asked
    noise = first_noise(asked)
    fit = advice.naming_outliers(data.first())
    if asked.errors is not None or not compares(form):
        return fit
    few = data.rows_here(fit.n_samples)
    if few is None:
        return fit
    if asked.noise == AUTO:
        return data.chosen(fit, few)
    if noise.cells or form.n_components is not None:
        return fit
    return advice.at_least(fit, data.left(few, fit), noise)
