"""The latent space of a `GPLVM`: positions of rows, and the uncertainty of its functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.wording import significant

from . import canvas, readings
from .canvas import Axes, checked_labels, draw_points
from .scores import MOST_POINTS, Components, checked_components, sample

# Points of the grid along each axis, and its margin around the rows as a share of their range.
GRID, MARGIN = 60, 0.08
# If logarithms of standard deviations differ by less, they do not use the full range of shades.
LEAST_RANGE = 1.0
# Shades for certain and for uncertain functions.
KNOWN, UNKNOWN = "#FFFFFF", "#A8A8A8"


@dataclass(frozen=True, eq=False, repr=False)
class LatentDisplay(canvas.Display):
    """Rows as points of the latent space, shaded where the model's functions are uncertain.

    The shading shows the standard deviation of the functions, averaged over the features, with
    other dimensions at their mean: white where rows make predictions certain, grey where only the
    prior is left. With one dimension the points are drawn against the row index.

    >>> import numpy as np
    >>> from bayespca import GPLVM
    >>> from bayespca.displays import LatentDisplay
    >>> t = np.linspace(-2, 2, 40)[:, None]
    >>> X = np.hstack([np.sin(t * k) for k in (1, 2, 3)]) + 0.05 * np.cos(50 * t)
    >>> model = GPLVM(random_state=0).fit(X)
    >>> LatentDisplay.from_estimator(model).points.shape
    (40, 1)

    Parameters
    ----------
    points
        Latent points: one row for each row of data, one column for each of the one or two
        dimensions shown.
    axis_labels
        Names of these dimensions.
    grid
        Coordinates at which functions were evaluated, for each of these dimensions.
    spread
        Standard deviation of the functions on the grid, one axis for each of these dimensions.
    labels
        One label for each row, or None. Classes (names, or up to 20 different numbers) have a
        legend, other numbers a colour bar.
    label_name
        Title of the labels; `from_estimator` uses the name of a pandas or polars series.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    points: np.ndarray
    axis_labels: Sequence[str]
    grid: Sequence[np.ndarray]
    spread: np.ndarray
    labels: np.ndarray | None = None
    label_name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: AnyEstimator,
        X: Input = None,
        *,
        components: Components = None,
        labels: Input = None,
        random_state: int | None = 0,
        ax: Axes = None,
    ) -> Self:
        """Read the latent space of a fitted `GPLVM`, and draw it.

        Parameters
        ----------
        X
            Rows to draw; by default those of the fit.
        components
            Two dimensions, counted from 1, or one; by default the two that matter most, or the
            only one.
        labels
            One label for each row.
        random_state
            Seed for choosing rows, if there are too many to draw.
        """
        return cls.compute(estimator, X, components, labels).plot(random_state=random_state, ax=ax)

    @classmethod
    def compute(
        cls,
        estimator: AnyEstimator,
        X: Input = None,
        components: Components = None,
        labels: Input = None,
    ) -> Self:
        """The display of `from_estimator`, without drawing it."""
        k = readings.n_components(estimator, what="dimensions")
        relevance = relevances(estimator)
        chosen = checked_components(components, k)
        points = readings.array(estimator.embedding_ if X is None else estimator.transform(X))
        columns = [h - 1 for h in chosen]
        grid = [around(points[:, h]) for h in columns]
        return cls(
            points=points[:, columns],
            axis_labels=[f"dimension {h} (relevance {relevance[h - 1]:.2g})" for h in chosen],
            grid=grid,
            spread=spread_on(estimator, grid, columns),
            labels=checked_labels(labels, len(points)),
            label_name=str(getattr(labels, "name", None) or ""),
        )

    def plot(
        self,
        *,
        max_points: int = MOST_POINTS,
        random_state: int | None = 0,
        ax: Axes = None,
    ) -> Self:
        """Draw on `ax`, or on a new figure.

        If there are more than `max_points` rows, a random sample is drawn, and a remark above the
        axes says so.
        """
        ax = canvas.axes(ax)
        n = len(self.points)
        rows = sample(np.arange(n), max_points, np.random.default_rng(random_state))
        labels = None if self.labels is None else self.labels[rows]
        flat, points = self.points.shape[1] == 2, self.points[rows]
        xy = points if flat else np.column_stack([rows, points[:, 0]])
        last = self.grid[-1]
        across = (self.grid[0][0], self.grid[0][-1]) if flat else (-0.5, n - 0.5)
        # Logarithms make gaps between rows visible, whose spread is still far below the outside's.
        spread = np.log(np.maximum(self.spread, np.finfo(float).tiny))
        ax.imshow(
            spread.T if flat else spread[:, None],
            cmap=canvas.shades(KNOWN, UNKNOWN),
            vmin=float(spread.min()),
            vmax=max(float(spread.max()), float(spread.min()) + LEAST_RANGE),
            extent=(*across, last[0], last[-1]),
            origin="lower",
            aspect="auto",
            interpolation="bilinear",
            zorder=0,
        )
        draw_points(ax, xy, labels, size=16 if rows.size <= 1000 else 6, title=self.label_name)
        ax.set_xlabel(self.axis_labels[0] if flat else "row")
        ax.set_ylabel(self.axis_labels[-1])
        if not flat:
            canvas.whole_numbers(ax.xaxis, 0, n - 1)
        few = f"{rows.size:,} of {n:,} rows, " if rows.size < n else ""
        canvas.corner_text(ax, f"{few}grey: functions are uncertain")
        return self._drawn(ax)


