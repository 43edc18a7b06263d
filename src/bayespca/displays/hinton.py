"""Hinton diagrams of loadings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayespca.estimators._base import AnyEstimator

from . import canvas, readings
from .canvas import Axes

# With more features than this, names do not fit.
MOST_NAMES = 40
# Inches for one entry, and for labels.
CELL, LETTER, MARGINS = 0.22, 0.07, (0.4, 0.8)
BACKGROUND = "#9C9C9C"


@dataclass(frozen=True, eq=False, repr=False)
class HintonDisplay(canvas.Display):
    """Squares with areas proportional to the entries of a matrix: white positive, black negative.

    As in Bishop 1999, Figures 3 and 4. A component that is switched off is an empty column.
    Features count from 0, components from 1.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import HintonDisplay
    >>> display = HintonDisplay.from_estimator(model)
    >>> display.weights.shape
    (12, 3)

    Parameters
    ----------
    weights
        The matrix W: one row for each feature, one column for each component.
    feature_names, component_names
        Names of rows and of columns; by default none, and 1, 2, ….

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    weights: np.ndarray
    feature_names: Sequence[str] | None = None
    component_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: AnyEstimator, *, scaled: bool = True, ax: Axes = None
    ) -> Self:
        """Read the components of a fitted estimator, and draw them.

        `scaled` multiplies each component by the standard deviation of the data along it, which
        makes strong components large; otherwise all have length 1.
        """
        readings.n_components(estimator, what="loadings")
        W = readings.array(estimator.components_).T
        if scaled:
            W = W * np.sqrt(readings.array(estimator.explained_variance_))
        return cls(W, feature_names=readings.short_feature_names(estimator)).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure of a size that fits the matrix."""
        W = self._matrix()
        L, H = W.shape
        ax = canvas.axes(ax, size=self._figure_size(L, H))
        for sign, colour in ((1, "white"), (-1, "black")):
            ax.add_collection(_squares(W, sign, colour))
        ax.set_facecolor(BACKGROUND)
        ax.set(xlim=(0.4, H + 0.6), ylim=(L - 0.4, -0.6), aspect="equal")
        # The equal aspect shrinks the axes; anchored here, they stay next to their names.
        ax.set_anchor("NW")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        self._label(ax, L, H)
        self._keep(ax_=ax, figure_=ax.figure)
        return self

    def _matrix(self) -> np.ndarray:
        W = np.asarray(readings.array(self.weights), dtype=np.float64)
        if W.ndim != 2 or not W.size:
            raise ValueError(f"a Hinton diagram needs a matrix, got an array of shape {W.shape}.")
        if np.isinf(W).any():
            raise ValueError("a Hinton diagram cannot show infinite entries.")
        return W

    def _names_fit(self, n_features: int) -> bool:
        return self.feature_names is not None and n_features <= MOST_NAMES

    def _label(self, ax: Axes, L: int, H: int) -> None:
        if self.feature_names is not None and self._names_fit(L):
            ax.set_yticks(np.arange(L), self.feature_names, fontsize="small")
        else:
            ax.set_ylabel("feature")
            canvas.whole_numbers(ax.yaxis, 0, L - 1)
        if self.component_names is not None:
            ax.set_xticks(np.arange(1, H + 1), self.component_names, fontsize="small")
        elif H <= 15:
            ax.set_xticks(np.arange(1, H + 1))
        else:
            canvas.whole_numbers(ax.xaxis, 1, H)
        ax.set_xlabel("component")
        canvas.corner_text(ax, "white positive, black negative")

    def _figure_size(self, L: int, H: int) -> tuple[float, float]:
        names = self.feature_names if self.feature_names is not None and self._names_fit(L) else ()
        letters = max((len(name) for name in names), default=4)
        cell = min(CELL, 9.0 / max(L, H))
        width, height = H * cell + LETTER * letters + MARGINS[0], L * cell + MARGINS[1]
        return float(np.clip(width, 2.2, 10.0)), float(np.clip(height, 2.0, 10.0))


def _squares(W: np.ndarray, sign: int, colour: str) -> Any:
    """Squares of the entries of one sign; the square of the largest entry nearly fills its cell."""
    largest = np.nanmax(np.abs(W), initial=0.0) or 1.0
    rows, columns = np.nonzero(sign * np.nan_to_num(W) > 0)
    half = 0.47 * np.sqrt(np.abs(W[rows, columns]) / largest)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    centres = np.column_stack([columns + 1, rows])
    return canvas.matplotlib("collections").PolyCollection(
        centres[:, None, :] + half[:, None, None] * corners, facecolors=colour, edgecolors="none"
    )
