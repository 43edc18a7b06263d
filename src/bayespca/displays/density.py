"""The eigenvalues that were left out, compared with the density of pure noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bayespca.estimators._base import AnyEstimator
from bayespca.spectrum.noise_law import density_of_nonzero, support
from bayespca.spectrum.records import Spectrum

from . import canvas, readings
from .canvas import Axes
from .spectral import SpectralDisplay

# The axis is logarithmic if the largest eigenvalue is above this multiple of the noise edge.
WIDE = 10.0
# Squares of smaller variances underflow.
SMALLEST = float(np.sqrt(np.finfo(np.float64).tiny))
FEWEST_BINS, MOST_BINS = 4, 60


@dataclass(frozen=True, eq=False, repr=False)
class SpectrumDensityDisplay(SpectralDisplay):
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
    def _read(cls, estimator: AnyEstimator, spectrum: Spectrum) -> Self:
        if not spectrum.is_complete:
            raise ValueError(
                f"only the {spectrum.singular_values.size} largest of {spectrum.full_rank} "
                "singular values are known: fit with engine='gram' or engine='dense', "
                "which compute all of them."
            )
        status = getattr(estimator, "status_", ())
        if "noise-free" in status or "all-zero" in status:
            raise ValueError("the data have no noise, so there is no density to compare with.")
        variance = readings.noise_variance(estimator)
        if not SMALLEST < variance < np.inf:
            raise ValueError(
                "squares of these data leave the range of floating-point numbers: fit them divided "
                "by a common factor."
            )
        L, M = spectrum.shape
        eigenvalues = (spectrum.singular_values * spectrum.scale) ** 2 / M
        return cls(
            eigenvalues=np.append(eigenvalues, np.zeros(spectrum.full_rank - eigenvalues.size)),
            n_components=int(estimator.n_components_),
            noise_variance=variance,
            ratio=L / M,
            unit=readings.unit_of_data(estimator),
        )

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
        self._draw_histogram(ax, bool(log))
        self._draw_curve(ax, bool(log))
        self._draw_components(ax)
        if not log:
            ax.set_xlim(left=0)
        elif ax.get_xlim()[1] < 100 * ax.get_xlim()[0]:
            canvas.plain_numbers(ax.xaxis)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("eigenvalue" + self.unit)
        ax.set_ylabel("density per decade" if log else "density")
        canvas.legend(ax)
        self._keep(ax_=ax, figure_=ax.figure)
        return self

    def _draw_histogram(self, ax: Axes, log: bool) -> None:
        values = self.rest
        if log:
            # Zeros that rounding made positive would stretch the axis over many decades.
            values = np.log10(values[values > 1e-6 * self.edge])
        if not values.size:
            return
        edges = bin_edges(values)
        share, _ = np.histogram(values, edges)
        heights = share / (self.rest.size * np.diff(edges))
        ax.stairs(
            heights,
            10**edges if log else edges,
            fill=True,
            facecolor="#CFCFCF",
            edgecolor="white",
            label="not kept" if self.components.size == self.n_components else "the others",
        )

    def _draw_curve(self, ax: Axes, log: bool) -> None:
        a, b = support(self.noise_variance, self.ratio)
        # Denser towards the ends, where the density is steep.
        x = a + (b - a) * np.sin(np.linspace(0, np.pi / 2, 801)[1:]) ** 2
        f = density_of_nonzero(x, self.noise_variance, self.ratio)
        if log:
            f = f * x * np.log(10)
        ax.plot(x, f, color=canvas.RULE, linewidth=1.4, label="pure noise")

    def _draw_components(self, ax: Axes) -> None:
        if not self.components.size:
            return
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


def bin_edges(values: np.ndarray) -> np.ndarray:
    """Edges of equal bins, about as many as the square root of the number of values."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        high = low + (abs(low) or 1.0) * 1e-3
    n_bins = int(np.clip(np.sqrt(values.size), FEWEST_BINS, MOST_BINS))
    return np.linspace(low, high, n_bins + 1)
