"""The pages of models of several tables.

Of `BayesianTucker`: the rank of each mode, the core, and the factors. Of `MultiViewPCA`: the
factors, and the tables in which each is active.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators._mixed_views import loading_names
from bayespca.estimators.wording import percent, plural

from . import parts
from .figures import COLOURS, Figure, JsonObject, axis, bars, numbers, plain, scatter, shortened
from .loadings import Directions
from .scores import Samples, with_scores

# Most cells of the core along a side that can be seen.
CORE = 60
# Most labels that fit below the core.
TICKS = 12
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


def content_of_tensor(
    model: Any, X: Input, samples: Samples, details: Mapping[str, str]
) -> parts.Content:
    """The page of a fitted `BayesianTucker`."""
    ratios = [np.asarray(to_numpy(r), dtype=np.float64) for r in model.explained_ratios_]
    factors = [np.asarray(to_numpy(U), dtype=np.float64) for U in model.factors_]
    core = np.asarray(to_numpy(model.core_), dtype=np.float64)
    drawn = [_factor(n, U, ratios[n]) for n, U in enumerate(factors) if U.shape[1]]
    empty = min(core.shape) == 0
    return parts.content(
        model,
        (
            None if empty else _ranks(ratios),
            None if empty else _core(core),
            parts.Section("factors", "What the components are", figures=drawn) if drawn else None,
            _noise(model),
        ),
        details=details,
    )


def _ranks(ratios: list[FloatArray]) -> parts.Section:
    """Section with the share of the signal in each component of each mode."""
    most = max(r.size for r in ratios)
    data = [
        bars(
            [f"mode {n + 1}" for n, r in enumerate(ratios) if h < r.size],
            numbers([r[h] for r in ratios if h < r.size]),
            COLOURS[h % len(COLOURS)],
            f"component {h + 1}: %{{y:.1%}}",
            extra="%{x}",
            name=f"component {h + 1}",
            showlegend=h < len(COLOURS),
        )
        for h in range(most)
    ]
    layout = {
        "barmode": "stack",
        "xaxis": {"type": "category", "showgrid": False},
        "yaxis": axis("share of the signal", tickformat=".0%", range=[0, 1.02]),
        "bargap": 0.45,
    }
    caption = "Each bar is a mode; its parts are the shares of the signal in its components."
    figure = Figure("ranks", "What the components of each mode hold", caption, data, layout)
    text = " ".join(
        f"Mode {n + 1} has {plural(r.size, 'component')}, the first with {percent(float(r[0]))}."
        for n, r in enumerate(ratios)
    )
    return parts.Section("modes", "How many components each mode has", text, figures=[figure])


def _core(core: FloatArray) -> parts.Section:
    """Section with the core as a heat map, unfolded along the first mode."""
    flat = core.reshape(core.shape[0], -1)[:CORE, :CORE]
    most = float(np.abs(flat).max()) or 1.0
    places = list(np.ndindex(*core.shape[1:]))[:CORE]
    data: list[JsonObject] = [
        {
            "type": "heatmap",
            "z": [numbers(row) for row in flat],
            "x": [", ".join(str(i + 1) for i in place) for place in places],
            "y": [str(h + 1) for h in range(flat.shape[0])],
            "zmin": -most,
            "zmax": most,
            "xgap": 2,
            "ygap": 2,
            "colorscale": [[0, "@warm"], [0.5, "@surface"], [1, "@accent"]],
            "colorbar": {"thickness": 12, "outlinewidth": 0, "len": 0.9},
            "hovertemplate": "mode 1: %{y}, others: %{x}: %{z:.4g}<extra></extra>",
        }
    ]
    layout = {
        "xaxis": axis(
            "components of the other modes", type="category", showgrid=False, nticks=TICKS
        ),
        "yaxis": axis("component of mode 1", type="category", autorange="reversed", showgrid=False),
    }
    caption = "Each cell says how much a combination of components, one of each mode, adds."
    if flat.size < core.size:
        caption += f" {flat.size:,} of {core.size:,} cells are drawn."
    height = int(np.clip(110 + 34 * flat.shape[0], 250, 640))
    figure = Figure("core", "Which components go together", caption, data, layout, height)
    return parts.Section("core-of-it", "The core", figures=[figure])


def _factor(n: int, U: FloatArray, shares: FloatArray) -> Figure:
    shown = min(len(COLOURS), U.shape[1])
    data = [
        scatter(
            "lines+markers" if len(U) <= 60 else "lines",
            list(range(1, len(U) + 1)),
            numbers(U[:, h]),
            f"{h + 1} ({percent(float(shares[h]))})",
            line={"color": COLOURS[h], "width": 2},
            marker={"size": 5, "color": COLOURS[h]},
            hovertemplate=f"component {h + 1}, slice %{{x}}: %{{y:.3f}}<extra></extra>",
            showlegend=True,
        )
        for h in range(shown)
    ]
    layout = {
        "xaxis": axis(f"slice along mode {n + 1}", showgrid=False),
        "yaxis": axis("loading", zeroline=True),
    }
    caption = f"Each line is a component of mode {n + 1}."
    if shown < U.shape[1]:
        caption += f" The first {shown} of {U.shape[1]} are drawn."
    return Figure(f"factor-{n + 1}", f"Mode {n + 1}", caption, data, layout, 320)


def _noise(model: Any) -> parts.Section | None:
    """Section with the noise of each slice along each mode; None if all have the same."""
    if model.noise_ == "isotropic":
        return None
    drawn = []
    for n, variances in enumerate(model.slice_noise_variances_, start=1):
        std = np.sqrt(np.asarray(to_numpy(variances), dtype=np.float64))
        marker = {"size": 7, "color": "@accent"}
        hover = "slice %{x}: %{y:.3g}<extra></extra>"
        x, y = list(range(1, std.size + 1)), numbers(std)
        dots = scatter("markers", x, y, marker=marker, hovertemplate=hover)
        layout = {
            "xaxis": axis(f"slice along mode {n}", showgrid=False),
            "yaxis": axis("noise", rangemode="tozero"),
        }
        caption = "Each dot is the noise of one slice, as a standard deviation."
        drawn.append(Figure(f"noise-{n}", f"Mode {n}", caption, [dots], layout, 280))
    return parts.Section("noise-of-slices", "Where the noise is", figures=drawn)


# --- views -------------------------------------------------------------------------------------


def content_of_views(
    model: Any, X: Input, samples: Samples, details: Mapping[str, str]
) -> parts.Content:
    """The page of a fitted `MultiViewPCA`."""
    W = model.fit_.correlations
    explained = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    shares = explained.mean(axis=1)
    names = loading_names(model)
    found = Directions(W, np.zeros_like(W), shares, names, of="of the tables, on average")
    figure = _pattern(explained, model.active_, [str(name) for name in model.view_names_])
    cells = parts.Section("pattern", "Which factor is in which table", PATTERN, figures=[figure])
    return parts.content(
        model,
        (
            cells if len(W) else None,
            parts.dimensions(found, FACTOR),
            parts.where(with_scores(model, X, samples)),
        ),
        found=found,
        details=details,
    )


def _pattern(explained: np.ndarray, active: np.ndarray, names: list[str]) -> Figure:
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
