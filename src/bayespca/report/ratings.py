"""The page of `MatrixFactorization`: tastes, the most rated and the least certain items, and the
calibration of predictions: coverage of intervals, and means by prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
from scipy.special import erfinv

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators._predictions import Judged, judged
from bayespca.estimators.wording import percent

from . import parts
from .figures import MAX_ROWS, MAX_STEMS, Figure, JsonObject, axis, bars, levels, numbers, scatter
from .loadings import Directions
from .scores import Samples

# Levels of the intervals that are drawn; the caption gives 90 %.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
# With fewer ratings, shares mean nothing.
FEWEST = 20
GROUPS = 10
TASTE = (
    "Each dimension is a taste: users who prefer the items with bars to the right tend to dislike "
    "the items with bars to the left."
)


def content(model: Any, X: Input, samples: Samples, details: Mapping[str, str]) -> parts.Content:
    """The page of a fitted `MatrixFactorization`.

    X are ratings for calibration: a matrix, or users, items and ratings. None leaves it out.
    """
    names = [str(item) for item in model.items_.tolist()]
    found = _tastes(model, names)
    drawn: Samples = {"sample_names": names, **samples, "scores": found.loadings.T}
    strengths = [_spectrum(model, found)]
    return parts.content(
        model,
        (
            parts.Section("spectrum", "What ratings are made of", figures=strengths),
            parts.dimensions(found, TASTE),
            parts.where(drawn, "Where the items lie", "item"),
            parts.Section("items", "Which items are known well", figures=_items(model, names)),
            None if X is None else calibrated(judged(model, X)),
        ),
        found=found,
        details=details,
    )


def _tastes(model: Any, names: list[str]) -> Directions:
    """Factors of the items, scaled so that those of users have a mean square of 1."""
    U, V = (
        np.asarray(to_numpy(a), dtype=np.float64)
        for a in (model.user_factors_, model.item_factors_)
    )
    std = np.asarray(to_numpy(model.item_factors_std_), dtype=np.float64)
    unit = np.sqrt((U**2).mean(axis=0))
    strength = (unit * V) ** 2
    shares = strength.sum(axis=0) / (strength.sum() or 1.0)
    order = np.argsort(-shares, kind="stable")
    W, spread = (unit * V)[:, order].T, (unit * std)[:, order].T
    return Directions(W, spread, shares[order], names, of="of the taste", row="item", ends=True)


def _spectrum(model: Any, found: Directions) -> Figure:
    """Figure of the root mean square of each part of a rating over all users and items."""
    sizes = {}
    if model.biases:
        for name, biases in (("user", model.user_biases_), ("item", model.item_biases_)):
            values = np.asarray(to_numpy(biases), dtype=np.float64)
            sizes[name] = float(np.sqrt(np.mean(values**2)))
    tastes = np.sqrt(np.mean(found.loadings**2, axis=1))
    sizes |= {f"{h + 1}": float(size) for h, size in enumerate(tastes[:MAX_STEMS])}
    sizes["noise"] = float(np.sqrt(model.noise_variance_))
    squares = np.array(list(sizes.values())) ** 2
    drawn = bars(
        list(sizes),
        numbers(list(sizes.values())),
        ["@accent" if name.isdigit() else "@faint" for name in sizes],
        "%{x}: %{y}, %{customdata} of the variance",
        customdata=[percent(float(share)) for share in squares / squares.sum()],
    )
    layout: JsonObject = {
        "xaxis": axis("part", type="category", showgrid=False),
        "yaxis": axis("units of ratings", rangemode="tozero"),
        "bargap": 0.35,
    }
    caption = "How much each part moves a rating: root mean squares over all users and items."
    if model.biases:
        caption += " The first two are how users rate in general, and how much items are liked."
    if tastes.size:
        caption += " Numbers are the dimensions of taste below."
    else:
        caption += " There is no dimension of taste."
    if tastes.size > MAX_STEMS:
        caption += f" The first {MAX_STEMS} of {tastes.size} are drawn."
    caption += " The noise is what no part explains."
    return Figure("spectrum", "Strength of each part", caption, [drawn], layout)


def _items(model: Any, names: list[str]) -> list[Figure]:
    counts = np.bincount(to_numpy(model.seen_items_), minlength=len(names)).astype(np.float64)
    found = [_dots("rated", "Most rated items", "number of ratings", counts, names)]
    if model.n_components_:
        spread = np.sqrt((np.asarray(to_numpy(model.item_factors_std_)) ** 2).sum(axis=1))
        along = "standard deviation of its place"
        found.append(_dots("uncertain", "Least certain items", along, spread, names))
    if model.biases:
        biases = np.asarray(to_numpy(model.item_biases_), dtype=np.float64) + model.mean_
        along = "mean rating, users' habits aside"
        liked = _dots("liked", "Best liked items", along, biases, names)
        liked.layout["xaxis"]["rangemode"] = "normal"
        found.append(liked)
    return found


def _dots(id: str, title: str, along: str, values: FloatArray, names: list[str]) -> Figure:
    order = np.argsort(-values, kind="stable")[:MAX_ROWS]
    some = "" if order.size == values.size else f"; the first {order.size} of {values.size:,}"
    caption = f"Each dot is one item{some}."
    drawn = levels(id, title, caption, values[order], [names[j] for j in order])
    drawn.layout["xaxis"] |= axis(along)
    return drawn


def calibrated(found: Judged | None) -> parts.Section | None:
    """Section on the coverage of intervals and on mean ratings by prediction; None if too few."""
    if found is None or found.values.size < FEWEST:
        return None
    n = found.values.size
    text = f"{n:,} ratings"
    if n + found.n_alone < found.n_given:
        text = f"{n:,} of {found.n_given:,} ratings, picked at random"
    if not found.n_fitted:
        text += ", none of which was in the fit."
    else:
        text += (
            ", each predicted from all the others. The model was not refitted: what a rating "
            "taught it about its user and its item is subtracted from the posterior, while the "
            "noise and the number of dimensions stay as they were found with it."
        )
        if rest := n - found.n_fitted:
            text += f" The {rest:,} that were not in the fit are predicted as they are."
        if found.n_alone:
            text += (
                f" {found.n_alone:,} more are left out: more than half of their prediction rests "
                "on themselves."
            )
    figures = [_holding(found), _groups(found)]
    return parts.Section("calibration", "Whether predictions hold", text, figures=figures)


def _holding(found: Judged) -> Figure:
    """Figure of the share of ratings in central intervals of each level, mean ± √2 erf⁻¹(p)·std."""
    distance = np.abs(found.values - found.mean) / found.std
    shares = np.array([np.mean(distance <= sqrt(2) * erfinv(p)) for p in LEVELS.tolist()])
    look = {"line": {"color": "@accent", "width": 1.5}, "marker": {"color": "@accent", "size": 7}}
    hover = "intervals of %{x:.0%} hold %{y:.1%}<extra></extra>"
    x, y = numbers(LEVELS), numbers(shares)
    dots = scatter("lines+markers", x, y, "found", hovertemplate=hover, **look)
    layout = {
        "xaxis": axis("level of the interval", range=[0, 1], tickformat=".0%"),
        "yaxis": axis("ratings inside", range=[0, 1.03], tickformat=".0%"),
    }
    caption = (
        f"Intervals of 90 % hold {100 * float(shares[LEVELS == 0.9][0]):.1f} % of the ratings. "
        "Above the dashed line intervals are wider than need be, below it they promise too much."
    )
    return Figure("holding", "How often intervals hold", caption, [_promised([0, 1]), dots], layout)


def _promised(ends: Sequence[float]) -> JsonObject:
    """The diagonal, on which predictions hold."""
    line = {"color": "@warm", "dash": "dash", "width": 1.5}
    return scatter("lines", ends, ends, "as promised", line=line, hoverinfo="skip")


def _groups(found: Judged) -> Figure:
    """Figure of mean predictions and mean ratings, in groups of equal size by prediction."""
    parts = np.array_split(np.argsort(found.mean, kind="stable"), GROUPS)
    predicted = np.array([found.mean[part].mean() for part in parts])
    given = np.array([found.values[part].mean() for part in parts])
    error = np.array([found.values[part].std() / sqrt(part.size) for part in parts])
    ends = [float(min(predicted.min(), given.min())), float(max(predicted.max(), given.max()))]
    dots = scatter(
        "markers",
        numbers(predicted),
        numbers(given),
        "found",
        error_y={"type": "data", "array": numbers(2 * error), "color": "@accent"},
        marker={"color": "@accent", "size": 8},
        hovertemplate="predicted %{x}, given %{y}<extra></extra>",
    )
    layout = {"xaxis": axis("predicted"), "yaxis": axis("mean rating")}
    caption = (
        "Each dot is a tenth of the ratings, those with similar predictions: what was predicted, "
        "and what was given on average, with two standard errors."
    )
    data = [_promised(numbers(ends)), dots]
    return Figure("groups", "Predictions and ratings", caption, data, layout)
