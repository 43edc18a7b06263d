"""Posterior moments of both factors (aistats2014 Eq. 15), from the stationary conditions of Eq. 17.

With aₕbₕ = γ̂, a kept component has conditional variances s_a·s_b = σ⁴/γ² and a/b = s_a·γ/σ²; the
scale that A and B may exchange is chosen so that a = b, which makes s_a = s_b = σ²/γ.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .families import Family
from .priors import Prior
from .records import FloatArray, Moments


def posterior_moments(prior: Prior, gamma: FloatArray, rank: int, s: float) -> Moments:
    """Moments of all components: the first `rank` kept, the others dropped."""
    kept = _kept(prior, gamma[:rank], s)
    dropped = _dropped(prior, gamma.size - rank, s)
    return _joined(_smashed(kept, prior.family), _smashed(dropped, prior.family))


def _kept(prior: Prior, gamma: FloatArray, s: float) -> Moments:
    x = gamma / s * gamma
    mean = np.sqrt(gamma * (prior.strength(x, s) / x))
    variance = s / gamma
    prior_a, prior_b = _kept_priors(prior, x, gamma, s)
    return Moments(mean, mean, variance, variance, prior_a, prior_b)


def _kept_priors(
    prior: Prior, x: FloatArray, gamma: FloatArray, s: float
) -> tuple[FloatArray, FloatArray]:
    """cₐ² and c_b² in the balanced scale: 2γ/(w + m − l) and 2γ/(w + l − m), product c²."""
    l, m = prior.family.sizes(prior.L, prior.M)
    e = prior.noise_ratio(x, s)
    large = np.sqrt((m - l) ** 2 + 4.0 * e * x) + abs(m - l)
    with np.errstate(divide="ignore"):
        long = 2.0 * gamma / large
        short = np.where(e > 0, 0.5 * gamma * large / np.where(e > 0, e * x, 1.0), np.inf)
    return (long, short) if m >= l else (short, long)


def _dropped(prior: Prior, count: int, s: float) -> Moments:
    """Zero means; the conditional variances multiply to σ²/threshold, or are 0 if c is."""
    variance, prior_a, prior_b = (np.full(count, v) for v in prior.dropped_variances(s))
    zero = np.zeros(count)
    return Moments(zero, zero, variance, variance, prior_a, prior_b)


def _smashed(moments: Moments, family: Family) -> Moments:
    """Moments with the variances of point-estimated factors set to zero."""
    return replace(
        moments,
        variance_a=moments.variance_a if family.integrates_a else np.zeros_like(moments.variance_a),
        variance_b=moments.variance_b if family.integrates_b else np.zeros_like(moments.variance_b),
    )


def _joined(first: Moments, second: Moments) -> Moments:
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return Moments(*(np.concatenate(pair) for pair in pairs))
