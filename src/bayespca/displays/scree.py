"""Scree plot: singular values in decreasing order, those kept, and the level of the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.spectrum.noise_law import largest_singular_value
from bayespca.spectrum.records import Spectrum

from . import canvas, readings
from .canvas import Axes
from .spectral import SpectralDisplay

# More markers than this overlap.
MOST_MARKERS = 100
# The axis is logarithmic if the largest value is above this multiple of the smallest.
WIDE = 10.0


@dataclass(frozen=True, eq=False, repr=False)
class ScreeDisplay(SpectralDisplay):
    """Singular values, with the shrunk values of those kept, the threshold and the noise edge.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import ScreeDisplay
    >>> display = ScreeDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'component'

    Parameters
    ----------
    singular_values
        All known singular values, in decreasing order.
    shrunk_singular_values
        Singular values of the posterior mean, one for each kept component.
    threshold
        Singular values above it are kept; not drawn if 0 or infinite.
    noise_edge
        The largest singular value of pure noise, σ(√L + √M) (Marchenko & Pastur 1967).
    n_values
        Number of singular values of the data, known or not.
    unit
        Added to the label of the axis of singular values.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    singular_values: np.ndarray
    shrunk_singular_values: np.ndarray
    threshold: float
    noise_edge: float
    n_values: int
    unit: str = ""

    @classmethod
    def _read(cls, estimator: AnyEstimator, spectrum: Spectrum) -> Self:
        return cls(
            singular_values=spectrum.singular_values * spectrum.scale,
            shrunk_singular_values=readings.array(estimator.shrunk_singular_values_),
            threshold=float(estimator.threshold_),
            noise_edge=largest_singular_value(readings.noise_variance(estimator), spectrum.shape),
            n_values=spectrum.full_rank,
            unit=readings.unit_of_data(estimator),
        )

    @property
    def rank(self) -> int:
        """Number of components kept."""
        return int(self.shrunk_singular_values.size)

    def plot(self, *, log: bool | str = "auto", ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure.

        ``log="auto"`` makes the axis of values logarithmic when they span a wide range. If there
        are many values, only the first ones are drawn, far enough to show where the noise begins;
        if even these are too many, evenly spaced ones are drawn.
        """
        ax = canvas.axes(ax)
        shown = shown_indices(self.singular_values.size, self.rank)
        if self._is_log(shown) if log == "auto" else log:
            ax.set_yscale("log")
            low, high = self._limits(shown)
            ax.set_ylim(low, high)
            if high < 100 * low:
                canvas.plain_numbers(ax.yaxis)
        self._draw_values(ax, shown)
        self._draw_levels(ax)
        if ax.get_yscale() == "linear":
            ax.set_ylim(0, 1.08 * self._levels(shown).max(initial=0.0) or 1.0)
        ax.set_xlabel("component")
        ax.set_ylabel("singular value" + self.unit)
        last = int(shown[-1]) + 1 if shown.size else 1
        canvas.whole_numbers(ax.xaxis, 1, last)
        ax.set_xlim(1 - max(0.5, 0.02 * last), last + max(0.5, 0.02 * last))
        if shown.size < self.n_values:
            canvas.corner_text(ax, f"{shown.size:,} of {self.n_values:,} values shown")
        canvas.legend(ax)
        self._keep(ax_=ax, figure_=ax.figure)
        return self

    def _draw_values(self, ax: Axes, shown: np.ndarray) -> None:
        size = 5 if shown.size <= 50 else 3.5
        for label, rows, values, style in (
            ("kept", shown[shown < self.rank], self.singular_values, {"color": canvas.KEPT}),
            (
                "kept, shrunk",
                shown[shown < self.rank],
                self.shrunk_singular_values,
                {"color": canvas.KEPT, "markerfacecolor": "white", "zorder": 1.9},
            ),
            ("dropped", shown[shown >= self.rank], self.singular_values, {"color": canvas.DROPPED}),
        ):
            if rows.size:
                ax.plot(rows + 1, values[rows], "o", markersize=size, label=label, **style)

    def _draw_levels(self, ax: Axes) -> None:
        if 0 < self.threshold < np.inf:
            ax.axhline(self.threshold, color=canvas.RULE, linewidth=1.2, label="threshold")
        if self.noise_edge > 0:
            ax.axhline(
                self.noise_edge,
                color=canvas.INK,
                linewidth=1.0,
                linestyle=(0, (1.5, 1.5)),
                label="edge of pure noise",
            )

    def _levels(self, shown: np.ndarray) -> np.ndarray:
        """Positive values and lines that must be visible, without rounding errors."""
        values = np.r_[self.singular_values[shown], self.shrunk_singular_values]
        largest = values.max(initial=0.0)
        values = values[(values > 1e-6 * largest) | (values > 0.3 * self.noise_edge)]
        lines = [line for line in (self.threshold, self.noise_edge) if 0 < line < np.inf]
        return np.r_[values[values > 0], lines]

    def _is_log(self, shown: np.ndarray) -> bool:
        levels = self._levels(shown)
        return bool(levels.size and levels.max() > WIDE * levels.min())

    def _limits(self, shown: np.ndarray) -> tuple[float, float]:
        levels = self._levels(shown)
        return (levels.min() / 1.5, levels.max() * 1.5) if levels.size else (0.1, 1.0)


def shown_indices(n_known: int, rank: int) -> np.ndarray:
    """Indices of the values to draw: enough of the dropped ones to see where noise begins.

    Up to 50 values are all drawn; the last kept and the first dropped one always are.
    """
    end = min(n_known, max(50, rank + max(20, rank // 4)))
    if end <= MOST_MARKERS:
        return np.arange(end)
    spread = np.linspace(0, end - 1, MOST_MARKERS).round().astype(int)
    return np.unique(np.r_[spread, max(rank - 1, 0), min(rank, end - 1)])