@dataclass(frozen=True, eq=False, repr=False)
class RelevanceDisplay(canvas.Display):
    """Relevance of each latent dimension: a bar for each, with its value above it.

    >>> import numpy as np
    >>> from bayespca import GPLVM
    >>> from bayespca.displays import RelevanceDisplay
    >>> t = np.linspace(-2, 2, 40)[:, None]
    >>> X = np.hstack([np.sin(t * k) for k in (1, 2, 3)]) + 0.05 * np.cos(50 * t)
    >>> model = GPLVM(random_state=0).fit(X)
    >>> RelevanceDisplay.from_estimator(model).ax_.get_xlabel()
    'dimension'

    Parameters
    ----------
    relevance
        Prior variance of each dimension in units of its squared length scale, largest first.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    relevance: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: AnyEstimator, *, ax: Axes = None) -> Self:
        """Read the relevances of a fitted `GPLVM`, and draw them."""
        return cls(relevances(estimator)).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        ax.bar(np.arange(1, self.relevance.size + 1), self.relevance, color=canvas.KEPT, width=0.7)
        for h, value in enumerate(self.relevance.tolist(), start=1):
            canvas.note(ax, significant(value, 2), (h, value), (0, 2), ha="center", va="bottom")
        ax.set_xlim(0.3, self.relevance.size + 0.7)
        ax.margins(y=0.12)
        canvas.whole_numbers(ax.xaxis, 1, self.relevance.size)
        ax.set(xlabel="dimension", ylabel="relevance")
        return self._drawn(ax)


def relevances(estimator: AnyEstimator) -> np.ndarray:
    """The relevances of a latent space, if the estimator has one."""
    readings.n_components(estimator, what="dimensions")
    if not hasattr(estimator, "relevance_"):
        raise ValueError(
            f"{type(estimator).__name__} has no latent space of curves to show: GPLVM has one."
        )
    return np.asarray(readings.array(estimator.relevance_), dtype=np.float64)


def around(values: np.ndarray) -> np.ndarray:
    """Evenly spaced coordinates over the range of values, and a little beyond."""
    low, high = float(values.min()), float(values.max())
    more = MARGIN * (high - low) or 1.0
    return np.linspace(low - more, high + more, GRID)


def spread_on(
    estimator: AnyEstimator, grid: Sequence[np.ndarray], columns: Sequence[int]
) -> np.ndarray:
    """Standard deviation of the functions on a grid: root mean square over the features."""
    first, rest = grid[0], grid[1:]
    lines = []
    for x in first:
        # One line at a time: with many features, the whole grid would need much memory.
        line = np.zeros((rest[0].size if rest else 1, estimator.n_components_))
        line[:, columns[0]] = x
        if rest:
            line[:, columns[1]] = rest[0]
        std = readings.array(estimator.inverse_transform(line, return_std=True)[1])
        lines.append(np.sqrt((std.astype(np.float64) ** 2).mean(axis=1)))
    spread = np.stack(lines)
    return spread if rest else spread[:, 0]
