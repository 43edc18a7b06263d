"""The probability of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.summary import rank_was_given
from bayespca.estimators.wording import likelihood

from . import canvas, readings
from .canvas import Axes

# Ranks less probable than this get no bar.
LEAST = 1e-3
MARGIN, FEWEST = 2, 5
# With more bars than this, written probabilities do not fit.
MOST_NUMBERED = 12


@dataclass(frozen=True, eq=False, repr=False)
class RankPosteriorDisplay(canvas.Display):
    """Bars of the probabilities of ranks, with the chosen rank in colour.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import RankPosteriorDisplay
    >>> display = RankPosteriorDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'rank'

    Parameters
    ----------
    rank_posterior
        Probability of each rank, index = rank, if the noise is as assumed.
    rank
        The chosen rank.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    rank_posterior: np.ndarray
    rank: int

    @classmethod
    def from_estimator(cls, estimator: AnyEstimator, *, ax: Axes = None) -> Self:
        """Read the probabilities of a fitted estimator, and draw them."""
        check_is_fitted(estimator)
        if rank_was_given(estimator):
            raise ValueError(
                f"method={estimator.method!r} was given its rank, so ranks have no probabilities: "
                "fit with method='evb' or method='laplace' to have them."
            )
        if getattr(estimator, "rank_posterior_", ()) is None:
            raise ValueError(
                "these data do not determine the number of components, so it has no "
                f"probabilities: {estimator.status_}"
            )
        if not hasattr(estimator, "rank_posterior_"):
            raise ValueError(
                f"{type(estimator).__name__} gives no probabilities of ranks: BayesianPCA does."
            )
        display = cls(readings.array(estimator.rank_posterior_), int(estimator.n_components_))
        return display.plot(ax=ax)

    @property
    def shown(self) -> np.ndarray:
        """Ranks to show: the probable ones, the chosen one, and a margin."""
        likely = np.append(np.flatnonzero(self.rank_posterior > LEAST), self.rank)
        low = max(int(likely.min()) - MARGIN, 0)
        high = max(int(likely.max()) + MARGIN, low + FEWEST - 1)
        return np.arange(low, min(high, self.rank_posterior.size - 1) + 1)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        ranks = self.shown
        heights = self.rank_posterior[ranks]
        colours = [canvas.KEPT if rank == self.rank else "#C4C4C4" for rank in ranks]
        bars = ax.bar(ranks, heights, width=0.75, color=colours)
        if ranks.size <= MOST_NUMBERED:
            labels = [likelihood(p) if p > LEAST else "" for p in heights]
            ax.bar_label(bars, labels, padding=2, fontsize="small", color=canvas.INK)
        ax.set_xlim(ranks[0] - 0.7, ranks[-1] + 0.7)
        ax.set_ylim(0, 1.1 * max(heights.max(), 0.1))
        canvas.whole_numbers(ax.xaxis, int(ranks[0]), int(ranks[-1]))
        ax.set_xlabel("rank")
        ax.set_ylabel("probability, if the noise is as assumed")
        self._keep(ax_=ax, figure_=ax.figure)
        return self
