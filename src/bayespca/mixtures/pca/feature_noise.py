"""The best noise of each feature, given the posterior of data divided by its root."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Moments


def best_noise(
    psi: FloatArray,
    squares: FloatArray,
    *,
    moments: Moments,
    gamma: FloatArray,
    components: FloatArray,
    M: float,
) -> FloatArray:
    """ψ that minimises the free energy at the posterior of A and B, feature by feature.

    The noise also scales a feature's loadings, whose prior is that of the rescaled data. So ψⱼ is
    the mean over ⟨‖xⱼ − A bⱼ‖²⟩ of M samples and ⟨bⱼₕ²⟩/c_bₕ² of the components with a proper
    prior. `squares` are Σx² of each feature; `gamma` and `components` belong to the components
    kept, which come first in `moments`.
    """
    k = gamma.size
    along = np.zeros((moments.mean_b.size, psi.size))
    along[:k] = components**2
    b2 = moments.mean_b[:, None] ** 2 * along + moments.variance_b[:, None]
    a2 = moments.mean_a**2 + M * moments.variance_a
    overlap = (gamma * moments.mean_a[:k] * moments.mean_b[:k]) @ along[:k]
    residuals = squares / psi - 2 * overlap + a2 @ b2
    proper = np.isfinite(moments.prior_variance_b) & (moments.prior_variance_b > 0)
    prior = (b2[proper] / moments.prior_variance_b[proper, None]).sum(axis=0)
    count = np.count_nonzero(proper)
    return psi * (residuals + prior) / (M + count)
