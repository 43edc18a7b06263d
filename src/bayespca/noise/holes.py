"""Choice of the noise model for data with holes.

Sweeps with holes take long, so few noise models are tried. Equal noise is fitted first. A posterior
draw, noise included, then fills the holes, and closed forms choose the noise of the complete
matrix. That noise is fitted to the observed cells, and kept if it has more evidence. Drawn cells
have equal noise, and in a small table they may tip the scales: the holes are filled several
times before equal noise is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array
from bayespca.lowrank.from_complete import general
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import sample_imputation
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, STUDENT_CELLS
from bayespca.lowrank.records import PCAFit
from bayespca.sources.rounding import rounding_variances, with_known_numbers

from .choosing import MOST_TO_SWEEP, Fitter, Tried
from .signs import Signs

# Tables of up to SMALL cells are filled up to DRAWS times.
SMALL, DRAWS = 20_000, 5


def choose_with_holes(
    X: Array,
    plain: PCAFit,
    fitter: Fitter,
    found: tuple[PCAFit, Signs],
    rounded: Callable[[], PCAFit],
    *,
    sweeps: bool = True,
) -> PCAFit:
    """The better of equal noise (`plain`) and the noise of the filled matrix.

    X holds the data, or some of the rows. `found` is a fit of the filled matrix and the signs in
    its residuals. `rounded` fits equal noise with rounding taken into account, as other noise
    models do. With `sweeps`, cells may have noise of their own.
    """
    shape = (plain.n_samples, int(X.shape[1]))
    tried = Tried(shape, {ISOTROPIC.name: plain})
    complete, signs = found
    wanted = [NOISES[complete.noise.name]]
    if sweeps and "cells" in signs.seen and math.prod(shape) <= MOST_TO_SWEEP:
        wanted.append(STUDENT_CELLS)
    wanted = [noise for noise in wanted if noise != ISOTROPIC]
    if wanted and rounding_variances(X).any():
        tried.baseline = rounded().free_energy
    for noise in wanted:
        tried.fit(noise, fitter)
    fit = tried.fits[tried.best]
    return replace(fit, noise=replace(fit.noise, evidence=tried.evidence))


def fillings(X: Array, fit: PCAFit) -> Iterator[Array]:
    """X with its holes filled by posterior draws: several versions if it is small, else one."""
    return (filled(X, fit, seed) for seed in range(DRAWS if math.prod(X.shape) <= SMALL else 1))


def filled(X: Array, fit: PCAFit, seed: int = 0) -> Array:
    """X with its holes filled by a posterior draw, the same for the same seed.

    What is drawn repeats where known numbers do: coarse columns stay coarse.
    """
    found = fit.posterior
    posterior = found if isinstance(found, HolesPosterior) else general(found)
    drawn = sample_imputation(posterior, X, np.random.default_rng(seed))
    return with_known_numbers(drawn, X)


def filled_with_means(X: Array) -> Array:
    """X with the means of their columns in its holes."""
    xp = array_namespace(X)
    holes = xp.isnan(X)
    counts = xp.sum(xp.astype(~holes, X.dtype), axis=0)
    return xp.where(holes, xp.sum(xp.where(holes, xp.zeros_like(X), X), axis=0) / counts, X)


def has_empty(X: Array) -> bool:
    """Whether a row or a column has no value."""
    xp = array_namespace(X)
    holes = xp.isnan(X)
    return any(bool(xp.any(xp.all(holes, axis=axis))) for axis in (0, 1))
