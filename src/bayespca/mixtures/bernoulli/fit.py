"""The mixture of Bernoulli distributions as a model: starts, sweeps, and merging at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit

from .data import BernoulliRows
from .family import BernoulliFamily
from .posterior import BernoulliClusters, with_memberships
from .start import STARTS, with_given
from .step import BernoulliState, step


@dataclass(frozen=True, eq=False)
class BernoulliFit(Fit[BernoulliClusters]):
    """A finished fit."""

    @property
    def n_components(self) -> int:
        """Number of clusters that remain."""
        return int(self.posterior.weights.size)

    @property
    def n_features(self) -> int:
        return int(self.posterior.means.shape[1])


@dataclass(frozen=True)
class BernoulliModel(Model[BernoulliRows, BernoulliState, Fit[BernoulliClusters]]):
    """Clusters of rows of zeros and ones; parameters as in `BernoulliMixture`.

    `family` is `MaximumLikelihood`, or `Bayes` with its priors.
    """

    n_components: int
    family: BernoulliFamily
    init: str = "k-means++"
    weights_init: FloatArray | None = field(default=None, repr=False)
    means_init: FloatArray | None = field(default=None, repr=False)

    def start(self, data: BernoulliRows, rng: np.random.Generator) -> BernoulliState:
        begin = STARTS[self.init](data, self.n_components, rng)
        return with_given(begin, data, self.weights_init, self.means_init)

    def step(self, state: BernoulliState, data: BernoulliRows) -> tuple[BernoulliState, Info]:
        return step(state, data, self.family)

    def digests(self, data: BernoulliRows) -> Sequence[object]:
        return [data.ones, data.seen, data.weights, self.weights_init, self.means_init]

    def moves(self, data: BernoulliRows) -> Sequence[Move[BernoulliState]]:
        return [Move(self._less)] if self.family.drops else []

    def _less(self, state: BernoulliState) -> BernoulliState | None:
        sums = self.family.merged(state.sums)
        return None if sums is None else BernoulliState(sums)

    def posterior(self, state: BernoulliState, data: BernoulliRows) -> BernoulliClusters:
        """Clusters, largest first; in the given order if weights or means were given."""
        weights, means, std = self.family.averages(state.sums)
        is_given = self.weights_init is not None or self.means_init is not None
        order = np.arange(weights.size) if is_given else np.argsort(-weights, kind="stable")
        return with_memberships(BernoulliClusters(weights[order], means[order], std[order]), data)
