"""The posterior of a mixture of PCAs, and everything computed from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray, Vector
from bayespca.lowrank import posterior as read
from bayespca.lowrank.posterior import Posterior
from bayespca.spectrum.tolerances import TINY

from .cluster import compared
from .data import MixtureRows, gathered
from .gaussian import Gaussian, densities_of_all, expected_values

Labels = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class MixturePosterior:
    """Expected weights and a PCA for each cluster, in the units of the data.

    `unit` is about the size of the data: numbers are divided by it before they are squared.
    """

    weights: Vector
    clusters: tuple[Posterior, ...]
    unit: float

    @property
    def ranks(self) -> NDArray[np.int64]:
        return np.array([cluster.components.shape[0] for cluster in self.clusters], np.int64)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together and are positive where they must be."""
        sizes = {cluster.mean.size for cluster in self.clusters}
        if len(sizes) != 1 or self.weights.shape != (len(self.clusters),):
            raise ValueError("the clusters of a MixturePosterior are of different sizes")
        noises = np.array([cluster.noise_variance for cluster in self.clusters])
        if not (0 < self.unit < np.inf and (noises > 0).all() and (self.weights > 0).all()):
            raise ValueError(
                "the unit, a weight or a noise variance of a MixturePosterior is not positive"
            )


def log_joint(mixture: MixturePosterior, X: FloatArray) -> FloatArray:
    """log ⟨πₖ⟩ + log p(xₙ | k) of the observed cells; (n, K).

    The density is predictive: the uncertainty of the directions adds to the noise.
    """
    rows = _rows(mixture, X)
    log_unit = rows.seen.sum(axis=1)[rows.pattern] * np.log(mixture.unit)
    gaussians = [
        Gaussian(
            *(cluster.mean, cluster.scale, cluster.components, cluster.latent_variance),
            noise=max(cluster.predictive_noise, TINY),
        )
        for cluster in mixture.clusters
    ]
    gaussians = [_scaled(mixture, gaussian) for gaussian in gaussians]
    out = rows.in_order(densities_of_all(gaussians, rows) - log_unit[:, None])
    return out + np.log(mixture.weights)


def log_density(mixture: MixturePosterior, X: FloatArray) -> FloatArray:
    """log Σₖ ⟨πₖ⟩·p(xₙ | k)."""
    return np.asarray(logsumexp(log_joint(mixture, X), axis=1))


def probabilities(mixture: MixturePosterior, X: FloatArray) -> FloatArray:
    """Probability of each cluster for each row; (n, K)."""
    joint = log_joint(mixture, X)
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


def scores(mixture: MixturePosterior, X: FloatArray, k: int) -> FloatArray:
    """Posterior mean of the scores in cluster k; holes are predicted from the observed cells."""
    return np.asarray(read.scores(mixture.clusters[k], filled(mixture, X, k)))


def local_scores(mixture: MixturePosterior, X: FloatArray, labels: Labels) -> FloatArray:
    """Scores of each row in its own cluster, with zeros beyond that cluster's rank."""
    out = np.zeros((len(X), int(mixture.ranks.max(initial=0))))
    for k in np.unique(labels):
        inside = labels == k
        out[inside, : mixture.ranks[k]] = scores(mixture, X[inside], int(k))
    return out


def reconstruct(mixture: MixturePosterior, T: FloatArray, labels: Labels) -> FloatArray:
    """Noiseless rows with the given scores in the given clusters."""
    out = np.empty((len(T), mixture.clusters[0].mean.size))
    for k in np.unique(labels):
        inside = labels == k
        out[inside] = read.reconstruct(mixture.clusters[k], T[inside, : mixture.ranks[k]])
    return out


def filled(mixture: MixturePosterior, X: FloatArray, k: int) -> FloatArray:
    """Rows with their holes filled as cluster k predicts them."""
    if not np.isnan(X).any():
        return X
    rows = _rows(mixture, X)
    gaussian = _scaled(mixture, compared(mixture.clusters[k]))
    values = expected_values(gaussian, rows) * mixture.unit + _location(mixture)
    return np.where(np.isnan(X), rows.in_order(values), X)


def impute(mixture: MixturePosterior, X: FloatArray) -> FloatArray:
    """Rows with their holes filled by their means over all clusters."""
    share = probabilities(mixture, X)
    parts = [share[:, [k]] * filled(mixture, X, k) for k in range(share.shape[1])]
    return np.where(np.isnan(X), np.sum(parts, axis=0), X)


def sample(
    mixture: MixturePosterior, n: int, rng: np.random.Generator
) -> tuple[FloatArray, Labels]:
    """n new rows, sorted by cluster, and the cluster of each."""
    counts = rng.multinomial(n, mixture.weights / mixture.weights.sum())
    pairs = zip(mixture.clusters, counts, strict=True)
    X = np.concatenate([read.sample(cluster, int(count), rng) for cluster, count in pairs])
    return X, np.repeat(np.arange(counts.size), counts)


def _location(mixture: MixturePosterior) -> FloatArray:
    """The point subtracted from rows before anything is squared."""
    return np.asarray(mixture.clusters[0].mean)


def _rows(mixture: MixturePosterior, X: FloatArray) -> MixtureRows:
    return gathered((X - _location(mixture)) / mixture.unit, np.ones(len(X)))


def _scaled(mixture: MixturePosterior, gaussian: Gaussian) -> Gaussian:
    """The Gaussian of rows divided by the unit, with a largest scale of 1."""
    largest = float(gaussian.scale.max())
    factor = largest / mixture.unit
    return Gaussian(
        (gaussian.mean - _location(mixture)) / mixture.unit,
        gaussian.scale / largest,
        gaussian.directions,
        gaussian.spread * factor * factor,
        gaussian.noise * factor * factor,
    )


def in_units(cluster: Posterior, location: FloatArray, unit: float, live: Labels) -> Posterior:
    """Convert a cluster from unit scale to the units of the data, with constant columns put back.

    Where features have their own scales, the scales carry the units; elsewhere the variances do.
    Constant columns get the mean noise of the others, so that densities do not depend on units.
    """
    mean = location.copy()
    mean[live] += cluster.mean * unit
    scale = np.full(location.size, np.sqrt(np.mean(cluster.scale**2)))
    scale[live] = cluster.scale
    components = np.zeros((cluster.components.shape[0], location.size))
    components[:, live] = fixed_signs(cluster.components)
    placed = replace(cluster, mean=mean, scale=scale, components=components)
    if (cluster.scale != 1).any():
        scale *= unit
        return placed
    return replace(
        placed,
        score_variance=cluster.score_variance * unit * unit,
        latent_variance=cluster.latent_variance * unit * unit,
        noise_variance=cluster.noise_variance * unit * unit,
    )
