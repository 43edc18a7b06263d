"""The page of `MultiViewPCA`: the factors, and the tables in which each is active."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.types import Input
from bayespca.estimators._mixed_views import loading_names
from bayespca.estimators.wording import percent

from . import parts
from .figures import Figure, JsonObject, numbers, plain, shortened
from .loadings import Directions
from .pca import with_scores
from .scores import Samples, read_scores

LONGEST_NAME = 24
HEIGHT_OF_ROW, HEIGHT_AROUND = 34, 110

PATTERN = (
    "A factor in several tables shows what they have in common. Numbers are shares of the variance "
    "of a table; a cell without one means that the factor is not in that table."
)
FACTOR = (
    "Each factor is a mixture of features of the views that it is in. Bars are correlations of "
    "features with the factor: bars to the right rise together; bars to the left fall when they "
    "rise."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `MultiViewPCA`."""
    W = model.fit_.correlations
    explained = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    shares = explained.mean(axis=1)
    names = loading_names(model)
    found = Directions(W, np.zeros_like(W), shares, names, of="of the tables, on average")
    points = read_scores(**with_scores(model, X, samples))
    figure = pattern(explained, model.active_, [str(name) for name in model.view_names_])
    cells = parts.Section("pattern", "Which factor is in which table", PATTERN, figures=[figure])
    return parts.content(
        model,
        (
            cells if len(W) else None,
            parts.dimensions(found, FACTOR),
            parts.where("Where the samples lie", points),
            parts.every(found),
            parts.search(model),
        ),
        found=found,
        details=details,
    )


def pattern(explained: np.ndarray, active: np.ndarray, names: list[str]) -> Figure:
    """Figure of the share of each view's variance that each factor explains."""
    k, _ = explained.shape
    shown = [
        [float(share) if on else None for share, on in zip(row, ons, strict=True)]
        for row, ons in zip(np.round(explained, 5).tolist(), active.tolist(), strict=True)
    ]
    views = [plain(shortened(name, LONGEST_NAME)) for name in names]
    factors = [f"factor {h + 1}" for h in range(k)]
    cells: JsonObject = {
        "type": "heatmap",
        "x": views,
        "y": factors,
        "z": shown,
        "text": [["" if share is None else percent(share) for share in row] for row in shown],
        "texttemplate": "%{text}",
        "colorscale": [[0, "rgba(127,127,127,0.08)"], [1, "@accent"]],
        "zmin": 0,
        "zmax": numbers([float(explained.max(initial=0.0)) or 1.0])[0],
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "hovertemplate": "%{y} explains %{z:.1%} of %{x}<extra></extra>",
        "hoverongaps": False,
    }
    layout: JsonObject = {
        "xaxis": {"type": "category", "side": "top", "showgrid": False},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
    }
    caption = "Each cell is the share of the variance of a table that a factor explains."
    height = HEIGHT_AROUND + HEIGHT_OF_ROW * k
    return Figure("pattern", "Factors by tables", caption, [cells], layout, height)
