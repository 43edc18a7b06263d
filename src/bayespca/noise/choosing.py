"""`noise="auto"`: the evidence chooses among the noise models that residuals call for.

Equal noise is fitted first, in closed form. Signs in its residuals (`signs`) show which models
could be better. These are fitted and examined in turn, until nothing new shows. All free energies
are in the units of the data. Models contain one another, so the richer one is never worse by more
than the price of its parameters: each parameter of a prior costs ½ log of the number of
variances it was learned from.
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

# The order matters: of two equally good models, the first is kept.
CHOICES = (ISOTROPIC, PER_FEATURE, PER_SAMPLE, BOTH, AUTOREGRESSIVE, STUDENT_CELLS)

# Most cells for which every model that could be better is tried.
FEW_CELLS = 140_000
# Standard deviation of log variances below which they count as equal.
EQUAL = 0.02
# Most cells that may have noise of their own, which takes sweeps.
MOST_TO_SWEEP = 300_000
# Nats that noise of cells may gain for each nat that one update of it promises: found 0 to 1.65.
MOST_GAINED = 2.0
# Fewer degrees of freedom are a sign of repeated exact numbers, not of heavy tails.
FEWEST_DEGREES = 2.01

# Fits a noise model, until it is clear that its free energy stays above a number.
Fitter = Callable[[NoiseModel, float], PCAFit]
Looker = Callable[[PCAFit], Signs]


@dataclass
class Tried:
    """Fits by the name of their noise, and their costs: free energy and price of parameters.

    The others are compared with the first, which mostly has equal noise. `baseline` is the free
    energy of equal noise with rounding taken into account, if the other fits do so.
    """

    shape: tuple[int, int]
    fits: dict[str, PCAFit]
    baseline: float | None = None

    def fit(self, noise: NoiseModel, fitter: Fitter) -> None:
        """Fit a noise model, as far as it may still be the best."""
        self.add(fitter(noise, self.cost(self.best) - learned_by(noise, self.shape)))

    def add(self, fit: PCAFit) -> None:
        """Keep a fit, unless its heavy tails come from exact numbers that repeat.

        The density of such a fit has no bound, and its degrees of freedom are at their lower limit.
        """
        noise = fit.noise
        if not (NOISES[noise.name].cells and noise.degrees_of_freedom <= FEWEST_DEGREES):
            self.fits[noise.name] = fit

    def cost(self, name: str) -> float:
        """Free energy plus the price of the noise model's parameters, in nats."""
        if name == ISOTROPIC.name and self.baseline is not None:
            return self.baseline
        fit = self.fits[name]
        return fit.free_energy + learned_by(fit.noise.model, self.shape)

    @property
    def best(self) -> str:
        return min(self.fits, key=self.cost)

    @property
    def evidence(self) -> dict[str, float]:
        """Nats of evidence by which each fit exceeds the first."""
        costs = {name: self.cost(name) for name in self.fits}
        first = next(iter(costs.values()))
        # Constant data have infinite evidence under every model; inf − inf would be NaN.
        return {name: 0.0 if cost == first else first - cost for name, cost in costs.items()}


def learned_by(noise: NoiseModel, shape: tuple[int, int]) -> float:
    """Price of a noise model's parameters in nats: ½ log of how many numbers taught each."""
    n, p = shape
    counts = (
        *((n,) if noise.rows else ()),
        *((p,) if noise.columns else ()),
        *((n * p,) if noise.cells else ()),
        *(noise.neighbours * max(noise.order, 1) * (n * p,)),
    )
    return 0.5 * float(np.log(counts).sum()) if counts else 0.0


def choose(
    first: tuple[PCAFit, Signs],
    fitter: Fitter,
    looker: Looker,
    shape: tuple[int, int],
    allowed: frozenset[str],
    baseline: Callable[[], float | None] = lambda: None,
    in_order: Callable[[PCAFit], bool] = lambda fit: True,
) -> PCAFit:
    """The fit with the most evidence among the noise models that residuals call for.

    `first` is a fit and the signs in its residuals, mostly the fit with equal noise. `baseline`
    returns the free energy of equal noise with rounding taken into account, or None. `in_order`
    says whether a fit with noise of neighbours owes its evidence to the order of the columns.
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
            if not model.cells or _cells_can_win(tried, fitter, looker):
                tried.fit(model, fitter)
        if NOISES[tried.best].neighbours and not in_order(tried.fits[tried.best]):
            del tried.fits[tried.best]
            for name in [name for name, fit in tried.fits.items() if not fit.converged]:
                tried.add(fitter(NOISES[name], math.inf))
        if tried.fits[tried.best] is not best:
            best = tried.fits[tried.best]
            seen = looker(best)
    fit = tried.fits[tried.best]
    return replace(fit, noise=replace(fit.noise, evidence=tried.evidence))


def _cells_can_win(tried: Tried, fitter: Fitter, looker: Looker) -> bool:
    """Whether noise of cells, which takes sweeps, could have the most evidence.

    The residuals of its columns alone show what heavy tails would gain.
    """
    if PER_FEATURE.name not in tried.fits:
        tried.fit(PER_FEATURE, fitter)
    columns = looker(tried.fits[PER_FEATURE.name])
    at_stake = tried.cost(PER_FEATURE.name) - tried.cost(tried.best)
    return at_stake < MOST_GAINED * (columns.rows + columns.cells)


def _wanted(
    signs: Signs, so_far: NoiseModel, open_to: Set[str], shape: tuple[int, int]
) -> list[NoiseModel]:
    """Models to try next: all that could be better, or the most promising one if fits take long."""
    new: Set[str] = signs.seen - sides(so_far)
    # Noise of cells takes sweeps, so models without it come first.
    for part in (new - {"cells"}, new & {"cells"}):
        models = _open(sides(so_far) | part, part, open_to) if part else []
        if models:
            few = math.prod(shape) <= FEW_CELLS
            return models if few else [max(models, key=lambda noise: _promised(noise, signs, part))]
    return []


def _promised(noise: NoiseModel, signs: Signs, new: Set[str]) -> tuple[float, int]:
    """Nats that a noise model promises to gain, and how many of the new signs it covers."""
    own = sides(noise) & new
    return sum(getattr(signs, side) for side in own), len(own)


def _simpler(fit: PCAFit, open_to: Set[str]) -> list[NoiseModel]:
    """Noise models without the side (rows or columns) whose variances a fit found to be equal."""
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
    """Models that can be tried, contain nothing but what was seen, and contain something new."""
    asked = [model for model in CHOICES if _asked_for(model, seen) and model.name in open_to]
    return [model for model in asked if sides(model) & new]


def sides(noise: NoiseModel) -> frozenset[str]:
    """Names of what a noise model lets differ: rows, columns, cells, neighbours."""
    names = ("rows", "columns", "cells", "neighbours")
    return frozenset(name for name in names if getattr(noise, name))


def _asked_for(noise: NoiseModel, seen: Set[str]) -> bool:
    """Whether a noise model contains nothing but what was seen.

    Models of cells or neighbours always contain columns, whose prior makes them equal if they are.
    """
    own = sides(noise)
    return (own - {"columns"} if noise.cells or noise.neighbours else own) <= seen
