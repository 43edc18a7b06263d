"""Charts of T² and Q over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayespca.arrays.types import FloatArray

from . import canvas
from .canvas import Axes
from .readings import shortened

# Most flagged rows that get a name, those farthest above their limits first.
MOST_NAMES = 8


@dataclass(frozen=True, eq=False, repr=False)
class MonitoringDisplay(canvas.Display):
    """T² and Q of rows divided by their limits, in row order; rows above a limit are named.

    >>> from bayespca import BayesianPCA, monitoring
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> from bayespca.displays import MonitoringDisplay
    >>> found = monitoring.statistics(BayesianPCA().fit(X[:80]), X[80:])
    >>> MonitoringDisplay.from_statistics(found).q.shape
    (20,)

    Parameters
    ----------
    t2, q
        Statistics of the rows divided by their limits: (n,).
    alpha
        The share of clean rows above each limit.
    rows
        Names of the rows; by default their numbers, from 0.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    t2: FloatArray
    q: FloatArray
    alpha: float
    rows: Sequence[str] | None = None

    @classmethod
    def from_statistics(
        cls, found: Any, *, rows: Sequence[str] | None = None, ax: Axes = None
    ) -> Self:
        """Draw the result of `monitoring.statistics`."""
        if rows is not None and len(rows) != len(found.q):
            raise ValueError(f"there are {len(found.q)} rows, but {len(rows)} names for them.")
        over = (found.t2 / found.t2_limit, found.q / found.q_limit)
        return cls(*over, found.alpha, rows).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        ax.axhline(1.0, color=canvas.RULE, linewidth=1, linestyle="--")
        for values, name, colour, marker in (
            (self.t2, "T²", canvas.KEPT, "o"),
            (self.q, "Q", canvas.CLASSES[1], "^"),
        ):
            if np.isnan(values).all():
                continue
            # Markers of rows above the limit are filled.
            places, above = np.arange(len(values)), values > 1
            look = {"marker": marker, "linestyle": "none", "color": colour, "markersize": 4}
            ax.plot(places, values, markerfacecolor="none", markeredgewidth=0.7, label=name, **look)
            ax.plot(places[above], values[above], **look)
        both = np.fmax(self.t2, self.q)
        over = np.where(both > 1, both, 0.0)
        for i in np.argsort(-over, kind="stable")[: min(MOST_NAMES, int((over > 0).sum()))]:
            text = str(i) if self.rows is None else shortened(self.rows[i])
            canvas.note(ax, text, (i, both[i]), (0, 4), ha="center", fontsize="x-small")
        canvas.whole_numbers(ax.xaxis, 0, len(self.q) - 1)
        ax.set(xlabel="row", ylabel="statistic over its limit")
        canvas.legend(ax, loc="upper left", bbox_to_anchor=(0, 1.12), ncols=2)
        canvas.corner_text(ax, f"{100 * self.alpha:g} % of clean rows are above each limit")
        return self._drawn(ax)
