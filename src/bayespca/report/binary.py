"""The page of `BinaryPCA`: patterns in zeros and ones, and probabilities of ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import feature_names

from . import parts
from .figures import Figure
from .loadings import Directions
from .noise import MAX_FEATURES, Levels
from .pca import with_scores
from .scores import Samples, read_scores

PATTERN = (
    "Each dimension is a pattern. Rows further along it are more likely to have a 1 in features "
    "with bars to the right, and less likely in features with bars to the left."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `BinaryPCA`."""
    names, variance = feature_names(model), to_numpy(model.explained_variance_)
    W = to_numpy(model.components_)
    shares = variance / variance.sum() if variance.size else variance
    found = Directions(W, np.zeros_like(W), shares, names, of="of the variance of logits")
    points = read_scores(**with_scores(model, X, samples))
    ones = 1 / (1 + np.exp(-np.asarray(to_numpy(model.mean_), dtype=np.float64)))
    figure = probabilities(
        ones, names, "Each dot is the probability of 1 in a row whose scores are 0"
    )
    return parts.content(
        model,
        findings_of(model),
        (
            parts.dimensions(found, PATTERN),
            parts.where("Where the samples lie", points),
            parts.Section("ones", "How probable ones are", figures=[figure]),
            parts.every(found),
            parts.search(model),
        ),
        found=found,
        shares=shares.tolist(),
        details=details,
    )


def probabilities(values: FloatArray, names: list[str], caption: str) -> Figure:
    """Figure of the probabilities of 1, largest first."""
    order = np.argsort(-values, kind="stable")
    some = order
    if order.size > MAX_FEATURES:
        half = MAX_FEATURES // 2
        some = np.concatenate([order[:half], order[-half:]])
        caption += f"; the {half} largest and the {half} smallest of {order.size:,}"
    dots, layout, height = Levels(values[some], [names[j] for j in some]).drawing()
    layout["xaxis"] = {"title": {"text": "probability of 1"}, "range": [-0.02, 1.02]}
    return Figure("ones", "Ones of each feature", f"{caption}.", dots, layout, height)
