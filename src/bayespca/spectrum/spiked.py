"""Singular values as the posterior of the rank sees them: squared, in units of the noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .noise import tail_sums
from .records import FloatArray, Spectrum
from .spheres import Squares
from .strengths import Ranks

# γ²/Mσ² beyond which a component is certain, however much stronger it is.
STRONG = 1e8


@dataclass(frozen=True)
class SpikedSpectrum:
    """Squared singular values of an L×M matrix, in units of a first guess of the noise.

    `given` is log σ² where it is known, `per_component` as in `posterior_of_rank`; `log_unit` is
    log 2π times the first guess, in the units of the data.
    """

    squares: Squares
    L: float
    M: float
    given: float | None
    per_component: float = 0.0
    log_unit: float = 0.0

    @property
    def g2(self) -> FloatArray:
        return self.squares.g2

    @property
    def limit(self) -> float:
        return float(np.sqrt(self.L / self.M))

    @cached_property
    def tails(self) -> FloatArray:
        return np.cumsum(np.append(self.g2, self.squares.residual)[::-1])[::-1]

    def cells(self, k: Ranks) -> FloatArray:
        return np.asarray((self.L - k) * (self.M - k))

    def log_noise(self, k: Ranks) -> FloatArray:
        """log σ² of the residual of k components, or the given one."""
        if self.given is not None:
            return np.full(k.shape, self.given)
        return np.log(self.tails[k] / self.cells(k))

    def width(self, k: Ranks) -> FloatArray:
        """Standard deviation of log σ² with k components."""
        return np.asarray(np.sqrt(2 / self.cells(k)))

    def shares(self, g2: FloatArray, s2: float) -> FloatArray:
        """s = v/(1 + v) of the spikes that cause these values, in decreasing order.

        A spike ℓ = σ²(1 + v) above the limit causes γ²/M ≈ ℓ(1 + (L/M)σ²/(ℓ − σ²)).
        """
        c, y = self.L / self.M, g2 / (self.M * s2)
        root = (y + 1 - c) ** 2 - 4 * y
        spike = np.where(y > (1 + np.sqrt(c)) ** 2, y + 1 - c + np.sqrt(np.maximum(root, 0)), 0.0)
        at_least = np.maximum(spike / 2, 1 + 1.1 * self.limit)
        return np.asarray(1 - 1 / np.minimum.accumulate(at_least))


def spiked_spectrum(
    unit: Spectrum, given: float | None, start: int, per_component: float = 0.0
) -> SpikedSpectrum:
    L, M = unit.shape
    rest = tail_sums(unit)[start] / ((L - start) * (M - start)) if start < min(L, M) else 0.0
    guess = (given or rest) or float(np.finfo(np.float64).tiny)
    # Divide before squaring: squares of tiny numbers would be 0.
    g2 = _compressed((unit.singular_values / np.sqrt(guess)) ** 2, STRONG * M)
    squares = Squares(unit.shape, unit.full_rank, g2, unit.residual / guess, start)
    log_unit = float(np.log(2 * np.pi * guess) + 2 * np.log(unit.scale))
    return SpikedSpectrum(
        squares, *squares.shape, None if given is None else 0.0, per_component, log_unit
    )


def _compressed(g2: FloatArray, most: float) -> FloatArray:
    """`g2` with values beyond `most` on a logarithmic scale.

    Log-likelihoods of 10²⁰ would leave no digits for the components whose number is in doubt.
    """
    return np.where(g2 > most, most * (1 + np.log(np.maximum(g2 / most, 1))), g2)
