"""Strengths and probabilities of components that were not kept and yet may exist.

A method keeps what it is sure of and treats the rest as noise. What it leaves out still changes the
noise-free cells and the directions of the components; intervals must allow for that.
"""

from __future__ import annotations

import numpy as np

from .closed_form import learned_edge, learned_strength
from .noise import tail_sums
from .records import FloatArray, RankPosterior, Spectrum
from .strengths import MEAN, SCALES

# Components less probable than this are not counted.
LEAST = 1e-3
# Standard deviation of the noise, relative to a singular value, that is as good as none.
NOISELESS = 1e-50
# Relative to the noise of a fit: less than this is left beyond the most probable rank only where
# columns are linearly dependent, and then every component has been counted.
EXACT = 1e-4


def strengths(gamma: FloatArray, noise_variance: float, shape: tuple[float, float]) -> FloatArray:
    """ℓ, a component's variance over that of the noise, from its singular value in p×n data.

    γ²/σ² = n(1 + ℓ)(1 + p/(nℓ)) for large matrices (Baik and Silverstein 2006): nℓ is the strength
    that EVB keeps. ℓ is at least the detection limit √(p/n), below which singular values carry no
    information.
    """
    L, M = shape
    # Keeps strengths finite where the data have no noise.
    noise = np.maximum(np.sqrt(noise_variance), NOISELESS * gamma)
    ratio = np.divide(gamma, noise, where=noise > 0, out=np.zeros_like(gamma))
    x = np.maximum(ratio**2, learned_edge(L, M, L, M))
    return np.asarray(learned_strength(x, L, M, L, M) / M)


def left_out(
    spectrum: Spectrum, ranks: RankPosterior, kept: int, noise_variance: float
) -> FloatArray:
    """Strength and probability of each component beyond those that were kept: (m, 2).

    The strength is in units of `noise_variance`, the noise of a fit that counts them as noise.
    The first row stands for all components below the detection limit, which cannot be seen.
    """
    unit, (L, M), k = spectrum.at_unit_scale(), spectrum.shape, int(ranks.detectable.argmax())
    if not noise_variance > 0 or k >= min(L, M):
        return np.empty((0, 2))
    s2 = float(tail_sums(unit)[min(k, unit.singular_values.size)] / ((L - k) * (M - k)))
    unseen = unit.scale * np.sqrt(s2) / np.sqrt(noise_variance)
    if not EXACT < unseen < 1 / NOISELESS:
        return np.empty((0, 2))
    probable = np.cumsum(ranks.detectable[::-1])[::-1][kept + 1 :]
    m = min(int(np.count_nonzero(probable > LEAST)), unit.singular_values.size - kept)
    found = strengths(unit.singular_values[kept : kept + max(m, 0)], s2, (L, M))
    pairs = np.column_stack([found, probable[: found.size]])
    below = [below_the_limit() * np.sqrt(L / M), 1.0]
    return np.asarray(np.vstack([below, pairs]) * [unseen**2, 1.0])


def below_the_limit() -> float:
    """Expected sum of strengths below the detection limit, in units of it.

    It is that of `strengths`' Poisson process without its cut-off at 1: MEAN times
    ∫₀¹u/(1 + (u/s)²)du over ∫₁^∞1/(1 + (u/s)²)du.
    """
    s = SCALES[0]
    return float(MEAN * 0.5 * s * np.log1p(1 / s**2) / np.arctan(s))
