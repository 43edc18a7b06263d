"""Scores of rows, alone or with the directions of features in a biplot, and charts of T² and Q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from scipy.stats import chi2

from bayespca.arrays.types import FloatArray, Input
from bayespca.estimators._base import AnyEstimator
from bayespca.lowrank import posterior as read

from . import canvas, readings
from .canvas import Axes, checked_labels, draw_points

# Two components, counted from 1, or one; None for the first two, or the only one.
Components: TypeAlias = Sequence[int] | None

MOST_POINTS = 10_000
MOST_ELLIPSES = 2_000
# Length of the longest arrow over the distance of the farthest row.
REACH = 0.85
# Height of a line of text as a share of the height of the axes.
LINE = 0.052
# Points between the tip of an arrow and its name; points in an inch.
OFFSET, POINTS = 3, 72
# No name gets more room than this share of the width. Each round of widening makes names longer in
# data units, by less and less.
WIDEST, ROUNDS, PASSES = 0.65, 60, 4
# Most flagged rows that get a name, those farthest above their limits first.
MOST_NAMED = 8


@dataclass(frozen=True, eq=False, repr=False)
class ScoresDisplay(canvas.Display):
    """Scores as points, each in an ellipse that contains the true scores with a given probability.

    With one component the scores are drawn against the row index, with bars.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import ScoresDisplay
    >>> display = ScoresDisplay.from_estimator(model, X, components=(1, 3))
    >>> display.ax_.get_xlabel()
    'component 1 (52 %)'

    Parameters
    ----------
    scores, std
        Posterior means and standard deviations: one row for each row of data, one column for each
        of the one or two components shown.
    axis_labels
        Names of these components.
    labels
        One label for each row, or None. Classes (names, or up to 20 different numbers) have a
        legend, other numbers a colour bar.
    label_name
        Title of the labels; `from_estimator` uses the name of a pandas or polars series.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    scores: np.ndarray
    std: np.ndarray
    axis_labels: Sequence[str]
    labels: np.ndarray | None = None
    label_name: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: AnyEstimator,
        X: Input,
        *,
        components: Components = None,
        labels: Input = None,
        confidence: float = 0.95,
        random_state: int | None = 0,
        ax: Axes = None,
    ) -> Self:
        """Compute the scores of the rows of X, and draw them.

        Parameters
        ----------
        components
            Two components, counted from 1, or one; by default the first two, or the only one.
        labels
            One label for each row of X.
        confidence
            Probability that an ellipse contains the true scores; 0 for no ellipses.
        random_state
            Seed for choosing rows, if there are too many to draw.
        """
        return cls.compute(estimator, X, components, labels).plot(
            confidence=confidence, random_state=random_state, ax=ax
        )

    @classmethod
    def compute(
        cls, estimator: AnyEstimator, X: Input, components: Components = None, labels: Input = None
    ) -> Self:
        """The display of `from_estimator`, without drawing it."""
        k = readings.n_components(estimator, what="scores")
        chosen = checked_components(components, k)
        scores, std = (readings.array(a) for a in estimator.transform(X, return_std=True))
        columns = [h - 1 for h in chosen]
        return cls(
            scores=scores[:, columns],
            std=np.broadcast_to(std, scores.shape)[:, columns],
            axis_labels=[readings.component_label(estimator, h) for h in chosen],
            labels=checked_labels(labels, len(scores)),
            label_name=str(getattr(labels, "name", None) or ""),
        )

    def plot(
        self,
        *,
        confidence: float = 0.95,
        max_points: int = MOST_POINTS,
        max_ellipses: int = MOST_ELLIPSES,
        random_state: int | None = 0,
        ax: Axes = None,
    ) -> Self:
        """Draw on `ax`, or on a new figure.

        If there are more than `max_points` rows, a random sample is drawn. At most `max_ellipses`
        rows show their uncertainty. A remark above the axes says so.
        """
        if not 0 <= confidence < 1:
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence!r}.")
        ax = canvas.axes(ax)
        rng = np.random.default_rng(random_state)
        n = len(self.scores)
        rows = sample(np.arange(n), max_points, rng)
        labels = None if self.labels is None else self.labels[rows]
        scores = self.scores[rows]
        xy = scores if self.is_flat else np.column_stack([rows, scores[:, 0]])
        size = 16 if rows.size <= 1000 else 6
        colours = draw_points(ax, xy, labels, size=size, title=self.label_name)
        circled = np.zeros(0, dtype=int)
        if confidence > 0 and np.any(self.std > 0):
            circled = sample(np.arange(rows.size), max_ellipses, rng)
            # Radius that contains a Gaussian with this probability, in standard deviations.
            radius = np.sqrt(chi2.ppf(confidence, self.scores.shape[1]))
            half = radius * self.std[rows[circled]]
            self._draw_spread(ax, xy[circled], half, [colours[i] for i in circled])
        ax.set_xlabel(self.axis_labels[0] if self.is_flat else "row")
        ax.set_ylabel(self.axis_labels[-1])
        if not self.is_flat:
            canvas.whole_numbers(ax.xaxis, 0, n - 1)
        remarks = [f"{rows.size:,} of {n:,} rows"] if rows.size < n else []
        if circled.size:
            shape = "ellipses" if self.is_flat else "intervals"
            few = f" of {circled.size:,}" if circled.size < rows.size else ""
            remarks.append(f"{100 * confidence:g} % {shape}{few}")
        canvas.corner_text(ax, ", ".join(remarks))
        return self._drawn(ax)

    @property
    def is_flat(self) -> bool:
        """Whether two components are shown."""
        return self.scores.shape[1] == 2

    def _draw_spread(self, ax: Axes, xy: np.ndarray, half: np.ndarray, colours: list[Any]) -> None:
        if not self.is_flat:
            low, high = xy[:, 1] - half[:, 0], xy[:, 1] + half[:, 0]
            ax.vlines(xy[:, 0], low, high, colors=colours, alpha=0.35, linewidth=0.8, zorder=2)
            return
        ax.add_collection(
            canvas.matplotlib("collections").EllipseCollection(
                *(2 * half).T,
                np.zeros(len(xy)),
                units="xy",
                offsets=xy,
                offset_transform=ax.transData,
                facecolors="none",
                edgecolors=colours,
                linewidths=0.5,
                alpha=float(np.clip(50 / len(xy), 0.15, 0.5)),
                zorder=2,
            )
        )
        # matplotlib does not extend the limits for collections in data units.
        ax.update_datalim(np.vstack([xy - half, xy + half]))
        ax.autoscale_view()


