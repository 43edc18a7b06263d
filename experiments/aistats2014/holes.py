"""The papers' iteration where most cells are missing (Section 4.1, Eq. 36; Lim and Teh 2007).

As `iteration`, but that each row has the sums over its own cells, and so a covariance of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ..iteration import INTEGRATED, learned_priors, method_of, rank_of


@dataclass(frozen=True)
class Rows:
    """Means and covariances of the rows of a factor, and the prior variances c² that they share."""

    mean: np.ndarray
    covariances: np.ndarray
    prior: np.ndarray
    integrated: bool

    @property
    def moments(self) -> np.ndarray:
        """⟨f·fᵀ⟩ of each row."""
        return self.mean[:, :, None] * self.mean[:, None, :] + self.covariances

    @property
    def squares(self) -> np.ndarray:
        """⟨‖f‖²⟩ of each component."""
        return np.einsum("nh,nh->h", self.mean, self.mean) + np.einsum("nhh->h", self.covariances)


def ranks(
    V: sparse.csr_array, method: str, *, noise: float, n_components: int, seed: int = 0
) -> Iterator[int]:
    """The rank after each sweep over the stored cells of V (L×M)."""
    L, M = V.shape
    draw = np.random.default_rng(seed).standard_normal
    integrates = INTEGRATED[method_of(method, (L, M))]
    A, B = (
        Rows(draw((n, n_components)), _identities(n, n_components) * wanted, ones, wanted)
        for n, wanted, ones in zip((M, L), integrates, np.ones((2, n_components)), strict=True)
    )
    seen = sparse.csr_array((np.ones_like(V.data), V.indices, V.indptr), shape=V.shape)
    across, seen_across = V.T.tocsr(), seen.T.tocsr()
    while True:
        A = _posterior(A, across @ B.mean, seen_across, B.moments, noise)
        B = _posterior(B, V @ A.mean, seen, A.moments, noise)
        A, B = _with_priors(A, B)
        yield rank_of(A.mean, B.mean, noise)


def _identities(n: int, H: int) -> np.ndarray:
    return np.broadcast_to(np.eye(H), (n, H, H))


def _posterior(
    rows: Rows, product: np.ndarray, seen: sparse.csr_array, others: np.ndarray, noise: float
) -> Rows:
    """Σ = σ²·(Σ⟨f·fᵀ⟩ over the row's cells + σ²·C⁻¹)⁻¹ and mean = (Σ v·f)·Σ/σ²."""
    H = rows.prior.size
    # C⁻¹ of a component that has died is beyond any number: its row and column go with it.
    scale = np.sqrt(rows.prior)
    both = np.outer(scale, scale)
    sums = (seen @ others.reshape(len(others), H * H)).reshape(-1, H, H)
    covariances = noise * both * np.linalg.inv(sums * both + noise * np.eye(H))
    mean = np.einsum("nh,nhk->nk", product, covariances) / noise
    return replace(rows, mean=mean, covariances=covariances * rows.integrated)


def _with_priors(A: Rows, B: Rows) -> tuple[Rows, Rows]:
    """Both with their prior variances learned."""
    of_a, of_b = learned_priors(
        (A.squares, B.squares),
        (len(A.mean), len(B.mean)),
        shared=not (A.integrated and B.integrated),
    )
    return replace(A, prior=of_a), replace(B, prior=of_b)
