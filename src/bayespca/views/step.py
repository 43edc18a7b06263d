"""Sweeps over several views: rows, columns view by view, the best rotation, priors, noise.

The posterior is r(A)·Π_v r(B_v, μ_v), each a product of normal distributions of its rows. The mean
is one more column of B whose partner in A is 1. All rows of A with the same holes share a
covariance, and so do all columns of a view that are observed in the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.packing import packed, turned
from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank.factors import factor_energy
from bayespca.lowrank.kernels import given_gram
from bayespca.lowrank.rows import RowSums
from bayespca.spectrum.tolerances import CALM, LEAST_NOISE_WITH_HOLES, LOG_2PI

from .data import ViewsTable
from .pattern import Estimates, cost_of_pattern, costs_of_places
from .rotation import FEW, ITERATIONS, FactorRotation
from .state import ViewsState


def step(state: ViewsState, table: ViewsTable) -> tuple[ViewsState, Info]:
    """Do one sweep. Once the free energy has nearly settled, factors leave the views in which they
    gain nothing, and factors that are too weak are dropped.
    """
    new = sweep(state, table)
    calm = state.energy - new.energy < CALM * abs(new.energy)
    new = replace(new, calm=state.calm or calm)
    weak, strength = weakest(new, table)
    if new.calm and strength < 1:
        less = sweep(new.without(weak), table)
        new = less if less.energy < new.energy else new
    return new, Info(new.energy, new.rank, float(new.noise @ table.cells / table.cells.sum()))


def sweep(state: ViewsState, table: ViewsTable) -> ViewsState:
    """Update A, (B, μ), the pattern, the rotation, priors and noise, each to its lowest F."""
    sums = state.sums(table)
    loadings = _updated_views(state, table, sums)
    active = np.stack([of_view.active for of_view in loadings])
    state = replace(state, prior=np.where(active, state.prior, 0.0))
    b, b_cov = np.zeros_like(state.b), np.zeros_like(state.b_cov)
    for js, of_view in zip(table.columns, loadings, strict=True):
        known = np.append(np.flatnonzero(of_view.active), state.rank)
        b[np.ix_(js, known)] = of_view.b
        b_cov[np.ix_(js, known, known)] = of_view.cov
    state, parts = _turned(replace(state, b=b, b_cov=b_cov), table, sums, loadings)
    noise = parts.residuals / np.maximum(table.cells, 1)
    state = replace(state, noise=np.maximum(noise, LEAST_NOISE_WITH_HOLES))
    return replace(state, energy=free_energy(state, table, parts))


def weakest(state: ViewsState, table: ViewsTable) -> tuple[int, float]:
    """The weakest factor, and its ‖b‖² over the least that the closed form keeps.

    Without holes, a component that is kept has γγ̂ ≥ 2.5σ²√(LM), and at that limit γ² is about
    σ²(L + M + 3√(LM)). So γ̂² = M‖b‖² is at least 6.25σ²LM/(L + M + 3√(LM)), where L is the number
    of columns of its views.
    """
    if not state.rank:
        return 0, np.inf
    squares = (state.columns(table).b[:, :-1] ** 2).sum(axis=0)
    M, L = table.rows.freedom, table.sizes @ state.active
    strength = squares * (L + M + 3 * np.sqrt(L * M)) / (6.25 * np.maximum(L, 1))
    h = int(strength.argmin())
    return h, float(strength[h])


# --- columns -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ViewLoadings:
    """r(bⱼ, μⱼ) of the columns of a view, for the factors in it.

    `active` says which these are (H,). `cov` has one matrix for each column, or one for all.
    """

    active: NDArray[np.bool_]
    b: FloatArray
    cov: FloatArray
    log_det: float

    def estimates(self, i: int, prior: float) -> Estimates:
        """Estimates for the i-th factor of the view, whose prior variance is given."""
        variance = np.broadcast_to(self.cov[:, i, i], len(self.b))
        return Estimates.without_prior(self.b[:, i], variance, prior)


def _updated_views(state: ViewsState, table: ViewsTable, sums: RowSums) -> list[ViewLoadings]:
    """The loadings of all views; when calm, without factors that gain less than they cost there.

    Views are processed in turn, so that every factor stays in at least one.
    """
    active, found = state.active, []
    for v in range(table.n_views):
        of_view = loadings_of_view(state, table, sums, v, active[v])
        elsewhere = np.asarray(np.delete(active, v, axis=0).any(axis=0))
        while state.calm:
            costs, prior = costs_of_places(active, table.sizes)[v], state.prior[v]
            # Factors that are in no other view stay: their scores were learned from this one.
            gains = [
                (of_view.estimates(i, prior[h]).best_gain - costs[h], int(h))
                for i, h in enumerate(np.flatnonzero(of_view.active))
                if elsewhere[h]
            ]
            if not gains or min(gains)[0] >= 0:
                break
            active[v, min(gains)[1]] = False
            of_view = loadings_of_view(state, table, sums, v, active[v])
        found.append(of_view)
    return found


def loadings_of_view(
    state: ViewsState, table: ViewsTable, sums: RowSums, v: int, active: NDArray[np.bool_]
) -> ViewLoadings:
    """r(bⱼ, μⱼ) of the columns of a view: the update of rows, with rows and columns exchanged."""
    js, s2 = table.columns[v], float(state.noise[v])
    known = np.append(np.flatnonzero(active), state.rank)
    first = js[:1] if table.alike[v] else js
    gram = packed(sums.second[first][:, known[:, None], known])
    pull = np.ascontiguousarray(sums.cross[js][:, known])
    ridge = np.append(s2 / state.prior[v, active], 0.0)
    starts = np.array([0, js.size]) if table.alike[v] else np.arange(js.size + 1)
    b, cov, log_dets = given_gram(np.ascontiguousarray(gram.T), pull, starts, ridge, s2)
    log_det = float(np.sum(log_dets)) * (js.size / first.size if js.size else 1.0)
    return ViewLoadings(active.copy(), b, cov, log_det)


# --- coordinates, priors, free energy ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ViewParts:
    """The parts of the free energy: ⟨‖aₕ‖²⟩ (H,), ⟨‖b_vh‖²⟩ (V, H), Σ log|Σ| of A and of each view,
    and Σ⟨(x − b̃ᵀã)²⟩ of each view.
    """

    Sa: FloatArray
    Sb: FloatArray
    log_det_a: float
    log_det_b: FloatArray
    residuals: FloatArray


def _turned(
    state: ViewsState, table: ViewsTable, sums: RowSums, loadings: list[ViewLoadings]
) -> tuple[ViewsState, ViewParts]:
    """The state in the best coordinates with the best priors, and the parts of its free energy."""
    H, data = state.rank, table.rows
    second, b = np.asarray(sums.second), state.b
    fitted = np.einsum("jhk,jk->jh", second, b)
    misfit = ((fitted - 2 * np.asarray(sums.cross)) * b).sum(axis=1)
    spread = np.einsum("jhk,jhk->j", second, state.b_cov)
    residuals = table.by_view(data.squares + misfit + spread)
    everything = np.asarray(sums.everything)
    mean = everything[:H, H] / everything[H, H]
    Saa = everything[:H, :H] - everything[H, H] * np.outer(mean, mean)
    b, cov = b[:, :H], state.b_cov[:, :H, :H]
    Sbb = np.stack([b[js].T @ b[js] + cov[js].sum(axis=0) for js in table.columns])
    rotation = FactorRotation(Saa, Sbb, state.active, table.sizes, data.freedom)
    T = rotation.best(FEW if state.calm else ITERATIONS)
    change = np.eye(H + 1)
    change[:H, :H], change[H, :H] = T, mean
    R = np.linalg.inv(T)
    Sa = np.einsum("kh,kl,lh->h", R, Saa, R)
    Sb = np.einsum("hk,vkl,hl->vh", T, Sbb, T)
    log_det_a = float(sums.log_det) - 2 * data.freedom * float(np.linalg.slogdet(T)[1])
    log_det_b = np.array(
        [
            found.log_det + 2 * p * float(np.linalg.slogdet(T[np.ix_(on, on)])[1])
            for found, on, p in zip(loadings, state.active, table.sizes, strict=True)
        ]
    )
    prior = np.where(state.active, Sb / np.maximum(table.sizes, 1)[:, None], 0.0)
    state = replace(state, b=state.b @ change.T, b_cov=turned(state.b_cov, change), prior=prior)
    return state, ViewParts(Sa, Sb, log_det_a, log_det_b, residuals)


def free_energy(state: ViewsState, table: ViewsTable, parts: ViewParts) -> float:
    """F in the units of the table, including the cost of the pattern.

    The flat prior of μⱼ has density √nⱼ, so that one view without holes has the free energy of
    n − 1 rows without a mean.
    """
    cells, counts = table.cells, table.rows.column_counts
    energy = 0.5 * float(cells @ np.log(2 * np.pi * state.noise))
    energy += 0.5 * float((parts.residuals / state.noise).sum())
    energy += factor_energy(
        parts.Sa, np.ones(state.rank), table.rows.freedom, parts.log_det_a, True
    )
    for on, Sb, prior, p, log_det in zip(
        state.active, parts.Sb, state.prior, table.sizes, parts.log_det_b, strict=True
    ):
        energy += factor_energy(Sb[on], prior[on], p, log_det, True)
    energy -= 0.5 * (counts.size * (1 + LOG_2PI) + float(np.log(counts).sum()))
    return energy + cost_of_pattern(state.active, table.sizes)


# --- further views -------------------------------------------------------------------------------


def with_best_pair(state: ViewsState, table: ViewsTable) -> ViewsState | None:
    """Add a factor to the view where it gains most; None if no gain exceeds its cost."""
    best, place = 0.0, None
    costs, sums = costs_of_places(state.active, table.sizes), state.sums(table)
    for v, h in np.argwhere(~state.active & (table.sizes > 0)[:, None]).tolist():
        found = estimates(state, table, sums, v, h)
        gain = found.best_gain - float(costs[v, h])
        if gain > best:
            best, place = gain, (v, h, found)
    if place is None:
        return None
    v, h, found = place
    prior, b = state.prior.copy(), state.b.copy()
    prior[v, h] = c2 = found.best_prior
    b[table.columns[v], h] = found.y * c2 / (c2 + found.v)
    return replace(state, prior=prior, b=b, energy=np.inf, calm=False)


def probabilities(state: ViewsState, table: ViewsTable) -> FloatArray:
    """Probability that each factor is in each view: (V, H)."""
    sums, n = state.sums(table), table.rows.shape[0]
    out = np.zeros(state.prior.shape)
    for v, h in np.ndindex(*out.shape):
        if table.sizes[v]:
            limit = float(state.noise[v] / np.sqrt(table.sizes[v] * n))
            out[v, h] = estimates(state, table, sums, v, h).probability(limit)
    return out


def estimates(state: ViewsState, table: ViewsTable, sums: RowSums, v: int, h: int) -> Estimates:
    """Estimates of the loadings of a factor in a view, given the other factors in it."""
    prior = state.prior.copy()
    prior[v, h] = prior[v, h] or state.noise[v]
    state = replace(state, prior=prior)
    found = loadings_of_view(state, table, sums, v, state.active[v])
    place = int(np.count_nonzero(state.active[v, :h]))
    return found.estimates(place, float(prior[v, h]))
