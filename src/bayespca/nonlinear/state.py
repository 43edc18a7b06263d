"""States of the iteration, and the vector that the descent changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Index, Vector
from bayespca.inference.descent import Descent

from .kernels import KernelHyper
from .rowwise import Latent
from .statistics import Gradients

# Range of logarithms of variances and of parameters of kernels.
LEAST_LOG, MOST_LOG = -30.0, 12.0
# Step sizes of inducing points and parameters, relative to those that rows alone would give.
POINTS_GO, PARAMETERS_GO = 4.0, 16.0


@dataclass(frozen=True, eq=False)
class GPState:
    """State of a descent.

    Attributes
    ----------
    descent
        The point as a vector: means, logarithms of variances, inducing points, logarithms of the
        parameters of the kernel.
    log_ratios
        log s of each noise variance.
    n_dimensions
        Dimensions of the latent space.
    held
        Number of steps for which the ratios are still held.
    noise
        Mean noise variance.
    jitter
        The largest share of K's diagonal that had to be added to it.
    """

    descent: Descent
    log_ratios: Vector
    n_dimensions: int
    held: int
    noise: float
    jitter: float


def corners(Q: int, *, bias: bool) -> FloatArray:
    """Inducing points of a linear kernel: a unit vector along each dimension, and 0 for a bias."""
    units = np.eye(Q)
    return np.concatenate([units, np.zeros((1, Q))]) if bias else units


@dataclass(frozen=True, eq=False)
class LatentPoint:
    """The parts of a state's vector."""

    latent: Latent
    Z: FloatArray
    hyper: KernelHyper

    @property
    def vector(self) -> FloatArray:
        parts = (self.latent.mean, np.log(self.latent.variance), self.Z, self.hyper.logs)
        return np.concatenate([np.ravel(part) for part in parts])

    def moved(self, x: FloatArray) -> LatentPoint:
        """The point with another vector of the same size."""
        (N, Q), M = self.latent.shape, len(self.Z)
        mean, logs, Z, hyper = np.split(x, np.cumsum([N * Q, N * Q, M * Q]))
        variance = np.exp(np.clip(logs, LEAST_LOG, MOST_LOG)).reshape(N, Q)
        latent = Latent(mean.reshape(N, Q), variance)
        clipped = np.clip(hyper, LEAST_LOG, MOST_LOG)
        return LatentPoint(latent, Z.reshape(M, Q), self.hyper.with_logs(clipped))

    def slope(self, found: Gradients) -> FloatArray:
        """Gradient with respect to the vector."""
        spread = found.variance * self.latent.variance
        logs = found.hyper * self.hyper.vector
        parts = (found.mean, spread, found.Z, logs)
        return np.concatenate([np.ravel(part) for part in parts])

    @property
    def metric(self) -> FloatArray:
        """Approximate inverse curvature of the free energy along each coordinate of the vector.

        It is S for a mean and 2 for the logarithm of a variance: at its best S is the inverse
        curvature. Inducing points and length scales depend on all rows, with the sum of their
        precisions 1/S in the dimension where it is largest. Without this metric, means known to
        1 % and length scales that all rows depend on would move at the same pace, and the descent
        would end thousands of nats higher.
        """
        (_, Q), M, hyper = self.latent.shape, len(self.Z), self.hyper
        mean, variance = self.latent.mean, self.latent.variance
        known = float((1 / variance).sum(axis=0).max())
        stretched = float((mean**2 / variance + 1).sum(axis=0).max())
        points = np.full(M * Q, POINTS_GO * M / known)
        # A dimension is stretched by exp(½ log w).
        parameters = np.full(hyper.vector.size, 4 * PARAMETERS_GO / stretched)
        return np.concatenate([variance.ravel(), np.full(variance.size, 2.0), points, parameters])

    def of_dimensions(self, kept: Index) -> LatentPoint:
        """The point in some of its dimensions."""
        latent = Latent(self.latent.mean[:, kept], self.latent.variance[:, kept])
        hyper = self.hyper.of_dimensions(kept)
        # Straight lines do not depend on where their inducing points are, if there are enough.
        bias = bool(hyper.b.size)
        least = self.latent.shape[1] + bias
        straight = not hyper.w.size and len(self.Z) == least
        Z = corners(len(kept), bias=bias) if straight else self.Z[:, kept]
        return LatentPoint(latent, Z, hyper)

    @property
    def relevance(self) -> FloatArray:
        """Variance of each dimension in units of its squared length scale."""
        spread = self.latent.mean.var(axis=0) + self.latent.variance.mean(axis=0)
        return self.hyper.relevance * spread
