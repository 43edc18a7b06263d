"""Figures of noise that differs between features, samples or single cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.estimators.summary import (
    OUTLYING,
    FittedPCA,
    feature_noise,
    noise_model,
    outlier_probability,
)
from bayespca.estimators.wording import likelihood

from .embedding import JsonObject, numbers, plain
from .figures import Figure, axis, feature_axis, scatter

# Most dots that can be told apart, and most rows worth showing.
MAX_FEATURES, MAX_ROWS = 40, 20
# The axis is logarithmic if the largest value is above this multiple of the smallest.
WIDE = 30.0


def of_features(model: FittedPCA, names: Sequence[str]) -> Figure | None:
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


def of_samples(model: FittedPCA, names: Sequence[object] | None) -> Figure | None:
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


def of_cells(
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
        """Data, layout and height of a figure."""
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