def sample(rows: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """All rows, or a random choice of `most` of them, in row order."""
    return rows if rows.size <= most else np.sort(rng.choice(rows, most, replace=False))


def checked_components(components: Components, k: int) -> tuple[int, ...]:
    """One or two of k components, counted from 1."""
    if components is None:
        return (1, 2) if k > 1 else (1,)
    chosen = tuple(int(h) for h in components)
    if len(chosen) not in (1, 2) or not all(1 <= h <= k for h in chosen):
        raise ValueError(
            f"components must be one or two whole numbers from 1 to {k}, got {components!r}."
        )
    return chosen


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
        # In the coordinates that `transform` returns.
        W = readings.array(estimator.components_).T
        if getattr(estimator, "whiten", False):
            W = W * readings.array(read.latent_std(estimator.posterior_))
        display = cls(
            scores=ScoresDisplay.compute(estimator, X, chosen, labels),
            loadings=W[:, [h - 1 for h in chosen]],
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
        # Pale points let arrows and names stand out.
        for points in ax.collections:
            points.set_alpha(0.45 if points.get_alpha() is None else points.get_alpha())
        features = self.longest(n_features)
        # A factor for all arrows makes them fit the scores; only their directions matter.
        longest = np.hypot(*self.loadings[features].T).max(initial=0.0)
        farthest = np.hypot(*self.scores.scores.T).max(initial=0.0)
        factor = float(REACH * farthest / longest) if longest > 0 and farthest > 0 else 1.0
        tips = self.loadings[features] * factor
        names = [self.feature_names[j] for j in features]
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
        drawn = self._draw_names(ax, tips, names)
        # Widening the axes changes the layout, in which names may reach too far again.
        for _ in range(PASSES):
            if not _make_room(ax, tips, drawn):
                break
            for text in drawn:
                text.remove()
            drawn = self._draw_names(ax, tips, names)
        return self._drawn(ax)

    def _draw_names(self, ax: Axes, tips: np.ndarray, names: list[str]) -> list[Any]:
        halo = canvas.matplotlib("patheffects").withStroke(linewidth=2, foreground="white")
        ax.apply_aspect()
        height = float(np.ptp(ax.get_ylim())) * LINE
        look = {"va": "center", "path_effects": [halo], "zorder": 5}
        return [
            canvas.note(ax, name, (x, y), (OFFSET, 0), ha="left", **look)
            if x >= 0
            else canvas.note(ax, name, (x, y), (-OFFSET, 0), ha="right", **look)
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
    gaps, width = 3 * OFFSET * ax.figure.dpi / POINTS, ax.get_window_extent().width
    taken = [float((text.get_window_extent().width + gaps) / width) for text in names]
    shares = np.minimum(taken, WIDEST)[left]
    first, high = ax.get_xlim()
    low = first
    for _ in range(ROUNDS):
        low = min(low, float((tips[left, 0] - shares * (high - low)).min(initial=low)))
    if low == first:
        return False
    ax.update_datalim([(low, 0.0)])
    ax.autoscale_view()
    return True


def spread_out(tips: np.ndarray, height: float) -> np.ndarray:
    """Places for names near the tips of arrows, at least `height` apart vertically on each side.

    They are the closest ones in least squares. After subtraction of height·index this is isotonic
    regression: pool neighbours that are out of order, and set each pool to its mean.
    """
    places = np.array(tips, dtype=np.float64)
    for side in (tips[:, 0] >= 0, tips[:, 0] < 0):
        rows = np.flatnonzero(side)
        rows = rows[np.argsort(tips[rows, 1], kind="stable")]
        steps = height * np.arange(rows.size)
        pools: list[tuple[float, int]] = []
        for value in tips[rows, 1] - steps:
            mean, size = float(value), 1
            while pools and pools[-1][0] > mean:
                below, n = pools.pop()
                mean, size = (below * n + mean * size) / (n + size), n + size
            pools.append((mean, size))
        levels = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
        places[rows, 1] = levels + steps
    return places


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
        for i in np.argsort(-over, kind="stable")[: min(MOST_NAMED, int((over > 0).sum()))]:
            text = str(i) if self.rows is None else readings.shortened(self.rows[i])
            canvas.note(ax, text, (i, both[i]), (0, 4), ha="center", fontsize="x-small")
        canvas.whole_numbers(ax.xaxis, 0, len(self.q) - 1)
        ax.set(xlabel="row", ylabel="statistic over its limit")
        canvas.legend(ax, loc="upper left", bbox_to_anchor=(0, 1.12), ncols=2)
        canvas.corner_text(ax, f"{100 * self.alpha:g} % of clean rows are above each limit")
        return self._drawn(ax)
