"""Scores of rows and directions of features in one plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.lowrank import posterior as read

from . import canvas, readings
from .canvas import Axes
from .scores import Components, ScoresDisplay, checked_components

# Length of the longest arrow over the distance of the farthest row.
REACH = 0.85
# Height of a line of text as a share of the height of the axes.
LINE = 0.052
# Points between the tip of an arrow and its name; points in an inch.
OFFSET, POINTS = 3, 72
# No name gets more room than this share of the width. Each round of widening makes names longer in
# data units, by less and less.
WIDEST, ROUNDS, PASSES = 0.65, 60, 4


@dataclass(frozen=True, eq=False, repr=False)
class BiplotDisplay(canvas.Display):
    """Scores as points, and the features with the largest loadings as arrows.

    The inner product of a point and an arrow, times a common factor, is the value that the two
    components give that feature in that row (Gabriel 1971). Both axes have the same scale, so
    angles are not distorted.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import BiplotDisplay
    >>> display = BiplotDisplay.from_estimator(model, X, n_features=5)
    >>> display.ax_.get_xlabel()
    'component 1 (52 %)'

    Parameters
    ----------
    scores
        The points; drawn without their ellipses by default.
    loadings
        One row for each feature, one column for each of the two components.
    feature_names
        One for each feature.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    scores: ScoresDisplay
    loadings: np.ndarray
    feature_names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: AnyEstimator,
        X: Input,
        *,
        components: Components = None,
        n_features: int = 10,
        labels: Input = None,
        confidence: float = 0.0,
        ax: Axes = None,
    ) -> Self:
        """Compute the scores of the rows of X, and draw them with the `n_features` longest arrows.

        `components` are two components, counted from 1; other parameters are as in
        `ScoresDisplay`.
        """
        k = readings.n_components(estimator, what="scores")
        chosen = checked_components(components, k)
        if len(chosen) != 2:
            raise ValueError(
                f"a biplot needs two components, and the model has {k}: use ScoresDisplay."
                if k < 2
                else f"a biplot needs two components, got {components!r}."
            )
        display = cls(
            scores=ScoresDisplay.compute(estimator, X, chosen, labels),
            loadings=_loadings(estimator)[:, [h - 1 for h in chosen]],
            feature_names=readings.short_feature_names(estimator),
        )
        return display.plot(n_features=n_features, confidence=confidence, ax=ax)

    def longest(self, n_features: int) -> np.ndarray:
        """The features with the longest arrows, longest first."""
        length = np.hypot(*self.loadings.T)
        order = np.argsort(-length, kind="stable")[:n_features]
        return order[length[order] > 0]

    def plot(self, *, n_features: int = 10, confidence: float = 0.0, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
        ax = canvas.axes(ax)
        ax.set_aspect("equal", adjustable="datalim")
        self.scores.plot(confidence=confidence, ax=ax)
        _pale(ax)
        features = self.longest(n_features)
        tips = self.loadings[features] * self._factor(features)
        names = [self.feature_names[j] for j in features]
        self._draw_arrows(ax, tips)
        drawn = self._draw_names(ax, tips, names)
        # Widening the axes changes the layout, in which names may reach too far again.
        for _ in range(PASSES):
            if not _make_room(ax, tips, drawn):
                break
            for text in drawn:
                text.remove()
            drawn = self._draw_names(ax, tips, names)
        self._keep(ax_=ax, figure_=ax.figure)
        return self

    def _factor(self, features: np.ndarray) -> float:
        """A factor for all arrows that makes them fit the scores; only their directions matter."""
        longest = np.hypot(*self.loadings[features].T).max(initial=0.0)
        farthest = np.hypot(*self.scores.scores.T).max(initial=0.0)
        return float(REACH * farthest / longest) if longest > 0 and farthest > 0 else 1.0

    def _draw_arrows(self, ax: Axes, tips: np.ndarray) -> None:
        for x, y in tips:
            ax.annotate(
                "",
                xy=(x, y),
                xytext=(0, 0),
                arrowprops={"arrowstyle": "-|>", "color": canvas.INK, "lw": 0.9, "shrinkB": 0},
                zorder=4,
            )
        ax.update_datalim(1.15 * tips)
        ax.autoscale_view()

    def _draw_names(self, ax: Axes, tips: np.ndarray, names: list[str]) -> list[Any]:
        halo = canvas.matplotlib("patheffects").withStroke(linewidth=2, foreground="white")
        ax.apply_aspect()
        height = float(np.ptp(ax.get_ylim())) * LINE
        return [
            ax.annotate(
                name,
                xy=(x, y),
                xytext=(OFFSET if x >= 0 else -OFFSET, 0),
                textcoords="offset points",
                ha="left" if x >= 0 else "right",
                va="center",
                fontsize="small",
                color=canvas.INK,
                path_effects=[halo],
                zorder=5,
            )
            for (x, y), name in zip(spread_out(tips, height), names, strict=True)
        ]


def _make_room(ax: Axes, tips: np.ndarray, names: list[Any]) -> bool:
    """Widen the axes to the left until names of arrows to the left fit; return whether they grew.

    A name that takes a share s of the width has room if its tip is at least s·(high − low) above
    the lower limit.
    """
    # The layout shrinks axes if names reach beyond their right end.
    ax.figure.canvas.figure.draw_without_rendering()
    left = tips[:, 0] < 0
    shares = np.minimum([_share(ax, text) for text in names], WIDEST)[left]
    first, high = ax.get_xlim()
    low = first
    for _ in range(ROUNDS):
        low = min(low, float((tips[left, 0] - shares * (high - low)).min(initial=low)))
    if low == first:
        return False
    ax.update_datalim([(low, 0.0)])
    ax.autoscale_view()
    return True


def _share(ax: Axes, text: Any) -> float:
    """The share of the width of the axes that a name takes, with the gaps beside it."""
    gaps = 3 * OFFSET * ax.figure.dpi / POINTS
    return float((text.get_window_extent().width + gaps) / ax.get_window_extent().width)


def spread_out(tips: np.ndarray, height: float) -> np.ndarray:
    """Places for names near the tips of arrows, at least `height` apart vertically on each side."""
    places = np.array(tips, dtype=np.float64)
    for side in (tips[:, 0] >= 0, tips[:, 0] < 0):
        rows = np.flatnonzero(side)
        rows = rows[np.argsort(tips[rows, 1], kind="stable")]
        places[rows, 1] = _separated(tips[rows, 1], height)
    return places


def _separated(y: np.ndarray, gap: float) -> np.ndarray:
    """The increasing numbers closest to y in least squares, at least `gap` apart.

    After subtraction of gap·index this is isotonic regression: pool neighbours that are out of
    order, and set each pool to its mean.
    """
    pools: list[tuple[float, int]] = []
    for value in y - gap * np.arange(y.size):
        mean, size = float(value), 1
        while pools and pools[-1][0] > mean:
            below, n = pools.pop()
            mean, size = (below * n + mean * size) / (n + size), n + size
        pools.append((mean, size))
    levels = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    return levels + gap * np.arange(y.size)


def _loadings(estimator: AnyEstimator) -> np.ndarray:
    """Directions of the features, (p, k), in the coordinates that `transform` returns."""
    W = readings.array(estimator.components_).T
    if getattr(estimator, "whiten", False):
        return W * readings.array(read.latent_std(estimator.posterior_))
    return W


def _pale(ax: Axes) -> None:
    """Make the points pale, so that arrows and names stand out."""
    for points in ax.collections:
        points.set_alpha(0.45 if points.get_alpha() is None else points.get_alpha())
