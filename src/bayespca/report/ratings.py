"""The page of `MatrixFactorization`: tastes, the most rated and the least certain items, and the
calibration of predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators._predictions import judged
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import percent

from . import calibration, parts
from .embedding import JsonObject, numbers
from .figures import MAX_STEMS, Figure
from .loadings import Directions
from .noise import MAX_ROWS, Levels
from .scores import Samples, read_scores

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
    points = read_scores(**drawn)
    return parts.content(
        model,
        findings_of(model),
        (
            parts.Section(
                "spectrum", "What ratings are made of", figures=[_spectrum(model, found)]
            ),
            parts.dimensions(found, TASTE),
            parts.where("Where the items lie", points, "item"),
            parts.Section("items", "Which items are known well", figures=_items(model, names)),
            None if X is None else calibration.section(judged(model, X)),
            parts.every(found),
            parts.search(model),
        ),
        found=found,
        shares=found.shares.tolist(),
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
    colours = ["@accent" if name.isdigit() else "@faint" for name in sizes]
    bars: JsonObject = {
        "type": "bar",
        "x": list(sizes),
        "y": numbers(list(sizes.values())),
        "marker": {"color": colours},
        "customdata": [percent(float(share)) for share in squares / squares.sum()],
        "hovertemplate": "%{x}: %{y}, %{customdata} of the variance<extra></extra>",
        "showlegend": False,
    }
    layout: JsonObject = {
        "xaxis": {"title": {"text": "part"}, "type": "category", "showgrid": False},
        "yaxis": {"title": {"text": "units of ratings"}, "rangemode": "tozero"},
        "bargap": 0.35,
    }
    return Figure(
        "spectrum", "Strength of each part", _spectrum_caption(model, tastes), [bars], layout
    )


def _spectrum_caption(model: Any, tastes: FloatArray) -> str:
    text = "How much each part moves a rating: root mean squares over all users and items."
    if model.biases:
        text += " The first two are how users rate in general, and how much items are liked."
    if tastes.size:
        text += " Numbers are the dimensions of taste below."
    else:
        text += " There is no dimension of taste."
    if tastes.size > MAX_STEMS:
        text += f" The first {MAX_STEMS} of {tastes.size} are drawn."
    return text + " The noise is what no part explains."


def _items(model: Any, names: list[str]) -> list[Figure]:
    """Figures of the most rated, the least certain and the best liked items."""
    counts = np.bincount(to_numpy(model.seen_items_), minlength=len(names)).astype(np.float64)
    found = [
        _dots("rated", "Most rated items", "number of ratings", counts, names),
    ]
    if model.n_components_:
        spread = np.sqrt((np.asarray(to_numpy(model.item_factors_std_)) ** 2).sum(axis=1))
        found.append(
            _dots(
                "uncertain", "Least certain items", "standard deviation of its place", spread, names
            )
        )
    if model.biases:
        biases = np.asarray(to_numpy(model.item_biases_), dtype=np.float64) + model.mean_
        liked = _dots(
            "liked", "Best liked items", "mean rating, users' habits aside", biases, names
        )
        liked.layout["xaxis"]["rangemode"] = "normal"
        found.append(liked)
    return found


def _dots(id: str, title: str, axis: str, values: FloatArray, names: list[str]) -> Figure:
    order = np.argsort(-values, kind="stable")[:MAX_ROWS]
    dots, layout, height = Levels(values[order], [names[j] for j in order]).drawing()
    layout["xaxis"] |= {"title": {"text": axis}}
    some = "" if order.size == values.size else f"; the first {order.size} of {values.size:,}"
    return Figure(id, title, f"Each dot is one item{some}.", dots, layout, height)
