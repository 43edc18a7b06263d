"""Shared by all displays: matplotlib on demand, axes, colours, labels as colours."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Self, TypeAlias

import numpy as np

from bayespca.arrays.types import Input

from . import readings

# Okabe and Ito's colours, which people with any colour vision can tell apart. Blue is for what the
# model keeps, orange for its thresholds, grey for what it leaves out.
KEPT = "#0072B2"
RULE = "#D55E00"
DROPPED = "#9A9A9A"
INK = "#333333"
FAINT = "#ECECEC"
CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F6A00")
MARKERS = ("o", "^", "s")
GRADIENT = "viridis"

# matplotlib's axes, and one axis of them. Typed as Any because matplotlib is imported on demand.
Axes: TypeAlias = Any
Axis: TypeAlias = Any

FIGURE_SIZE = (5.0, 3.5)
# More classes than this cannot be told apart; the smallest ones are drawn as one.
MOST_CLASSES = 20


class Display:
    """A display: a frozen record whose `plot` sets `ax_` and `figure_`."""

    ax_: Axes
    figure_: Any

    def __repr__(self) -> str:
        """A short text, because notebooks show it below the figure: shapes of three arrays."""
        sizes = {f.name: np.shape(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        shown = [f"{name} {'×'.join(map(str, size))}" for name, size in sizes.items() if size]
        return f"<{type(self).__name__}: {', '.join(shown[:3])}>"

    def _drawn(self, ax: Axes, **others: Any) -> Self:
        """The record itself, frozen, with the axes and the figure that it was drawn on."""
        for name, value in {"ax_": ax, "figure_": ax.figure, **others}.items():
            object.__setattr__(self, name, value)
        return self


def matplotlib(module: str) -> Any:
    """Import and return a module of matplotlib."""
    try:
        return import_module(f"matplotlib.{module}")
    except ModuleNotFoundError as error:
        raise ImportError(
            'plots need matplotlib: install it with pip install "bayespca[plot]"'
        ) from error


def axes(ax: Axes = None, size: tuple[float, float] = FIGURE_SIZE) -> Axes:
    """The given axes, or those of a new figure, without the frame's upper and right sides."""
    if ax is None:
        _, ax = matplotlib("pyplot").subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def shades(low: str, high: str) -> Any:
    """A colour map from one colour to another."""
    return matplotlib("colors").LinearSegmentedColormap.from_list("shades", [low, high])


def whole_numbers(axis: Axis, low: int, high: int) -> None:
    """Set ticks at round whole numbers from low to high."""
    locator = matplotlib("ticker").MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10])
    axis.set_ticks(
        [int(t) for t in locator.tick_values(low, max(high, low + 1)) if low <= t <= high]
    )


def plain_numbers(axis: Axis) -> None:
    """Set ticks 1, 2, 5, 10, … on a logarithmic axis over few decades, not just powers of ten."""
    ticker = matplotlib("ticker")
    axis.set_minor_locator(ticker.LogLocator(subs=(2.0, 5.0)))
    for set_formatter in (axis.set_major_formatter, axis.set_minor_formatter):
        set_formatter(ticker.FormatStrFormatter("%g"))


def legend(ax: Axes, **options: Any) -> None:
    """Draw a small legend, if there is anything to explain."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(**{"fontsize": "small", "frameon": False, **options})


def note(
    ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any
) -> Any:
    """Write a small text beside a place, at an offset in points."""
    style = {"fontsize": "small", "color": INK, **style}
    return ax.annotate(text, xy=at, xytext=offset, textcoords="offset points", **style)


def corner_text(ax: Axes, text: str) -> None:
    """Write a small remark above the upper right corner of the axes, where no data are."""
    if text:
        look = {"ha": "right", "va": "bottom", "fontsize": "x-small"}
        note(ax, text, (1, 1), (0, 3), xycoords="axes fraction", **look)


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
        ax.scatter(*xy.T, color=KEPT, **style)
        return [KEPT] * len(xy)
    if is_continuous(labels):
        values = labels.astype(np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            ax.scatter(*xy[~finite].T, color="#CCCCCC", **style)
        points = ax.scatter(*xy[finite].T, c=values[finite], cmap=GRADIENT, **style)
        bar = ax.figure.colorbar(points, ax=ax, pad=0.02)
        bar.outline.set_visible(False)
        bar.set_label(title)
        shades = np.tile(np.array([0.8, 0.8, 0.8, 1.0]), (len(xy), 1))
        shades[finite] = points.to_rgba(values[finite])
        return list(shades)
    found = groups(labels)
    colours = np.empty(len(xy), dtype=object)
    for group in found:
        look = style | {"zorder": 2.5 if group.is_rest else 3, "marker": group.marker}
        ax.scatter(*xy[group.rows].T, color=group.colour, label=group.name, **look)
        colours[group.rows] = group.colour
    many = {"fontsize": "x-small", "labelspacing": 0.25} if len(found) > 10 else {}
    legend(
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
    try:
        names, index = np.unique(labels[~missing], return_inverse=True)
    except TypeError:  # of mixed types, which have no order
        names, index = np.unique(labels[~missing].astype(str), return_inverse=True)
    counts = np.bincount(index, minlength=names.size)
    present = np.flatnonzero(~missing)
    ranked = np.argsort(-counts, kind="stable")
    chosen = ranked if names.size <= MOST_CLASSES else ranked[: MOST_CLASSES - 1]
    found = [
        Group(
            # 2.0 becomes "2".
            readings.shortened(
                f"{names[c]:g}" if isinstance(names[c], float | np.floating) else names[c]
            ),
            present[index == c],
            CLASSES[i % len(CLASSES)],
            MARKERS[i // len(CLASSES)],
        )
        for i, c in enumerate(np.sort(chosen))
    ]
    others = present[~np.isin(index, chosen)]
    if others.size:
        n_others = names.size - chosen.size
        found.append(Group(f"{n_others} other classes", others, DROPPED, is_rest=True))
    if missing.any():
        found.append(Group("no label", np.flatnonzero(missing), "#CCCCCC", is_rest=True))
    return found
