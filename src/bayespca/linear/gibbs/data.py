"""Sufficient statistics of the data for Bayesian PCA: a triangle, however many rows there are.

An orthogonal transformation of the rows that turns the vector of ones and the data into a
triangle leaves the likelihood and the prior of the latent variables unchanged. It is a QR
factorisation, done once: at most d + 1 of n rows then hold data, and the others are zero, so that
only the sum of squares of their latent variables matters, which has a Wishart distribution. A sweep
costs O(d²q), however many samples there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.variational import Hyper
from bayespca.spectrum.records import Spectrum, samples
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import ROUNDING_OF_DEVIATIONS

# b_alpha over the noise variance. Lengths of columns that are not needed are log-uniform between it
# and the limit of detection: the fewer powers of ten lie between, the more columns fit noise.
SWITCHED_OFF = 1e-9


@dataclass(frozen=True)
class GibbsData:
    """Sufficient statistics of n rows of d numbers: the triangle of [1, T], at most d + 1 rows.

    `ones` is the transformed vector of ones, `rows` the transformed data in units of `unit`.
    """

    ones: FloatArray
    rows: FloatArray
    n: int
    d: int
    unit: float

    @cached_property
    def mean(self) -> FloatArray:
        """Means of the columns, in units of `unit`."""
        return self.ones @ self.rows / self.n

    @cached_property
    def centred(self) -> FloatArray:
        """The transformed rows without their mean."""
        return self.rows - np.outer(self.ones, self.mean)


def suited(prior: Hyper, data: GibbsData) -> Hyper:
    """The prior, with open parameters made broad for these data."""
    noise, mean = noise_variance(data), data.mean * data.unit
    return prior.suiting(noise, data.unit, mean, of_columns=SWITCHED_OFF)


def noise_variance(data: GibbsData) -> float:
    """Noise variance of the closed form, in the units of the data."""
    gamma = np.linalg.svd(data.centred, compute_uv=False)
    shape = (data.d, samples(data.n, center=True))
    spectrum = Spectrum(gamma[: min(shape)], shape, scale=data.unit)
    return solve(spectrum, other_ranks=False).noise_variance


def compress(T: FloatArray) -> GibbsData:
    """The triangle of [1, T], with T divided by the root mean square of its deviations."""
    n, d = T.shape
    largest = float(np.abs(T).max(initial=0.0)) or 1.0
    triangle = np.asarray(np.linalg.qr(np.column_stack([np.ones(n), T / largest]), mode="r"))
    ones, rows = triangle[:, 0].copy(), triangle[:, 1:].copy()
    spread = float(np.sqrt(np.vdot(rows[1:], rows[1:]) / (n * d)))
    # Data that do not vary beyond rounding have no unit of their own.
    relative = spread if spread > ROUNDING_OF_DEVIATIONS else 1.0
    return GibbsData(ones, rows / relative, n, d, largest * relative)
