"""The page of `GeneralizedPCA`: patterns in columns of all kinds, and what these are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators.stories import story

from . import parts
from .loadings import Directions
from .pca import with_scores
from .scores import Samples, read_scores

PATTERN = (
    "Each dimension is a pattern: along it columns with bars to the right become larger, or more "
    "probable, and those with bars to the left smaller. The bar of a category says how probable "
    "it becomes where it is none of the more frequent ones."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `GeneralizedPCA`."""
    variance, W = to_numpy(model.explained_variance_), to_numpy(model.components_)
    shares = variance / variance.sum() if variance.size else variance
    kinds = model.likelihoods_
    names = [f"{name} ({kinds[name]})" if name in kinds else name for name in model.cell_names_]
    of = "of the variance of natural parameters"
    found = Directions(W, np.zeros_like(W), shares, names, of=of)
    points = read_scores(**with_scores(model, X, samples))
    return parts.content(
        model,
        story(model),
        (
            parts.dimensions(found, PATTERN),
            parts.where("Where the samples lie", points),
            parts.every(found),
            parts.search(model),
        ),
        found=found,
        shares=shares.tolist(),
        details=details,
    )
