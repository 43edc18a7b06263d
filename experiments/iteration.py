"""The papers' own iteration, equation by equation, to be compared with.

bayespca itself turns and stretches the factors against each other after every sweep, so that it
needs a handful of sweeps where these need thousands. What is kept here is what the figures show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Which of A and B are integrated out; of PB's two kinds that with the larger factor integrated.
INTEGRATED = {
    "evb": (True, True),
    "epb-a": (True, False),
    "epb-b": (False, True),
    "emap": (False, False),
}
# A component counts while its part of B·Aᵀ has a norm above this share of noise's, σ·√max(L, M).
ALIVE = 1e-3
# Prior variances of point estimates below this, in units of σ, are of components long dead.
FLOOR = 1e-4
# c_a²·c_b² of components without weight, in units of σ².
FORGOTTEN = 1e-20


@dataclass(frozen=True)
class Factor:
    """Means of the rows, the covariance that all rows share (zero for a point estimate), and c²."""

    mean: FloatArray
    covariance: FloatArray
    prior: FloatArray
    integrated: bool

    @property
    def moment(self) -> FloatArray:
        """⟨FᵀF⟩ = mean'mean + n·covariance."""
        return self.mean.T @ self.mean + len(self.mean) * self.covariance

    def of(self, components: NDArray[np.bool_]) -> Factor:
        """With some of its components."""
        covariance = self.covariance[np.ix_(components, components)]
        return replace(
            self,
            mean=self.mean[:, components],
            covariance=covariance,
            prior=self.prior[components],
        )


@dataclass(frozen=True)
class Sweep:
    """The posterior after a sweep, and ⟨‖V − B·Aᵀ‖²⟩ under it."""

    A: Factor
    B: Factor
    noise: float
    error: float

    @property
    def alive(self) -> NDArray[np.bool_]:
        """The components that count, one by one."""
        norms = np.linalg.norm(self.A.mean, axis=0) * np.linalg.norm(self.B.mean, axis=0)
        return norms > _least(self.A.mean, self.B.mean, self.noise)

    @property
    def rank(self) -> int:
        return rank_of(self.A.mean, self.B.mean, self.noise)

    @property
    def free_energy(self) -> float:
        """Eq. 5 of aistats2014. A point estimate counts through the density of its prior.

        That density grows without bound as a component dies, and here no further than to a prior
        variance of `FLOOR`.
        """
        return self.free_energy_of(np.ones(len(self.A.prior), dtype=bool))

    def free_energy_of(self, components: NDArray[np.bool_]) -> float:
        """The same without the priors and posteriors of all other components."""
        cells = len(self.A.mean) * len(self.B.mean)
        likelihood = cells * np.log(2 * np.pi * self.noise) + self.error / self.noise
        floor = FLOOR * np.sqrt(self.noise)
        divergences = sum(_divergence(factor, components, floor) for factor in (self.A, self.B))
        return float(0.5 * (likelihood + divergences))


def rank_of(A: FloatArray, B: FloatArray, noise: float) -> int:
    """The rank of B·Aᵀ: less than the number of components that count where these share a
    direction, which nothing in the model forbids.
    """
    triangles = (np.linalg.qr(factor, mode="r") for factor in (B, A))
    values = np.linalg.svd(next(triangles) @ next(triangles).T, compute_uv=False)
    return int(np.count_nonzero(values > _least(A, B, noise)))


def _least(A: FloatArray, B: FloatArray, noise: float) -> float:
    return float(ALIVE * np.sqrt(noise * max(len(A), len(B))))


def method_of(method: str, shape: tuple[int, int]) -> str:
    """Empirical PB integrates out the factor of the longer side (icml2011, Lemma 1)."""
    L, M = shape
    return method if method != "epb" else "epb-a" if M >= L else "epb-b"


