"""Gaussians whose covariance is low-rank plus noise: densities of the cells that are there, and
what these tell of the others.

With covariance LLᵀ + sI (of cells over their scale) and L_o the rows of L whose cells are there,
G = I + L_oᵀL_o/s and a = G⁻¹L_oᵀ(x_o − μ_o)/s are all that is needed:

    −2 log p(x_o) = ‖x_o − μ_o − L_o a‖²/s + ‖a‖² + log|G| + p_o·log 2πs,
    ⟨x_m⟩ = μ_m + L_m a,    Cov(x_m) = sI + L_m G⁻¹L_mᵀ.

G depends on the pattern of holes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import LOG_2PI

from .data import MixtureRows


@dataclass(frozen=True, eq=False)
class Gaussian:
    """(x − mean)/scale ~ N(0, Wᵀ diag(spread) W + noise·I), with orthonormal rows of W."""

    mean: FloatArray
    scale: FloatArray
    directions: FloatArray
    spread: FloatArray
    noise: float

    @property
    def rank(self) -> int:
        return int(self.spread.size)

    @property
    def loadings(self) -> FloatArray:
        """L = Wᵀ·diag(spread)^½."""
        return (self.directions * np.sqrt(self.spread)[:, None]).T

    @property
    def log_determinant(self) -> float:
        """log of that of the covariance of (x − mean)/scale, over noise^p."""
        return float(np.log1p(self.spread / self.noise).sum())

    @property
    def log_noises(self) -> FloatArray:
        """log 2πψ of each feature, ψ = noise·scale²."""
        return LOG_2PI + np.log(self.noise) + 2 * np.log(self.scale)


def log_densities(gaussian: Gaussian, rows: MixtureRows) -> FloatArray:
    """Log density of the cells that are there, for each row."""
    if rows.is_complete:
        return _of_complete(gaussian, rows.values)
    out = np.empty(rows.shape[0])
    for some, patterns in rows.blocks(gaussian.rank**2 + rows.shape[1]):
        seen = rows.seen[patterns]
        which = rows.pattern[some] - patterns.start
        roots, log_dets = _roots(gaussian, seen)
        off = (rows.values[some] - gaussian.mean) / gaussian.scale * seen[which]
        a = _scores(gaussian, off, roots, which)
        rest = (off - a @ gaussian.loadings.T) * seen[which]
        distance = _squares(rest) / gaussian.noise + _squares(a)
        constant = log_dets + seen @ gaussian.log_noises
        out[some] = -0.5 * (distance + constant[which])
    return out


def _of_complete(gaussian: Gaussian, X: FloatArray) -> FloatArray:
    """W is orthonormal, so that nothing has to be inverted.

    What lies off the components is formed before it is squared: rows near them keep their digits.
    """
    W, s = gaussian.directions, gaussian.noise
    off = (X - gaussian.mean) / gaussian.scale
    T = off @ W.T
    off -= T @ W
    distance = _squares(off) / s + _squares(T / np.sqrt(gaussian.spread + s))
    constant = gaussian.log_determinant + gaussian.log_noises.sum()
    return -0.5 * (distance + constant)


def _squares(values: FloatArray) -> FloatArray:
    return np.einsum("ij,ij->i", values, values)


def _roots(gaussian: Gaussian, seen: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R with RRᵀ = G⁻¹, and log|G|, for each pattern. G is at least the identity."""
    L, q = gaussian.loadings, gaussian.rank
    outer = (L[:, :, None] * L[:, None, :]).reshape(len(L), q * q)
    G = np.eye(q) + (seen @ outer).reshape(len(seen), q, q) / gaussian.noise
    C = np.linalg.cholesky(G)
    logs = 2 * np.log(np.diagonal(C, axis1=1, axis2=2)).sum(axis=1)
    return np.linalg.inv(C).transpose(0, 2, 1), logs


def _scores(
    gaussian: Gaussian, off: FloatArray, roots: FloatArray, which: NDArray[np.intp]
) -> FloatArray:
    """a = G⁻¹L_oᵀ(x_o − μ_o)/s of each row."""
    pull = off @ gaussian.loadings / gaussian.noise
    inverse = np.matmul(roots, roots.transpose(0, 2, 1))
    return np.matmul(inverse[which], pull[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class ExpectedRows:
    """Rows with their holes filled by their mean, and what the holes' uncertainty adds up to.

    `covariance` is Σ wₙ·Cov(xₙ), 0 where complete, and `entropy` Σ wₙ times that of the holes.
    """

    values: FloatArray
    covariance: FloatArray | float
    entropy: float


def expected(gaussian: Gaussian, rows: MixtureRows) -> ExpectedRows:
    """What the cells that are there tell of the holes."""
    if rows.is_complete:
        return ExpectedRows(rows.values, 0.0, 0.0)
    p, L = rows.shape[1], gaussian.loadings
    values, covariance, entropy = np.empty(rows.shape), np.zeros((p, p)), 0.0
    for some, patterns in rows.blocks(gaussian.rank * (gaussian.rank + p) + p):
        seen = rows.seen[patterns]
        which = rows.pattern[some] - patterns.start
        roots, log_dets = _roots(gaussian, seen)
        off = (rows.values[some] - gaussian.mean) / gaussian.scale * seen[which]
        a = _scores(gaussian, off, roots, which)
        filled = gaussian.mean + a @ L.T * gaussian.scale
        values[some] = np.where(seen[which] > 0, rows.values[some], filled)
        counts: FloatArray = np.bincount(which, rows.weights[some], len(seen)).astype(np.float64)
        covariance += _covariance_of_holes(gaussian, 1.0 - seen, roots, counts)
        holes = (1.0 - seen) @ (gaussian.log_noises + 1) + gaussian.log_determinant - log_dets
        entropy += 0.5 * float(counts @ holes)
    return ExpectedRows(values, covariance, entropy)


def _covariance_of_holes(
    gaussian: Gaussian, holes: FloatArray, roots: FloatArray, counts: FloatArray
) -> FloatArray:
    """Σ over patterns of counts·(sI + L_m G⁻¹L_mᵀ), as one product of matrices."""
    p = holes.shape[1]
    root = roots * np.sqrt(counts)[:, None, None]
    parts = holes[:, :, None] * np.matmul(gaussian.loadings * gaussian.scale[:, None], root)
    flat = parts.transpose(1, 0, 2).reshape(p, -1)
    return flat @ flat.T + np.diag(gaussian.noise * gaussian.scale**2 * (counts @ holes))
