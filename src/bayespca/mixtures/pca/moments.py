"""Weighted moments of the rows of a cluster, from which its closed form follows.

The moments of two clusters add up to those of the merged cluster, which needs no rows.
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

# If rows are this many times fewer than features, a separate decomposition of the rows pays.
WIDE = 2


class ClusterRows(NamedTuple):
    """The weighted rows of a cluster, and the plan for their spectrum.

    The cluster `before` predicts the holes.
    """

    rows: MixtureRows
    before: Cluster | None
    plan: ClusterPlan


@dataclass(frozen=True, eq=False)
class ClusterMoments:
    """√rₙ(xₙ − x̄) in blocks of rows, the `covariance` that the uncertainty of holes adds to their
    products, the `scale` to divide them by, and the plan for their spectrum.

    `entropy` is that of the holes, and `noise` that of the cluster before, infinite if there was
    none. `has_scale` says that the noise of features is known from before and can be improved.
    `products` is the Gram matrix, if known.
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
        """Whether there are so few rows that the features' Gram matrix does not pay.

        Methods other than EVB leave hardly any noise where there are fewer rows than features: they
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
    """Moments of the rows, with holes as the cluster before predicts them."""
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
    """Moments of two clusters merged, with the mean of their noises.

    Σ(x − x̄)(x − x̄)ᵀ is the sum of theirs plus N₁N₂/N·ddᵀ, with d the difference of their means.
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
