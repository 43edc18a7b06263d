"""`noise="auto"`: the evidence says whether features have noise of their own.

One noise for all features of a cluster comes first. A few sweeps from where that ends show whether
noise of features gains anything; if so, it is fitted from a start of its own, which often ends
lower than one that was found with equal noise. Each of its variances is a point estimate, and costs
½ log of the rows that it was learned from (Schwarz 1978); what is gained beyond that is the
evidence for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bayespca import inference
from bayespca.inference.fitting import Settled, finished, settle
from bayespca.inference.looping import Looping
from bayespca.lowrank.noise_models import ISOTROPIC, PER_FEATURE

from .cluster import Cluster
from .data import MixtureData
from .fit import MixtureFit, MixtureModel, features_floor
from .step import MixtureProblem, MixtureState, step

# Sweeps that show most of what noise of features gains, and the share of its price that it must
# have gained by then to be worth going on.
GLANCE = 5
SHARE_OF_PRICE = 0.5

_Run = Settled[MixtureData, MixtureState, MixtureFit]


def fit_choosing(
    model_with: Callable[[bool], MixtureModel], data: MixtureData, looping: Looping
) -> MixtureFit:
    """The fit with one noise for all features of a cluster, or with noise of each, whichever the
    evidence prefers. `model_with` takes whether features have their own.
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
    """Fall of F in a few sweeps with noise of features."""
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
    """½(p − 1)·Σ log Nₖ: what the variances cost that each cluster has beyond the first."""
    p = data.rows.shape[1]
    return 0.5 * (p - 1) * float(np.log(np.maximum(state.counts, 1.0)).sum())


def _by_feature(cluster: Cluster) -> Cluster:
    """The same cluster, the noise of which is the scale of its features."""
    old, s = cluster.posterior, cluster.noise
    posterior = replace(
        old,
        scale=old.scale * np.sqrt(s),
        score_variance=old.score_variance / s,
        latent_variance=old.latent_variance / s,
        noise_variance=1.0,
    )
    return replace(cluster, posterior=posterior)
