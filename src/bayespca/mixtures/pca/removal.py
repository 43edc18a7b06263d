"""Which cluster to do without: the one whose rows cost least elsewhere.

Many clusters are easily found, and too many are cured by taking out the one that leaves the lowest
free energy, time and again. From as few clusters as there shall be in the end, sweeps often lead to
one that holds several of them, and to several that share one: no sweep leads out of that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray

from .cluster import Update
from .data import MixtureData
from .step import (
    MixtureProblem,
    MixtureState,
    free_energy,
    log_others,
    responsibilities,
    row_costs,
    updates,
)

# Clusters looked at in full, of those whose rows would be best off elsewhere as these are.
CANDIDATES = 5
# A cluster that gets no more than this share of its rows from the one that goes has the same update
# whichever that is.
SAME = 1e-9


def with_one_less(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> MixtureState | None:
    """The clusters without the one that can best be spared; None if there is one."""
    K = len(state.clusters) - 1
    return with_fewer(state, data, problem, K) if K else None


def with_fewer(
    state: MixtureState, data: MixtureData, problem: MixtureProblem, K: int
) -> MixtureState:
    """K of the clusters: one after another goes that can best be spared."""
    while len(state.clusters) > K:
        state = _best_removal(state, data, problem).state(state)
    return state


class _Removal(NamedTuple):
    """The other clusters when cluster k goes, and their free energy."""

    k: int
    found: list[Update]
    free_energy: float

    def state(self, before: MixtureState) -> MixtureState:
        clusters = tuple(update.cluster for update in self.found)
        return MixtureState(clusters, before.without(self.k).max_ranks)


def _best_removal(state: MixtureState, data: MixtureData, problem: MixtureProblem) -> _Removal:
    costs = row_costs(state, data.rows, problem)
    r = responsibilities(costs)
    known = updates(state, data, problem, r, costs)
    order = np.argsort(_losses(state, data, costs), kind="stable")[:CANDIDATES]
    found = [_removal(state, data, problem, r, costs, int(k), known) for k in order]
    return min(found, key=lambda removal: removal.free_energy)


def _removal(
    state: MixtureState,
    data: MixtureData,
    problem: MixtureProblem,
    r: FloatArray,
    costs: FloatArray,
    k: int,
    known: list[Update],
) -> _Removal:
    """Without cluster k; `known` are the updates of all clusters while it is there."""
    others, leaving = np.delete(costs, k, axis=1), r[:, k] > 0
    before = np.delete(r, k, axis=1)
    after = before.copy()
    after[leaving] = responsibilities(others[leaving])
    gains = data.rows.weights[leaving] @ (after - before)[leaving]
    changed = gains > SAME * np.delete(state.counts, k)
    new = updates(state.without(k), data, problem, after, others, changed)
    every = zip(new, known[:k] + known[k + 1 :], changed, strict=True)
    found = [one if is_changed else old for one, old, is_changed in every]
    return _Removal(k, found, free_energy(found, data, problem, after))


def _losses(state: MixtureState, data: MixtureData, costs: FloatArray) -> FloatArray:
    """By how much F rises without each cluster, if the others stay as they are."""
    fixed = np.array([cluster.fixed_cost for cluster in state.clusters])
    return data.rows.weights @ log_others(costs) - fixed
