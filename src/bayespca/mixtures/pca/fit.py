"""The mixture of PCAs as a model: starts, sweeps, removal of clusters, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import DOUBLE, FloatArray, Vector
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.noise_models import ISOTROPIC, PER_FEATURE
from bayespca.lowrank.records import NoiseFound
from bayespca.mixtures.weights import Weights
from bayespca.spectrum.records import Status
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES, NO_NOISE

from .chart import MixtureChart
from .cluster import Cluster
from .data import MixtureData
from .posterior import MixturePosterior, in_units, noise_variances
from .removal import with_one_less
from .start import by_k_means, one_cluster, pruned, ranks_to_prune
from .step import MixtureProblem, MixtureState, starved, step

# Where there are several clusters or holes, the noise of a single PCA counts as at least this, at
# unit scale (mean square 1): their densities need the digits.
SHARE = 1e-2
# Nats by which a cluster with too few rows must lower the free energy to stay.
EVIDENT = 10.0


@dataclass(frozen=True, eq=False)
class MixtureFit(Fit[MixturePosterior]):
    """A finished fit; `counts` are the rows of each cluster, largest first.

    With `per_feature` each cluster has a noise variance for each feature; `dtype` is that of the
    data. `evidence` has, in nats, the gain of each noise model tried over one variance for all
    features.
    """

    counts: Vector = field(default_factory=lambda: np.empty(0))
    per_feature: bool = False
    dtype: np.dtype[Any] = DOUBLE
    evidence: dict[str, float] = field(default_factory=dict)

    @property
    def noise(self) -> NoiseFound:
        """The name of the noise model, and the evidence for it."""
        found = PER_FEATURE if self.per_feature else ISOTROPIC
        return NoiseFound(name=found.name, evidence=self.evidence)

    @property
    def n_components(self) -> int:
        """Number of clusters that remain."""
        return len(self.posterior.clusters)

    @property
    def n_features(self) -> int:
        return int(self.posterior.clusters[0].mean.size)

    @property
    def ranks(self) -> NDArray[np.int64]:
        return self.posterior.ranks

    @property
    def noise_variances(self) -> FloatArray:
        return noise_variances(self.posterior, per_feature=self.per_feature)


@dataclass(frozen=True)
class MixtureModel(MixtureProblem, Model[MixtureData, MixtureState, MixtureFit]):
    """Clusters, each with its own PCA.

    `ranks` has the largest rank of each initial cluster, or the rank itself where the method needs
    one. `whole` is the cluster of all rows. With `choose` the free energy decides how many clusters
    stay; with `prune` the start is pruned from more clusters than `ranks` has.
    """

    ranks: tuple[int | None, ...]
    whole: Cluster = field(repr=False)
    choose: bool = False
    prune: bool = True

    @property
    def has_one_start(self) -> bool:
        return len(self.ranks) == 1

    def start(self, data: MixtureData, rng: np.random.Generator) -> MixtureState:
        if self.has_one_start:
            return MixtureState((self.whole,), self.ranks)
        if not self.prune:
            return by_k_means(data, self, self.ranks, self.whole, rng)
        more = ranks_to_prune(self.ranks, data.rows.shape[0])
        begin = by_k_means(data, self, more, self.whole, rng)
        return pruned(begin, data, self, len(self.ranks))

    def step(self, state: MixtureState, data: MixtureData) -> tuple[MixtureState, Info]:
        return step(state, data, self)

    def chart(self, data: MixtureData) -> MixtureChart | None:
        """A chart for data with holes. Without holes there are few sweeps, and rows that jump
        between clusters leave no trend to extrapolate.
        """
        return None if data.rows.is_complete else MixtureChart(self)

    def digests(self, data: MixtureData) -> Sequence[object]:
        rows = data.rows
        return [rows.values, rows.seen, rows.pattern, rows.weights, self.least_noise]

    def moves(self, data: MixtureData) -> Sequence[Move[MixtureState]]:
        return [Move(partial(with_one_less, data=data, problem=self))] if self.choose else []

    def shrunk(self, state: MixtureState, data: MixtureData) -> tuple[MixtureState, float] | None:
        """Drop a cluster with too few rows to be estimated, unless they fit nowhere else.

        The free energy ignores that such a cluster was chosen to suit its rows, so it may be a
        little lower with a cluster that is nothing but an outlying row.
        """
        k = starved(state, self)
        return None if k is None else (state.without(k), EVIDENT)

    def posterior(self, state: MixtureState, data: MixtureData) -> MixturePosterior:
        order = state.by_size
        clusters = [state.clusters[k].posterior for k in order]
        return MixturePosterior(
            self.weights.means(state.counts[order]),
            tuple(in_units(cluster, data.location, data.unit, data.live) for cluster in clusters),
            data.unit,
        )

    def unit(self, data: MixtureData) -> float:
        return data.unit

    def free_energy(self, run: Run[MixtureState], data: MixtureData) -> float:
        """The free energy in the units of the data, where one mean has a flat prior."""
        rows = data.rows
        return run.free_energy + (rows.n_cells - rows.shape[1]) * float(np.log(data.unit))

    def status(self, state: MixtureState, data: MixtureData) -> Status:
        asked, found, status = len(self.ranks), len(state.clusters), Status()
        if self.choose and found == asked > 1:
            return status.but(
                "all-clusters",
                f"All {asked} clusters are needed, and more might be: raise max_components.",
            )
        if not self.choose and found < asked:
            return status.but(
                "removed-clusters",
                f"{asked - found} of {asked} clusters ran out of rows and "
                f"{'was' if asked - found == 1 else 'were'} removed.",
            )
        return status

    def described(
        self, found: Fit[MixturePosterior], run: Run[MixtureState], data: MixtureData
    ) -> MixtureFit:
        """Add the counts; drop free energies by rank, as the trace sums ranks over clusters."""
        counts = run.state.counts[run.state.by_size]
        return extended(found, MixtureFit, counts=counts, free_energy_by_rank=np.empty(0))


def mixture_model(
    data: MixtureData,
    *,
    ranks: tuple[int | None, ...],
    method: str,
    weights: Weights,
    per_feature: bool = False,
    choose: bool = False,
    prune: bool = True,
) -> MixtureModel:
    """The model of some rows; with `per_feature`, each feature has its own noise.

    A cluster that collapses on a point, or on repeated rows, would have no noise and an unbounded
    density. So clusters have at least `LEAST_NOISE_OF_FEATURES` times the noise that a single PCA
    leaves, or times the variance of each feature where features have their own noise.
    """
    least = _floor(data, per_feature)
    single = MixtureProblem(method, weights, least)
    whole = one_cluster(data, single, max(ranks, key=lambda rank: rank or 0))
    if not per_feature and len(ranks) > 1:
        least = LEAST_NOISE_OF_FEATURES * max(whole.noise, SHARE)
    return MixtureModel(method, weights, least, ranks, whole, choose, prune)


def _floor(data: MixtureData, per_feature: bool) -> float | FloatArray:
    """The least noise of a single PCA."""
    if per_feature:
        return features_floor(data)
    return NO_NOISE if data.rows.is_complete else LEAST_NOISE_OF_FEATURES * SHARE


def features_floor(data: MixtureData) -> FloatArray:
    """The least noise of each feature, where features have their own."""
    return np.maximum(LEAST_NOISE_OF_FEATURES * data.variances, NO_NOISE)
