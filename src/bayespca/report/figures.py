"""The figures, as the plain dictionaries that Plotly's script reads.

A colour that begins with @ is a role ("@accent"), for which the page has colours in light and dark
mode and in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.estimators.summary import (
    OUTLYING,
    FittedPCA,
    feature_noise,
    noise_model,
    outlier_probability,
    rank_was_given,
)
from bayespca.estimators.wording import (
    CONDITION,
    counted,
    in_brief,
    likelihood,
    plural,
    significant,
)
from bayespca.spectrum.noise_law import density_of_nonzero, largest_singular_value, support
from bayespca.spectrum.records import ALL_ZERO

from .embedding import JsonObject, numbers, plain, shortened

# Most bars and stems that can be told apart.
MAX_STEMS = 60
MIN_FOR_DENSITY = 10
# Most dots that can be told apart, and most rows worth showing.
MAX_FEATURES, MAX_ROWS = 40, 20
# The axis is logarithmic if the largest value is above this multiple of the smallest.
WIDE = 30.0


@dataclass(frozen=True)
class Figure:
    """One figure: its id, title and caption, and Plotly's data, layout and height."""

    id: str
    title: str
    caption: str
    data: list[JsonObject]
    layout: JsonObject
    height: int = 340

    def drawing(self) -> JsonObject:
        return {"data": self.data, "layout": self.layout, "height": self.height}


def scatter(mode: str, x: object, y: object, name: str | None = None, **style: Any) -> JsonObject:
    """Points, lines, or both."""
    named = {} if name is None else {"name": name}
    return {"type": "scatter", "mode": mode, **named, "x": x, "y": y, **style}


def axis(title: str, **style: Any) -> JsonObject:
    return {"title": {"text": title}, **style}


# --- how many dimensions -----------------------------------------------------------------------


def scree(model: FittedPCA) -> Figure | None:
    """Figure of singular values with the threshold, the noise edge, and the shrunk values."""
    spectrum, k = model.spectrum_, model.n_components_
    gamma = spectrum.singular_values * spectrum.scale
    if not gamma.size or not gamma[0] > 0:
        return None
    n = min(gamma.size, max(MAX_STEMS, k + 10))
    index, gamma = list(range(1, n + 1)), gamma[:n]
    threshold, edge = float(model.threshold_), noise_edge(model)
    logarithmic = gamma[0] > 12 * max(threshold if np.isfinite(threshold) else 0.0, edge) > 0
    ends, step = [0.3, n + 0.7], _tick(n)
    data: list[JsonObject] = []

    def dots(values: np.ndarray, first: int, name: str, **marker: object) -> None:
        places = index[first : first + len(values)]
        hover = f"component %{{x}}: %{{y}}<extra>{name}</extra>"
        y = numbers(values, 5)
        data.append(scatter("markers", places, y, name, marker=marker, hovertemplate=hover))

    if k:
        dots(gamma[:k], 0, "kept", symbol="circle", size=9, color="@accent")
        shrunk = to_numpy(model.shrunk_singular_values_)
        dots(shrunk, 0, "after shrinkage", symbol="diamond", size=6, color="@second")
    if k < n:
        dots(gamma[k:], k, "dropped", symbol="circle-open", size=7, color="@faint")
    for level, name, color, dash in (
        (threshold, "threshold", "@warm", "dash"),
        (edge, "largest from noise alone", "@soft", "dot"),
    ):
        if np.isfinite(level) and level > 0:
            line = {"color": color, "dash": dash, "width": 1.5}
            hover = f"{name}: %{{y}}<extra></extra>"
            y = numbers([level, level], 5)
            data.append(scatter("lines", ends, y, name, line=line, hovertemplate=hover))
    scale = {"type": "log"} if logarithmic else {"rangemode": "tozero"}
    layout: JsonObject = {
        "xaxis": axis(
            "component", range=ends, dtick=step, tick0=1 if step == 1 else 0, showgrid=False
        ),
        "yaxis": axis("singular value", **scale),
        "hovermode": "closest",
    }
    return Figure("scree", "Strength of each component", _scree_caption(model, n), data, layout)


