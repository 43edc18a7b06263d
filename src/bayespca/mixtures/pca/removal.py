"""Fewer clusters: two are merged, or one is removed and its rows go to the others.

Many clusters are easy to find, and surplus ones are removed one at a time, each in the way that
leaves the lowest free energy. Sweeps that start with the final number of clusters often end with
one cluster that covers several true ones, and with several that share one; no sweep escapes from
that.

The free energy of a merged cluster follows from the moments of its two parts, which add up. The
cost of removing a cluster is bounded by what its rows cost in the others as they are. Between two
removals, only the clusters whose rows have changed are updated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from bayespca.arrays.types import FloatArray

from .closed_form import Update, free_energies, solved_together
from .cluster import ClusterMoments, merged
from .data import MixtureData
from .gaussian import densities_of_all
from .step import (
    MixtureProblem,
    MixtureState,
    costs_of,
    free_energy,
    log_others,
    mean_costs,
    responsibilities,
    starved,
    updates,
)

# Merging partners evaluated for each cluster: those in which its rows cost least.
NEAREST = 3
# Removals, and mergers, that are swept before the best is chosen, if the number of clusters is
# learned.
CANDIDATES = 5
# Share of its rows that a cluster must gain or lose to be updated.
CHANGED = 0.02


def with_one_less(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> MixtureState | None:
    """The state with one cluster less, the best after a sweep; None if there is only one."""
    if len(state.clusters) == 1:
        return None
    tried = [pool.swept() for pool in Pool.of(state, data, problem).ways(CANDIDATES)]
    return min(tried, key=lambda pool: pool.free_energy).state


def with_fewer(pool: Pool, K: int) -> MixtureState:
    """Remove clusters one by one until K remain."""
    while len(pool.state.clusters) > K:
        pool = pool.with_one_less().swept(CHANGED)
    return pool.state


@dataclass(frozen=True, eq=False)
class Pool:
    """Clusters, some of which are to be removed.

    Attributes
    ----------
    found
        The clusters, and the moments they were made from.
    densities
        Log density of each row in each cluster; (n, K).
    r
        Responsibilities each cluster was made from; (n, K).
    names
        A number for each cluster, a new one whenever it changes.
    trials
        Cost of merging two clusters, in nats, by their names.
    """

    data: MixtureData
    problem: MixtureProblem
    state: MixtureState
    found: tuple[Update, ...]
    densities: FloatArray
    r: FloatArray
    names: tuple[int, ...]
    trials: dict[tuple[int, int], float]

    @classmethod
    def of(cls, state: MixtureState, data: MixtureData, problem: MixtureProblem) -> Pool:
        """The pool of a state after one sweep."""
        densities = densities_of_all([cluster.gaussian for cluster in state.clusters], data.rows)
        names = tuple(range(len(state.clusters)))
        begun = cls(data, problem, state, (), densities, np.zeros_like(densities), names, {})
        return begun._updated(np.ones(len(names), bool), responsibilities(begun.costs))

    @cached_property
    def costs(self) -> FloatArray:
        return costs_of(self.state, self.problem, self.densities)

    @property
    def free_energy(self) -> float:
        """Free energy of the clusters and of the responsibilities they were made from."""
        return free_energy(list(self.found), self.data, self.problem, self.r)

    # --- sweeps --------------------------------------------------------------------------------

    def swept(self, share: float = 0.0) -> Pool:
        """Update the clusters that gained or lost more than a share of their rows."""
        r, w = responsibilities(self.costs), self.data.rows.weights
        which = w @ np.abs(r - self.r) > share * self.state.counts
        return self._updated(which, r) if which.any() else self

    def _updated(self, which: NDArray[np.bool_], r: FloatArray) -> Pool:
        new = updates(self.state, self.data, self.problem, r, self.costs, which)
        found = [
            one if is_new else self.found[k]
            for k, (one, is_new) in enumerate(zip(new, which, strict=True))
        ]
        return replace(self, r=np.where(which, r, self.r))._with(found, which)

    def _with(self, found: list[Update], which: NDArray[np.bool_]) -> Pool:
        """Replace some clusters."""
        clusters = tuple(update.cluster for update in found)
        names, first = list(self.names), max(self.names) + 1
        for name, k in enumerate(np.flatnonzero(which), start=first):
            names[k] = name
        densities = self.densities.copy()
        densities[:, which] = densities_of_all(
            [clusters[k].gaussian for k in np.flatnonzero(which)], self.data.rows
        )
        return replace(
            self,
            state=MixtureState(clusters, self.state.max_ranks),
            found=tuple(found),
            densities=densities,
            names=tuple(names),
        )

    # --- one less ------------------------------------------------------------------------------

    def with_one_less(self) -> Pool:
        """Merge two clusters or remove one, whichever costs less."""
        k = starved(self.state, self.problem)
        if k is not None:
            return self._without(k)
        losses = self._losses()
        pairs, prices = self._merges()
        if losses.min() <= prices.min(initial=np.inf):
            return self._without(int(np.argmin(losses)))
        return self._merged(*pairs[int(np.argmin(prices))])

    def ways(self, n: int) -> list[Pool]:
        """Pools with one cluster less: the n best removals and the n best mergers."""
        pairs, prices = self._merges()
        gone = [self._without(int(k)) for k in np.argsort(self._losses(), kind="stable")[:n]]
        merged = [self._merged(*pairs[i]) for i in np.argsort(prices, kind="stable")[:n]]
        return gone + merged

    def _without(self, k: int) -> Pool:
        return replace(
            self,
            state=self.state.without(k),
            found=self.found[:k] + self.found[k + 1 :],
            densities=np.delete(self.densities, k, axis=1),
            r=np.delete(self.r, k, axis=1),
            names=self.names[:k] + self.names[k + 1 :],
        )

    def _losses(self) -> FloatArray:
        """Bound on the rise of F without each cluster: the rise if the others stay as they are.

        The cost of its mean is saved, except for the tangent term that its rows pay.
        """
        N, p = self.state.counts, self.data.rows.shape[1]
        fixed = np.array([cluster.fixed_cost for cluster in self.state.clusters])
        saved = mean_costs(self.data, N) - 0.5 * p * N / (N + 1)
        return np.asarray(self.data.rows.weights @ log_others(self.costs) - fixed - saved)

    def _merges(self) -> tuple[list[tuple[int, int]], FloatArray]:
        """Pairs of clusters, and the rise of F if each is merged."""
        pairs = self._near()
        names = [(self.names[i], self.names[j]) for i, j in pairs]
        unknown = [pair for pair, name in zip(pairs, names, strict=True) if name not in self.trials]
        if unknown:
            for (i, j), price in zip(unknown, self._prices(unknown), strict=True):
                self.trials[self.names[i], self.names[j]] = float(price)
        return pairs, np.array([self.trials[name] for name in names])

    def _near(self) -> list[tuple[int, int]]:
        """Pairs in which one cluster is among the `NEAREST` to the other's rows, by their cost."""
        more = (self.r * self.data.rows.weights[:, None]).T @ self.costs
        more -= np.diag(more).copy()[:, None]
        more = np.minimum(more, more.T)
        np.fill_diagonal(more, np.inf)
        lost = [k for k, update in enumerate(self.found) if update.moments is None]
        more[lost], more[:, lost] = np.inf, np.inf
        nearest = np.argsort(more, axis=1, kind="stable")[:, :NEAREST]
        return sorted(
            {
                (min(k, int(j)), max(k, int(j)))
                for k, row in enumerate(nearest)
                for j in row
                if np.isfinite(more[k, j])
            }
        )

    def _prices(self, pairs: list[tuple[int, int]]) -> FloatArray:
        one, other = np.array(pairs).T
        moments = [self._both(i, j) for i, j in pairs]
        F = np.array([update.free_energy for update in self.found])
        N, own = self.state.counts, self.problem.weights.cluster_costs
        both = N[one] + N[other]
        apart = F + mean_costs(self.data, N) + own(N)
        together = free_energies(moments) + mean_costs(self.data, both) + own(both)
        # The rise of Σ r log r when each pair of clusters becomes one.
        shared = self.r.max(axis=1) < 1
        r = self.r[shared]
        a, b = r[:, one], r[:, other]
        rise = xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)
        lost = self.data.rows.weights[shared] @ rise
        return np.asarray(together - apart[one] - apart[other] + lost)

    def _both(self, i: int, j: int) -> ClusterMoments:
        one, other = self.found[i].moments, self.found[j].moments
        assert one is not None
        assert other is not None
        return merged(one, other)

    def _merged(self, i: int, j: int) -> Pool:
        (update,) = solved_together([self._both(i, j)], nearly=True)
        left = self._without(j)
        i -= j < i
        r = left.r.copy()
        r[:, i] = self.r[:, [i + (j <= i), j]].sum(axis=1)
        found = [update if k == i else one for k, one in enumerate(left.found)]
        return replace(left, r=r)._with(found, np.arange(len(found)) == i)
