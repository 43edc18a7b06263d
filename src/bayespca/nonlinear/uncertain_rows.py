"""New rows of the variational GP-LVM: each has its own normal posterior, given the functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray, Index
from bayespca.inference.descent import rows_descended

from .posterior import GPPosterior
from .rowwise import Latent
from .statistics import of_rows, weights_of_rows

# Most steps of a row, and the fall of its free energy that ends them.
MOST, SETTLED = 200, 1e-6
# Least variance of a row at its start, over that of the prior.
LEAST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class UncertainRows:
    """The free energy of rows: linear in their ψ statistics, with coefficients from their cells."""

    found: GPPosterior
    constant: FloatArray
    g0: FloatArray
    g1: FloatArray
    G: FloatArray

    @classmethod
    def of(cls, found: GPPosterior, Y: FloatArray) -> UncertainRows:
        there = ~np.isnan(Y)
        s2, s = found.noise, found.signal / found.noise
        A, kinds = found.weights, found.kinds
        # Shifted so that the prediction for a cell is k·a, without a centre.
        shift = np.einsum("dm,md->d", found.centre[kinds], A)
        left = np.where(there, Y - found.offset + shift, 0.0)
        pk = np.einsum("cmj,cj->cm", found.precise, found.centre)
        kpk = np.einsum("cm,cm->c", pk, found.centre)
        constant = 0.5 * (left**2 / s2).sum(axis=1)
        constant += there @ (
            0.5 * (np.log(2 * np.pi * s2) + found.mean_variance / s2 + s * kpk[kinds])
        )
        g1 = -(left / s2) @ A.T - (there * s) @ pk[kinds]
        of_kind = np.stack([(there * s) @ (kinds == c) for c in range(len(found.centre))], axis=1)
        inner = found.precise - found.inverse
        complete = bool(there.all())
        scales = of_kind[:1] if complete else of_kind
        weights = there[:1] / s2 if complete else there / s2
        G = 0.5 * np.einsum("nc,cmj->nmj", scales, inner)
        G += 0.5 * ((A * weights[:, None, :]) @ A.T)
        G = weights_of_rows(found.Z, found.hyper, G)
        return cls(found, constant, 0.5 * (there @ s), g1, G)

    def part(self, index: Index) -> UncertainRows:
        """The free energy of some of the rows."""
        G = self.G if len(self.G) == 1 else self.G[index]
        return UncertainRows(self.found, self.constant[index], self.g0[index], self.g1[index], G)

    def at(self, latent: Latent) -> tuple[FloatArray, FloatArray]:
        """The free energy of each row, (n,), and its gradients with respect to means and logarithms
        of variances: (n, 2Q).
        """
        found, given = self.found, (self.g0, self.g1, self.G)
        values, gm, gS = of_rows(latent, found.Z, found.hyper, given)
        ratio = latent.variance / found.prior
        apart = 0.5 * (latent.mean**2 / found.prior + ratio - 1 - np.log(ratio)).sum(axis=1)
        gm = gm + latent.mean / found.prior
        gS = gS + 0.5 * (1 / found.prior - 1 / latent.variance)
        slopes = np.concatenate([gm, gS * latent.variance], axis=1)
        return self.constant + values + apart, slopes

    def descended(self, start: Latent) -> tuple[Latent, FloatArray]:
        """Latent points at which the free energy is lowest, by descent, and its values there."""

        def objective(x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
            return self.part(index).at(_from_logs(x))

        spread = np.maximum(start.variance, LEAST_SPREAD * self.found.prior)
        x = np.concatenate([start.mean, np.log(spread)], axis=1)
        latent = _from_logs(rows_descended(objective, x, most=MOST, settled=SETTLED))
        return latent, self.at(latent)[0]


def _from_logs(x: FloatArray) -> Latent:
    mean, logs = np.split(x, 2, axis=1)
    return Latent(mean, np.exp(np.clip(logs, -30, 12)))
