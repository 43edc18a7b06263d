"""Singular values: the scree plot, and eigenvalues compared with the density of pure noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.spectrum.noise_law import density_of_nonzero, largest_singular_value, support

from . import canvas, readings
from .canvas import Axes

# More markers than this overlap.
MOST_MARKERS = 100
# The axis is logarithmic if the largest value is above this multiple of the smallest, and that of
# eigenvalues if the largest is above this multiple of the noise edge.
WIDE = 10.0
# Squares of smaller variances underflow.
SMALLEST = float(np.sqrt(np.finfo(np.float64).tiny))
FEWEST_BINS, MOST_BINS = 4, 60


@dataclass(frozen=True, eq=False, repr=False)
class ScreeDisplay(canvas.Display):
    """Singular values, with the shrunk values of those kept, the threshold and the noise edge.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import ScreeDisplay
    >>> display = ScreeDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'component'

    Parameters
    ----------
    singular_values
        All known singular values, in decreasing order.
    shrunk_singular_values
        Singular values of the posterior mean, one for each kept component.
    threshold
        Singular values above it are kept; not drawn if 0 or infinite.
    noise_edge
        The largest singular value of pure noise, σ(√L + √M) (Marchenko & Pastur 1967).
    n_values
        Number of singular values of the data, known or not.
    unit
        Added to the label of the axis of singular values.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    singular_values: np.ndarray
    shrunk_singular_values: np.ndarray
    threshold: float
    noise_edge: float
    n_values: int
    unit: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: AnyEstimator, *, log: bool | str = "auto", ax: Axes = None
    ) -> Self:
        """Read the spectrum of a fitted estimator, and draw it."""
        spectrum = readings.spectrum_of(estimator)
        display = cls(
            singular_values=spectrum.singular_values * spectrum.scale,
            shrunk_singular_values=readings.array(estimator.shrunk_singular_values_),
            threshold=float(estimator.threshold_),
            noise_edge=largest_singular_value(
                float(estimator.posterior_.noise_variance), spectrum.shape
            ),
            n_values=spectrum.full_rank,
            unit=readings.unit_of_data(estimator),
        )
        return display.plot(ax=ax, log=log)

    @property
    def rank(self) -> int:
        """Number of components kept."""
        return int(self.shrunk_singular_values.size)

    def plot(self, *, log: bool | str = "auto", ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure.

        ``log="auto"`` makes the axis of values logarithmic when they span a wide range. If there
        are many values, only the first ones are drawn, far enough to show where the noise begins;
        if even these are too many, evenly spaced ones are drawn.
        """
        ax = canvas.axes(ax)
        shown = shown_indices(self.singular_values.size, self.rank)
        # Positive values and lines that must be visible, without rounding errors.
        values = np.r_[self.singular_values[shown], self.shrunk_singular_values]
        largest = values.max(initial=0.0)
        values = values[(values > 1e-6 * largest) | (values > 0.3 * self.noise_edge)]
        lines = [line for line in (self.threshold, self.noise_edge) if 0 < line < np.inf]
        levels = np.r_[values[values > 0], lines]
        if log == "auto":
            log = bool(levels.size and levels.max() > WIDE * levels.min())
        if log:
            ax.set_yscale("log")
            low, high = (levels.min() / 1.5, levels.max() * 1.5) if levels.size else (0.1, 1.0)
            ax.set_ylim(low, high)
            if high < 100 * low:
                canvas.plain_numbers(ax.yaxis)
        size = 5 if shown.size <= 50 else 3.5
        kept, hollow = shown[shown < self.rank], {"markerfacecolor": "white", "zorder": 1.9}
        for label, rows, heights, colour, style in (
            ("kept", kept, self.singular_values, canvas.KEPT, {}),
            ("kept, shrunk", kept, self.shrunk_singular_values, canvas.KEPT, hollow),
            ("dropped", shown[shown >= self.rank], self.singular_values, canvas.DROPPED, {}),
        ):
            if rows.size:
                look = {"color": colour, "markersize": size, **style}
                ax.plot(rows + 1, heights[rows], "o", label=label, **look)
        if 0 < self.threshold < np.inf:
            ax.axhline(self.threshold, color=canvas.RULE, linewidth=1.2, label="threshold")
        if self.noise_edge > 0:
            ax.axhline(
                self.noise_edge,
                color=canvas.INK,
                linewidth=1.0,
                linestyle=(0, (1.5, 1.5)),
                label="edge of pure noise",
            )
        if ax.get_yscale() == "linear":
            ax.set_ylim(0, 1.08 * levels.max(initial=0.0) or 1.0)
        ax.set(xlabel="component", ylabel="singular value" + self.unit)
        last = int(shown[-1]) + 1 if shown.size else 1
        canvas.whole_numbers(ax.xaxis, 1, last)
        ax.set_xlim(1 - max(0.5, 0.02 * last), last + max(0.5, 0.02 * last))
        if shown.size < self.n_values:
            canvas.corner_text(ax, f"{shown.size:,} of {self.n_values:,} values shown")
        canvas.legend(ax)
        return self._drawn(ax)


def shown_indices(n_known: int, rank: int) -> np.ndarray:
    """Indices of the values to draw: enough of the dropped ones to see where noise begins.

    Up to 50 values are all drawn; the last kept and the first dropped one always are.
    """
    end = min(n_known, max(50, rank + max(20, rank // 4)))
    if end <= MOST_MARKERS:
        return np.arange(end)
    spread = np.linspace(0, end - 1, MOST_MARKERS).round().astype(int)
    return np.unique(np.r_[spread, max(rank - 1, 0), min(rank, end - 1)])


@dataclass(frozen=True, eq=False, repr=False)
class SpectrumDensityDisplay(canvas.Display):
    """Histogram of eigenvalues γ²/M with the Marchenko–Pastur density of the estimated noise.

    If the noise has one variance and contains no more signal, the histogram follows the curve.
    Marks show components above the edge. The histogram of all other eigenvalues and the curve both
    have area 1. All min(L, M) singular values must be known.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> from bayespca.displays import SpectrumDensityDisplay
    >>> display = SpectrumDensityDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'eigenvalue'

    Parameters
    ----------
    eigenvalues
        All min(L, M) eigenvalues, in decreasing order.
    n_components
        Number of components kept.
    noise_variance
        σ².
    ratio
        L/M: features over samples.
    unit
        Added to the label of the axis of eigenvalues.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last plot.
    """

    eigenvalues: np.ndarray
    n_components: int
    noise_variance: float
    ratio: float
    unit: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: AnyEstimator, *, log: bool | str = "auto", ax: Axes = None
    ) -> Self:
        """Read the spectrum of a fitted estimator, and draw it."""
        spectrum = readings.spectrum_of(estimator)
        if not spectrum.is_complete:
            raise ValueError(
                f"only the {spectrum.singular_values.size} largest of {spectrum.full_rank} "
                "singular values are known: fit with engine='gram' or engine='dense', "
                "which compute all of them."
            )
        status = getattr(estimator, "status_", ())
        if "noise-free" in status or "all-zero" in status:
            raise ValueError("the data have no noise, so there is no density to compare with.")
        variance = float(estimator.posterior_.noise_variance)
        if not SMALLEST < variance < np.inf:
            raise ValueError(
                "squares of these data leave the range of floating-point numbers: fit them divided "
                "by a common factor."
            )
        L, M = spectrum.shape
        eigenvalues = (spectrum.singular_values * spectrum.scale) ** 2 / M
        display = cls(
            eigenvalues=np.append(eigenvalues, np.zeros(spectrum.full_rank - eigenvalues.size)),
            n_components=int(estimator.n_components_),
            noise_variance=variance,
            ratio=L / M,
            unit=readings.unit_of_data(estimator),
        )
        return display.plot(ax=ax, log=log)

    @property
    def edge(self) -> float:
        """The largest eigenvalue of pure noise, σ²(1 + √(L/M))²."""
        return support(self.noise_variance, self.ratio)[1]

    @property
    def components(self) -> np.ndarray:
        """Kept eigenvalues above the edge."""
        kept = self.eigenvalues[: self.n_components]
        return kept[kept > self.edge]

    @property
    def rest(self) -> np.ndarray:
        """All other eigenvalues."""
        return self.eigenvalues[self.components.size :]

    def plot(self, *, log: bool | str = "auto", ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure.

        ``log="auto"`` makes the axis of eigenvalues logarithmic when components are far above the
        noise; densities are then per decade.
        """
        ax = canvas.axes(ax)
        if log == "auto":
            log = bool(self.eigenvalues[0] > WIDE * self.edge)
        if log:
            ax.set_xscale("log")
        values = self.rest
        if log:
            # Zeros that rounding made positive would stretch the axis over many decades.
            values = np.log10(values[values > 1e-6 * self.edge])
        if values.size:
            edges = bin_edges(values)
            share, _ = np.histogram(values, edges)
            ax.stairs(
                share / (self.rest.size * np.diff(edges)),
                10**edges if log else edges,
                fill=True,
                facecolor="#CFCFCF",
                edgecolor="white",
                label="not kept" if self.components.size == self.n_components else "the others",
            )
        a, b = support(self.noise_variance, self.ratio)
        # Denser towards the ends, where the density is steep.
        x = a + (b - a) * np.sin(np.linspace(0, np.pi / 2, 801)[1:]) ** 2
        f = density_of_nonzero(x, self.noise_variance, self.ratio)
        if log:
            f = f * x * np.log(10)
        ax.plot(x, f, color=canvas.RULE, linewidth=1.4, label="pure noise")
        if self.components.size:
            ax.plot(
                self.components,
                np.full(self.components.size, 0.035),
                "|",
                transform=ax.get_xaxis_transform(),
                color=canvas.KEPT,
                markersize=11,
                markeredgewidth=1.3,
                label="component",
            )
        if not log:
            ax.set_xlim(left=0)
        elif ax.get_xlim()[1] < 100 * ax.get_xlim()[0]:
            canvas.plain_numbers(ax.xaxis)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("eigenvalue" + self.unit)
        ax.set_ylabel("density per decade" if log else "density")
        canvas.legend(ax)
        return self._drawn(ax)


def bin_edges(values: np.ndarray) -> np.ndarray:
    """Edges of equal bins, about as many as the square root of the number of values."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        high = low + (abs(low) or 1.0) * 1e-3
    n_bins = int(np.clip(np.sqrt(values.size), FEWEST_BINS, MOST_BINS))
    return np.linspace(low, high, n_bins + 1)