def _tick(n: int) -> int:
    """Step between whole numbers under the axis, for at most 15 of them."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, n) if n / step <= 15)


def _scree_caption(model: FittedPCA, n: int) -> str:
    k, gamma = model.n_components_, model.spectrum_.singular_values * model.spectrum_.scale
    if rank_was_given(model):
        text = "Each dot is the strength of one component; the filled ones were requested."
    elif not model.threshold_ > 0 or k != int((gamma > model.threshold_).sum()):
        text = "Each dot is the strength of one component; the filled ones are kept."
    elif k == 0:
        text = "Each dot is the strength of one component; none rises above the dashed threshold."
    else:
        text = (
            "Each dot is the strength of one component: those above the dashed threshold are "
            "kept, the rest cannot be told from noise."
        )
    if k and not rank_was_given(model):
        text += " Small diamonds show what is left of each after removing its noise."
    if n < gamma.size:
        text += f" The first {n} of {gamma.size:,} are drawn."
    return text


def noise_edge(model: FittedPCA) -> float:
    """σ(√L + √M), the largest singular value of pure noise."""
    L, M = model.spectrum_.shape
    return largest_singular_value(model.posterior_.noise_variance, (L, M))


def rank_posterior(model: FittedPCA) -> Figure | None:
    """Figure of the probabilities of ranks near the one found."""
    known = not rank_was_given(model) and getattr(model, "rank_posterior_", None) is not None
    if not known or ALL_ZERO in getattr(model, "status_", ""):
        return None
    probability, k = to_numpy(model.rank_posterior_), model.n_components_
    first, last = max(0, k - 4), min(probability.size - 1, k + 4)
    likely = np.flatnonzero(probability > 0.01)
    first, last = min(first, *likely, k), max(last, *likely, k)
    ranks = list(range(first, last + 1))
    values = probability[first : last + 1]
    data: list[JsonObject] = [
        {
            "type": "bar",
            "x": ranks,
            "y": numbers(values),
            "marker": {"color": ["@accent" if r == k else "@faint" for r in ranks]},
            "text": [likelihood(float(v)) if v > 0.02 else "" for v in values],
            "textposition": "outside",
            "constraintext": "none",
            "textangle": 0,
            "cliponaxis": False,
            "hovertemplate": "rank %{x}: probability %{y:.3f}<extra></extra>",
            "showlegend": False,
        }
    ]
    layout = {
        "xaxis": axis("number of dimensions", dtick=_tick(len(ranks)), showgrid=False),
        "yaxis": axis("probability", range=[0, 1.12], tickformat=".0%"),
        "bargap": 0.35,
    }
    caption = (
        "Each bar is the probability of a number of dimensions: "
        f"{in_brief(k, probability)}, {CONDITION}."
    )
    return Figure("rank", "How sure the number is", caption, data, layout)


def eigenvalues(model: FittedPCA) -> Figure | None:
    """Histogram of the variances with the Marchenko–Pastur law of pure noise."""
    spectrum, k = model.spectrum_, model.n_components_
    s2 = float(model.posterior_.noise_variance)
    gamma = spectrum.singular_values * spectrum.scale
    if not spectrum.is_complete or gamma.size - k < MIN_FOR_DENSITY or not 0 < s2 < np.inf:
        return None
    L, M = spectrum.shape
    values = gamma**2 / M
    low, high = support(s2, L / M)
    limit = max(1.35 * high, 1.05 * float(values[k]) if k < values.size else 0.0)
    inside = values[values <= limit]
    if inside.size < MIN_FOR_DENSITY:
        return None
    bins = int(np.clip(2 * np.sqrt(inside.size), 12, 60))
    start = max(0.0, min(low, float(inside.min())) - 0.15 * (high - low))
    counts, edges = np.histogram(inside, bins=bins, range=(start, limit))
    width, center = edges[1] - edges[0], (edges[1:] + edges[:-1]) / 2
    x = np.linspace(low, high, 161)
    expected = density_of_nonzero(x, s2, L / M) * (gamma.size - k) * width
    cut = model.threshold_**2 / M
    data = [
        {
            "type": "bar",
            "name": "in these data",
            "x": numbers(center),
            "y": counts.tolist(),
            "width": float(width),
            "marker": {"color": "@faint"},
            "hovertemplate": "%{y} near %{x}<extra></extra>",
        },
        scatter(
            "lines",
            numbers(x),
            numbers(expected),
            "pure noise (Marchenko–Pastur)",
            line={"color": "@second", "width": 2.5},
            hoverinfo="skip",
        ),
    ]
    if np.isfinite(cut) and 0 < cut < limit:
        top = float(max(counts.max(), expected.max()))
        data.append(
            scatter(
                "lines",
                numbers([cut, cut]),
                numbers([0.0, top]),
                "threshold",
                line={"color": "@warm", "dash": "dash", "width": 1.5},
                hovertemplate="threshold: %{x}<extra></extra>",
            )
        )
    layout = {
        "xaxis": axis("variance along a direction", range=[start, float(limit)]),
        "yaxis": axis("number of directions", rangemode="tozero"),
        "bargap": 0.05,
    }
    caption = (
        "The bars count directions by their variance; where they follow the curve, the data "
        "behave like pure noise."
    )
    if beyond := gamma.size - inside.size:
        verb = "lies" if beyond == 1 else "lie"
        caption += f" {counted(beyond).capitalize()} stronger {verb} outside, to the right."
    return Figure("eigenvalues", "What noise alone would look like", caption, data, layout)


# --- names beside a plot, and the iteration ----------------------------------------------------


def feature_axis(names: Sequence[str]) -> JsonObject:
    """An axis of names from the top down, by position: names may repeat or look like numbers."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [plain(shortened(name, 28)) for name in names],
        "ticktextNarrow": [plain(shortened(name, 15)) for name in names],
        "range": [len(names) - 0.4, -0.6],
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }


