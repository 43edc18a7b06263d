"""Sweeps over views with their own likelihoods: rows, columns view by view, rotation, priors.

    x_ij ~ p(x | z_ij),  z_ij = Σₕ a_ih b_jh + μ_j,
    a_ih ~ N(0, 1),  b_jh ~ N(0, c_vh²),  μ_j ~ N(0, m_v²)

for column j of view v. Rows and columns are updated by steps along the natural gradient, as in
`discrete`; columns of a view have loadings only on the factors in it. The rotation is that of
`rotation`, and a factor leaves a view if the free energy, computed in full, is lower without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.discrete.cells import columns_from, columns_precision, regressors
from bayespca.discrete.data import EVERY, Sites, TableCells, row_blocks
from bayespca.discrete.normals import Normals
from bayespca.discrete.step import (
    evaluated_all,
    improved_columns,
    improved_rows,
    joined,
    relearned,
    sum_of_second,
)
from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM, TINY

from ..pattern import Estimates, costs_of_places
from ..rotation import FEW, ITERATIONS, FactorRotation
from .data import MixedViews
from .state import MixedState, best_priors

# A factor that gains this many times its cost is not tried without.
SURELY = 2.0


def step(state: MixedState, table: MixedViews) -> tuple[MixedState, Info]:
    """Do one sweep. Once the free energy has nearly settled, factors leave the views in which they
    gain nothing, and factors are dropped if that lowers the free energy.
    """
    new = sweep(state, table)
    calm = state.energy - new.energy < CALM * abs(new.energy)
    new = replace(new, calm=state.calm or calm)
    while new.calm and new.rank and not _is_needed(weak := weakest(new, table), new, table):
        less = new.without(weak).evaluated(table)
        if less.energy >= new.energy:
            break
        new = less
    return new, Info(new.energy, new.rank, float("nan"))


def sweep(state: MixedState, table: MixedViews) -> MixedState:
    """Update A, (B, μ), the pattern, the rotation, priors and parameters, each with a lower F."""
    cells = table.cells.at(state.parameters)
    state = _with_rows(state, cells, table)
    for v in table.taking_part:
        own = table.of_view(cells, v)
        rows, prior = state.rows.only(state.on(v)), state.prior_of(v)
        before = state.found.at((EVERY, table.columns[v]))
        new = columns_given(rows, before, prior)
        columns, after = improved_columns(state.columns[v], new, rows, before, prior, own)
        state = _with_view(v, state, columns, after, table)
        while state.calm and (less := _without_a_place(v, state, own, table)) is not None:
            state = less
    state = _turned(_shifted(state, table), table)
    columns, cells = state.all_columns(table), table.cells.at(state.parameters)
    parameters, found = relearned(state.rows, columns, cells, state.found, table.shared)
    return replace(state, parameters=parameters, found=found).with_energy(table)


def weakest(state: MixedState, table: MixedViews) -> int:
    """The factor with the least Σⱼωⱼbⱼₕ², ω summed over rows: cells depend on it least."""
    b = state.all_columns(table).mean[:, :-1]
    return int((state.found.omega.sum(axis=0) @ b**2).argmin())


def _is_needed(h: int, state: MixedState, table: MixedViews) -> bool:
    """Whether a factor gains far more than it costs, so that a trial without it is not needed.

    It gains about ½Σωᵢⱼaᵢₕ²bⱼₕ² for fixed ω, and costs the divergence of its scores and loadings
    from their priors.
    """
    a, columns = state.rows.only(np.array([h])), state.all_columns(table)
    gain = 0.5 * (columns.mean[:, h] ** 2) @ (state.found.omega.T @ a.mean[:, 0] ** 2)
    cost = float(a.energies(np.ones(1)).sum())
    for v in np.flatnonzero(state.prior[:, h]).tolist():
        own = state.columns[v].only(np.flatnonzero(state.on(v) == h))
        cost += float(own.energies(state.prior[v, [h]]).sum())
    return bool(gain > SURELY * cost)


# --- rows and columns --------------------------------------------------------------------------


def _with_rows(state: MixedState, cells: TableCells, table: MixedViews) -> MixedState:
    given, n = regressors(state.all_columns(table)), cells.shape[0]
    prior = np.ones(state.rank)
    found = Sites.empty(cells.shape)

    def work(block: slice) -> Normals:
        before = state.found.at(block)
        new, _, like = improved_rows(
            state.rows[block], before, given, prior, cells.part(block), n_in_all=n
        )
        found.put(block, like)
        return new

    rows = joined(list(in_turn(work, row_blocks(cells))))
    return replace(state, rows=rows, found=found)


def columns_given(rows: Normals, found: Sites, prior: FloatArray) -> Normals:
    """The posterior of columns whose cells are measurements τ/ω with precisions ω."""
    return columns_from(columns_precision(found, rows, rows.second_with_one), 1 / prior)


def _with_view(
    v: int, state: MixedState, columns: Normals, like: Sites, table: MixedViews
) -> MixedState:
    """The state with other columns of one view, and the sites of its cells."""
    found = state.found.copy()
    found.put((EVERY, table.columns[v]), like)
    every = (*state.columns[:v], columns, *state.columns[v + 1 :])
    return replace(state, columns=every, found=found)


# --- the pattern -------------------------------------------------------------------------------


def _without_a_place(
    v: int, state: MixedState, own: TableCells, table: MixedViews
) -> MixedState | None:
    """The state without the factor that gains least in a view; None if the free energy is not
    lower then.

    The gain of `pattern.Estimates`, for the current sites, selects the factor; the free energy
    decides. Factors that are in no other view are left alone.
    """
    on, costs = state.on(v), costs_of_places(state.active, table.sizes)[v]
    elsewhere = np.asarray(np.delete(state.active, v, axis=0).any(axis=0))
    gains = [
        (estimates_of(state.columns[v], i, state.prior[v, h]).best_gain - costs[h], i, int(h))
        for i, h in enumerate(on)
        if elsewhere[h]
    ]
    if not gains or min(gains)[0] >= 0:
        return None
    _, i, h = min(gains)
    less = state.columns[v].beside_zero(i)
    after = evaluated_all(state.rows.only(np.delete(on, i)), less, own)
    before = state.found.at((EVERY, table.columns[v]))
    spread = state.spread[v]
    if energy_of(less, after, spread) - costs[h] >= energy_of(state.columns[v], before, spread):
        return None
    prior = state.prior.copy()
    prior[v, h] = 0.0
    return replace(_with_view(v, state, less, after, table), prior=prior)


def energy_of(columns: Normals, like: Sites, spread: float) -> float:
    """Contribution of columns to the free energy, with the best priors of their loadings."""
    prior = np.append(best_priors(columns)[:-1], spread)
    return float(columns.energies(prior).sum() - like.log_likelihood.sum())


def estimates_of(columns: Normals, i: int, prior: float) -> Estimates:
    """Estimates of the loadings of the i-th factor of some columns, without their prior."""
    variance = columns.matrices[:, i, i]
    return Estimates.without_prior(columns.mean[:, i], variance, float(prior))


# --- coordinates, priors, parameters -----------------------------------------------------------


def _shifted(state: MixedState, table: MixedViews) -> MixedState:
    """Move the common part of A to μ: A − m and μ + B·m, with the m of the lowest free energy.

    It minimises Σᵢ⟨‖aᵢ − m‖²⟩ + Σ_vΣⱼ⟨(μⱼ + bⱼᵀm)²⟩/m_v².
    """
    H, n = state.rank, len(state.rows.mean)
    precision, pull = n * np.eye(H), state.rows.mean.sum(axis=0)
    for v in table.taking_part:
        second, on = sum_of_second(state.columns[v]) / state.spread[v], state.on(v)
        precision[np.ix_(on, on)] += second[:-1, :-1]
        pull[on] -= second[:-1, -1]
    shift = np.linalg.solve(precision, pull)
    changes = [
        _with_mean(np.eye(state.on(v).size), shift[state.on(v)]) for v in range(len(table.sizes))
    ]
    pairs = zip(state.columns, changes, strict=True)
    return replace(
        state,
        rows=replace(state.rows, mean=state.rows.mean - shift),
        columns=tuple(columns.changed(change) for columns, change in pairs),
    )


def _turned(state: MixedState, table: MixedViews) -> MixedState:
    """The state in the best coordinates, with the best priors."""
    H = state.rank
    Sbb = np.zeros((table.n_views, H, H))
    for v, columns in enumerate(state.columns):
        on = state.on(v)
        Sbb[v][np.ix_(on, on)] = sum_of_second(columns)[:-1, :-1]
    rotation = FactorRotation(
        sum_of_second(state.rows), Sbb, state.active, table.sizes, float(len(state.rows.mean))
    )
    T = rotation.best(FEW if state.calm else ITERATIONS)
    parts = [
        (columns, T[np.ix_(state.on(v), state.on(v))]) for v, columns in enumerate(state.columns)
    ]
    turned = replace(
        state,
        rows=state.rows.changed(np.asarray(np.linalg.inv(T).T, np.float64)),
        columns=tuple(columns.changed(_with_mean(part)) for columns, part in parts),
    )
    return turned.with_best_priors(table)


def _with_mean(change: FloatArray, shift: FloatArray | None = None) -> FloatArray:
    """A change of loadings extended to means, which stay as they are, or gain shift·b."""
    H = len(change)
    out = np.eye(H + 1)
    out[:H, :H] = change
    out[H, :H] = 0.0 if shift is None else shift
    return out


# --- further views -------------------------------------------------------------------------------


def with_best_pair(state: MixedState, table: MixedViews) -> MixedState | None:
    """Add a factor to the view where it seems to gain most; None if no gain exceeds its cost."""
    best, place = 0.0, None
    costs = costs_of_places(state.active, table.sizes)
    absent = ~state.active & (table.sizes > 0)[:, None]
    for v, h, found in places(state, table, absent):
        gain = found.best_gain - float(costs[v, h])
        if gain > 0 and gain >= best:
            best, place = gain, (v, h, found)
    if place is None:
        return None
    v, h, found = place
    prior = state.prior.copy()
    prior[v, h] = found.best_prior
    columns = _columns_with(state, table, v, prior[v])
    every = (*state.columns[:v], columns, *state.columns[v + 1 :])
    wider = replace(state, prior=prior, columns=every, calm=False)
    return replace(wider.evaluated(table), energy=np.inf)


def probabilities(state: MixedState, table: MixedViews) -> FloatArray:
    """Probability that each factor is in each view: (V, H)."""
    out, n = np.zeros(state.prior.shape), len(state.rows.mean)
    there = np.ones_like(state.active) & (table.sizes > 0)[:, None]
    for v, h, found in places(state, table, there):
        limit = noise_of(state, table, v) / np.sqrt(table.sizes[v] * n)
        out[v, h] = found.probability(float(limit))
    return out


def noise_of(state: MixedState, table: MixedViews, v: int) -> float:
    """The variance with which cells of a view measure z: one over the mean ω."""
    js = table.columns[v]
    omega = state.found.omega[:, js].sum() / max(table.counts[js].sum(), 1.0)
    return float(1 / max(omega, TINY))


def places(
    state: MixedState, table: MixedViews, which: np.ndarray
) -> Iterator[tuple[int, int, Estimates]]:
    """Views v, factors h, and estimates of the loadings that h has, or would have, in v, given the
    other factors there.
    """
    for v, h in np.argwhere(which).tolist():
        prior = state.prior[v].copy()
        prior[h] = prior[h] or noise_of(state, table, v)
        columns = _columns_with(state, table, v, prior)
        entry = int(np.count_nonzero(prior[:h]))
        yield v, h, estimates_of(columns, entry, prior[h])


def _columns_with(state: MixedState, table: MixedViews, v: int, prior: FloatArray) -> Normals:
    """Columns of a view with the factors of positive prior variance, given the current sites."""
    found = state.found.at((EVERY, table.columns[v]))
    own = np.append(prior[prior > 0], state.spread[v])
    return columns_given(state.rows.only(np.flatnonzero(prior)), found, own)
