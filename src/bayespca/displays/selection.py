"""Held-out log-likelihood by number of components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from bayespca.estimators.selection import ComponentSelection

from . import canvas
from .canvas import Axes


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
        self._mark(ax, found.best, f"best: {found.best}", "o", canvas.RULE)
        if found.within_one_error != found.best:
            words = f"within one standard error: {found.within_one_error}"
            self._mark(ax, found.within_one_error, words, "s", canvas.INK)
        canvas.whole_numbers(ax.xaxis, int(counts[0]), int(counts[-1]))
        ax.set_xlabel("number of components")
        ax.set_ylabel("held-out log-likelihood of a row (nats)")
        canvas.legend(ax, loc="lower right")
        self._keep(ax_=ax, figure_=ax.figure)
        return self

    def _mark(self, ax: Axes, count: int, label: str, marker: str, colour: str) -> None:
        found = self.selection
        height = found.mean[found.n_components == count]
        ax.plot(
            [count],
            height,
            marker=marker,
            markersize=9,
            markerfacecolor="none",
            markeredgecolor=colour,
            linestyle="none",
            label=label,
        )
