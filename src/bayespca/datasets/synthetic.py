"""Simulated data whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray


@dataclass(frozen=True)
class LowRank:
    """Noisy data X = mean + scores·components + noise, with the truth behind them.

    `components` has orthonormal rows, and `scores` has orthogonal columns in decreasing order of
    size: they are the singular value decomposition of the matrix without noise and mean.

    >>> import numpy as np
    >>> from bayespca.datasets import low_rank
    >>> made = low_rank(100, 12, 3, random_state=0)
    >>> noise = made.X - made.mean - made.scores @ made.components
    >>> made.noise_variance, round(float(np.var(noise)), 1)
    (1.0, 1.0)
    """

    X: FloatArray
    mean: FloatArray
    scores: FloatArray
    components: FloatArray
    noise_variance: float

    @property
    def rank(self) -> int:
        """The number of components."""
        return int(self.components.shape[0])

    @property
    def signal(self) -> FloatArray:
        """The matrix without noise."""
        return self.mean + self.scores @ self.components


def low_rank(
    n_samples: int,
    n_features: int,
    rank: int,
    *,
    noise_variance: float = 1.0,
    strength: float = 1.0,
    mean: float = 0.0,
    random_state: int | np.random.Generator | None = None,
) -> LowRank:
    """A product of Gaussian factors plus Gaussian noise (Nakajima and Sugiyama 2014, Section 5.1).

    Entries of both factors are N(0, 1), and their product is multiplied by `strength`; column
    means are N(0, mean²). The scores are centred, so the mean of the truth is exact.

    >>> from bayespca.datasets import low_rank
    >>> made = low_rank(100, 12, 3, noise_variance=0.25, random_state=0)
    >>> made.X.shape, made.scores.shape, made.components.shape
    ((100, 12), (100, 3), (3, 12))
    """
    rng = np.random.default_rng(random_state)
    A, B = rng.normal(size=(n_samples, rank)), rng.normal(size=(rank, n_features))
    A -= A.mean(axis=0)
    # The thin SVD of the product, without forming it.
    Qa, Ra = np.linalg.qr(strength * A)
    Qb, Rb = np.linalg.qr(B.T)
    U, gamma, W = np.linalg.svd(Ra @ Rb.T)
    U, components = Qa @ U[:, : gamma.size], W[: gamma.size] @ Qb.T
    offset = mean * rng.normal(size=n_features)
    noise = np.sqrt(noise_variance) * rng.normal(size=(n_samples, n_features))
    scores = U * gamma
    return LowRank(offset + scores @ components + noise, offset, scores, components, noise_variance)


@dataclass(frozen=True)
class LowRankTensor:
    """A noisy tensor T = core ×₁ factors[0] ×₂ factors[1] … + noise, with the truth behind it.

    >>> from bayespca.datasets import low_rank_tensor
    >>> made = low_rank_tensor((8, 9, 10), (2, 3, 2), random_state=0)
    >>> made.T.shape, made.core.shape, made.noise_variance
    ((8, 9, 10), (2, 3, 2), 1.0)
    """

    T: FloatArray
    core: FloatArray
    factors: tuple[FloatArray, ...]
    noise_variance: float

    @property
    def signal(self) -> FloatArray:
        """The tensor without noise."""
        return _multiplied(self.core, self.factors)


def low_rank_tensor(
    sizes: tuple[int, ...],
    ranks: tuple[int, ...],
    *,
    snr: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> LowRankTensor:
    """A Tucker tensor plus noise, with core and factors from N(0, 1).

    It is the ArtificialTF of Nakajima and Sugiyama 2014, Section 5.3.

    The mean square of the tensor without noise is 1, that of the noise 1/snr: 1 is 0 dB.

    >>> from bayespca import BayesianTucker
    >>> from bayespca.datasets import low_rank_tensor
    >>> T = low_rank_tensor((12, 13, 14), (2, 3, 2), snr=4.0, random_state=0).T
    >>> BayesianTucker(random_state=0).fit(T).ranks_
    (2, 3, 2)
    """
    rng = np.random.default_rng(random_state)
    core = rng.normal(size=ranks)
    factors = tuple(rng.normal(size=pair) for pair in zip(sizes, ranks, strict=True))
    core /= np.sqrt(np.mean(_multiplied(core, factors) ** 2))
    noise = rng.normal(size=sizes) / np.sqrt(snr)
    return LowRankTensor(_multiplied(core, factors) + noise, core, factors, 1 / snr)


def _multiplied(core: FloatArray, factors: tuple[FloatArray, ...]) -> FloatArray:
    """The core times a factor along each mode.

    Each product removes the first axis and appends the new one, so all modes are contracted at 0.
    """
    for factor in factors:
        core = np.tensordot(core, factor, axes=(0, 1))
    return core
