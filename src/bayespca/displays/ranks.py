"""Numbers of components: their probabilities, held-out likelihoods, and the search for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.selection import ComponentSelection
from bayespca.estimators.summary import rank_was_given
from bayespca.estimators.wording import likelihood
from bayespca.inference.loop import Trace

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
        ax.set(xlabel="rank", ylabel="probability, if the noise is as assumed")
        return self._drawn(ax)


@dataclass(frozen=True, eq=False, repr=False)
class ComponentSelectionDisplay(canvas.Display):
    """Mean held-out log-likelihood of a row for each number of components, with standard errors.

    The best number is marked, and so is the smallest one within a standard error of it.

    >>> from bayespca import PCAMixture, select_components
    >>> from bayespca.datasets import low_rank
    >>> from bayespca.displays import ComponentSelectionDisplay
    >>> X = low_rank(100, 5, 2, random_state=0).X
    >>> found = select_components(PCAMixture(random_state=0), X, [1, 2])
    >>> ComponentSelectionDisplay.from_selection(found).ax_.get_xlabel()
    'number of components'

    Parameters
    ----------
    selection
        The result of `select_components`.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    selection: ComponentSelection

    @classmethod
    def from_selection(cls, selection: ComponentSelection, *, ax: Axes = None) -> Self:
        """Draw the result of `select_components`."""
        return cls(selection).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        found = self.selection
        counts, mean, error = found.n_components, found.mean, found.standard_error
        top = int(mean.argmax())
        ax.axhline(mean[top] - error[top], color=canvas.DROPPED, linewidth=1, linestyle=":")
        ax.errorbar(
            *(counts, mean, error),
            color=canvas.KEPT,
            marker="o",
            markersize=3,
            linewidth=1.4,
            elinewidth=1,
            capsize=2,
        )
        marks = [(found.best, "best", "o", canvas.RULE)]
        if found.within_one_error != found.best:
            marks.append((found.within_one_error, "within one standard error", "s", canvas.INK))
        for count, name, marker, colour in marks:
            look = {"marker": marker, "markerfacecolor": "none", "markeredgecolor": colour}
            label, height = f"{name}: {count}", mean[counts == count]
            ax.plot([count], height, markersize=9, linestyle="none", label=label, **look)
        canvas.whole_numbers(ax.xaxis, int(counts[0]), int(counts[-1]))
        ax.set(xlabel="number of components", ylabel="held-out log-likelihood of a row (nats)")
        canvas.legend(ax, loc="lower right")
        return self._drawn(ax)


@dataclass(frozen=True, eq=False, repr=False)
class FreeEnergyDisplay(canvas.Display):
    """Free energy after each step, and the rank as a step line on a second axis.

    >>> from bayespca import VariationalPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> from bayespca.displays import FreeEnergyDisplay
    >>> model = VariationalPCA(random_state=0).fit(X)
    >>> FreeEnergyDisplay.from_estimator(model).ax_.get_ylabel()
    'free energy (nats)'

    Parameters
    ----------
    trace
        Free energy and rank after each step.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    rank_ax_
        The second axis.
    """

    trace: Trace

    rank_ax_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(cls, estimator: AnyEstimator, *, ax: Axes = None) -> Self:
        """Read the trace of a fitted estimator, and draw it."""
        check_is_fitted(estimator)
        trace = getattr(estimator, "trace_", None)
        if trace is None:
            raise ValueError(
                "this model was solved in closed form, at its minimum at once: there are no steps "
                "to show."
            )
        return cls(trace).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        steps = np.arange(1, len(self.trace) + 1)
        rank_ax = ax.twinx()
        rank_ax.spines["top"].set_visible(False)
        rank_ax.step(steps, self.trace.rank, where="mid", color=canvas.DROPPED, linewidth=1.2)
        marker = "o" if steps.size <= 50 else None
        ax.plot(
            steps, self.trace.free_energy, marker=marker, markersize=3, color=canvas.KEPT, lw=1.4
        )
        # The second axes lie above the first by default: the rank would hide the free energy.
        ax.set_zorder(rank_ax.get_zorder() + 1)
        ax.patch.set_visible(False)
        ax.set_xlabel("step")
        ax.set_ylabel("free energy (nats)", color=canvas.KEPT)
        ax.ticklabel_format(axis="y", useOffset=False)
        rank_ax.set_ylabel("rank", color="#6F6F6F")
        highest = max(int(self.trace.rank.max(initial=0)), 1)
        canvas.whole_numbers(ax.xaxis, 1, len(self.trace))
        canvas.whole_numbers(rank_ax.yaxis, 0, highest)
        rank_ax.set_ylim(0, 1.25 * highest)
        return self._drawn(ax, rank_ax_=rank_ax)
