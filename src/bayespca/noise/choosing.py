"""`noise="auto"`: the evidence chooses among the noise models that residuals ask for.

Equal noise comes first, in closed form. What its residuals show (`signs`) says which noise models
could be better; these are fitted, and looked at again, until nothing new shows. The free energies
are all in the units of the data. Models contain one another, so that the richer one is never worse
by more than what it learns: each parameter of a prior costs ½ log of the number of variances it was
learned from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.noise_models import (
    AUTOREGRESSIVE,
    BOTH,
    ISOTROPIC,
    NOISES,
    PER_FEATURE,
    PER_SAMPLE,
    STUDENT_CELLS,
    NoiseModel,
)
from bayespca.lowrank.records import PCAFit

from .signs import Signs

# In this order: of two that are as good, the first is kept.
CHOICES = (ISOTROPIC, PER_FEATURE, PER_SAMPLE, BOTH, AUTOREGRESSIVE, STUDENT_CELLS)

# Up to so many cells every model is tried that could be better.
FEW_CELLS = 140_000
# Variances whose logarithms spread by less are equal.
EQUAL = 0.02
# Up to so many, cells may have noise of their own, which takes sweeps.
MOST_TO_SWEEP = 300_000
# Heavier tails than those of so few degrees of freedom are no tails.
FEWEST_DEGREES = 2.01

Fitter = Callable[[NoiseModel], PCAFit]
Looker = Callable[[PCAFit], Signs]


@dataclass
class Tried:
    """Fits by the name of their noise, and what each costs: its free energy and what it learned.

    The first is the one that the others are compared with, and most often has equal noise;
    `baseline` is the free energy of equal noise where others take account of rounding.
    """

    shape: tuple[int, int]
    fits: dict[str, PCAFit]
    baseline: float | None = None

    def add(self, fit: PCAFit) -> None:
        """Keep a fit, unless it is of exact numbers that come again and again, not of heavy tails:
        then its density would have no bound, and its degrees of freedom are at theirs.
        """
        noise = fit.noise
        if not (NOISES[noise.name].cells and noise.degrees_of_freedom <= FEWEST_DEGREES):
            self.fits[noise.name] = fit

    def cost(self, name: str) -> float:
        """Nats: the free energy, and ½ log of how many variances taught each parameter."""
        if name == ISOTROPIC.name and self.baseline is not None:
            return self.baseline
        return self.fits[name].free_energy + learned_by(NOISES[name], self.shape)

    @property
    def best(self) -> str:
        return min(self.fits, key=self.cost)

    @property
    def evidence(self) -> dict[str, float]:
        """By how many nats each exceeds the first."""
        costs = {name: self.cost(name) for name in self.fits}
        first = next(iter(costs.values()))
        # Data that do not vary have infinite evidence with all of them.
        return {name: 0.0 if cost == first else first - cost for name, cost in costs.items()}


def learned_by(noise: NoiseModel, shape: tuple[int, int]) -> float:
    """What a noise model's own parameters cost: ½ log of the numbers that each was learned from."""
    n, p = shape
    counts = (
        *((n,) if noise.rows else ()),
        *((p,) if noise.columns else ()),
        *((n * p,) if noise.cells else ()),
        *((n * p,) if noise.neighbours else ()),
    )
    return 0.5 * float(np.log(counts).sum()) if counts else 0.0


def choose(
    first: tuple[PCAFit, Signs],
    fitter: Fitter,
    looker: Looker,
    shape: tuple[int, int],
    allowed: frozenset[str],
    baseline: Callable[[], float | None] = lambda: None,
) -> PCAFit:
    """The fit with the most evidence among the noise models that residuals ask for.

    `first` is a fit and what its residuals show: most often that with equal noise, of which
    `baseline` is the free energy where others take account of rounding.
    """
    best, seen = first
    tried, allowed = Tried(shape, {best.noise.name: best}), allowed - {ISOTROPIC.name}
    if best.noise.name == ISOTROPIC.name and _wanted(seen, ISOTROPIC, allowed, shape):
        tried.baseline = baseline()
    while wanted := (
        _wanted(seen, NOISES[best.noise.name], allowed, shape) or _simpler(best, allowed)
    ):
        allowed = allowed - {model.name for model in wanted}
        for model in wanted:
            tried.add(fitter(model))
        if tried.fits[tried.best] is not best:
            best = tried.fits[tried.best]
            seen = looker(best)
    fit = tried.fits[tried.best]
    return replace(fit, noise=replace(fit.noise, evidence=tried.evidence))


def _wanted(
    signs: Signs, so_far: NoiseModel, open_to: Set[str], shape: tuple[int, int]
) -> list[NoiseModel]:
    """What to try next: all that could be better, or what promises most where fits take long."""
    new: Set[str] = signs.seen - sides(so_far)
    # Noise of cells takes sweeps: what rows and columns can explain comes first.
    for part in (new - {"cells"}, new & {"cells"}):
        models = _open(sides(so_far) | part, part, open_to) if part else []
        if models:
            few = math.prod(shape) <= FEW_CELLS
            return models if few else [max(models, key=lambda noise: _promised(noise, signs, part))]
    return []


def _promised(noise: NoiseModel, signs: Signs, new: Set[str]) -> tuple[float, int]:
    """What a noise model would gain, and how much of what is new it has."""
    own = sides(noise) & new
    return sum(getattr(signs, side) for side in own), len(own)


def _simpler(fit: PCAFit, open_to: Set[str]) -> list[NoiseModel]:
    """Noise models without the rows or columns that a fit has found to be equal."""
    without = {PER_SAMPLE: fit.noise.features, PER_FEATURE: fit.noise.samples}
    if fit.noise.name != BOTH.name:
        return []
    return [
        noise
        for noise, variances in without.items()
        if noise.name in open_to and variances is not None and _are_equal(variances)
    ]


def _are_equal(variances: FloatArray) -> bool:
    return bool(np.log(variances[variances > 0]).std() < EQUAL)


def _open(seen: Set[str], new: Set[str], open_to: Set[str]) -> list[NoiseModel]:
    """Models with nothing but what was seen, something new among it, that can be tried."""
    asked = [model for model in CHOICES if _asked_for(model, seen) and model.name in open_to]
    return [model for model in asked if sides(model) & new]


def sides(noise: NoiseModel) -> frozenset[str]:
    """What has a variance of its own, or something in common."""
    names = ("rows", "columns", "cells", "neighbours")
    return frozenset(name for name in names if getattr(noise, name))


def _asked_for(noise: NoiseModel, seen: Set[str]) -> bool:
    """Whether it has nothing but what was seen; columns are part of all that have cells or
    neighbours, and their prior makes them equal where they are.
    """
    own = sides(noise)
    return (own - {"columns"} if noise.cells or noise.neighbours else own) <= seen
