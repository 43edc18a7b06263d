"""A map of the holes in data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Input
from bayespca.estimators.wording import percent

from . import canvas, readings
from .canvas import Axes

# More cells than this cannot be told apart, and take time to draw.
MOST_ROWS, MOST_COLUMNS = 500, 200
MOST_NAMES, LONGEST_NAME = 40, 16
# Share of the height for the strip with the shares of columns.
STRIP = 0.25
MISSING = "#0B3C5D"


@dataclass(frozen=True, eq=False, repr=False)
class MissingnessDisplay(canvas.Display):
    """A map of holes, with rows of data from top to bottom, and the share of holes in each column.

    Rows and columns count from 0.

    >>> import numpy as np
    >>> from bayespca.displays import MissingnessDisplay
    >>> X = np.ones((10, 3))
    >>> X[:4, 1] = np.nan
    >>> MissingnessDisplay.from_data(X).column_shares
    array([0. , 0.4, 0. ])

    Parameters
    ----------
    shares
        Share of holes in each cell of the map: single entries, or blocks of them.
    column_shares
        Share of holes in each column.
    shape
        Rows and columns of the data.
    names
        Names of the columns, if they have any.

    Attributes
    ----------
    ax_, figure_
        The axes of the map and the figure of the last plot.
    column_ax_
        The axes of the strip above it, with the shares of columns.
    """

    shares: np.ndarray
    column_shares: np.ndarray
    shape: tuple[int, int]
    names: Sequence[str] | None = None

    column_ax_: Axes = field(default=None, init=False, repr=False)

    @classmethod
    def from_data(cls, X: Input, *, ax: Axes = None) -> Self:
        """Find the holes of an array or a frame (NaN, None, null, NA), and draw them."""
        holes = holes_of(X)
        if holes.ndim != 2 or not holes.size:
            raise ValueError(
                f"a map of holes needs rows and columns, got data of shape {holes.shape}."
            )
        names = getattr(X, "columns", None)
        return cls(
            shares=block_means(holes, MOST_ROWS, MOST_COLUMNS),
            column_shares=holes.mean(axis=0),
            shape=(holes.shape[0], holes.shape[1]),
            names=None if names is None else [str(name) for name in names],
        ).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure; the strip of columns goes on top of the axes."""
        ax = canvas.axes(ax)
        n, p = self.shape
        ax.imshow(
            self.shares,
            cmap=_shades(),
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, p - 0.5, n - 0.5, -0.5),
        )
        # The strip lies within the axes, so any layout leaves room for it.
        ax.set_ylim(n - 0.5, -0.5 - n * STRIP / (1 - STRIP))
        ax.spines["left"].set_bounds(n - 0.5, -0.5)
        ax.set_ylabel("row")
        canvas.whole_numbers(ax.yaxis, 0, n - 1)
        self._label_columns(ax)
        strip = self._draw_columns(ax)
        self._keep(ax_=ax, figure_=ax.figure, column_ax_=strip)
        return self

    def _label_columns(self, ax: Axes) -> None:
        p = self.shape[1]
        if self.names is None or p > MOST_NAMES:
            ax.set_xlabel("column")
            canvas.whole_numbers(ax.xaxis, 0, p - 1)
            return
        names = [readings.shortened(name, LONGEST_NAME) for name in self.names]
        ax.set_xticks(np.arange(p), names, fontsize="x-small", rotation=90)

    def _draw_columns(self, ax: Axes) -> Axes:
        strip = ax.inset_axes((0, 1 - 0.8 * STRIP, 1, 0.8 * STRIP), sharex=ax)
        strip.spines[["top", "right"]].set_visible(False)
        edges = np.arange(self.shape[1] + 1) - 0.5
        strip.stairs(100 * self.column_shares, edges, fill=True, color=MISSING, linewidth=0)
        highest = 100 * float(self.column_shares.max())
        strip.set_ylim(0, 1.05 * highest or 1.0)
        strip.set_yticks([0, highest] if highest else [0])
        strip.yaxis.set_major_formatter(lambda value, _: percent(value / 100))
        strip.tick_params(labelbottom=False, bottom=False, labelsize="x-small")
        total = percent(float(self.column_shares.mean()))
        canvas.corner_text(strip, f"{total} of {self.shape[0]:,} × {self.shape[1]:,} missing")
        return strip


def holes_of(X: Input) -> NDArray[np.bool_]:
    """Mask of the missing entries. Entries that a sparse matrix does not store are zeros."""
    if is_sparse(X):
        stored = X.tocsr().astype(np.float64)
        stored.data = np.isnan(stored.data)
        return np.asarray(stored.toarray(), dtype=np.bool_)
    if hasattr(X, "isna"):
        return np.asarray(X.isna().to_numpy(), dtype=np.bool_)
    return readings.is_missing(readings.array(X))


def block_means(holes: NDArray[np.bool_], most_rows: int, most_columns: int) -> np.ndarray:
    """Shares of holes in blocks of nearly equal size, at most `most_rows` × `most_columns`."""
    rows, columns = (
        np.linspace(0, size, min(size, most) + 1).astype(int)
        for size, most in zip(holes.shape, (most_rows, most_columns), strict=True)
    )
    if (rows.size, columns.size) == (holes.shape[0] + 1, holes.shape[1] + 1):
        return holes.astype(np.float64)
    counts = np.add.reduceat(holes, rows[:-1], axis=0, dtype=np.int64)
    counts = np.add.reduceat(counts, columns[:-1], axis=1)
    return counts / np.outer(np.diff(rows), np.diff(columns))


def _shades() -> Any:
    return canvas.matplotlib("colors").LinearSegmentedColormap.from_list(
        "holes", [canvas.FAINT, MISSING]
    )
