"""The two pairs of formulas behind every closed form, and the EVB threshold.

Everything here is free of units. For a component with singular value γ under noise σ²::

    x = γ²/σ²        the observed strength
    e = σ²/c²        the noise over the prior variance, c = cₐ·c_b; 0 for a flat prior
    z = γ·γ̂/σ²       the strength that is kept, so that γ̂ = γ·z/x

and (l, m) are the family's integrated sizes of a problem of size L×M (`Family.sizes`). Both pairs
hold for every family: they were derived from aistats2014 Eq. 17 with the posterior variance of a
point-estimated factor put to zero, and are tested against its brute-force minimum.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np

from .records import FloatArray

# L, M, l or m: of one problem, or of many side by side.
Sizes = TypeVar("Sizes", float, FloatArray)

# --- prior given -------------------------------------------------------------------------------


def given_threshold(e: float, l: float, m: float) -> float:
    """The smallest x that is kept: κ + √(κ² − l·m), κ = (l + m + e)/2.

    icml2011 Eq. 28 (VB), 23 (PB-A), 25 (PB-B), 33 (MAP); with e = 0 the limits Eq. 34 and 35.
    """
    # κ² − l·m would cancel when l ≈ m and e is small.
    root = np.sqrt((m - l) ** 2 + 2.0 * e * (l + m) + e * e)
    return float(0.5 * (l + m + e + root))


def given_spread(x: FloatArray, e: float, l: float, m: float) -> FloatArray:
    """w = √((m − l)² + 4γ²/c²), which the shrinkage and the moments share."""
    return np.sqrt((m - l) ** 2 + 4.0 * e * x)


def given_strength(x: FloatArray, e: float, l: float, m: float) -> FloatArray:
    """z = x − (l + m + w)/2: the shrinkage for a given prior (aistats2014 Figure 2, right)."""
    return x - 0.5 * (l + m + given_spread(x, e, l, m))


def given_slacks(e: float, l: float, m: float) -> tuple[float, float]:
    """(1 − l/x₀, 1 − m/x₀) with x₀ the threshold: posterior over prior variance of a dropped A, B.

    They multiply to e/x₀; the smaller one comes from that product, not from a difference.
    """
    lo, hi = sorted((l, m))
    x0 = given_threshold(e, l, m)
    root = np.sqrt((hi - lo) ** 2 + 2.0 * e * (l + m) + e * e)
    of_lo = float(0.5 * (hi - lo + e + root) / x0) if lo else 1.0
    of_hi = of_lo if hi == lo else e / x0 / of_lo
    return (of_lo, of_hi) if l <= m else (of_hi, of_lo)


# --- prior learned -----------------------------------------------------------------------------


def learned_edge(L: Sizes, M: Sizes, l: Sizes, m: Sizes) -> Sizes:
    """The smallest x with a non-trivial local minimum: L + M + √((L + M)² − (m − l)²).

    aistats2014 Eq. 22 (PB) and 25 (MAP); for VB (√L + √M)², the Marčenko–Pastur upper limit.
    """
    # A power of ½ keeps numbers Python's own, which are faster one by one.
    return L + M + (1.0 * (L + M - m + l) * (L + M + m - l)) ** 0.5


def learned_strength(x: FloatArray, L: Sizes, M: Sizes, l: Sizes, m: Sizes) -> FloatArray:
    """z = ½(x − (l + m) + √(x² − 2(L + M)x + (m − l)²)), at that local minimum.

    aistats2014 Eq. 11 (VB), 23 (PB) and 26 (MAP). Needs x ≥ `learned_edge`.
    """
    return 0.5 * (x - (l + m) + _learned_root(x, L, M, l, m))


def learned_noise_ratio(x: FloatArray, L: float, M: float, l: float, m: float) -> FloatArray:
    """e = σ²/c² of the learned prior: ½(x − (L + M) − √(x² − 2(L + M)x + (m − l)²)).

    The stationary point c = (⟨‖a‖²⟩ + ⟨‖b‖²⟩)/(L + M) of aistats2014 Eq. 17 with cₐ = c_b. The
    ratio has to be fixed: where a factor is point-estimated, F falls without bound along it.
    """
    product = (L + M - m + l) * float(L + M + m - l)
    return 0.5 * product / (x - (L + M) + _learned_root(x, L, M, l, m))


def _learned_root(x: FloatArray, L: Sizes, M: Sizes, l: Sizes, m: Sizes) -> FloatArray:
    """√(x² − 2(L + M)x + (m − l)²), factored so that it keeps its digits next to the edge."""
    upper = learned_edge(L, M, l, m)
    return np.sqrt((x - upper) * (x - (m - l) ** 2 / upper))


@lru_cache(maxsize=256)
def evb_kappa(L: float, M: float) -> float:
    """κ of aistats2014 Proposition 1: the root > 1 of Ξ(κ) = Φ(√α·κ) + Φ(κ/√α)."""
    return float(_evb_tau(alpha := np.array([min(L, M) / max(L, M)]))[0] / np.sqrt(alpha[0]))


def _evb_tau(alpha: FloatArray) -> FloatArray:
    """√α·κ of each α.

    With τ = √α·κ, Ξ = 0 reads log(1 + τ) + α·log(1 + τ/α) = τ. The difference of its sides is
    concave and falls beyond τ = √α, so Newton's iteration from the right descends to the root.
    """
    tau = 3.0 * np.sqrt(alpha)
    while (short := _evb_balance(tau, alpha) > 0).any():
        tau = np.where(short, 2.0 * tau, tau)
    for _ in range(100):
        slope = (alpha - tau * tau) / ((1.0 + tau) * (alpha + tau))
        step = _evb_balance(tau, alpha) / slope
        tau = tau - step
        # Steps square their error: after one as small as this there is none left.
        if (np.abs(step) <= 1e-9 * tau).all():
            break
    return np.asarray(tau)


def _evb_balance(tau: FloatArray, alpha: FloatArray) -> FloatArray:
    return np.asarray(np.log1p(tau) - tau + alpha * np.log1p(tau / alpha))


def evb_threshold(L: float, M: float) -> float:
    """The smallest x at which a component lowers EVB's free energy: L + M + √(LM)·(κ + 1/κ).

    aistats2014 Eq. 10. Stricter than `learned_edge`: between the two, EVB has a non-trivial local
    minimum that is worse than switching the component off.
    """
    return float(_evb_threshold(L, M, evb_kappa(L, M)))


def evb_thresholds(L: float, M: FloatArray) -> FloatArray:
    """`evb_threshold` for many M."""
    alpha = np.minimum(L, M) / np.maximum(L, M)
    return np.asarray(_evb_threshold(L, M, _evb_tau(alpha) / np.sqrt(alpha)))


def _evb_threshold(L: float, M: Sizes, kappa: Sizes) -> Sizes:
    return L + M + (1.0 * L * M) ** 0.5 * (kappa + 1.0 / kappa)


def evb_rank_limit(L: float, M: float) -> int:
    """⌈K/(1 + α)⌉ − 1, K = min(L, M): the largest rank EVB can find with the noise unknown.

    With more components than LM/(L + M) the free energy falls all the way as they are dropped.
    """
    return int(-(-L * M // (L + M))) - 1
