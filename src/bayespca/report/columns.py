"""The pages of `GeneralizedPCA` and `BinaryPCA`: patterns in columns of all kinds.

In the plane of two components, levels are points and numbers are arrows. A level lies at the mean
of its rows, as categories do in correspondence analysis and in factor analysis of mixed data (Pagès
2004). The arrow of a numeric column ends at the mean of all rows, each weighted by how many
standard deviations it is above the column's mean. Two equally frequent levels, coded as numbers,
would lie at both ends of such an arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.discrete.columns import COUNTS, TableColumn
from bayespca.estimators.wording import KINDS, feature_names

from . import parts
from .figures import (
    MAX_FEATURES,
    Figure,
    JsonObject,
    axis,
    levels,
    numbers,
    plain,
    scatter,
    shortened,
)
from .loadings import Directions
from .scores import MAX_GROUPS, Samples, with_scores

# Most columns of a kind, and most levels of a column, that are listed.
MOST_NAMED, MOST_LEVELS = 30, 8
# Most columns with levels, and most arrows, that the eye can distinguish.
MOST_COLUMNS, MOST_ARROWS = 12, 20
CAPTION = (
    "Each point is a level of a column, at the mean of its rows; levels near each other occur "
    "together. Lines join levels that have an order. Arrows are numbers and counts: they point to "
    "rows with large values."
)
PATTERN = (
    "Each dimension is a pattern: along it, columns with bars to the right become larger, or more "
    "probable, and those with bars to the left smaller. The bar of a category counts only rows "
    "that are in none of the more frequent categories."
)
PATTERN_OF_BITS = (
    "Each dimension is a pattern. Rows further along it are more likely to have a 1 in features "
    "with bars to the right, and less likely in features with bars to the left."
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
    plane = None
    if X is not None and samples.get("scores") is not None:
        _, codes, _ = model._read(X)
        drawn = figure(model.fit_.columns, codes, np.asarray(samples["scores"], dtype=np.float64))
        if drawn is not None:
            plane = parts.Section("categories", "Where the categories lie", figures=[drawn])
    return parts.content(
        model,
        (
            parts.dimensions(found, PATTERN),
            plane,
            parts.where(samples),
        ),
        found=found,
        details=_columns(model) | dict(details),
    )


def _columns(model: Any) -> dict[str, str]:
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


# --- the plane ---------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A column of the table in the plane: points (m, 2), and the number of rows of each."""

    column: TableColumn
    points: FloatArray
    counts: FloatArray

    @property
    def reach(self) -> float:
        """Distance of its farthest point from the origin."""
        return float(np.sqrt((self.points**2).sum(axis=1)).max())


def placed(column: TableColumn, codes: FloatArray, scores: FloatArray) -> Placed | None:
    """The column in the plane, from its codes or numbers (n,) and the scores of rows (n, 2)."""
    there = ~np.isnan(codes)
    x, T = codes[there], scores[there] - scores.mean(axis=0)
    if column.levels:
        of_level = x[:, None] == np.arange(len(column.levels))
        counts = of_level.sum(axis=0).astype(np.float64)
        means = of_level.T.astype(np.float64) @ T / np.maximum(counts, 1.0)[:, None]
        return Placed(column, np.where(counts[:, None] > 0, means, np.nan), counts)
    x = np.log1p(x) if column.likelihood in COUNTS else x
    spread = float(x.std())
    if not spread > 0:
        return None
    return Placed(column, ((x - x.mean()) / spread @ T / x.size)[None], np.array([x.size * 1.0]))


def figure(columns: Sequence[TableColumn], codes: Any, scores: FloatArray) -> Figure | None:
    """Figure of the plane of the first two components; None if there is no plane or no level."""
    if scores.shape[1] < 2 or not isinstance(codes, np.ndarray):
        return None
    pairs = enumerate(columns)
    every = [placed(column, codes[:, j], scores[:, :2]) for j, column in pairs]
    found = sorted((one for one in every if one is not None), key=lambda one: -one.reach)
    levels = [one for one in found if one.column.levels][:MOST_COLUMNS]
    arrows = [one for one in found if not one.column.levels][:MOST_ARROWS]
    if not levels:
        return None
    data = [_arrow(one) for one in arrows]
    data += [_levels(one, f"@g{i % MAX_GROUPS}") for i, one in enumerate(levels)]
    left_out = len(found) - len(levels) - len(arrows)
    caption = CAPTION + (f" {left_out} columns nearer to the middle are left out." * (left_out > 0))
    layout = {
        "xaxis": axis("component 1", zeroline=True),
        "yaxis": axis("component 2", zeroline=True, scaleanchor="x"),
    }
    return Figure("categories", "Columns in the plane", caption, data, layout, 560)


