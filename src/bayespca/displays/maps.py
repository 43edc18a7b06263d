"""Tables as maps: loadings, holes, rows by cluster, and factors by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.wording import percent

from . import canvas, readings
from .canvas import Axes

# With more features than this, names do not fit.
MOST_NAMES = 40
# Inches for one entry, and for labels.
CELL, LETTER, MARGINS = 0.22, 0.07, (0.4, 0.8)
BACKGROUND = "#9C9C9C"
# More cells than this cannot be told apart, and take time to draw.
MOST_ROWS, MOST_COLUMNS = 500, 200
LONGEST_NAME = 16
# Share of the height for the strip with the shares of columns.
STRIP = 0.25
MISSING = "#0B3C5D"
# Shares of the number of rows: the strip of probabilities above each cluster, and the gap after it.
STRIP_OF_CLUSTER, GAP = 0.04, 0.02
HOLE = "#FFFFFF"
ZERO = "#EDEDED"
# Cells above this multiple of the largest share are dark enough for white text.
DARK = 0.55


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
        W = np.asarray(readings.array(self.weights), dtype=np.float64)
        if W.ndim != 2 or not W.size:
            raise ValueError(f"a Hinton diagram needs a matrix, got an array of shape {W.shape}.")
        if np.isinf(W).any():
            raise ValueError("a Hinton diagram cannot show infinite entries.")
        L, H = W.shape
        names = self.feature_names if L <= MOST_NAMES else None
        letters = max((len(name) for name in names or ()), default=4)
        cell = min(CELL, 9.0 / max(L, H))
        width, height = H * cell + LETTER * letters + MARGINS[0], L * cell + MARGINS[1]
        size = float(np.clip(width, 2.2, 10.0)), float(np.clip(height, 2.0, 10.0))
        ax = canvas.axes(ax, size=size)
        # The square of the largest entry nearly fills its cell.
        half = 0.47 * np.sqrt(np.abs(W) / (np.nanmax(np.abs(W), initial=0.0) or 1.0))
        corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
        squares = canvas.matplotlib("collections").PolyCollection
        for sign, colour in ((1, "white"), (-1, "black")):
            rows, columns = np.nonzero(sign * np.nan_to_num(W) > 0)
            centres = np.column_stack([columns + 1, rows])[:, None, :]
            sides = half[rows, columns][:, None, None] * corners
            ax.add_collection(squares(centres + sides, facecolors=colour, edgecolors="none"))
        ax.set_facecolor(BACKGROUND)
        ax.set(xlim=(0.4, H + 0.6), ylim=(L - 0.4, -0.6), aspect="equal")
        # The equal aspect shrinks the axes; anchored here, they stay next to their names.
        ax.set_anchor("NW")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
        if names is not None:
            ax.set_yticks(np.arange(L), names, fontsize="small")
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
        return self._drawn(ax)


@dataclass(frozen=True, eq=False, repr=False)
class MissingnessDisplay(canvas.Display):
    """A map of holes, with rows of data from top to bottom, and the share of holes in each column.

    Rows and columns count from 0.

    >>> import numpy as np
    >>> from bayespca.displays import MissingnessDisplay
    >>> X = np.ones((10, 3))
    >>> X[:4, 1] = np.nan
    >>> MissingnessDisplay.from_data(X).column_shares
    array([0. , 0.4, 0. ])

    Parameters
    ----------
    shares
        Share of holes in each cell of the map: single entries, or blocks of them.
    column_shares
        Share of holes in each column.
    shape
        Rows and columns of the data.
    names
        Names of the columns, if they have any.

    Attributes
    ----------
    ax_, figure_
        The axes of the map and the figure of the last plot.
    column_ax_
        The axes of the strip above it, with the shares of columns.
    """

    shares: np.ndarray
    column_shares: np.ndarray
    shape: tuple[int, int]
    names: Sequence[str] | None = None

    column_ax_: Axes = field(default=None, init=False, repr=False)

    @classmethod
    def from_data(cls, X: Input, *, ax: Axes = None) -> Self:
        """Find the holes of an array or a frame (NaN, None, null, NA), and draw them."""
        holes = holes_of(X)
        if holes.ndim != 2 or not holes.size:
            raise ValueError(
                f"a map of holes needs rows and columns, got data of shape {holes.shape}."
            )
        names = getattr(X, "columns", None)
        return cls(
            shares=block_means(holes, MOST_ROWS, MOST_COLUMNS),
            column_shares=holes.mean(axis=0),
            shape=(holes.shape[0], holes.shape[1]),
            names=None if names is None else [str(name) for name in names],
        ).plot(ax=ax)

    def plot(self, *, ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure; the strip of columns goes on top of the axes."""
        ax = canvas.axes(ax)
        n, p = self.shape
        ax.imshow(
            self.shares,
            cmap=canvas.shades(canvas.FAINT, MISSING),
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, p - 0.5, n - 0.5, -0.5),
        )
        # The strip lies within the axes, so any layout leaves room for it.
        ax.set_ylim(n - 0.5, -0.5 - n * STRIP / (1 - STRIP))
        ax.spines["left"].set_bounds(n - 0.5, -0.5)
        ax.set_ylabel("row")
        canvas.whole_numbers(ax.yaxis, 0, n - 1)
        if self.names is None or p > MOST_NAMES:
            ax.set_xlabel("column")
            canvas.whole_numbers(ax.xaxis, 0, p - 1)
        else:
            names = [readings.shortened(name, LONGEST_NAME) for name in self.names]
            ax.set_xticks(np.arange(p), names, fontsize="x-small", rotation=90)
        strip = ax.inset_axes((0, 1 - 0.8 * STRIP, 1, 0.8 * STRIP), sharex=ax)
        strip.spines[["top", "right"]].set_visible(False)
        edges = np.arange(p + 1) - 0.5
        strip.stairs(100 * self.column_shares, edges, fill=True, color=MISSING, linewidth=0)
        highest = 100 * float(self.column_shares.max())
        strip.set_ylim(0, 1.05 * highest or 1.0)
        strip.set_yticks([0, highest] if highest else [0])
        strip.yaxis.set_major_formatter(lambda value, _: percent(value / 100))
        strip.tick_params(labelbottom=False, bottom=False, labelsize="x-small")
        total = percent(float(self.column_shares.mean()))
        canvas.corner_text(strip, f"{total} of {n:,} × {p:,} missing")
        return self._drawn(ax, column_ax_=strip)


