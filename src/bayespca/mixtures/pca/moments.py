"""Weighted moments of the rows of a cluster, from which its closed form follows.

Moments of two clusters add up to those of the two in one, which are thus had without their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

from .cluster import Cluster, ClusterPlan
from .data import MixtureRows
from .gaussian import ExpectedRows, expected

# A side so many times shorter than that of the features is worth a call of its own.
WIDE = 2


class ClusterRows(NamedTuple):
    """The rows of a cluster, which count by their weights, and what to make of their spectrum.

    Holes are expected as in the cluster `before`.
    """

    rows: MixtureRows
    before: Cluster | None
    plan: ClusterPlan


@dataclass(frozen=True, eq=False)
class ClusterMoments:
    """√rₙ(xₙ − x̄) in blocks of rows, and what the uncertainty of holes adds to their products;
    what they are divided by, and what to make of their spectrum.

    `entropy` is that of the holes, and `noise` that of the cluster before, infinite where there was
    none. `has_scale` tells that the noise of features is known from before, so that it can be made
    better.
    """

    mean: FloatArray
    blocks: tuple[FloatArray, ...]
    covariance: FloatArray | float
    count: float
    entropy: float
    noise: float
    scale: FloatArray
    plan: ClusterPlan
    has_scale: bool
    products: FloatArray | None = None

    @property
    def M(self) -> float:
        return self.count - 1

    @property
    def p(self) -> int:
        return self.mean.size

    @property
    def is_complete(self) -> bool:
        return isinstance(self.covariance, float)

    @property
    def n_rows(self) -> int:
        return sum(len(block) for block in self.blocks)

    @property
    def is_wide(self) -> bool:
        """Whether the samples' side is so much shorter that the features' does not pay.

        Other methods than EVB have hardly any noise where there are fewer rows than features: they
        need the digits.
        """
        times = WIDE if self.plan.is_evb else 1
        return self.is_complete and times * self.n_rows < self.p

    @property
    def full_rank(self) -> int:
        return int(min(self.p, self.M))

    @cached_property
    def rows(self) -> FloatArray:
        return self.blocks[0] if len(self.blocks) == 1 else np.concatenate(self.blocks)

    @cached_property
    def gram(self) -> FloatArray:
        if self.products is not None:
            return self.products
        return self.rows.T @ self.rows + self.covariance

    @property
    def scaled_gram(self) -> FloatArray:
        if not self.plan.is_per_feature:
            return self.gram
        return self.gram / self.scale / self.scale[:, None]

    @cached_property
    def squares(self) -> FloatArray:
        """Σx² of each feature."""
        if self.is_complete and self.products is None:
            return np.einsum("ij,ij->j", self.rows, self.rows)
        return np.diag(self.gram).copy()

    def with_scale(self, scale: FloatArray) -> ClusterMoments:
        known = vars(self).get("gram", self.products)
        return replace(self, scale=scale, has_scale=True, products=known)


def moments_of(part: ClusterRows) -> ClusterMoments:
    """Moments of the rows, holes as the cluster expects them."""
    weights, plan = part.rows.weights, part.plan
    found = _expected(part)
    N = float(weights.sum())
    mean = weights @ found.values / N
    scaled = found.values - mean
    scaled *= np.sqrt(weights)[:, None]
    before = part.before if plan.is_per_feature else None
    scale = np.ones(mean.size) if before is None else before.posterior.scale
    noise = np.inf if part.before is None else part.before.noise
    return ClusterMoments(
        *(mean, (scaled,), found.covariance, N, found.entropy, noise, scale, plan),
        has_scale=before is not None,
    )


def _expected(part: ClusterRows) -> ExpectedRows:
    if part.before is None:
        return ExpectedRows(part.rows.values, 0.0, 0.0)
    return expected(part.before.gaussian, part.rows)


def merged(one: ClusterMoments, other: ClusterMoments) -> ClusterMoments:
    """Moments of two clusters in one, with the mean of their noises.

    Σ(x − x̄)(x − x̄)ᵀ is that of both, and N₁N₂/N·ddᵀ between their means, which differ by d.
    """
    N = one.count + other.count
    share = other.count / N
    d = other.mean - one.mean
    between = np.sqrt(one.count * share) * d
    products = None
    if not (one.is_wide or other.is_wide):
        products = one.gram + other.gram + between[:, None] * between
    psi = (1 - share) * one.scale**2 + share * other.scale**2
    return replace(
        one,
        mean=one.mean + share * d,
        blocks=(*one.blocks, *other.blocks, between[None]),
        covariance=one.covariance + other.covariance,
        count=N,
        entropy=one.entropy + other.entropy,
        noise=(1 - share) * one.noise + share * other.noise,
        scale=np.sqrt(psi),
        products=products,
    )