def trace(model: FittedPCA) -> Figure | None:
    """Figure of the free energy after each step; None if there were no steps."""
    steps = model.trace_
    if steps is None or len(steps) < 2:
        return None
    energy = np.asarray(steps.free_energy)
    if not np.isfinite(energy).any():  # samplers have no free energy
        return None
    data = [
        scatter(
            "lines+markers" if energy.size <= 60 else "lines",
            list(range(1, energy.size + 1)),
            energy.tolist(),
            line={"color": "@accent", "width": 2},
            marker={"size": 5, "color": "@accent"},
            customdata=np.asarray(steps.rank).tolist(),
            hovertemplate="step %{x}: %{y:.6g}<br>rank %{customdata}<extra></extra>",
            showlegend=False,
        )
    ]
    fall = significant(float(energy[0] - energy[-1]))
    caption = (
        f"The search went downhill for {plural(energy.size, 'step')}, by {fall} in all, "
        f"{'and settled' if model.converged_ else 'and had not settled when it ended'}."
    )
    layout = {"xaxis": axis("step"), "yaxis": axis("free energy (nats)")}
    return Figure("trace", "How the search went", caption, data, layout, 300)


# --- noise -------------------------------------------------------------------------------------


def noise_of_features(model: FittedPCA, names: Sequence[str]) -> Figure | None:
    """Figure of the noise of each feature, noisiest first; None if all have the same."""
    variances = feature_noise(model)
    if variances is None:
        return None
    std = np.sqrt(variances)
    order = np.argsort(-std, kind="stable")[:MAX_FEATURES]
    caption = "Each dot is the noise that was found in one feature, as a standard deviation"
    caption += "." if order.size == std.size else f"; the {order.size} noisiest of {std.size:,}."
    levels = Levels(std[order], [names[j] for j in order])
    return Figure("noise", "Noise of each feature", caption, *levels.drawing())