def holes_of(X: Input) -> NDArray[np.bool_]:
    """Mask of the missing entries. Entries that a sparse matrix does not store are zeros."""
    if is_sparse(X):
        stored = X.tocsr().astype(np.float64)
        stored.data = np.isnan(stored.data)
        return np.asarray(stored.toarray(), dtype=np.bool_)
    if hasattr(X, "isna"):
        return np.asarray(X.isna().to_numpy(), dtype=np.bool_)
    return readings.is_missing(readings.array(X))


def block_means(holes: NDArray[np.bool_], most_rows: int, most_columns: int) -> np.ndarray:
    """Shares of holes in blocks of nearly equal size, at most `most_rows` × `most_columns`."""
    rows, columns = (
        np.linspace(0, size, min(size, most) + 1).astype(int)
        for size, most in zip(holes.shape, (most_rows, most_columns), strict=True)
    )
    if (rows.size, columns.size) == (holes.shape[0] + 1, holes.shape[1] + 1):
        return holes.astype(np.float64)
    counts = np.add.reduceat(holes, rows[:-1], axis=0, dtype=np.int64)
    counts = np.add.reduceat(counts, columns[:-1], axis=1)
    return counts / np.outer(np.diff(rows), np.diff(columns))


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
        strip, gap = max(STRIP_OF_CLUSTER * n, 0.5), max(GAP * n, 0.3)
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
        ax.set(xlabel="feature", ylabel="cluster (rows)")
        holes = "; white: holes" if np.isnan(self.cells).any() else ""
        canvas.corner_text(ax, f"strips: probability of 1 in the cluster{holes}")
        return self._drawn(ax)


def _image(ax: Axes, values: np.ndarray, colour: str, top: float, bottom: float) -> None:
    ax.imshow(
        np.ma.masked_invalid(values),
        cmap=canvas.shades(ZERO, colour).with_extremes(bad=HOLE),
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(-0.5, values.shape[1] - 0.5, bottom, top),
    )


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
        ax.set(xlabel="view", ylabel="factor")
        ax.tick_params(length=0)
        ax.set_xticks(np.arange(V + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(k + 1) - 0.5, minor=True)
        ax.grid(which="minor", color="white", linewidth=2)
        ax.tick_params(which="minor", length=0)
        ax.spines[:].set_visible(False)
        return self._drawn(ax)
