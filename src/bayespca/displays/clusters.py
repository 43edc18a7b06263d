"""Rows of zeros and ones, sorted by cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator

from . import canvas, readings
from .canvas import Axes

# Shares of the number of rows: the strip of probabilities above each cluster, and the gap after it.
STRIP, GAP = 0.04, 0.02
HOLE = "#FFFFFF"
ZERO = "#EDEDED"


@dataclass(frozen=True, eq=False, repr=False)
class ClustersDisplay(canvas.Display):
    """A table of zeros and ones, its rows sorted by cluster; ones have the colour of the cluster.

    A strip above each cluster shows its probabilities of 1, pale for 0 and full for 1. Holes are
    white.

    >>> import numpy as np
    >>> from bayespca import BernoulliMixture
    >>> from bayespca.displays import ClustersDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((60, 8)) < np.repeat([[0.1], [0.9]], 30, axis=0)
    >>> model = BernoulliMixture(2, random_state=0).fit(X)
    >>> ClustersDisplay.from_estimator(model, X).labels.shape
    (60,)

    Parameters
    ----------
    cells
        The table, NaN in holes: rows × features.
    labels
        The cluster of each row, counting from 0.
    means
        Probability of 1: clusters × features.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    cells: np.ndarray
    labels: np.ndarray
    means: np.ndarray

    @classmethod
    def from_estimator(cls, estimator: AnyEstimator, X: Input, *, ax: Axes = None) -> Self:
        """Read the clusters of rows from a fitted `BernoulliMixture`, and draw them."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "means_"):
            raise ValueError(
                f"{type(estimator).__name__} has no clusters of zeros and ones: BernoulliMixture "
                "does."
            )
        cells = np.array(readings.array(X), dtype=np.float64)
        if estimator.binarize is not None:
            cells = np.where(np.isnan(cells), np.nan, cells > estimator.binarize)
        return cls(cells, estimator.predict(X), estimator.means_).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        n, p = self.cells.shape
        strip, gap = max(STRIP * n, 0.5), max(GAP * n, 0.3)
        top, places, names = 0.0, [], []
        for k in np.unique(self.labels):
            rows = self.cells[self.labels == k]
            colour = canvas.CLASSES[k % len(canvas.CLASSES)]
            _image(ax, self.means[k][None, :], colour, top, top + strip)
            top += strip + gap / 3
            _image(ax, rows, colour, top, top + len(rows))
            places.append(top + len(rows) / 2)
            names.append(f"{k + 1} ({len(rows)})")
            top += len(rows) + gap
        ax.set(xlim=(-0.5, p - 0.5), ylim=(top - gap, 0), aspect="auto")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        ax.set_yticks(places, names, fontsize="small")
        canvas.whole_numbers(ax.xaxis, 0, p - 1)
        ax.set_xlabel("feature")
        ax.set_ylabel("cluster (rows)")
        holes = "; white: holes" if np.isnan(self.cells).any() else ""
        canvas.corner_text(ax, f"strips: probability of 1 in the cluster{holes}")
        self._keep(ax_=ax, figure_=ax.figure)
        return self


def _image(ax: Axes, values: np.ndarray, colour: str, top: float, bottom: float) -> None:
    colours = canvas.matplotlib("colors")
    palette = colours.LinearSegmentedColormap.from_list("cluster", [ZERO, colour])
    palette = palette.with_extremes(bad=HOLE)
    ax.imshow(
        np.ma.masked_invalid(values),
        cmap=palette,
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(-0.5, values.shape[1] - 0.5, bottom, top),
    )
