"""A PCA with the noise that was asked for, or with the one that the evidence chooses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bayespca import inference
from bayespca.arrays.types import Array
from bayespca.linear import fit as closed
from bayespca.linear.scaled import fit as scaled
from bayespca.lowrank.noise_models import AUTOREGRESSIVE, ISOTROPIC, NOISES, NoiseModel
from bayespca.lowrank.records import PCAFit
from bayespca.missing.dense import fit as with_holes
from bayespca.sources.data import where_of
from bayespca.spectrum.forms import ClosedForm

from . import residuals
from .choosing import CHOICES, choose

AUTO = "auto"


@dataclass(frozen=True)
class Asked:
    """What was asked of a PCA besides its closed form; names and meanings as in `BayesianPCA`."""

    noise: str = AUTO
    center: bool = True
    scale: bool = False
    engine: str = "auto"
    init: str = "closed"


def fit_complete(X: Array, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit complete data."""

    def fitted(noise: NoiseModel) -> PCAFit:
        return _complete(X, form, looping, noise, asked)

    if asked.noise != AUTO:
        return fitted(NOISES[asked.noise])
    if not (where_of(X).in_memory and chooses(form)):
        return fitted(ISOTROPIC)
    return choose(fitted, lambda fit: residuals.of_complete(X, fit), X.shape, _allowed(X.shape))


def chooses(form: ClosedForm) -> bool:
    """Whether free energies can be compared between noise models: those of empirical VB, with the
    noise to be found.
    """
    return form.method.name == "evb" and form.noise_variance == "auto"


def _allowed(shape: tuple[int, int]) -> frozenset[str]:
    names = {model.name for model in CHOICES if not model.cells}
    return frozenset(names if shape[1] > 2 else names - {AUTOREGRESSIVE.name})


def _complete(
    X: Array, form: ClosedForm, looping: inference.Looping, noise: NoiseModel, asked: Asked
) -> PCAFit:
    how: dict[str, Any] = {"center": asked.center, "scale": asked.scale, "engine": asked.engine}
    if noise == ISOTROPIC:
        return closed.fit(X, form, random_state=looping.random_state, **how)
    if noise.cells:
        return fit_with_holes(X, form, looping, replace(asked, noise=noise.name))
    return scaled.fit(X, form, looping, noise, **how)


def fit_with_holes(X: Array, form: ClosedForm, looping: inference.Looping, asked: Asked) -> PCAFit:
    """Fit data with holes."""
    noise = ISOTROPIC if asked.noise == AUTO else NOISES[asked.noise]
    return with_holes.fit(
        X,
        form,
        looping,
        center=asked.center,
        scale=asked.scale,
        per_feature=noise.columns,
        init=asked.init,
        engine=asked.engine,
    )
