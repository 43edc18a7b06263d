"""The figures, as the plain dictionaries that Plotly's script reads.

A colour that begins with @ is a role ("@accent"), for which the page has colours in light and dark
mode and in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import ArrayLike

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
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

# What plotly's script reads: a trace, a layout, or all figures by name.
JsonObject: TypeAlias = dict[str, Any]

# Most bars and stems that can be told apart.
MAX_STEMS = 60
MIN_FOR_DENSITY = 10
# Most dots that can be told apart, and most rows worth showing.
MAX_FEATURES, MAX_ROWS = 40, 20
# Colours of lines; with more of them, lines cannot be told apart.
COLOURS = ("@g0", "@g1", "@g2", "@g3", "@g4", "@g5")
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


def scatter(mode: str, x: object, y: object, name: str | None = None, **style: Any) -> JsonObject:
    """Points, lines, or both."""
    named = {} if name is None else {"name": name}
    return {"type": "scatter", "mode": mode, **named, "x": x, "y": y, **style}


def bars(
    x: object, y: object, color: object, hover: str, extra: str = "", **style: Any
) -> JsonObject:
    """Vertical bars; `hover` and, in a box beside it, `extra` show when one is pointed at."""
    return {
        "type": "bar",
        "x": x,
        "y": y,
        "marker": {"color": color},
        "hovertemplate": f"{hover}<extra>{extra}</extra>",
        **style,
    }


def axis(title: str, **style: Any) -> JsonObject:
    return {"title": {"text": title}, **style}


# --- numbers and names ------------------------------------------------------------------------


def numbers(values: ArrayLike, digits: int = 4) -> list[float]:
    """Numbers rounded to `digits` digits of the largest, which is all that a screen can show."""
    array = np.asarray(values, dtype=np.float64)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max()) if finite.size else 0.0
    if largest == 0:
        return array.tolist()
    places = digits - 1 - int(np.floor(np.log10(largest)))
    # Beyond this, NumPy's rounding multiplies by a power of ten that overflows.
    return (np.round(array, places) if abs(places) < 300 else array).tolist()


def as_numpy(values: Input) -> np.ndarray:
    """An array of any library, a DataFrame or a list as a NumPy array."""
    return to_numpy(values) if is_array_api_obj(values) else np.asarray(values)


def plain(text: str) -> str:
    """Text escaped for Plotly, which would read some names as tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, length: int) -> str:
    """Text cut to a length, for the labels of an axis."""
    return text if len(text) <= length else text[: length - 1] + "…"


# --- how many dimensions -----------------------------------------------------------------------


def scree(model: FittedPCA) -> Figure | None:
    """Figure of singular values with the threshold, the noise edge, and the shrunk values."""
    spectrum, k = model.spectrum_, model.n_components_
    every = spectrum.singular_values * spectrum.scale
    if not every.size or not every[0] > 0:
        return None
    n = min(every.size, max(MAX_STEMS, k + 10))
    index, gamma = list(range(1, n + 1)), every[:n]
    threshold = float(model.threshold_)
    edge = largest_singular_value(model.posterior_.noise_variance, spectrum.shape)
    logarithmic = gamma[0] > 12 * max(threshold if np.isfinite(threshold) else 0.0, edge) > 0
    ends, step = [0.3, n + 0.7], _tick(n)
    data: list[JsonObject] = []
    for values, first, name, symbol, size, color in (
        (gamma[:k], 0, "kept", "circle", 9, "@accent"),
        (to_numpy(model.shrunk_singular_values_), 0, "after shrinkage", "diamond", 6, "@second"),
        (gamma[k:], k, "dropped", "circle-open", 7, "@faint"),
    ):
        if not values.size:
            continue
        places = index[first : first + len(values)]
        hover = f"component %{{x}}: %{{y}}<extra>{name}</extra>"
        marker = {"symbol": symbol, "size": size, "color": color}
        y = numbers(values, 5)
        data.append(scatter("markers", places, y, name, marker=marker, hovertemplate=hover))
    for level, name, color, dash in (
        (threshold, "threshold", "@warm", "dash"),
        (edge, "largest from noise alone", "@soft", "dot"),
    ):
        if np.isfinite(level) and level > 0:
            line = {"color": color, "dash": dash, "width": 1.5}
            hover = f"{name}: %{{y}}<extra></extra>"
            y = numbers([level, level], 5)
            data.append(scatter("lines", ends, y, name, line=line, hovertemplate=hover))
    ticks = {"range": ends, "dtick": step, "tick0": 1 if step == 1 else 0, "showgrid": False}
    scale = {"type": "log"} if logarithmic else {"rangemode": "tozero"}
    layout = {"xaxis": axis("component", **ticks), "yaxis": axis("singular value", **scale)}
    strong = "Each dot is the strength of one component"
    if rank_was_given(model):
        text = f"{strong}; the filled ones were requested."
    elif not threshold > 0 or k != int((every > threshold).sum()):
        text = f"{strong}; the filled ones are kept."
    elif k == 0:
        text = f"{strong}; none rises above the dashed threshold."
    else:
        text = (
            f"{strong}: those above the dashed threshold are kept, the rest cannot be told from "
            "noise."
        )
    if k and not rank_was_given(model):
        text += " Small diamonds show what is left of each after removing its noise."
    if n < every.size:
        text += f" The first {n} of {every.size:,} are drawn."
    return Figure("scree", "Strength of each component", text, data, layout)


