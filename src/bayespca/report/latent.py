"""The page of `GPLVM`: the relevance of dimensions, features along them, and the latent space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators.wording import feature_names

from . import parts
from .figures import COLOURS, Figure, axis, bars, numbers, plain, scatter, shortened
from .scores import Samples, with_scores

# Points along a dimension.
STEPS = 41
LONGEST_NAME = 24

SPACE = (
    "Samples near each other are alike. Coordinates are in length scales: after one step the data "
    "look clearly different. Percentages are shares of the relevance."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `GPLVM`; without X and scores, it shows the rows of the fit."""
    if X is None and samples.get("scores") is None:
        samples = {**samples, "scores": model.embedding_, "scores_std": model.embedding_std_}
    where = parts.where(with_scores(model, X, samples), "The latent space")
    if where and where.points and where.points.n_components > 1:
        where = replace(where, sentence=f"Each dot is one sample. {SPACE}")
    relevance = np.asarray(to_numpy(model.relevance_), dtype=np.float64)
    names = [f"{h}" for h in range(1, relevance.size + 1)]
    drawn = bars(names, numbers(relevance), "@accent", "dimension %{x}: %{y}")
    layout = {
        "xaxis": axis("dimension", type="category", showgrid=False),
        "yaxis": axis("relevance", rangemode="tozero"),
    }
    caption = (
        "Each bar is the variance of a dimension in units of its squared length scale: near 0, the "
        "data are straight along it and move little; above 1, they bend."
    )
    matters = Figure("relevance", "How much each dimension matters", caption, [drawn], layout)
    dimensions = parts.Section(
        "dimensions",
        "What the dimensions do",
        "Dimensions bend: along one of them features rise and fall again.",
        figures=[matters, curves(model, feature_names(model))],
    )
    shares = (relevance / relevance.sum()).tolist()
    return parts.content(model, (dimensions, where), shares=shares, details=details)


def curves(model: Any, names: list[str]) -> Figure:
    """Figure of the features that change most along the first dimension."""
    at = np.asarray(to_numpy(model.embedding_), dtype=np.float64)[:, 0]
    line = np.zeros((STEPS, model.n_components_))
    line[:, 0] = np.linspace(at.min(), at.max(), STEPS)
    mean, std = (np.asarray(a, np.float64) for a in model.inverse_transform(line, return_std=True))
    span = np.ptp(mean, axis=0)
    chosen = np.argsort(-span, kind="stable")[: len(COLOURS)]
    x, data = line[:, 0], []
    for color, j in zip(COLOURS, chosen, strict=False):
        text = plain(shortened(names[j], LONGEST_NAME))
        low, high = mean[:, j] - 2 * std[:, j], mean[:, j] + 2 * std[:, j]
        band = scatter(
            "lines",
            numbers(np.concatenate([x, x[::-1]])),
            numbers(np.concatenate([low, high[::-1]])),
            fill="toself",
            fillcolor=color,
            opacity=0.12,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
        )
        look = {"color": color, "width": 2}
        hover = f"%{{y}}<extra>{text}</extra>"
        y = numbers(mean[:, j])
        data += [band, scatter("lines", numbers(x), y, text, line=look, hovertemplate=hover)]
    caption = "Lines are features at points along the first dimension, with others at their mean"
    if span.size > len(COLOURS):
        caption += f"; the {len(COLOURS)} of {span.size:,} that move most"
    layout = {
        "xaxis": axis("dimension 1, in length scales"),
        "yaxis": axis("value of the feature"),
    }
    caption += ". Bands are two standard deviations of the functions."
    return Figure("curves", "Along the first dimension", caption, data, layout)
