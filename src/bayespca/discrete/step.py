"""Sweeps over cells of any likelihood: generalized PCA with automatic rank.

    x_ij ~ p(x | z_ij),  z_ij = Σₕ a_ih b_jh + μ_j,
    a_ih ~ N(0, cₕ²),  b_jh ~ N(0, cₕ²),  μ_j ~ N(0, v)

for the observed cells, with learned c, v and parameters of likelihoods. The posterior is
r(A)·r(B, μ), each a product of normal distributions of its rows; the mean is one more column of B
whose partner in A is 1. Its prior is proper, because the mean of a column of zeros and ones without
any 1 would otherwise be unbounded.

In ⟨log p(x | z)⟩, z is taken as normal with its mean and its variance, which is exact for given b,
and the averages have closed forms (`likelihoods`). Rows and columns are updated in turn by steps
along the natural gradient (`cells`), shortened where they are too long. After each sweep the latent
space is shifted, rotated and stretched to where the free energy is lowest, which leaves z
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray, Matrix
from bayespca.inference.loop import Info
from bayespca.lowrank.factors import Factors
from bayespca.spectrum.tolerances import CALM, LEAST_SPREAD

from .cells import (
    NaturalRegressors,
    columns_from,
    columns_precision,
    moments,
    regressors,
    rows_from,
    sites,
)
from .data import EVERY, Sites, TableCells, row_blocks
from .likelihoods.likelihood import BoolArray
from .normals import Normals

# How often a step that raises the free energy is halved before it is given up.
HALVINGS = 12


@dataclass(frozen=True)
class TableProblem:
    """The settings of a fit: priors of A and B, and the largest number of components."""

    factors: Factors
    most: int


@dataclass(frozen=True, eq=False)
class TableState:
    """All that the next sweep needs.

    `rows` and `columns` are the posteriors of A (n rows) and of (B, μ) (p rows), `prior` the
    variances cₕ², `spread` the prior variance v of μ; `found` has the sites of cells under them, or
    their sums over rows, `parameters` those of the likelihoods, `energy` is the free energy, and
    `batch` the number of components to try to remove next.
    """

    rows: Normals
    columns: Normals
    prior: FloatArray
    spread: float
    found: Sites
    parameters: tuple[Matrix, ...]
    energy: float = np.inf
    batch: int = 1

    @property
    def rank(self) -> int:
        return int(self.prior.size)


def step(state: TableState, data: TableCells, problem: TableProblem) -> tuple[TableState, Info]:
    """Update rows, columns, coordinates, priors and parameters; once F settles, drop components."""
    new = _with_rows_and_columns(state, data.at(state.parameters))
    new = _settled(new, problem)
    cells = data.at(new.parameters)
    parameters, found = relearned(new.rows, new.columns, cells, new.found)
    new = with_energy(replace(new, parameters=parameters, found=found))
    if state.energy - new.energy < CALM * abs(new.energy):
        new = _without_weakest(new, data, problem)
    return new, Info(new.energy, new.rank, float("nan"))


# --- rows and columns --------------------------------------------------------------------------


def _with_rows_and_columns(state: TableState, data: TableCells) -> TableState:
    given = regressors(state.columns)
    kept = _Kept.of(data)

    def work(rows: slice) -> tuple[Normals, FloatArray, Sites]:
        old, some = state.rows[rows], data.part(rows)
        before = sites_of_block(state, rows, data, given)
        new, second, like = improved_rows(
            old, before, given, state.prior, some, n_in_all=data.shape[0]
        )
        return new, columns_precision(like, new, second), kept.taken(rows, like)

    parts = list(in_turn(work, row_blocks(data)))
    rows = joined([normals for normals, _, _ in parts])
    sums = np.sum([part for _, part, _ in parts], axis=0)
    found = kept.together([like for _, _, like in parts])
    prior = np.append(state.prior, state.spread)
    columns = columns_from(sums, 1 / prior)
    columns, found = improved_columns(state.columns, columns, rows, found, prior, data)
    return replace(state, rows=rows, columns=columns, found=found)


def improved_rows(
    rows: Normals,
    before: Sites,
    given: NaturalRegressors,
    prior: FloatArray,
    cells: TableCells,
    n_in_all: int,
) -> tuple[Normals, FloatArray, Sites]:
    """Rows with a lower free energy, or unchanged; their packed ⟨ããᵀ⟩, and the sites of cells."""
    new = rows_from(before, given, prior, n_in_all)
    second = new.second_with_one
    after = sites(new, second, given, cells)

    def evaluated(some: Normals, which: BoolArray) -> Sites:
        second[which] = some.second_with_one
        return sites(some, second[which], given, cells.part(which))

    new = _descended(rows, new, before, after, prior, evaluated)
    return new, second, after


def improved_columns(
    columns: Normals,
    new: Normals,
    rows: Normals,
    before: Sites,
    prior: FloatArray,
    data: TableCells,
) -> tuple[Normals, Sites]:
    """Columns with a lower free energy, or unchanged, and the sites of cells."""

    def evaluated(some: Normals, which: BoolArray) -> Sites:
        return evaluated_all(rows, some, data.part(EVERY, which)).turned

    after = evaluated_all(rows, new, data)
    new = _descended(columns, new, before.turned, after.turned, prior, evaluated)
    return new, after


def evaluated_all(rows: Normals, columns: Normals, data: TableCells) -> Sites:
    """Sites of all cells, or their sums over rows."""
    given, kept = regressors(columns), _Kept.of(data)

    def work(block: slice) -> Sites:
        some = rows[block]
        return kept.taken(block, sites(some, some.second_with_one, given, data.part(block)))

    return kept.together(list(in_turn(work, row_blocks(data))))


class _Kept(NamedTuple):
    """Room for the sites of all cells; None if only sums over rows are kept."""

    room: Sites | None

    @classmethod
    def of(cls, data: TableCells) -> _Kept:
        return cls(Sites.empty(data.shape) if data.keeps_cells else None)

    def taken(self, block: slice, like: Sites) -> Sites:
        """Store the sites of a block and return them; return their sums if there is no room."""
        if self.room is None:
            return like.summed
        self.room.put(block, like)
        return like

    def together(self, parts: list[Sites]) -> Sites:
        return reduce(Sites.plus, parts) if self.room is None else self.room


def sites_of_block(
    state: TableState, rows: slice, data: TableCells, given: NaturalRegressors | None = None
) -> Sites:
    """Sites of the cells of some rows, computed again if only sums are kept."""
    if data.keeps_cells:
        return state.found.at(rows)
    given = regressors(state.columns) if given is None else given
    some, cells = state.rows[rows], data.at(state.parameters).part(rows)
    return sites(some, some.second_with_one, given, cells)


def _descended(
    old: Normals,
    new: Normals,
    before: Sites,
    after: Sites,
    prior: FloatArray,
    evaluated: Callable[[Normals, BoolArray], Sites],
) -> Normals:
    """New rows where they lower the free energy, else rows on the way there, else the old ones.

    `after` is updated in place; `evaluated` computes it for some rows.
    """
    goal = old.energies(prior) - before.log_likelihood.sum(axis=1)
    worse = new.energies(prior) - after.log_likelihood.sum(axis=1) > goal
    for _ in range(HALVINGS):
        if not worse.any():
            return new
        half = old[worse].halfway(new[worse])
        new = new.but(worse, half)
        some = evaluated(half, worse)
        after.put(worse, some)
        worse[worse] = half.energies(prior) - some.log_likelihood.sum(axis=1) > goal[worse]
    new = new.but(worse, old[worse])
    if worse.any():
        after.put(worse, evaluated(old[worse], worse))
    return new


def joined(parts: list[Normals]) -> Normals:
    return Normals(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.cov for part in parts]),
        np.concatenate([part.log_dets for part in parts]),
    )


def relearned(
    rows: Normals,
    columns: Normals,
    cells: TableCells,
    found: Sites,
    shared: Callable[[tuple[Matrix, ...]], tuple[Matrix, ...]] | None = None,
) -> tuple[tuple[Matrix, ...], Sites]:
    """Improved parameters of likelihoods, and the sites under them.

    `shared` returns parameters of which some are made equal.
    """
    if not cells.learns:
        return cells.parameters, found
    second = rows.second_with_one

    def of_columns(some: slice) -> tuple[FloatArray, FloatArray]:
        return moments(rows, second, regressors(columns[some]))

    cells = cells.updated(of_columns)
    if shared is not None:
        cells = cells.at(shared(cells.parameters))
    return cells.parameters, evaluated_where_learned(rows, columns, cells, found)


def evaluated_where_learned(
    rows: Normals, columns: Normals, cells: TableCells, found: Sites
) -> Sites:
    """Sites after the parameters of likelihoods have changed; other columns keep theirs."""
    learned = cells.learned_columns
    if learned.all():
        return evaluated_all(rows, columns, cells)
    new = found.copy()
    new.put((EVERY, learned), evaluated_all(rows, columns[learned], cells.part(EVERY, learned)))
    return new


# --- coordinates and priors --------------------------------------------------------------------


def _settled(state: TableState, problem: TableProblem) -> TableState:
    """The state in the best coordinates with the best priors: (A − m)·R, B·R⁻ᵀ and μ + B·m."""
    H = state.rank
    # It minimises Σᵢ⟨(aᵢ − m)ᵀ(aᵢ − m)/c²⟩ + Σⱼ⟨(μⱼ + bⱼᵀm)²⟩/v.
    second = sum_of_second(state.columns) / state.spread
    precision = np.diag(len(state.rows.mean) / state.prior) + second[:H, :H]
    pull = state.rows.mean.sum(axis=0) / state.prior - second[:H, H]
    shift = np.linalg.solve(precision, pull)
    rows = replace(state.rows, mean=state.rows.mean - shift)
    take_over = np.eye(H + 1)
    take_over[H, :H] = shift
    columns = state.columns.changed(take_over)
    Saa, Sbb = sum_of_second(rows), sum_of_second(columns)[:H, :H]
    R, back = problem.factors.best_turn(Saa, Sbb) or (np.eye(H), np.eye(H))
    turn = np.eye(H + 1)
    turn[:H, :H] = back
    rows, columns = rows.changed(R.T), columns.changed(turn)
    return _with_best_priors(replace(state, rows=rows, columns=columns), problem)


def _with_best_priors(state: TableState, problem: TableProblem) -> TableState:
    squares = state.columns.squares.sum(axis=0)
    prior, _ = problem.factors.priors(state.rows.squares.sum(axis=0), squares[:-1])
    spread = max(float(squares[-1]) / len(state.columns.mean), LEAST_SPREAD)
    return replace(state, prior=prior, spread=spread)


def sum_of_second(normals: Normals) -> FloatArray:
    """Σ⟨xxᵀ⟩ over rows."""
    return np.asarray(normals.mean.T @ normals.mean + normals.matrices.sum(axis=0))


# --- the free energy, and removal of components ------------------------------------------------


def with_energy(state: TableState) -> TableState:
    """F = −Σ⟨log p(x | z)⟩ + KL(r(A)‖prior) + KL(r(B, μ)‖prior)"""
    of_rows = state.rows.energies(state.prior).sum()
    of_columns = state.columns.energies(np.append(state.prior, state.spread)).sum()
    energy = of_rows + of_columns - state.found.log_likelihood.sum()
    return replace(state, energy=float(energy))


def _without_weakest(state: TableState, data: TableCells, problem: TableProblem) -> TableState:
    """The state without its last components if that lowers the free energy, computed in full.

    After each success, twice as many are tried next time.
    """
    for count in sorted({min(state.batch, state.rank), min(1, state.rank)}, reverse=True):
        less = evaluated(without_components(state, count), data, problem) if count else state
        if less.energy < state.energy:
            return replace(less, batch=2 * count)
    return replace(state, batch=1)


def evaluated(state: TableState, data: TableCells, problem: TableProblem) -> TableState:
    """The state with sites, priors and free energy computed from its posterior."""
    found = evaluated_all(state.rows, state.columns, data.at(state.parameters))
    return with_energy(_with_best_priors(replace(state, found=found), problem))


def without_components(state: TableState, count: int) -> TableState:
    """The state without its last components; everything else, sites included, is left as it is."""
    keep = np.arange(state.rank - count)
    return replace(
        state,
        rows=state.rows.only(keep),
        columns=state.columns.only(np.append(keep, state.rank)),
        prior=state.prior[keep],
    )
