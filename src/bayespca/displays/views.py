"""Factors of a `MultiViewPCA` by view: where they are active, and how much they explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.wording import percent

from . import canvas, readings
from .canvas import Axes

# Cells above this multiple of the largest share are dark enough for white text.
DARK = 0.55


@dataclass(frozen=True, eq=False, repr=False)
class ViewsDisplay(canvas.Display):
    """Factors by views: each cell shows the share of a view's variance that a factor explains.

    Cells without a number mean that the factor is not active in the view.

    >>> from bayespca import MultiViewPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> from bayespca.displays import ViewsDisplay
    >>> model = MultiViewPCA(random_state=0).fit({"left": X[:, :6], "right": X[:, 6:]})
    >>> ViewsDisplay.from_estimator(model).names
    ['left', 'right']

    Parameters
    ----------
    explained
        Shares of the variance, a row for each factor and a column for each view.
    active
        Whether each factor is active in each view, of the same shape.
    names
        Names of the views.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    explained: np.ndarray
    active: np.ndarray
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: AnyEstimator, *, ax: Axes = None) -> Self:
        """Read the factors of a fitted `MultiViewPCA`, and draw them."""
        readings.n_components(estimator, what="factors")
        if not hasattr(estimator, "view_names_"):
            raise ValueError(
                f"{type(estimator).__name__} has no views to show: MultiViewPCA has them."
            )
        explained = np.asarray(estimator.explained_variance_ratio_, dtype=np.float64)
        names = [str(name) for name in estimator.view_names_]
        return cls(explained, np.asarray(estimator.active_), names).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        k, V = self.explained.shape
        shown = np.where(self.active, self.explained, np.nan)
        most = float(np.nanmax(shown)) if self.active.any() else 1.0
        ax.imshow(shown, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        for h, v in np.argwhere(self.active):
            share = float(self.explained[h, v])
            ink = "white" if share > DARK * most else canvas.INK
            ax.text(v, h, percent(share), ha="center", va="center", color=ink, fontsize="small")
        ax.set_xticks(range(V), self.names)
        ax.set_yticks(range(k), [str(h + 1) for h in range(k)])
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
        ax.set_xlabel("view")
        ax.set_ylabel("factor")
        ax.tick_params(length=0)
        ax.set_xticks(np.arange(V + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(k + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=2)
        ax.tick_params(which="minor", length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        self._keep(ax_=ax, figure_=ax.figure)
        return self
