"""The page of `GeneralizedPCA`: patterns in columns of all kinds, and the kinds of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import KINDS

from . import categories, parts
from .loadings import Directions
from .pca import with_scores
from .scores import Samples, read_scores

# Most columns of a kind, and most levels of a column, that are listed.
MOST_NAMED, MOST_LEVELS = 30, 8
PATTERN = (
    "Each dimension is a pattern: along it, columns with bars to the right become larger, or more "
    "probable, and those with bars to the left smaller. The bar of a category counts only rows "
    "that are in none of the more frequent categories."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `GeneralizedPCA`."""
    variance, W = to_numpy(model.explained_variance_), to_numpy(model.components_)
    shares = variance / variance.sum() if variance.size else variance
    kinds = model.likelihoods_
    names = [
        f"{name} ({KINDS[kinds[name]].one})" if name in kinds else name
        for name in model.cell_names_
    ]
    of = "of the variance of natural parameters"
    found = Directions(W, np.zeros_like(W), shares, names, of=of)
    samples = with_scores(model, X, samples)
    points = read_scores(**samples)
    return parts.content(
        model,
        findings_of(model),
        (
            parts.dimensions(found, PATTERN),
            _plane(model, X, samples.get("scores")),
            parts.where("Where the samples lie", points),
            parts.every(found),
            parts.search(model),
        ),
        found=found,
        shares=shares.tolist(),
        details=_columns(model) | dict(details),
    )


def _plane(model: Any, X: Input, scores: Input) -> parts.Section | None:
    """Section with levels and numbers in the plane of two components; None without X or scores."""
    if X is None or scores is None:
        return None
    _, codes, _ = model._read(X)
    shown = categories.figure(model.fit_.columns, codes, np.asarray(scores, dtype=np.float64))
    if shown is None:
        return None
    return parts.Section("categories", "Where the categories lie", figures=[shown])


def _columns(model: Any) -> dict[str, str]:
    """Names of the columns by kind, with their levels."""
    found: dict[str, list[str]] = {}
    for column in model.fit_.columns:
        levels = ", ".join(str(level) for level in column.levels[:MOST_LEVELS])
        more = ", …" if len(column.levels) > MOST_LEVELS else ""
        described = f"{column.name} ({levels}{more})" if levels else column.name
        found.setdefault(KINDS[column.likelihood].many, []).append(described)
    return {
        kind.capitalize(): "; ".join(names[:MOST_NAMED])
        + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
        for kind, names in found.items()
    }
