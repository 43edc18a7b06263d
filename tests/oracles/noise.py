"""EVB's free energy as a function of the noise, by the formulas of icml2011, on a fine grid."""

from __future__ import annotations

import numpy as np


def delta(gamma: float, s: float, L: int, M: int) -> float:
    """Δ_h of icml2011 Theorem 4; +∞ below σ(√L + √M)."""
    tau = gamma**2 - (L + M) * s
    root = tau**2 - 4 * L * M * s**2
    if tau < 0 or root < 0:
        return np.inf
    c2 = (tau + np.sqrt(root)) / (2 * L * M)
    # The simple-VB solution for that prior.
    shrunk = gamma * (1 - s / (2 * gamma**2) * (L + M + np.sqrt((M - L) ** 2 + 4 * gamma**2 / c2)))
    return (
        M * np.log(gamma * shrunk / (M * s) + 1)
        + L * np.log(gamma * shrunk / (L * s) + 1)
        + (L * M * c2 - 2 * gamma * shrunk) / s
    )


def twice_free_energy(gammas: np.ndarray, s: float, L: int, M: int) -> float:
    """2F at noise s, with each component kept only if that lowers it."""
    kept = sum(min(0.0, delta(gamma, s, L, M)) for gamma in gammas)
    return L * M * np.log(2 * np.pi * s) + float(gammas @ gammas) / s + kept


def grid_minimum(gammas: np.ndarray, L: int, M: int, n: int = 20000) -> tuple[float, float]:
    """(σ², 2F) at the best of n noise variances, spaced geometrically and computed at once."""
    total = float(gammas @ gammas) / (L * M)
    s = np.geomspace(1e-6 * total, total, n)[:, None]
    g2 = gammas[None, :] ** 2
    tau = g2 - (L + M) * s
    root = np.where(tau > 0, tau**2 - 4 * L * M * s**2, -1.0)
    # γγ̂ = LM·c² at the learned prior.
    strength = np.where(root >= 0, 0.5 * (tau + np.sqrt(np.maximum(root, 0))), 0.0) / s
    gain = M * np.log1p(strength / M) + L * np.log1p(strength / L) - strength
    energy = L * M * np.log(2 * np.pi * s[:, 0]) + g2.sum() / s[:, 0] + np.minimum(gain, 0).sum(1)
    best = int(np.argmin(energy))
    return float(s[best, 0]), float(energy[best])
