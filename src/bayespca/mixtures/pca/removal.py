"""Fewer clusters: two become one, or one goes and its rows go elsewhere.

Many clusters are easily found, and too many are cured by doing without one in the way that leaves
the lowest free energy, time and again. From as few clusters as there shall be in the end, sweeps
often lead to one that holds several of them, and to several that share one: no sweep leads out of
that.

What two clusters in one are worth follows from their moments, which add up. What it costs to do
without a cluster is bounded by what its rows pay in the others as these are. Between two such
changes only those clusters are updated whose rows have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from bayespca.arrays.types import FloatArray

from .closing import Update, free_energies, solved_together
from .data import MixtureData
from .gaussian import densities_of_all
from .moments import ClusterMoments, merged
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

# Clusters with which to merge one that are looked at in full: those in which its rows cost least.
NEAREST = 3
# Ways to do without one that are looked at in full, of either kind, where the number of clusters is
# to be found.
CANDIDATES = 5
# Clusters are updated that have got or lost this share of their rows.
CHANGED = 0.02


def with_one_less(
    state: MixtureState, data: MixtureData, problem: MixtureProblem
) -> MixtureState | None:
    """The clusters with one less, in the best of the ways that look best; None if there is one."""
    if len(state.clusters) == 1:
        return None
    tried = [pool.swept() for pool in Pool.of(state, data, problem).ways(CANDIDATES)]
    return min(tried, key=lambda pool: pool.free_energy).state


def with_fewer(pool: Pool, K: int) -> MixtureState:
    """K clusters: one after another goes."""
    while len(pool.state.clusters) > K:
        pool = pool.with_one_less().swept(CHANGED)
    return pool.state


@dataclass(frozen=True, eq=False)
class Pool:
    """Clusters of which some shall go.

    Attributes
    ----------
    found
        The clusters, and the moments that they were made from.
    densities
        Log density of each row in each cluster; (n, K).
    r
        Responsibilities that each cluster was made from; (n, K).
    names
        A number for each cluster, another one whenever it has changed.
    trials
        Nats that it costs to merge two clusters, by their names.
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
        """The pool after a sweep."""
        densities = densities_of_all([cluster.gaussian for cluster in state.clusters], data.rows)
        names = tuple(range(len(state.clusters)))
        begun = cls(data, problem, state, (), densities, np.zeros_like(densities), names, {})
        return begun._updated(np.ones(len(names), bool), responsibilities(begun.costs))

    @cached_property
    def costs(self) -> FloatArray:
        return costs_of(self.state, self.problem, self.densities)

    @property
    def free_energy(self) -> float:
        """That of a sweep over all clusters."""
        return free_energy(list(self.found), self.data, self.problem, self.r)

    # --- sweeps --------------------------------------------------------------------------------

    def swept(self, share: float = 0.0) -> Pool:
        """A sweep over the clusters to which more than a share of the rows has come, or left."""
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
        """Two clusters merged, or one gone, whatever costs less."""
        k = starved(self.state, self.problem)
        if k is not None:
            return self._without(k)
        losses = self._losses()
        pairs, prices = self._merges()
        if losses.min() <= prices.min(initial=np.inf):
            return self._without(int(np.argmin(losses)))
        return self._merged(*pairs[int(np.argmin(prices))])

    def ways(self, n: int) -> list[Pool]:
        """Pools with one cluster less: the n best removals, and the n best mergers."""
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

        What its mean costs is saved, but for the tangent that its rows pay.
        """
        N, p = self.state.counts, self.data.rows.shape[1]
        fixed = np.array([cluster.fixed_cost for cluster in self.state.clusters])
        saved = mean_costs(self.data, N) - 0.5 * p * N / (N + 1)
        return np.asarray(self.data.rows.weights @ log_others(self.costs) - fixed - saved)

    def _merges(self) -> tuple[list[tuple[int, int]], FloatArray]:
        """Pairs of clusters, and by how much F rises if they are one."""
        pairs = self._near()
        names = [(self.names[i], self.names[j]) for i, j in pairs]
        unknown = [pair for pair, name in zip(pairs, names, strict=True) if name not in self.trials]
        if unknown:
            for (i, j), price in zip(unknown, self._prices(unknown), strict=True):
                self.trials[self.names[i], self.names[j]] = float(price)
        return pairs, np.array([self.trials[name] for name in names])

    def _near(self) -> list[tuple[int, int]]:
        """Pairs of which one is among the clusters in which rows of the other cost least."""
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
        return np.asarray(together - apart[one] - apart[other] + self._lost_entropy(one, other))

    def _both(self, i: int, j: int) -> ClusterMoments:
        one, other = self.found[i].moments, self.found[j].moments
        assert one is not None
        assert other is not None
        return merged(one, other)

    def _lost_entropy(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> FloatArray:
        """By how much Σ r log r rises if rows need not be told apart any more."""
        shared = self.r.max(axis=1) < 1
        r = self.r[shared]
        a, b = r[:, one], r[:, other]
        rise = xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)
        return np.asarray(self.data.rows.weights[shared] @ rise)

    def _merged(self, i: int, j: int) -> Pool:
        (update,) = solved_together([self._both(i, j)], nearly=True)
        left = self._without(j)
        i -= j < i
        r = left.r.copy()
        r[:, i] = self.r[:, [i + (j <= i), j]].sum(axis=1)
        found = [update if k == i else one for k, one in enumerate(left.found)]
        return replace(left, r=r)._with(found, np.arange(len(found)) == i)
