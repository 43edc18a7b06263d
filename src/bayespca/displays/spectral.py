"""The base class of displays of singular values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from bayespca.estimators._base import AnyEstimator
from bayespca.spectrum.records import Spectrum

from . import canvas, readings
from .canvas import Axes


class SpectralDisplay(canvas.Display, ABC):
    """A display of the singular values of a fit, on an axis that may be logarithmic."""

    @classmethod
    def from_estimator(
        cls, estimator: AnyEstimator, *, log: bool | str = "auto", ax: Axes = None
    ) -> Self:
        """Read the spectrum of a fitted estimator, and draw it."""
        return cls._read(estimator, readings.spectrum_of(estimator)).plot(ax=ax, log=log)

    @classmethod
    @abstractmethod
    def _read(cls, estimator: AnyEstimator, spectrum: Spectrum) -> Self:
        """The display of a fitted estimator, without drawing it."""

    @abstractmethod
    def plot(self, *, log: bool | str = "auto", ax: Axes = None) -> Self:
        """Draw on `ax`, or on a new figure."""
