"""The mixture of PCAs as a model: starts, sweeps, removal of clusters, and the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.types import DOUBLE, FloatArray, Vector
from bayespca.inference.fitting import Looping, Settled, finished, settle
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
from .posterior import MixturePosterior, in_units
from .removal import with_one_less
from .start import by_k_means, one_cluster, pruned, ranks_to_prune
from .step import MixtureProblem, MixtureState, starved, step

# Where there are several clusters or holes, the noise of a single PCA counts as at least this, at
# unit scale (mean square 1): their densities need the digits.
SHARE = 1e-2
# Nats by which a cluster with too few rows must lower the free energy to stay.
EVIDENT = 10.0
# Sweeps that show most of the gain of noise by feature, and the share of its price that it must
# have gained by then to be worth a full fit.
GLANCE = 5
SHARE_OF_PRICE = 0.5


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
        """Of each cluster, (K,); with `per_feature`, of each of its features, (K, p)."""
        clusters = self.posterior.clusters
        if not self.per_feature:
            return np.array([cluster.noise_variance for cluster in clusters])
        return np.array([cluster.noise_variance * cluster.scale**2 for cluster in clusters])


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
    least: float | FloatArray = NO_NOISE
    if per_feature:
        least = features_floor(data)
    elif not data.rows.is_complete:
        least = LEAST_NOISE_OF_FEATURES * SHARE
    single = MixtureProblem(method, weights, least)
    whole = one_cluster(data, single, max(ranks, key=lambda rank: rank or 0))
    if not per_feature and len(ranks) > 1:
        least = LEAST_NOISE_OF_FEATURES * max(whole.noise, SHARE)
    return MixtureModel(method, weights, least, ranks, whole, choose, prune)


def features_floor(data: MixtureData) -> FloatArray:
    """The least noise of each feature, where features have their own."""
    return np.maximum(LEAST_NOISE_OF_FEATURES * data.variances, NO_NOISE)


# --- noise="auto" --------------------------------------------------------------------------------


_Settled = Settled[MixtureData, MixtureState, MixtureFit]


def fit_choosing(
    model_with: Callable[[bool], MixtureModel], data: MixtureData, looping: Looping
) -> MixtureFit:
    """The fit that the evidence prefers: one noise variance for each cluster, or one per feature.

    `model_with` takes whether each feature has its own. One variance for all features of a cluster
    is fitted first. A few sweeps from its end show whether a variance for each feature gains
    anything. If so, that model is fitted from its own start, which often ends lower than the end of
    the first fit would. Each of its variances is a point estimate and costs ½ log of the number of
    rows it was learned from (Schwarz 1978); the gain beyond that is the evidence for them.
    """
    equal = settle(model_with(False), data, looping)
    before, ended = equal.run.free_energy, equal.run.state
    assert isinstance(equal.model, MixtureModel)
    problem = MixtureProblem(equal.model.method, equal.model.weights, features_floor(data))
    state = replace(ended, clusters=tuple(cluster.by_feature for cluster in ended.clusters))
    sweep = partial(step, data=data, problem=problem)
    glance = inference.run(sweep, state, max_iter=GLANCE, tol=looping.tol)
    gained, price = before - glance.free_energy, _price(ended, data)
    if gained < SHARE_OF_PRICE * price:
        return _finished(equal, gained - price, per_feature=False)
    own = settle(model_with(True), data, looping.for_part(PER_FEATURE.name))
    gain = before - own.run.free_energy - _price(own.run.state, data)
    return _finished(own if gain > 0 else equal, gain, per_feature=gain > 0)


def _finished(settled: _Settled, gain: float, *, per_feature: bool) -> MixtureFit:
    evidence = {ISOTROPIC.name: 0.0, PER_FEATURE.name: float(gain)}
    return replace(finished(settled), per_feature=per_feature, evidence=evidence)


def _price(state: MixtureState, data: MixtureData) -> float:
    """½(p − 1)·Σ log Nₖ: the cost of the p − 1 additional variances of each cluster."""
    p = data.rows.shape[1]
    return 0.5 * (p - 1) * float(np.log(np.maximum(state.counts, 1.0)).sum())