def sweeps(
    V: FloatArray,
    method: str,
    *,
    noise: float,
    learn_noise: bool = False,
    seed: int = 0,
    forgets: bool = False,
) -> Iterator[Sweep]:
    """Sweeps without end over a matrix V of size L×M, with all min(L, M) components.

    Means begin as draws from N(0, 1), covariances and priors as the identity (aistats2014,
    Section 5). Each sweep is Eq. 13–16 of icml2011 for A and B, then their priors (Eq. 30) and, if
    it is learned, the noise (Eq. 31). A factor that is point-estimated has no covariance.

    With `forgets` components of no weight in any sum leave the model, which spares their time.
    """
    L, M = V.shape
    H = min(L, M)
    draw = np.random.default_rng(seed).standard_normal
    integrates = INTEGRATED[method_of(method, (L, M))]
    A, B = (
        Factor(draw((n, H)), np.eye(H) * wanted, np.ones(H), wanted)
        for n, wanted in zip((M, L), integrates, strict=True)
    )
    squares = float(np.sum(V**2))
    while True:
        A = _posterior(A, V.T @ B.mean, B, noise)
        product = V @ A.mean
        B = _posterior(B, product, A, noise)
        A, B = _with_priors(A, B)
        if forgets:
            there = A.prior * B.prior > FORGOTTEN * noise
            A, B, product = A.of(there), B.of(there), product[:, there]
        error = squares - 2 * np.sum(product * B.mean) + np.sum(A.moment * B.moment)
        if learn_noise:
            noise = error / (L * M)
        yield Sweep(A, B, noise, error)


def _posterior(factor: Factor, product: FloatArray, other: Factor, noise: float) -> Factor:
    """Eq. 13–16: Σ = σ²·(⟨FᵀF⟩ of the other + σ²·C⁻¹)⁻¹ and mean = V·F·Σ/σ²."""
    # C⁻¹ of a component that has died is beyond any number: its row and column go with it.
    scale = np.sqrt(factor.prior)
    inner = other.moment * np.outer(scale, scale) + noise * np.eye(len(scale))
    covariance = noise * np.linalg.inv(inner) * np.outer(scale, scale)
    covariance = 0.5 * (covariance + covariance.T)
    mean = product @ covariance / noise
    return replace(factor, mean=mean, covariance=covariance * factor.integrated)


def _with_priors(A: Factor, B: Factor) -> tuple[Factor, Factor]:
    """Both with their prior variances learned."""
    of_a, of_b = learned_priors(
        (np.diagonal(A.moment), np.diagonal(B.moment)),
        (len(A.mean), len(B.mean)),
        shared=not (A.integrated and B.integrated),
    )
    return replace(A, prior=of_a), replace(B, prior=of_b)


def learned_priors(
    squares: tuple[FloatArray, FloatArray], sizes: tuple[int, int], *, shared: bool
) -> tuple[FloatArray, FloatArray]:
    """c_a² = ⟨‖a‖²⟩/M and c_b² = ⟨‖b‖²⟩/L (Eq. 30 of icml2011, where c_a = 1), or one c² for both.

    Where a factor is point-estimated c_a = c_b, as aistats2014 fixes them in Section 3.1: with each
    to itself the free energy falls without bound along c_a/c_b, and there is no solution to end at.
    """
    if shared:
        both = (squares[0] + squares[1]) / sum(sizes)
        return both, both
    return squares[0] / sizes[0], squares[1] / sizes[1]


def _divergence(factor: Factor, components: NDArray[np.bool_], floor: float) -> float:
    """Twice the divergence of a factor from its prior; −2·log of its density for a point estimate.

    n·log|C| + tr(C⁻¹⟨FᵀF⟩), and then −n·(log|Σ| + H) or n·H·log 2π.
    """
    n, H = len(factor.mean), int(np.count_nonzero(components))
    prior = np.maximum(factor.prior[components], np.finfo(float).tiny)
    spread = float(np.sum(np.diagonal(factor.moment)[components] / prior))
    if not factor.integrated:
        return spread + n * float(np.sum(np.log(2 * np.pi * np.maximum(prior, floor))))
    covariance = factor.covariance[np.ix_(components, components)]
    return spread + n * float(np.sum(np.log(prior)) - np.linalg.slogdet(covariance)[1] - H)
