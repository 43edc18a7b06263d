"""All noise models on the same data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bayespca import BayesianPCA

from ..comparing import NOTHING

NOISES = ("isotropic", "per-feature", "per-sample", "both", "autoregressive", "student-cells")


def fitted(X: np.ndarray, noise: str, **options: Any) -> BayesianPCA | str:
    """A fit, or the reason why there is none."""
    try:
        model = BayesianPCA(noise=noise, **options).fit(X)
    except (ValueError, NotImplementedError) as reason:
        return str(reason)
    if noise == "student-cells" and model.outlier_probability_ is None:
        return f"noise={noise!r} is not available for such data."
    return model


def all_fitted(
    X: np.ndarray, noises: Iterable[str] = NOISES, **options: Any
) -> dict[str, BayesianPCA]:
    """The fits that there are, isotropic noise first."""
    found = {noise: fitted(X, noise, **options) for noise in noises}
    return {noise: model for noise, model in found.items() if not isinstance(model, str)}


def cells(models: dict[str, BayesianPCA], noises: Iterable[str] = NOISES) -> tuple[str, ...]:
    """For each noise model the rank, and by how many nats its evidence exceeds isotropic noise."""
    plain = models["isotropic"].free_energy_
    return tuple(
        f"{models[name].n_components_} ({plain - models[name].free_energy_:+,.0f})"
        if name in models
        else NOTHING
        for name in noises
    )


def best(models: dict[str, BayesianPCA]) -> str:
    """The noise model with the most evidence."""
    return min(models, key=lambda name: models[name].free_energy_)
