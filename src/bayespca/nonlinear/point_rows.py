"""New rows of a GP-LVM with point-estimated latent points: the best point, and how sure it is.

The density of a row at x is that of a Gaussian process, N(m(x), V(x)) with V the variance of the
functions and the noise (Lawrence 2005). Its product with the prior of x is approximated by a normal
density around its maximum (Laplace), with the Fisher information for curvature:

    H = Σ m'm'ᵀ/V + ½ Σ V'V'ᵀ/V² + diag(prior)⁻¹

summed over observed cells. Nothing here is a difference of large numbers. ψ statistics would be:
where functions vary 10⁹ times as much as the noise, as they do if the data are nearly linear, all
digits of the free energy would be lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Index
from bayespca.inference.descent import rows_descended

from .posterior import GPPosterior, predicted, slopes
from .rowwise import Latent
from .uncertain_rows import MOST, SETTLED


@dataclass(frozen=True, eq=False)
class PointRows:
    """Rows (n, D), with NaN for holes, of a fitted model."""

    found: GPPosterior
    Y: FloatArray

    def descended(self, start: Latent) -> tuple[Latent, FloatArray]:
        """The most probable latent points, from a start, with their variances.

        The second array has −log of each row's density, which Laplace's approximation gives.
        """
        # In units of the standard deviations at the start, so that no step leads to another place.
        unit = 1 / np.sqrt(np.einsum("nqq->nq", self.information(start.mean)))

        def objective(x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
            energy, gradient = self.at(start.mean[index] + x * unit[index], index)
            return energy, gradient * unit[index]

        moved = rows_descended(objective, np.zeros_like(unit), most=MOST, settled=SETTLED)
        return self._described(start.mean + moved * unit)

    def _described(self, x: FloatArray) -> tuple[Latent, FloatArray]:
        """Normal posteriors around the most probable points, and −log of the rows' densities."""
        Q, unit = x.shape[1], np.sqrt(self.found.prior)
        L = np.linalg.cholesky(self.information(x) * np.outer(unit, unit))
        inverse = np.linalg.solve(L, np.broadcast_to(np.eye(Q), L.shape))
        variance = unit**2 * np.square(inverse).sum(axis=1)
        volume = np.log(np.einsum("nqq->nq", L)).sum(axis=1) - np.log(unit).sum()
        energy = self.at(x, np.arange(len(x)))[0] + volume - 0.5 * Q * np.log(2 * np.pi)
        return Latent(x, variance), energy

    def at(self, x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
        """−log p(row, x) of some of the rows, and its gradients with respect to x: (m,), (m, Q)."""
        prior, Y = self.found.prior, self.Y[index]
        mean, V, precision = self._cells(x, Y)
        left = np.where(precision > 0, Y - mean, 0.0)
        energy = 0.5 * (left**2 * precision + np.log(2 * np.pi * V) * (precision > 0)).sum(axis=1)
        energy += 0.5 * (x**2 / prior + np.log(2 * np.pi * prior)).sum(axis=1)
        dm, dV = slopes(self.found, x)
        by_mean, by_variance = -left * precision, 0.5 * precision * (1 - left**2 * precision)
        gradient = np.einsum("nqd,nd->nq", dm, by_mean) + np.einsum("nqd,nd->nq", dV, by_variance)
        return energy, gradient + x / prior

    def information(self, x: FloatArray) -> FloatArray:
        """H of each row: (n, Q, Q)."""
        precision = self._cells(x, self.Y)[2][:, None]
        dm, dV = slopes(self.found, x)
        dm, dV = dm * np.sqrt(precision), dV * precision
        known = dm @ dm.transpose(0, 2, 1) + 0.5 * dV @ dV.transpose(0, 2, 1)
        return np.asarray(known + np.diag(1 / self.found.prior))

    def _cells(self, x: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """m, V and 1/V of each cell; 1/V is 0 for holes."""
        mean, spread = predicted(self.found, x)
        V = spread + self.found.noise
        return mean, V, np.where(np.isnan(Y), 0.0, 1 / V)
