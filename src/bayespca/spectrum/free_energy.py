"""Free energies per component: aistats2014 Eq. 17 at its minimum, in closed form.

The total is 2F = LM·log(2πσ²) + ‖V‖²/σ² + Σₕ 2Fₕ (Eq. 16). ‖V‖²/σ² and the 2Fₕ of strong
components nearly cancel, so a kept component enters as its *cost* x + 2Fₕ, in which the large
terms have been cancelled by hand, and only the dropped ones leave their γ² in the sum of squares.

Letters as in `closed_form`; lo and hi are the smaller and larger of the integrated sizes (l, m),
in which every expression is symmetric.
"""

from __future__ import annotations

import numpy as np

from .closed_form import Sizes, given_slacks, given_spread, given_threshold
from .records import FloatArray


def evb_cost(z: FloatArray, L: float, M: float) -> FloatArray:
    """x + 2Fₕ of a kept component under EVB, where x = z + L + M + LM/z.

    2Fₕ = M·log(1 + z/M) + L·log(1 + z/L) − z: icml2011's Δₕ (Theorem 4), aistats2014 Eq. 17.
    A component switched off has 2Fₕ = 0.
    """
    return evb_volume(z, L, M) + evb_residual(z, L, M)


def evb_volume(z: FloatArray, L: Sizes, M: Sizes) -> FloatArray:
    """M·log(1 + z/M) + L·log(1 + z/L): the cost of a kept component without its residual."""
    return np.asarray(M * np.log1p(z / M) + L * np.log1p(z / L))


def evb_residual(z: FloatArray, L: Sizes, M: Sizes) -> FloatArray:
    """⟨‖γ ω_b ω_aᵀ − b aᵀ‖²⟩/σ² of a kept component: x − z = L + M + LM/z."""
    return L + M + 1.0 * L * M / z


def given_cost(x: FloatArray, e: float, l: float, m: float) -> FloatArray:
    """x + 2(Fₕ kept − Fₕ dropped) for a given prior; finite for a flat one (e = 0) too."""
    lo, hi = sorted((l, m))
    w = given_spread(x, e, l, m)
    cost = w - e
    if lo:
        x0 = given_threshold(e, l, m)
        cost = cost + lo * np.log(x / x0) + lo * hi / x0
    if hi > lo:
        slack = max(given_slacks(e, l, m))
        cost = cost + (hi - lo) * np.log(2 * x * slack / (hi - lo + w))
    return cost


def given_dropped(e: float, l: float, m: float) -> float:
    """2Fₕ of a dropped component for a given prior: posterior and prior still differ under VB.

    −m·log(1 − l/x₀) − l·log(1 − m/x₀) − lm/x₀, with x₀ the threshold: the posterior variances
    of a dropped component multiply to σ²/x₀. Infinite for VB with a flat prior.
    """
    if not l * m:
        return 0.0
    if e == 0:
        return float("inf")
    of_l, of_m = given_slacks(e, l, m)
    return float(-m * np.log(of_l) - l * np.log(of_m) - l * m / given_threshold(e, l, m))


def kept_cost(x: FloatArray, e: FloatArray, l: float, m: float) -> FloatArray:
    """x + 2Fₕ of a kept component with prior ratio e > 0, without the terms of point estimates:

    m·log(2x/(w + m − l)) + l·log(2x/(w + l − m)) − e + w.
    """
    lo, hi = sorted((l, m))
    w = np.sqrt((hi - lo) ** 2 + 4.0 * e * x)
    large = w + (hi - lo)
    # (w + m − l)(w + l − m) = 4ex: the smaller factor comes from the product, not a difference.
    return hi * np.log(2 * x / large) + lo * np.log(0.5 * large / e) - e + w