def _tick(n: int) -> int:
    """Step between whole numbers under the axis, for at most 15 of them."""
    return next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, n) if n / step <= 15)


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
    drawn = bars(
        ranks,
        numbers(values),
        ["@accent" if rank == k else "@faint" for rank in ranks],
        "rank %{x}: probability %{y:.3f}",
        text=[likelihood(float(v)) if v > 0.02 else "" for v in values],
        textposition="outside",
        constraintext="none",
        textangle=0,
        cliponaxis=False,
    )
    layout = {
        "xaxis": axis("number of dimensions", dtick=_tick(len(ranks)), showgrid=False),
        "yaxis": axis("probability", range=[0, 1.12], tickformat=".0%"),
        "bargap": 0.35,
    }
    caption = (
        "Each bar is the probability of a number of dimensions: "
        f"{in_brief(k, probability)}, {CONDITION}."
    )
    return Figure("rank", "How sure the number is", caption, [drawn], layout)


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
    histogram = bars(numbers(center), counts.tolist(), "@faint", "%{y} near %{x}")
    line = {"color": "@second", "width": 2.5}
    law = "pure noise (Marchenko–Pastur)"
    data = [
        histogram | {"name": "in these data", "width": float(width)},
        scatter("lines", numbers(x), numbers(expected), law, line=line, hoverinfo="skip"),
    ]
    if np.isfinite(cut) and 0 < cut < limit:
        ends = numbers([cut, cut]), numbers([0.0, float(max(counts.max(), expected.max()))])
        line = {"color": "@warm", "dash": "dash", "width": 1.5}
        hover = "threshold: %{x}<extra></extra>"
        data.append(scatter("lines", *ends, "threshold", line=line, hovertemplate=hover))
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
    steps = getattr(model, "trace_", None)
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


def noise(model: FittedPCA, names: Sequence[str], samples: Sequence[object] | None) -> list[Figure]:
    """Figures of the noise of features and of the noisiest samples, if it differs, and of the cells
    that are most probably outliers.
    """
    drawn, variances, probability = [], feature_noise(model), outlier_probability(model)
    if variances is not None:
        std = np.sqrt(variances)
        order, some = _first(std, MAX_FEATURES, "noisiest")
        shown = [names[j] for j in order]
        text = "Each dot is the noise that was found in one feature, as a standard deviation"
        drawn.append(levels("noise", "Noise of each feature", f"{text}{some}.", std[order], shown))
    if probability is None:
        return drawn
    named = samples if samples is not None and len(samples) == len(probability) else None

    def row(i: int) -> str:
        return f"row {i + 1}" if named is None else str(named[i])

    if noise_model(model).rows:
        std = np.sqrt(np.asarray(to_numpy(model.sample_noise_variance_), dtype=np.float64))
        order, some = _first(std, MAX_ROWS, "noisiest")
        shown = [row(i) for i in order.tolist()]
        text = (
            f"Each dot is the noise of one sample, as a standard deviation{some}. The number "
            "beside it is the probability that the sample is an outlier: that its noise is more "
            "than three times as large as usual."
        )
        likely = probability[order]
        drawn.append(levels("samples", "Noisiest samples", text, std[order], shown, likely))
    if probability.ndim == 2:
        flat, p = probability.reshape(-1), len(names)
        order, some = _first(flat, MAX_ROWS, "likeliest", above=0.0)
        shown = [f"{names[c % p]}, {row(c // p)}" for c in order.tolist()]
        text = (
            "Each dot is a cell; its place is the probability that its noise is more than three "
            f"times as large as usual{some}. Such cells count for little."
        )
        if order.size:
            drawn.append(levels("cells", "Outlying cells", text, flat[order], shown))
            drawn[-1].layout["xaxis"] = axis("probability", range=[0, 1.05])
    return drawn


def _first(
    values: FloatArray, most: int, which: str, above: float = -np.inf
) -> tuple[np.ndarray, str]:
    """Indices of the largest values, largest first, and words on how many of them are drawn."""
    order = np.argsort(-values, kind="stable")[:most]
    order = order[values[order] > above]
    left = order.size < values.size
    return order, f"; the {order.size} {which} of {values.size:,}" if left else ""


def levels(
    id: str,
    title: str,
    caption: str,
    values: FloatArray,
    names: Sequence[str],
    probability: FloatArray | None = None,
) -> Figure:
    """Figure of named levels, from the top down, with probabilities written next to them."""
    known = values[values > 0]
    wide = known.size and known.max() > WIDE * known.min()
    scale = {"type": "log", "dtick": 1} if wide else {}
    layout: JsonObject = {
        "xaxis": axis("noise", rangemode="tozero", **scale),
        "yaxis": feature_axis(names) | {"showgrid": True},
    }
    # Dots instead of bars, whose lengths a logarithmic axis would distort.
    dots = scatter(
        "markers",
        numbers(values, 6),
        list(range(values.size)),
        text=[plain(name) for name in names],
        marker={"color": "@accent", "size": 9},
        hovertemplate="%{text}: %{x:.3g}<extra></extra>",
    )
    if probability is not None:
        colors = ["@warm" if share > OUTLYING else "@accent" for share in probability]
        # Text of dots on the right is to their left, where there is room.
        middle = 0.5 * float(values.max(initial=0.0))
        sides = ["left" if value > middle else "right" for value in values.tolist()]
        dots |= {
            "mode": "markers+text",
            "customdata": dots["text"],
            "text": [likelihood(float(share)) for share in probability],
            "textposition": [f"middle {side}" for side in sides],
            "cliponaxis": False,
            "marker": {"color": colors, "size": 9},
            "hovertemplate": "%{customdata}: %{x:.3g}, outlier: %{text}<extra></extra>",
        }
    return Figure(id, title, caption, [dots], layout, 100 + 20 * len(names))
