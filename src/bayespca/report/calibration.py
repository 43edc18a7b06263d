"""Calibration of predicted ratings: coverage of intervals, and means by prediction."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.special import erfinv

from bayespca.arrays.types import FloatArray
from bayespca.estimators._predictions import Judged

from .embedding import JsonObject, numbers
from .figures import Figure
from .parts import Section

# Levels of the intervals that are drawn; the caption gives 90 %.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
# With fewer ratings, shares mean nothing.
FEWEST = 20
GROUPS = 10


def section(found: Judged | None) -> Section | None:
    """Section on the coverage of intervals and on mean ratings by prediction; None if too few."""
    if found is None or found.values.size < FEWEST:
        return None
    return Section(
        "calibration",
        "Whether predictions hold",
        _about(found),
        figures=[_holding(found), _groups(found)],
    )


def _about(found: Judged) -> str:
    """Text on which ratings these are and what is approximate."""
    n, fitted = found.values.size, found.n_fitted
    count = f"{n:,} ratings"
    if n + found.n_alone < found.n_given:
        count = f"{n:,} of {found.n_given:,} ratings, picked at random"
    if not fitted:
        return f"{count}, none of which was in the fit."
    rest = n - fitted
    other = "" if not rest else f" The {rest:,} that were not in the fit are predicted as they are."
    if found.n_alone:
        other += (
            f" {found.n_alone:,} more are left out: more than half of their prediction rests on "
            "themselves."
        )
    return (
        f"{count}, each predicted from all the others. The model was not refitted: what a rating "
        "taught it about its user and its item is subtracted from the posterior, while the "
        f"noise and the number of dimensions stay as they were found with it.{other}"
    )


def holding(found: Judged, levels: FloatArray = LEVELS) -> FloatArray:
    """Share of the ratings within the central interval of each level, mean ± √2 erf⁻¹(p)·std."""
    distance = np.abs(found.values - found.mean) / found.std
    return np.array([np.mean(distance <= sqrt(2) * erfinv(p)) for p in levels.tolist()])


def _holding(found: Judged) -> Figure:
    shares = holding(found)
    named = float(holding(found, np.array([0.9]))[0])
    data: list[JsonObject] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "as promised",
            "x": [0, 1],
            "y": [0, 1],
            "line": {"color": "@warm", "dash": "dash", "width": 1.5},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "found",
            "x": numbers(LEVELS),
            "y": numbers(shares),
            "line": {"color": "@accent", "width": 1.5},
            "marker": {"color": "@accent", "size": 7},
            "hovertemplate": "intervals of %{x:.0%} hold %{y:.1%}<extra></extra>",
        },
    ]
    layout: JsonObject = {
        "xaxis": {"title": {"text": "level of the interval"}, "range": [0, 1], "tickformat": ".0%"},
        "yaxis": {"title": {"text": "ratings inside"}, "range": [0, 1.03], "tickformat": ".0%"},
        "hovermode": "closest",
    }
    caption = (
        f"Intervals of 90 % hold {100 * named:.1f} % of the ratings. Above the dashed "
        "line intervals are wider than need be, below it they promise too much."
    )
    return Figure("holding", "How often intervals hold", caption, data, layout)


def _groups(found: Judged) -> Figure:
    """Figure of mean predictions and mean ratings, in groups of equal size by prediction."""
    parts = np.array_split(np.argsort(found.mean, kind="stable"), GROUPS)
    predicted = np.array([found.mean[part].mean() for part in parts])
    given = np.array([found.values[part].mean() for part in parts])
    error = np.array([found.values[part].std() / sqrt(part.size) for part in parts])
    ends = [float(min(predicted.min(), given.min())), float(max(predicted.max(), given.max()))]
    data: list[JsonObject] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "as promised",
            "x": numbers(ends),
            "y": numbers(ends),
            "line": {"color": "@warm", "dash": "dash", "width": 1.5},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "found",
            "x": numbers(predicted),
            "y": numbers(given),
            "error_y": {"type": "data", "array": numbers(2 * error), "color": "@accent"},
            "marker": {"color": "@accent", "size": 8},
            "hovertemplate": "predicted %{x}, given %{y}<extra></extra>",
        },
    ]
    layout: JsonObject = {
        "xaxis": {"title": {"text": "predicted"}},
        "yaxis": {"title": {"text": "mean rating"}},
        "hovermode": "closest",
    }
    caption = (
        "Each dot is a tenth of the ratings, those with similar predictions: what was predicted, "
        "and what was given on average, with two standard errors."
    )
    return Figure("groups", "Predictions and ratings", caption, data, layout)