def noise_of_samples(model: FittedPCA, names: Sequence[object] | None) -> Figure | None:
    """Figure of the noise of the noisiest samples; None if all have the same."""
    probability = outlier_probability(model)
    if probability is None or not noise_model(model).rows:
        return None
    std = np.sqrt(np.asarray(to_numpy(model.sample_noise_variance_), dtype=np.float64))
    order = np.argsort(-std, kind="stable")[:MAX_ROWS]
    rows = [_row(names, i, std.size) for i in order.tolist()]
    caption = (
        "Each dot is the noise of one sample, as a standard deviation"
        f"{_some(order.size, std.size)}. The number beside it is the probability that the sample "
        "is an outlier: that its noise is more than three times as large as usual."
    )
    levels = Levels(std[order], rows, probability[order])
    return Figure("samples", "Noisiest samples", caption, *levels.drawing())


def noise_of_cells(
    model: FittedPCA, names: Sequence[str], samples: Sequence[object] | None
) -> Figure | None:
    """Figure of the cells that are most probably outliers; None without noise of cells."""
    probability = outlier_probability(model)
    if probability is None or probability.ndim != 2:
        return None
    flat = probability.reshape(-1)
    order = np.argsort(-flat, kind="stable")[:MAX_ROWS]
    order = order[flat[order] > 0]
    if not order.size:
        return None
    n, p = probability.shape
    cells = [f"{names[c % p]}, {_row(samples, c // p, n)}" for c in order.tolist()]
    caption = (
        "Each dot is a cell; its place is the probability that its noise is more than three times "
        f"as large as usual{_some(order.size, flat.size, 'likeliest')}. Such cells count for "
        "little."
    )
    dots, layout, height = Levels(flat[order], cells).drawing()
    layout["xaxis"] = axis("probability", range=[0, 1.05])
    return Figure("cells", "Outlying cells", caption, dots, layout, height)


def _some(shown: int, count: int, which: str = "noisiest") -> str:
    return "" if shown == count else f"; the {shown} {which} of {count:,}"


def _row(names: Sequence[object] | None, i: int, n: int) -> str:
    """The name of a row, or its number if not all rows have names."""
    return f"row {i + 1}" if names is None or len(names) != n else str(names[i])


@dataclass(frozen=True, eq=False)
class Levels:
    """Named levels, from the top down, with probabilities written next to them."""

    values: FloatArray
    names: Sequence[str]
    probability: FloatArray | None = None

    def drawing(self) -> tuple[list[JsonObject], JsonObject, int]:
        known = self.values[self.values > 0]
        wide = known.size and known.max() > WIDE * known.min()
        scale = {"type": "log", "dtick": 1} if wide else {}
        layout: JsonObject = {
            "xaxis": axis("noise", rangemode="tozero", **scale),
            "yaxis": feature_axis(self.names) | {"showgrid": True},
        }
        # Dots instead of bars, whose lengths a logarithmic axis would distort.
        dots = scatter(
            "markers",
            numbers(self.values, 6),
            list(range(self.values.size)),
            text=[plain(name) for name in self.names],
            marker={"color": "@accent", "size": 9},
            hovertemplate="%{text}: %{x:.3g}<extra></extra>",
            showlegend=False,
        )
        if self.probability is not None:
            colors = ["@warm" if share > OUTLYING else "@accent" for share in self.probability]
            # Text of dots on the right is to their left, where there is room.
            middle = 0.5 * float(self.values.max(initial=0.0))
            sides = ["left" if value > middle else "right" for value in self.values.tolist()]
            dots |= {
                "mode": "markers+text",
                "customdata": [plain(name) for name in self.names],
                "text": [likelihood(float(share)) for share in self.probability],
                "textposition": [f"middle {side}" for side in sides],
                "cliponaxis": False,
                "marker": {"color": colors, "size": 9},
                "hovertemplate": "%{customdata}: %{x:.3g}, outlier: %{text}<extra></extra>",
            }
        return [dots], layout, 100 + 20 * len(self.names)
