"""Which cluster to do without: the one whose rows cost least elsewhere.

Many clusters are easily found, and too many are cured by taking out the one that leaves the lowest
free energy, time and again. From as few clusters as there shall be in the end, sweeps often lead to
one that holds several of them, and to several that share one: no sweep leads out of that.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from bayespca.arrays.types import FloatArray

from .cluster import Update
from .data import MixtureData
from .step import (
    MixtureProblem,
    MixtureState,
    given,
    log_others,
    responsibilities,
    row_costs,
    with_rows,
)

# Clusters looked at in full, of those whose rows would be best off elsewhere as these are.
CANDIDATES = 5
# Responsibilities that differ by less are the same: most clusters get no rows of the one that goes,
# and need not be found anew for each of the candidates.
SAME = 1e-9


def with_one_less(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> MixtureState | None:
    """The clusters after a sweep without the one that can best be spared; None if there is one."""
    if len(state.clusters) == 1:
        return None
    costs = row_costs(state, data.rows, problem)
    r = responsibilities(costs)
    # Clusters with next to no rows are left alone, at a price that depends on how many there are.
    has_rows = data.rows.weights @ r >= [problem.plan(rank).fewest for rank in state.max_ranks]

    @cache
    def as_before(j: int) -> Update:
        return with_rows(state, j, data, problem, r[:, j], costs[:, j])

    found = []
    for k in np.argsort(_losses(state, data, costs), kind="stable")[:CANDIDATES]:
        others = np.delete(costs, k, axis=1)
        r_others = responsibilities(others)
        changes = np.abs(r_others - np.delete(r, k, axis=1)).max(axis=0)
        same = np.flatnonzero((changes <= SAME) & np.delete(has_rows, k))
        known = {int(j): as_before(int(j + (j >= k))) for j in same}
        found.append(given(state.without(int(k)), data, problem, r_others, others, known))
    return min(found, key=lambda pair: pair[1].free_energy)[0]


def _losses(state: MixtureState, data: MixtureData, costs: FloatArray) -> FloatArray:
    """By how much F rises without each cluster, if the others stay as they are."""
    fixed = np.array([cluster.fixed_cost for cluster in state.clusters])
    return data.rows.weights @ log_others(costs) - fixed
