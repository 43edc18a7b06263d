"""Numbers with a noise variance for each column: x ~ N(z, s²), in units of the column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import LOG_2PI

from .likelihood import ExpectedLikelihood, Likelihood, Measurement, Null

# The least noise variance, as a share of the variance of the column.
LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class Normal(Likelihood):
    """⟨log p(x | z)⟩ = −½log 2πs² − ((x − m)² + v)/2s²; the parameter is log s²."""

    name: str = "normal"

    def expected(
        self, x: FloatArray, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> ExpectedLikelihood:
        log_s2 = parameters[:, 0]
        precision = np.exp(-log_s2)
        apart = x - m
        quadratic = (apart * apart + v) * precision
        return ExpectedLikelihood(
            -0.5 * (quadratic + log_s2 + LOG_2PI),
            apart * precision,
            np.broadcast_to(precision, x.shape).copy(),
        )

    def null(self, x: FloatArray, seen: FloatArray, offset: FloatArray) -> Null:
        """Zeros: columns are already centred and have unit variance."""
        return Null(np.zeros(x.shape[1]), np.zeros((x.shape[1], 1)))

    def mean(self, m: FloatArray, v: FloatArray, parameters: FloatArray) -> FloatArray:
        return m

    def variance(self, z: FloatArray, parameters: FloatArray) -> FloatArray:
        return np.broadcast_to(np.exp(parameters[:, 0]), z.shape)

    def quantile(
        self, level: float, m: FloatArray, v: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        return np.asarray(m + ndtri(level) * np.sqrt(v + np.exp(parameters[:, 0])))

    def augmented(
        self, x: FloatArray, z: FloatArray, parameters: FloatArray, rng: np.random.Generator
    ) -> Measurement:
        """ω = 1/s² and τ = x/s²: nothing has to be drawn."""
        precision = np.exp(-parameters[:, 0])
        return Measurement(np.broadcast_to(precision, x.shape).copy(), x * precision)

    def drawn(self, z: FloatArray, parameters: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.asarray(z + np.exp(0.5 * parameters[:, 0]) * rng.normal(size=z.shape))

    def updated(
        self, x: FloatArray, m: FloatArray, v: FloatArray, seen: FloatArray, parameters: FloatArray
    ) -> FloatArray:
        """s² = the mean of (x − m)² + v."""
        apart = x - m
        squares = ((apart * apart + v) * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1.0)
        return np.log(np.maximum(squares, LEAST_NOISE))[:, None]


NORMAL = Normal()
