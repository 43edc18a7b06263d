"""Fits of a PCA with a given noise model, or with the one that the evidence chooses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bayespca import inference
from bayespca.arrays.types import Input
from bayespca.linear import fit as closed
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import log_odds_of_filler, share_of_filler
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, PER_FEATURE
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Where, where_of
from bayespca.spectrum.forms import ClosedForm

from . import advice
from .asked import AUTO, EVB, Asked, compares, first_noise
from .complete import Complete, swept, with_evidence
from .holes import filled, filled_with_means
from .incomplete import Incomplete
from .number import counted, numbered

# Most cells on workers that are fetched to be examined, whatever the noise.
FEW_CELLS = 100_000
# How often a table with few holes is filled: first by the fit with equal noise, then by one with
# the noise that was chosen.
FILLINGS = 2


def fit_complete(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit complete data."""
    # Components beyond a cap would pass for unequal noise, which is found without it.
    equal = asked.noise == ISOTROPIC.name or not compares(form)
    free = form if equal else replace(form, n_components=None)
    data = Complete(X, free, looping, asked)
    chooses = asked.noise == AUTO and asked.errors is None and compares(form)
    fit = advice.naming_outliers(data.chosen() if chooses else _as_asked(data))
    return _with_least(counted(fit, data, form.n_components), data)


def _as_asked(data: Complete) -> PCAFit:
    """Fit the given noise model; add advice if residuals point to another."""
    noise = first_noise(data.asked)
    fit = data.fit(noise)
    if data.asked.errors is not None or not compares(data.form) or noise.cells:
        return fit
    small = fit.n_samples * data.p <= FEW_CELLS
    if where_of(data.X) is Where.PARTITIONS and (small or noise != ISOTROPIC):
        data.bring_rows(fit.n_samples)
    return advice.at_least(fit, data.look(fit), noise) if data.can_look_again else fit


def fit_with_holes(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit data with holes."""
    fit = _with_holes(X, form, looping, asked)
    chosen = NOISES[fit.noise.name]
    if asked.noise != AUTO or not chosen.needs_rows or where_of(X) is not Where.DENSE:
        return fit
    # Rows and cells with much noise of their own hardly count, and are badly predicted for that.
    quiet = replace(looping, callback=None, checkpoint=None)
    other = _with_holes(X, form, quiet, replace(asked, noise=PER_FEATURE.name)).posterior
    own = fit.posterior
    assert isinstance(own, HolesPosterior)
    assert isinstance(other, HolesPosterior)
    share = share_of_filler(log_odds_of_filler(own, other, X))
    return replace(fit, posterior=replace(own, filler=other, share_of_filler=share))


def _with_holes(X: Input, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    data = Incomplete(X, form, looping, asked)
    if data.is_nearly_complete and (fit := _nearly_complete(data)) is not None:
        fit = advice.naming_outliers(fit if asked.noise == AUTO else _with_noise(fit, data, X))
        return _with_least(fit, data)
    first = advice.naming_outliers(data.first())
    here = data.rows_here(first.n_samples)
    fit = _with_noise(first, data, here)
    number = asked.number if form.method.name == "evb" else EVB
    fit = numbered(fit, number, form.n_components, partial(data.with_rank, fit))
    return _with_least(fit, data)


def _nearly_complete(data: Incomplete) -> PCAFit | None:
    """The fit of a table with few holes: noise and number are those of the table filled.

    Holes are filled with means, then with draws from the fit with equal noise, and from that with
    the noise chosen. None if single cells have noise of their own.
    """
    chooses, given = data.asked.noise == AUTO, first_noise(data.asked)
    fit = data.without_holes(filled_with_means(data.X)).fit(ISOTROPIC)
    for seed in range(FILLINGS):
        whole = replace(data.without_holes(filled(data.X, fit, seed)), sweeps=True)
        fit = whole.chosen() if chooses else whole.fit(given)
        if NOISES[fit.noise.name].cells:
            return None
    fit = counted(fit, whole, data.form.n_components)
    form = replace(data.form, exactly=fit.n_components)
    noise = NOISES[fit.noise.name]
    end = swept(data.X, form, data.looping, data.asked, noise, begin=fit.noise)
    status = fit.status + end.status
    found = replace(end, rank_posterior=fit.rank_posterior, status=status)
    return with_evidence(found, fit.noise)


def _with_least(fit: PCAFit, data: Complete | Incomplete) -> PCAFit:
    """The fit with at least `min_components`."""
    again, likeliest = partial(data.with_rank, fit), partial(data.likeliest, fit)
    return closed.with_at_least(fit, data.asked.least, again, likeliest)


def _with_noise(fit: PCAFit, data: Incomplete, here: Input | None) -> PCAFit:
    """Fit the noise model with the most evidence if none is given; otherwise add advice.

    `fit` has the given noise, or equal noise; `here` are rows in memory.
    """
    form, asked, noise = data.form, data.asked, first_noise(data.asked)
    if here is None or asked.errors is not None or not compares(form):
        return fit
    if asked.noise == AUTO:
        return data.chosen(fit, here)
    if noise.cells or form.n_components is not None:
        return fit
    return advice.at_least(fit, data.left(here, fit), noise)
