"""Components that were not kept, and yet may be there: their strengths, and how probable they are.

A method keeps what it is sure of. What it leaves out is noise to it, but cells without noise and
directions of the components differ by it: intervals have to know how much that may be.
"""

from __future__ import annotations

import numpy as np

from .closed_form import learned_edge, learned_strength
from .noise import tail_sums
from .rank_posterior import MEAN, SCALE
from .records import FloatArray, RankPosterior, Spectrum

# Probability below which a component is not counted.
LEAST = 1e-3
# Standard deviation of the noise, beside a singular value, that is as good as none.
NOISELESS = 1e-50
# Beside the noise of a fit: less is left beyond the most probable rank only where columns depend on
# each other, and ranks are counted to the last.
EXACT = 1e-4


def strengths(gamma: FloatArray, noise_variance: float, shape: tuple[float, float]) -> FloatArray:
    """ℓ, a component's variance over that of the noise, from its singular value in p×n data.

    γ²/σ² = n(1 + ℓ)(1 + p/(nℓ)) for large matrices (Baik and Silverstein 2006): nℓ is the strength
    that EVB keeps. At least the detection limit √(p/n), below which singular values tell nothing.
    """
    L, M = shape
    # Data without noise have strengths that are large, and numbers.
    noise = np.maximum(np.sqrt(noise_variance), NOISELESS * gamma)
    ratio = np.divide(gamma, noise, where=noise > 0, out=np.zeros_like(gamma))
    x = np.maximum(ratio**2, learned_edge(L, M, L, M))
    return np.asarray(learned_strength(x, L, M, L, M) / M)


def left_out(
    spectrum: Spectrum, ranks: RankPosterior, kept: int, noise_variance: float
) -> FloatArray:
    """Strength and probability of each component beyond those that were kept: (m, 2).

    The strength is in units of `noise_variance`, the noise of a fit, which counts them as noise.
    The first row stands for all components below the detection limit, of which nothing is seen.
    """
    unit, (L, M), k = spectrum.at_unit_scale(), spectrum.shape, ranks.rank
    if not noise_variance > 0 or k >= min(L, M):
        return np.empty((0, 2))
    s2 = float(tail_sums(unit)[min(k, unit.singular_values.size)] / ((L - k) * (M - k)))
    unseen = unit.scale * np.sqrt(s2) / np.sqrt(noise_variance)
    if not EXACT < unseen < 1 / NOISELESS:
        return np.empty((0, 2))
    probable = np.cumsum(ranks.probabilities[::-1])[::-1][kept + 1 :]
    m = min(int(np.count_nonzero(probable > LEAST)), unit.singular_values.size - kept)
    found = strengths(unit.singular_values[kept : kept + max(m, 0)], s2, (L, M))
    pairs = np.column_stack([found, probable[: found.size]])
    below = [below_the_limit() * ranks.limit, 1.0]
    return np.asarray(np.vstack([below, pairs]) * [unseen**2, 1.0])


def below_the_limit() -> float:
    """Expected sum of strengths below the detection limit, in units of it.

    That of `rank_posterior`'s Poisson process, were it not cut off at 1: MEAN times
    ∫₀¹u/(1 + (u/s)²)du over ∫₁^∞1/(1 + (u/s)²)du.
    """
    s = SCALE
    return float(MEAN * 0.5 * s * np.log1p(1 / s**2) / np.arctan(s))