def _levels(one: Placed, color: str) -> JsonObject:
    """The levels of a column as points with their names, joined by lines if they are ordered."""
    column, known = one.column, one.counts > 0
    counts = one.counts[known]
    names = [str(level) for level, there in zip(column.levels, known, strict=True) if there]
    about = [f"{plain(column.name)} = {plain(name)}" for name in names]
    # Diameters grow with the square root of the number of rows.
    size = numbers(7 + 11 * np.sqrt(counts / counts.max()))
    return scatter(
        "lines+markers+text" if column.likelihood == "ordinal" else "markers+text",
        numbers(one.points[known, 0]),
        numbers(one.points[known, 1]),
        plain(shortened(f"{column.name} ({KINDS[column.likelihood].many})", 32)),
        text=[plain(shortened(_called(column, name), 24)) for name in names],
        textposition="top center",
        textfont={"size": 11, "color": color},
        line={"color": color, "width": 1, "dash": "dot"},
        marker={"size": size, "color": color, "opacity": 0.85},
        customdata=[[text, f"{int(n):,}"] for text, n in zip(about, counts, strict=True)],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} rows<extra></extra>",
        cliponaxis=False,
    )


def _called(column: TableColumn, level: str) -> str:
    """The name of a level, with that of its column if it would mean nothing alone."""
    says_nothing = level.lower() in ("true", "false", "yes", "no", "0.0", "1.0")
    is_number = level.replace(".", "").replace("-", "").isdigit()
    return f"{column.name} {level.removesuffix('.0')}" if says_nothing or is_number else level


def _arrow(one: Placed) -> JsonObject:
    (x, y), name = one.points[0], plain(shortened(one.column.name, 24))
    tip = {"symbol": ["circle", "arrow"], "size": [0, 10], "angleref": "previous"}
    return scatter(
        "lines+markers+text",
        numbers([0.0, x]),
        numbers([0.0, y]),
        name,
        showlegend=False,
        text=["", name],
        textposition="top center",
        textfont={"size": 11, "color": "@soft"},
        line={"color": "@soft", "width": 1.5},
        marker=tip | {"color": "@soft"},
        hovertemplate=f"{name} ({KINDS[one.column.likelihood].one})<extra></extra>",
        cliponaxis=False,
    )


# --- zeros and ones ----------------------------------------------------------------------------


def content_of_bits(
    model: Any, X: Input, samples: Samples, details: Mapping[str, str]
) -> parts.Content:
    """The page of a fitted `BinaryPCA`."""
    names, variance = feature_names(model), to_numpy(model.explained_variance_)
    W = to_numpy(model.components_)
    shares = variance / variance.sum() if variance.size else variance
    found = Directions(W, np.zeros_like(W), shares, names, of="of the variance of logits")
    ones = 1 / (1 + np.exp(-np.asarray(to_numpy(model.mean_), dtype=np.float64)))
    caption = "Each dot is the probability of 1 in a row whose scores are 0"
    some = order = np.argsort(-ones, kind="stable")
    if order.size > MAX_FEATURES:
        half = MAX_FEATURES // 2
        some = np.concatenate([order[:half], order[-half:]])
        caption += f"; the {half} largest and the {half} smallest of {order.size:,}"
    shown = ones[some], [names[j] for j in some]
    drawn = levels("ones", "Ones of each feature", f"{caption}.", *shown)
    drawn.layout["xaxis"] = axis("probability of 1", range=[-0.02, 1.02])
    return parts.content(
        model,
        (
            parts.dimensions(found, PATTERN_OF_BITS),
            parts.where(with_scores(model, X, samples)),
            parts.Section("ones", "How probable ones are", figures=[drawn]),
        ),
        found=found,
        details=details,
    )
