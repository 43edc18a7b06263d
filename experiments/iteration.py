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
INTEGRATED = {"evb": (True, True), "epb-a": (True, False), "epb-b": (False, True)}
INTEGRATED |= {"emap": (False, False)}
# A component counts while its part of B·Aᵀ has a norm above this share of noise's, σ·√max(L, M).
ALIVE = 1e-3


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


@dataclass(frozen=True)
class Sweep:
    """The posterior after a sweep."""

    A: Factor
    B: Factor
    noise: float
    free_energy: float

    @property
    def rank(self) -> int:
        norms = np.linalg.norm(self.A.mean, axis=0) * np.linalg.norm(self.B.mean, axis=0)
        limit = ALIVE * np.sqrt(self.noise * max(len(self.A.mean), len(self.B.mean)))
        return int(np.count_nonzero(norms > limit))


def method_of(method: str, shape: tuple[int, int]) -> str:
    """Empirical PB integrates out the factor of the longer side (icml2011, Lemma 1)."""
    L, M = shape
    return method if method != "epb" else "epb-a" if M >= L else "epb-b"


def sweeps(
    V: FloatArray, method: str, *, noise: float, learn_noise: bool = False, seed: int = 0
) -> Iterator[Sweep]:
    """Sweeps without end over a matrix V of size L×M, with all min(L, M) components.

    Means begin as draws from N(0, 1), covariances and priors as the identity (aistats2014,
    Section 5). Each sweep is Eq. 13–16 of icml2011 for A and B, then c² = ‖a‖²/M + σ_a² (Eq. 30)
    and, if it is learned, the noise (Eq. 31). A factor that is point-estimated has no covariance.
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
        A = _with_prior(_posterior(A, V.T @ B.mean, B, noise))
        product = V @ A.mean
        B = _with_prior(_posterior(B, product, A, noise))
        error = squares - 2 * np.sum(product * B.mean) + np.sum(A.moment * B.moment)
        if learn_noise:
            noise = error / (L * M)
        energy = L * M * np.log(2 * np.pi * noise) + error / noise
        yield Sweep(A, B, noise, 0.5 * (energy + _divergence(A) + _divergence(B)))


def _posterior(factor: Factor, product: FloatArray, other: Factor, noise: float) -> Factor:
    """Eq. 13–16: Σ = σ²·(⟨FᵀF⟩ of the other + σ²·C⁻¹)⁻¹ and mean = V·F·Σ/σ²."""
    # C⁻¹ of a component that has died is beyond any number: its row and column go with it.
    scale = np.sqrt(factor.prior)
    inner = other.moment * np.outer(scale, scale) + noise * np.eye(len(scale))
    covariance = noise * np.linalg.inv(inner) * np.outer(scale, scale)
    covariance = 0.5 * (covariance + covariance.T)
    mean = product @ covariance / noise
    return replace(factor, mean=mean, covariance=covariance * factor.integrated)


def _with_prior(factor: Factor) -> Factor:
    """Eq. 30: c² = ‖f‖²/n + Σ_hh."""
    return replace(factor, prior=np.diagonal(factor.moment) / len(factor.mean))


def _divergence(factor: Factor) -> float:
    """Twice the divergence of a factor from its prior, whose c² is Eq. 30's: n·(log|C| − log|Σ|).

    For a point estimate −2·log of its prior density, Eq. 27 of aistats2014 with its constants.
    """
    n, H = factor.mean.shape
    prior = np.sum(np.log(np.maximum(factor.prior, np.finfo(float).tiny)))
    if factor.integrated:
        return float(n * (prior - np.linalg.slogdet(factor.covariance)[1]))
    return float(n * (prior + H * (1 + np.log(2 * np.pi))))
