"""`noise="auto"`: the evidence decides whether each feature has its own noise variance.

One noise variance for all features of a cluster is fitted first. A few sweeps from its end show
whether a variance for each feature gains anything. If so, that model is fitted from its own start,
which often ends lower than the end of the first fit would. Each of its variances is a point
estimate and costs ½ log of the number of rows it was learned from (Schwarz 1978); the gain beyond
that is the evidence for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bayespca import inference
from bayespca.inference.fitting import Looping, Settled, finished, settle
from bayespca.lowrank.noise_models import ISOTROPIC, PER_FEATURE

from .cluster import Cluster
from .data import MixtureData
from .fit import MixtureFit, MixtureModel, features_floor
from .step import MixtureProblem, MixtureState, step

# Sweeps that show most of the gain of noise by feature, and the share of its price that it must
# have gained by then to be worth a full fit.
GLANCE = 5
SHARE_OF_PRICE = 0.5

_Run = Settled[MixtureData, MixtureState, MixtureFit]


def fit_choosing(
    model_with: Callable[[bool], MixtureModel], data: MixtureData, looping: Looping
) -> MixtureFit:
    """The fit that the evidence prefers: one noise variance for each cluster, or one per feature.

    `model_with` takes whether each feature has its own.
    """
    equal = settle(model_with(False), data, looping)
    before, gained = equal.run.free_energy, _gained_at_a_glance(equal, data, looping.tol)
    price = _price(equal.run.state, data)
    if gained < SHARE_OF_PRICE * price:
        return _finished(equal, gained - price, per_feature=False)
    own = settle(model_with(True), data, looping.for_part(PER_FEATURE.name))
    gain = before - own.run.free_energy - _price(own.run.state, data)
    return _finished(own if gain > 0 else equal, gain, per_feature=gain > 0)


def _gained_at_a_glance(settled: _Run, data: MixtureData, tol: float) -> float:
    """Fall of F in a few sweeps with one noise variance per feature."""
    ended, model = settled.run.state, settled.model
    assert isinstance(model, MixtureModel)
    state = replace(ended, clusters=tuple(map(_by_feature, ended.clusters)))
    problem = MixtureProblem(model.method, model.weights, features_floor(data))
    sweep = partial(step, data=data, problem=problem)
    return (
        settled.run.free_energy - inference.run(sweep, state, max_iter=GLANCE, tol=tol).free_energy
    )


def _finished(settled: _Run, gain: float, *, per_feature: bool) -> MixtureFit:
    evidence = {ISOTROPIC.name: 0.0, PER_FEATURE.name: float(gain)}
    return replace(finished(settled), per_feature=per_feature, evidence=evidence)


def _price(state: MixtureState, data: MixtureData) -> float:
    """½(p − 1)·Σ log Nₖ: the cost of the p − 1 additional variances of each cluster."""
    p = data.rows.shape[1]
    return 0.5 * (p - 1) * float(np.log(np.maximum(state.counts, 1.0)).sum())


def _by_feature(cluster: Cluster) -> Cluster:
    """The same cluster with its noise moved into the scale of its features."""
    old, s = cluster.posterior, cluster.noise
    posterior = replace(
        old,
        scale=old.scale * np.sqrt(s),
        score_variance=old.score_variance / s,
        latent_variance=old.latent_variance / s,
        noise_variance=1.0,
    )
    return replace(cluster, posterior=posterior)
