"""Eq. 10–11, 22–26 and 29–34: thresholds and shrinkage as they are printed, for σ = 1.

In units of √max(L, M) the singular values depend on the shape through α = min(L, M)/max(L, M)
alone. In our copy the K of Eq. 22 and 23 look alike: the threshold has min(L, M), the shrinkage
max(L, M), as Eq. 31 and 32 and the free energy say.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from bayespca import spectrum

METHODS = {"evb": "EVB", "epb": "local-EPB", "emap": "local-EMAP"}
STYLES = {"evb": "-", "epb": "--", "emap": "-."}


def kappa(alpha: float) -> float:
    """The zero of Ξ in Proposition 1."""

    def xi(k: float) -> float:
        x = np.sqrt(alpha) * np.array([k, k / alpha])
        return float(np.sum(np.log1p(x) / x - 0.5))

    return float(brentq(xi, 1.0, 10.0, xtol=1e-15, rtol=1e-15))


def threshold(method: str, alpha: float) -> float:
    """Eq. 29, 31 and 33."""
    if method == "evb":
        k = kappa(alpha)
        return float(np.sqrt(1 + alpha + np.sqrt(alpha) * (k + 1 / k)))
    return float(
        np.sqrt({"epb": 1 + alpha + np.sqrt(2 * alpha + alpha**2), "emap": 2 * (1 + alpha)}[method])
    )


def shrunk(method: str, gamma: float, alpha: float) -> float:
    """Eq. 30, 32 and 34, above the threshold."""
    g2 = gamma**2
    if method == "evb":
        rest = 1 - (1 + alpha) / g2
        return float(gamma / 2 * (rest + np.sqrt(rest**2 - 4 * alpha / g2**2)))
    if method == "epb":
        root = np.sqrt(g2**2 - 2 * (1 + alpha) * g2 + 1)
        return float(gamma / 2 * (1 + (root - 1) / g2))
    return float((gamma + np.sqrt(g2 - 2 * (1 + alpha))) / 2)


def marchenko_pastur(alpha: float) -> float:
    """The largest singular value of noise."""
    return float(1 + np.sqrt(alpha))


def solved(method: str, gamma: float, shape: tuple[int, int], **options) -> spectrum.Solution:
    """What the package makes of one singular value under unit noise."""
    one = spectrum.Spectrum([gamma], shape)
    return spectrum.solve(one, method, noise_variance=1.0, other_ranks=False, **options)
