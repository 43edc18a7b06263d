"""Shared by all displays: matplotlib on demand, axes, colours."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

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


class Display:
    """A display: a frozen record whose `plot` sets `ax_` and `figure_`."""

    ax_: Axes
    figure_: Any

    def __repr__(self) -> str:
        """A short text, because notebooks show it below the figure."""
        return f"<{type(self).__name__}: {self._shape()}>"

    def _shape(self) -> str:
        """Shapes of the first three arrays of the record."""
        sizes = {f.name: np.shape(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        shown = [f"{name} {'×'.join(map(str, size))}" for name, size in sizes.items() if size]
        return ", ".join(shown[:3])

    def _keep(self, **drawn: Any) -> None:
        """Store axes and figures on the frozen record."""
        for name, value in drawn.items():
            object.__setattr__(self, name, value)


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


def corner_text(ax: Axes, text: str) -> None:
    """Write a small remark above the upper right corner of the axes, where no data are."""
    if not text:
        return
    ax.annotate(
        text,
        xy=(1, 1),
        xycoords="axes fraction",
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize="x-small",
        color=INK,
    )
