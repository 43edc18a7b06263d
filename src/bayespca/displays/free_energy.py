"""The free energy over the steps of an iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.estimators._base import AnyEstimator
from bayespca.inference.loop import Trace

from . import canvas
from .canvas import Axes


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
        self._label(ax, rank_ax)
        self._keep(ax_=ax, figure_=ax.figure, rank_ax_=rank_ax)
        return self

    def _label(self, ax: Axes, rank_ax: Axes) -> None:
        ax.set_xlabel("step")
        ax.set_ylabel("free energy (nats)", color=canvas.KEPT)
        ax.ticklabel_format(axis="y", useOffset=False)
        rank_ax.set_ylabel("rank", color="#6F6F6F")
        highest = max(int(self.trace.rank.max(initial=0)), 1)
        canvas.whole_numbers(ax.xaxis, 1, len(self.trace))
        canvas.whole_numbers(rank_ax.yaxis, 0, highest)
        rank_ax.set_ylim(0, 1.25 * highest)
