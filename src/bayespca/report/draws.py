"""The page of `GibbsPCA`, from its draws from the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import feature_names, significant

from . import figures, parts
from .loadings import Directions
from .pca import variance_strip, with_scores
from .scores import Samples, read_scores


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `GibbsPCA`."""
    shares = to_numpy(model.explained_variance_ratio_)
    found = Directions(
        to_numpy(model.components_),
        to_numpy(model.components_std_),
        shares,
        feature_names(model),
    )
    points = read_scores(**with_scores(model, X, samples))
    counted = figures.rank_posterior(model)
    why = f"Why {model.n_components_}"
    number = None if counted is None else parts.Section("number", why, figures=[counted])
    return parts.content(
        model,
        findings_of(model),
        (
            parts.dimensions(found),
            parts.where("Where the samples lie", points),
            number,
            parts.every(found),
        ),
        strip=variance_strip([float(s) for s in shares]),
        found=found,
        shares=shares.tolist(),
        details=_chains(model) | dict(details),
    )


def _chains(model: Any) -> dict[str, str]:
    """Lines on the chains and how well they agree."""
    worst = max(float(np.max(value)) for value in model.r_hat_.values() if np.size(value))
    least = min(float(np.min(value)) for value in model.ess_.values() if np.size(value))
    return {
        "Chains": f"{model.n_chains} of {model.n_draws:,} draws after {model.n_warmup:,} sweeps",
        "Largest R-hat": f"{significant(worst, 4)}; chains agree where it is near 1",
        "Fewest effective draws": significant(least, 3),
    }
