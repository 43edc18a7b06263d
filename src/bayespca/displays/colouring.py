"""Labels of rows as colours: classes in a legend, numbers on a colour bar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.types import Input

from . import canvas, readings
from .canvas import Axes

# More classes than this cannot be told apart; the smallest ones are drawn as one.
MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are drawn alike."""

    name: str
    rows: np.ndarray
    colour: str
    marker: str = "o"
    is_rest: bool = False


def draw_points(
    ax: Axes, xy: np.ndarray, labels: np.ndarray | None, *, size: float, title: str = ""
) -> list[Any]:
    """Draw points in the colours of their labels, with legend or colour bar; return the colours."""
    style: dict[str, Any] = {"s": size, "linewidths": 0, "zorder": 3}
    if len(xy) > 2000:
        style["alpha"] = 0.6
    if labels is None:
        ax.scatter(*xy.T, color=canvas.KEPT, **style)
        return [canvas.KEPT] * len(xy)
    if is_continuous(labels):
        return _draw_numbers(ax, xy, labels.astype(np.float64), style, title)
    return _draw_classes(ax, xy, groups(labels), style, title)


def checked_labels(labels: Input, n: int) -> np.ndarray | None:
    """Labels as an array with one label for each of n rows."""
    if labels is None:
        return None
    values = readings.array(labels).reshape(-1)
    if values.size != n:
        raise ValueError(f"X has {n} rows, but there are {values.size} labels.")
    return values


def is_continuous(labels: np.ndarray) -> bool:
    """Whether labels are numbers with too many distinct values to be classes."""
    if labels.dtype.kind not in "iuf":
        return False
    values = labels[np.isfinite(labels)]
    n_distinct = np.unique(values).size
    whole = bool(np.all(values == np.round(values)))
    return n_distinct > MOST_CLASSES or not (whole or 2 * n_distinct <= values.size)


def groups(labels: np.ndarray) -> list[Group]:
    """Classes in the order of their names, then remaining classes, then rows without a label.

    There are seven colours; classes beyond them reuse the colours with other markers.
    """
    missing = readings.is_missing(labels)
    names, index = _distinct(labels[~missing])
    counts = np.bincount(index, minlength=names.size)
    present = np.flatnonzero(~missing)
    ranked = np.argsort(-counts, kind="stable")
    chosen = ranked if names.size <= MOST_CLASSES else ranked[: MOST_CLASSES - 1]
    found = [
        Group(
            readings.shortened(_class_name(names[c])),
            present[index == c],
            canvas.CLASSES[i % len(canvas.CLASSES)],
            canvas.MARKERS[i // len(canvas.CLASSES)],
        )
        for i, c in enumerate(np.sort(chosen))
    ]
    others = present[~np.isin(index, chosen)]
    if others.size:
        n_others = names.size - chosen.size
        found.append(Group(f"{n_others} other classes", others, canvas.DROPPED, is_rest=True))
    if missing.any():
        found.append(Group("no label", np.flatnonzero(missing), "#CCCCCC", is_rest=True))
    return found


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct labels in order, and the index of each label among them."""
    try:
        names, index = np.unique(labels, return_inverse=True)
    except TypeError:  # of mixed types, which have no order
        names, index = np.unique(labels.astype(str), return_inverse=True)
    return names, index


def _class_name(value: object) -> str:
    """A class as text: 2.0 becomes "2"."""
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _draw_classes(
    ax: Axes, xy: np.ndarray, found: list[Group], style: dict[str, Any], title: str
) -> list[Any]:
    colours = np.empty(len(xy), dtype=object)
    for group in found:
        ax.scatter(
            *xy[group.rows].T,
            color=group.colour,
            marker=group.marker,
            label=group.name,
            **style | {"zorder": 2.5 if group.is_rest else 3},
        )
        colours[group.rows] = group.colour
    many = {"fontsize": "x-small", "labelspacing": 0.25} if len(found) > 10 else {}
    canvas.legend(
        ax,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        handletextpad=0.2,
        borderaxespad=0.3,
        markerscale=float(np.sqrt(20 / style["s"])),
        title=title or None,
        title_fontsize="small",
        alignment="left",
        **many,
    )
    return list(colours)


def _draw_numbers(
    ax: Axes, xy: np.ndarray, values: np.ndarray, style: dict[str, Any], title: str
) -> list[Any]:
    finite = np.isfinite(values)
    if not finite.all():
        ax.scatter(*xy[~finite].T, color="#CCCCCC", **style)
    points = ax.scatter(*xy[finite].T, c=values[finite], cmap=canvas.GRADIENT, **style)
    bar = ax.figure.colorbar(points, ax=ax, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(title)
    colours = np.tile(np.array([0.8, 0.8, 0.8, 1.0]), (len(xy), 1))
    colours[finite] = points.to_rgba(values[finite])
    return list(colours)
