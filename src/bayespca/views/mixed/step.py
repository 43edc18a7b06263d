"""Sweeps over views with likelihoods of their own: rows, columns view by view, rotation, priors.

    x_ij ~ p(x | z_ij),  z_ij = Σₕ a_ih b_jh + μ_j,
    a_ih ~ N(0, 1),  b_jh ~ N(0, c_vh²),  μ_j ~ N(0, m_v²)

for column j of view v. Rows and columns follow by steps in the direction of the natural gradient,
as in `discrete`; columns of a view see the factors that are in it and no others. The rotation is
that of `turning`, and a factor leaves a view when the free energy, computed in full, is lower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.discrete.cells import columns_precision, moments, regressors, split
from bayespca.discrete.data import EVERY, TableCells, row_blocks
from bayespca.discrete.normals import Normals, from_precisions
from bayespca.discrete.sites import Sites
from bayespca.discrete.step import (
    evaluated_all,
    evaluated_where_learned,
    improved_columns,
    improved_rows,
    joined,
    sum_of_second,
)
from bayespca.inference.loop import Info
from bayespca.spectrum.tolerances import CALM

from ..pattern import Estimates, costs_of_places
from ..turning import FEW, ITERATIONS, Turning
from .data import MixedViews
from .state import MixedState, best_priors

# Factors by which cells gain so many times what they cost stay.
SURELY = 2.0


def step(state: MixedState, table: MixedViews) -> tuple[MixedState, Info]:
    """One sweep. Once it is calm, factors leave the views in which they gain nothing, and those go
    without which the free energy is lower.
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
    """A, (B, μ), the pattern, the rotation, priors and parameters, each with a lower F."""
    cells = table.cells.at(state.parameters)
    state = _with_rows(state, cells, table)
    for v in table.taking_part:
        own = table.of_view(cells, v)
        state = _with_columns_of(v, state, own, table)
        while state.calm and (less := _without_a_place(v, state, own, table)) is not None:
            state = less
    state = _turned(_shifted(state, table), table)
    return _with_parameters(state, table).with_energy(table)


def weakest(state: MixedState, table: MixedViews) -> int:
    """The factor whose loadings cells see least: Σⱼωⱼbⱼₕ², with ω summed over rows."""
    b = state.all_columns(table).mean[:, :-1]
    return int((state.found.omega.sum(axis=0) @ b**2).argmin())


def _is_needed(h: int, state: MixedState, table: MixedViews) -> bool:
    """Whether cells gain far more by a factor than it costs, so that nothing need be tried.

    They gain ½Σωᵢⱼaᵢₕ²bⱼₕ² by it where ω stays, and it costs the divergence of its scores and
    loadings from their priors.
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
    given, prior, n = state.regressors(table), np.ones(state.rank), cells.shape[0]
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


def _with_columns_of(v: int, state: MixedState, own: TableCells, table: MixedViews) -> MixedState:
    """The state with better columns of one view; `own` are its cells."""
    rows, prior = state.rows.only(state.on(v)), state.prior_of(v)
    before = state.found.at((EVERY, table.columns[v]))
    new = columns_given(rows, before, prior)
    columns, after = improved_columns(state.columns[v], new, rows, before, prior, own)
    return _with_view(v, state, columns, after, table)


def columns_given(rows: Normals, found: Sites, prior: FloatArray) -> Normals:
    """The posterior of columns whose cells are measurements τ/ω with precisions ω."""
    sums = columns_precision(found, rows, rows.second_with_one)
    precisions, pull = split(sums, prior.size)
    return from_precisions(precisions + np.diag(1 / prior), pull)


def _with_view(
    v: int, state: MixedState, columns: Normals, like: Sites, table: MixedViews
) -> MixedState:
    """The state with other columns of one view, and what its cells are like then."""
    found = state.found.copy()
    found.put((EVERY, table.columns[v]), like)
    every = (*state.columns[:v], columns, *state.columns[v + 1 :])
    return replace(state, columns=every, found=found)


# --- the pattern -------------------------------------------------------------------------------


def _without_a_place(
    v: int, state: MixedState, own: TableCells, table: MixedViews
) -> MixedState | None:
    """The state without the factor that gains least in a view, if the free energy is lower then.

    The gain of `pattern.Estimates` takes cells for the measurements that they are now, and chooses
    the factor; the free energy decides. Factors that are in no other view are left alone.
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
    """What columns add to the free energy when their loadings have the best priors."""
    prior = np.append(best_priors(columns)[:-1], spread)
    return float(columns.energies(prior).sum() - like.log_likelihood.sum())


def estimates_of(columns: Normals, i: int, prior: float) -> Estimates:
    """Loadings of the i-th of the factors that columns have, without their prior."""
    variance = columns.matrices[:, i, i]
    return Estimates.without_prior(columns.mean[:, i], variance, float(prior))


# --- coordinates, priors, parameters -----------------------------------------------------------


def _shifted(state: MixedState, table: MixedViews) -> MixedState:
    """Move the common part of A to μ: A − m and μ + B·m, with the m of the lowest free energy.

    That minimises Σᵢ⟨‖aᵢ − m‖²⟩ + Σ_vΣⱼ⟨(μⱼ + bⱼᵀm)²⟩/m_v².
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
    """The state in the coordinates that suit the best priors best."""
    H = state.rank
    Sbb = np.zeros((table.n_views, H, H))
    for v, columns in enumerate(state.columns):
        on = state.on(v)
        Sbb[v][np.ix_(on, on)] = sum_of_second(columns)[:-1, :-1]
    turning = Turning(
        sum_of_second(state.rows), Sbb, state.active, table.sizes, float(len(state.rows.mean))
    )
    T = turning.best(FEW if state.calm else ITERATIONS)
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
    """A change of loadings, beside which means stay as they are, or take shift·b."""
    H = len(change)
    out = np.eye(H + 1)
    out[:H, :H] = change
    out[H, :H] = 0.0 if shift is None else shift
    return out


def _with_parameters(state: MixedState, table: MixedViews) -> MixedState:
    """Improve the parameters of likelihoods, and update the cells accordingly."""
    if not table.cells.learns:
        return state
    second, columns = state.rows.second_with_one, state.all_columns(table)

    def of_columns(some: slice) -> tuple[FloatArray, FloatArray]:
        return moments(state.rows, second, regressors(columns[some]))

    cells = table.cells.at(state.parameters).updated(of_columns)
    cells = cells.at(table.shared(cells.parameters))
    found = evaluated_where_learned(state.rows, columns, cells, state.found)
    return replace(state, parameters=cells.parameters, found=found)
