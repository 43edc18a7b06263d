"""A mixture of PCAs from beginning to end: prepare, start, sweep, search, keep the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.posterior import Posterior
from bayespca.spectrum.records import Status
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES, NO_NOISE

from .cluster import Cluster
from .data import Data, prepared
from .posterior import MixturePosterior, in_units
from .removal import with_one_less
from .start import by_k_means, one_cluster, pruned
from .step import Model, State, starved, step
from .weights import Dirichlet, PointWeights, Weights

Sweep = Callable[[State], tuple[State, inference.Info]]

# At unit scale, where the mean square is 1: the least noise that clusters and holes can do with,
# whose densities need digits.
SHARE = 1e-3
# Nats by which a cluster of a row or two must be better than none.
EVIDENT = 10.0
# What a state of the iteration is made of.
RECORDS = (State, Cluster, Posterior)


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `PCAMixture`.

    `ranks` has one entry for each cluster to start with; where the number of clusters is chosen,
    as many as are tried.
    """

    ranks: tuple[int | None, ...]
    method: str = "evb"
    choose: bool = False
    init: str = "pruned"
    per_feature: bool = False
    concentration: float | None = None
    looping: inference.Looping = field(default_factory=inference.Looping)

    @property
    def weights(self) -> Weights:
        if self.method == "ml":
            return PointWeights()
        given = self.concentration
        return Dirichlet(1 / len(self.ranks) if given is None else given)


@dataclass(frozen=True)
class Fit:
    """A finished fit; `counts` are the rows of each cluster, largest first."""

    posterior: MixturePosterior
    counts: FloatArray
    free_energy: float
    trace: inference.Trace
    converged: bool
    status: Status


def fit(X: NDArray[np.floating], options: Options, weights: FloatArray | None = None) -> Fit:
    """Fit rows that may have holes (NaN) and count by weights.

    A cluster that collapses on a point, or on rows that are there several times, would have no
    noise and a boundless density. So clusters have at least `LEAST_NOISE_OF_FEATURES` of the
    noise that a single PCA leaves, or of the variance of each feature where these have noise of
    their own.
    """
    data = prepared(X, weights)
    model = Model(options.method, options.weights, _floor(data, options))
    whole = one_cluster(data, model, max(options.ranks, key=lambda rank: rank or 0))
    if not options.per_feature and len(options.ranks) > 1:
        model = replace(model, least_noise=LEAST_NOISE_OF_FEATURES * max(whole.noise, SHARE))
    sweep = partial(step, data=data, model=model)

    def start(rng: np.random.Generator) -> State:
        if len(options.ranks) == 1:
            return State((whole,), options.ranks)
        begin = pruned if options.init == "pruned" and not options.choose else by_k_means
        return begin(data, model, options.ranks, whole, rng)

    looping = _marked(options, data)
    run = looping.run(sweep, start, n_init=_starts(options))
    if options.choose:
        less = partial(with_one_less, data=data, model=model)
        run, _ = inference.searched(
            run,
            sweep,
            less=less,
            more=lambda state: None,
            max_iter=looping.max_iter,
            tol=looping.tol,
        )
    run = _without_starved(run, sweep, model, looping)
    return _finished(run, data, model, options)


def _without_starved(
    run: inference.Run[State], sweep: Sweep, model: Model, looping: inference.Looping
) -> inference.Run[State]:
    """Without clusters that have too few rows to be told, unless these rows fit nowhere else.

    What was chosen to suit such a cluster's rows is not in its free energy, which may be lower by a
    little for clusters that are nothing but a row at the edge.
    """
    while (k := starved(run.state, model)) is not None:
        state = run.state.without(k)
        less = inference.run(sweep, state, max_iter=looping.max_iter, tol=looping.tol)
        if less.free_energy > run.free_energy + EVIDENT:
            break
        run = less
    return run


def _floor(data: Data, options: Options) -> float | FloatArray:
    """The least noise of a single PCA."""
    if options.per_feature:
        return np.maximum(LEAST_NOISE_OF_FEATURES * data.variances, NO_NOISE)
    return NO_NOISE if data.rows.is_complete else LEAST_NOISE_OF_FEATURES * SHARE


def _starts(options: Options) -> int:
    """One cluster has one start, and nothing random in it."""
    return 1 if len(options.ranks) == 1 else options.looping.n_init


def _marked(options: Options, data: Data) -> inference.Looping:
    """The looping, with a mark that tells the fit from others where one is needed."""
    if options.looping.checkpoint is None:
        return options.looping
    told = replace(options, looping=inference.Looping())
    rows = data.rows
    mark = inference.fingerprint(repr(told), rows.values, rows.seen, rows.pattern, rows.weights)
    return replace(options.looping, mark=mark)


def _finished(run: inference.Run[State], data: Data, model: Model, options: Options) -> Fit:
    """The fit that a state leads to, its largest cluster first."""
    counts = run.state.counts
    order = np.argsort(-counts, kind="stable")
    clusters = [run.state.clusters[k].posterior for k in order]
    posterior = MixturePosterior(
        model.weights.means(counts[order]),
        tuple(in_units(cluster, data.location, data.unit, data.live) for cluster in clusters),
        data.unit,
    )
    return Fit(
        posterior=posterior,
        counts=counts[order],
        free_energy=run.free_energy,
        trace=run.trace,
        converged=run.converged,
        status=_status(counts.size, options),
    )


def _status(found: int, options: Options) -> Status:
    asked, status = len(options.ranks), Status()
    if options.choose and found == asked > 1:
        return status.but(
            "all-clusters",
            f"All {asked} clusters that were tried are needed: raise max_components.",
        )
    if not options.choose and found < asked:
        return status.but(
            "removed-clusters",
            f"{asked - found} of {asked} clusters ran out of rows and were removed.",
        )
    return status
