"""Which noise data with holes have.

Sweeps with holes take long, so that few are tried. Equal noise comes first; a draw of what the
holes might hold, noise included, makes a complete matrix of it, for which closed forms choose the
noise. The noise chosen is then fitted to the cells that are there, and kept if that has more
evidence. What is drawn has equal noise, and in a small table it may be the draw that decides: the
holes are filled again, a few times, before equal noise is believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from bayespca.arrays.types import Array
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import sample_imputation
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, STUDENT_CELLS
from bayespca.lowrank.records import PCAFit
from bayespca.sources.rounding import rounding_variances

from .choosing import MOST_TO_SWEEP, Fitter, Tried
from .signs import Signs

# Up to so many cells, holes are filled so often.
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
    """The better of equal noise and the noise that the filled matrix has, or some of its rows, X.

    `found` is a fit of the filled matrix, and what it leaves over. `rounded` is the fit of equal
    noise that takes account of rounding, as the others do. With `sweeps`, cells may have noise of
    their own.
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
        tried.add(fitter(noise))
    fit = tried.fits[tried.best]
    return replace(fit, noise=replace(fit.noise, evidence=tried.evidence))


def fillings(X: Array, fit: PCAFit) -> Iterator[Array]:
    """X with a draw in each of its holes; several times where it is small."""
    return (filled(X, fit, seed) for seed in range(DRAWS if math.prod(X.shape) <= SMALL else 1))


def filled(X: Array, fit: PCAFit, seed: int = 0) -> Array:
    """X with a draw in each of its holes, always the same."""
    assert isinstance(fit.posterior, HolesPosterior)
    return sample_imputation(fit.posterior, X, np.random.default_rng(seed))
