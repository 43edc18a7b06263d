"""States of mixtures of PCAs as vectors, for acceleration: the Gaussian of each cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, Loadings

from .cluster import Cluster
from .step import MixtureProblem, MixtureState


@dataclass(frozen=True, eq=False)
class MixtureChart:
    """Vectors that hold the clusters one after another.

    Each cluster contributes W, where WWᵀ is its covariance without the noise, rotated towards that
    of a reference vector; its mean, `surplus`, log N, and log σ² or the log ψ of each feature. A
    step restores everything else.
    """

    problem: MixtureProblem

    @property
    def is_per_feature(self) -> bool:
        return isinstance(self.problem.least_noise, np.ndarray)

    def point(self, state: MixtureState, like: Vector | None) -> StatePoint:
        parts = [self._parts(cluster) for cluster in state.clusters]
        errors = np.concatenate([self._errors(cluster) for cluster in state.clusters])
        if like is not None and like.size == errors.size:
            others = _split(like, parts)
            parts = [part.aligned(other) for part, other in zip(parts, others, strict=True)]
        return StatePoint(np.concatenate([part.vector for part in parts]), errors)

    def at(self, state: MixtureState, vector: Vector) -> MixtureState:
        parts = [self._parts(cluster) for cluster in state.clusters]
        every = zip(state.clusters, parts, _split(vector, parts), strict=True)
        new = [self._moved(cluster, part, part.at(goal)) for cluster, part, goal in every]
        return replace(state, clusters=tuple(new))

    def _parts(self, cluster: Cluster) -> Loadings:
        known = cluster.gaussian
        W = (known.directions * np.sqrt(known.spread)[:, None] * known.scale).T
        noise = known.noise * (known.scale**2 if self.is_per_feature else np.ones(1))
        logs = np.log(np.append(cluster.count, noise))
        rest = np.concatenate([np.append(known.mean, cluster.surplus), logs])
        return Loadings(W, np.empty((0, 0)), rest)

    def _errors(self, cluster: Cluster) -> FloatArray:
        N, known = cluster.count, cluster.gaussian
        p, k = known.mean.size, known.spread.size
        psi = known.noise * known.scale**2
        variances = psi + known.scale**2 * (known.spread @ known.directions**2)
        noise = np.full(p, np.sqrt(2 / N)) if self.is_per_feature else [np.sqrt(2 / N / p)]
        W = np.repeat(np.sqrt(psi / N), k)
        return np.concatenate([W, np.sqrt(variances / N), [1 / np.sqrt(N)] * 2, noise])

    def _moved(self, cluster: Cluster, here: Loadings, goal: Loadings) -> Cluster:
        """The cluster with the Gaussian at `goal`; everything else stays as it was."""
        old, p = cluster.posterior, cluster.posterior.mean.size
        before = here.rest[p + 1 :]
        logs = np.clip(goal.rest[p + 1 :], before - FURTHEST, before + FURTHEST)
        psi = np.maximum(np.exp(logs[1:]), self.problem.least_noise)
        scale, noise = (np.sqrt(psi), 1.0) if self.is_per_feature else (old.scale, float(psi[0]))
        _, gamma, directions = np.linalg.svd(goal.W.T / scale, full_matrices=False)
        spread = gamma**2
        posterior = replace(
            old,
            mean=goal.rest[:p],
            scale=scale,
            components=directions,
            shrinkage=spread / (spread + noise),
            noise_variance=noise,
        )
        new = replace(cluster, count=float(np.exp(logs[0])), posterior=posterior)
        return replace(new, latent_cost=goal.rest[p] + new.latent_cost - new.surplus)


def _split(vector: Vector, parts: list[Loadings]) -> list[FloatArray]:
    """The piece of a vector that belongs to each cluster."""
    return np.split(vector, np.cumsum([part.vector.size for part in parts])[:-1])
