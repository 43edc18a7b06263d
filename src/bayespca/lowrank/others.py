"""Predictions of each cell from the other cells of its row, for observed and missing cells."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import FloatArray

from .holes_posterior import HolesPosterior, predictive_noise

# Numbers per block of rows.
AT_ONCE = 2_000_000


def by_others(posterior: HolesPosterior, X: FloatArray) -> FloatArray:
    """E(xᵢⱼ | the other observed cells of row i), less the column's mean and over its scale.

    Rows are Bt + noise with t ~ N(0, I) and noise variances ψ. With G = I + BᵀΨ⁻¹B over observed
    cells and the leverage hⱼ = bⱼᵀG⁻¹bⱼ/ψⱼ, an observed cell xⱼ has contributed to its own
    prediction x̂ⱼ; without that contribution the prediction is (x̂ⱼ − hⱼxⱼ)/(1 − hⱼ).
    """
    B = on_host(posterior.components).T @ posterior.basis * np.sqrt(posterior.latent_variance)
    psi = predictive_noise(posterior)
    Z = (X - on_host(posterior.mean)) / on_host(posterior.scale)
    step = max(1, AT_ONCE // max(1, B.size))
    parts = [_predicted(B, psi, Z[i : i + step]) for i in range(0, len(Z), step)]
    return np.concatenate(parts)


def _predicted(B: FloatArray, psi: FloatArray, Z: FloatArray) -> FloatArray:
    seen = ~np.isnan(Z)
    x = np.where(seen, Z, 0.0)
    weights = seen / psi
    G = np.eye(B.shape[1]) + (weights[:, None, :] * B.T) @ B
    H = np.linalg.solve(G, np.broadcast_to(B.T, (len(G), *B.T.shape))).swapaxes(1, 2)
    means = np.einsum("ijk,ik->ij", H, (weights * x) @ B)
    leverage = np.where(seen, np.einsum("ijk,jk->ij", H, B) / psi, 0.0)
    return np.asarray((means - leverage * x) / (1 - leverage))
