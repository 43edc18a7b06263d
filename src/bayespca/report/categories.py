"""Columns of all kinds in the plane of two components: levels as points, numbers as arrows.

A level lies at the mean of its rows, as categories do in correspondence analysis and in factor
analysis of mixed data (Pagès 2004). The arrow of a numeric column ends at the mean of all rows,
each weighted by how many standard deviations it is above the column's mean. Two equally frequent
levels, coded as numbers, would lie at both ends of such an arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.discrete.columns import COUNTS, TableColumn
from bayespca.estimators.wording import KINDS

from .embedding import JsonObject, numbers, plain, shortened
from .figures import Figure
from .scores import MAX_GROUPS

# Most columns with levels, and most arrows, that the eye can distinguish.
MOST_COLUMNS, MOST_ARROWS = 12, 20
CAPTION = (
    "Each point is a level of a column, at the mean of its rows; levels near each other occur "
    "together. Lines join levels that have an order. Arrows are numbers and counts: they point to "
    "rows with large values."
)


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
    layout: JsonObject = {
        "xaxis": {"title": {"text": "component 1"}, "zeroline": True},
        "yaxis": {"title": {"text": "component 2"}, "zeroline": True, "scaleanchor": "x"},
        "hovermode": "closest",
    }
    return Figure("categories", "Columns in the plane", caption, data, layout, 560)


def _levels(one: Placed, color: str) -> JsonObject:
    """The levels of a column as points with their names, joined by lines if they are ordered."""
    column, known = one.column, one.counts > 0
    names = [str(level) for level, there in zip(column.levels, known, strict=True) if there]
    shown = [plain(shortened(_called(column, name), 24)) for name in names]
    about = [f"{plain(column.name)} = {plain(name)}" for name in names]
    return {
        "type": "scatter",
        "mode": "lines+markers+text" if column.likelihood == "ordinal" else "markers+text",
        "name": plain(shortened(f"{column.name} ({KINDS[column.likelihood].many})", 32)),
        "x": numbers(one.points[known, 0]),
        "y": numbers(one.points[known, 1]),
        "text": shown,
        "textposition": "top center",
        "textfont": {"size": 11, "color": color},
        "line": {"color": color, "width": 1, "dash": "dot"},
        "marker": {"size": numbers(_sizes(one.counts[known])), "color": color, "opacity": 0.85},
        "customdata": [
            [text, f"{int(count):,}"] for text, count in zip(about, one.counts[known], strict=True)
        ],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]} rows<extra></extra>",
        "cliponaxis": False,
    }


def _called(column: TableColumn, level: str) -> str:
    """The name of a level, with that of its column if it would mean nothing alone."""
    says_nothing = level.lower() in ("true", "false", "yes", "no", "0.0", "1.0")
    is_number = level.replace(".", "").replace("-", "").isdigit()
    return f"{column.name} {level.removesuffix('.0')}" if says_nothing or is_number else level


def _sizes(counts: FloatArray) -> FloatArray:
    """Diameters of markers, which grow with the square root of the number of rows."""
    return np.asarray(7 + 11 * np.sqrt(counts / counts.max()))


def _arrow(one: Placed) -> JsonObject:
    (x, y), name = one.points[0], plain(shortened(one.column.name, 24))
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": name,
        "showlegend": False,
        "x": numbers([0.0, x]),
        "y": numbers([0.0, y]),
        "text": ["", name],
        "textposition": "top center",
        "textfont": {"size": 11, "color": "@soft"},
        "line": {"color": "@soft", "width": 1.5},
        "marker": {
            "symbol": ["circle", "arrow"],
            "size": [0, 10],
            "angleref": "previous",
            "color": "@soft",
        },
        "hovertemplate": f"{name} ({KINDS[one.column.likelihood].one})<extra></extra>",
        "cliponaxis": False,
    }
