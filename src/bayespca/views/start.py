"""Starting points: closed forms of each view, and of all views divided by their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import row_blocks, to_numpy
from bayespca.arrays.packing import with_ones
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.lowrank.filling import fill
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.observing import sorted_by_pattern
from bayespca.lowrank.rows import Columns, latent_means
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .data import ViewsTable
from .state import ViewsState

# The least prior variance of loadings at the start, relative to the noise variance.
LEAST = 1e-6


def start(table: ViewsTable, most: int) -> ViewsState:
    """Start from the components of all views together, each divided by its noise."""
    noise = np.array([_noise(table, v) for v in range(table.n_views)])
    nothing = _state(table, noise, np.empty((0, table.view.size)), np.empty(0))
    rows, root = table.rows, nothing.roots(table)
    if table.has_holes:
        filled = fill(rows.multiplied(np.ones(rows.shape[0]), 1 / root), most=most)
        return _state(table, noise, filled.right, filled.spread)
    found = decompose(rows.matrix(_divided, root), plan=solve, center=True)
    solution = solve(found.spectrum)
    rank = min(solution.rank, most)
    right = np.asarray(to_numpy(fixed_signs(found.right(rank))), dtype=np.float64)
    shrunk = solution.shrunk_singular_values[:rank] * found.spectrum.scale
    return _state(table, noise, right, shrunk**2 / rows.shape[0])


def with_what_is_left(state: ViewsState, table: ViewsTable, most: int) -> ViewsState | None:
    """Add the factors that closed forms find in the residuals; None if there are none.

    Views are searched one by one, because a factor of a small view may be too weak to show among
    all columns; if that finds nothing, they are searched together.
    """
    rows, rank = table.rows, state.rank
    rest = rows.matrix(_rest, state.columns(table), state.roots(table))
    places = np.flatnonzero(table.sizes).tolist() if table.n_views > 1 else []
    for v in (*places, None):
        if v is None and state.rank > rank:
            break
        part = rest if v is None else rows.columns_of(rest, table.columns[v])
        found = decompose(part, plan=solve, center=True)
        count = min(solve(found.spectrum).rank, most - state.rank)
        if count:
            state = _with_more(state, table, found, count, v)
    return replace(state, calm=False) if state.rank > rank else None


def _with_more(
    state: ViewsState, table: ViewsTable, found: Decomposition, count: int, v: int | None
) -> ViewsState:
    """Add the first components of the residuals, in all columns or in those of a view."""
    n, p = table.rows.shape
    js = np.arange(p) if v is None else table.columns[v]
    # Zeros in the holes weaken components by the share of observed cells.
    share = float(table.rows.column_counts[js].sum()) / (n * js.size)
    new = np.zeros((p, count))
    gamma = np.asarray(found.spectrum.singular_values * found.spectrum.scale)
    sizes = gamma[:count] / np.sqrt(n) / share
    new[js] = np.asarray(to_numpy(found.right(count)), dtype=np.float64).T * sizes
    new *= state.roots(table)[:, None]
    H, k = state.rank, np.arange(count) + state.rank
    b = np.insert(state.b, [H] * count, new, axis=1)
    b_cov = np.zeros((p, H + count + 1, H + count + 1))
    old = np.delete(np.arange(H + count + 1), k)
    b_cov[:, old[:, None], old] = state.b_cov
    prior = _mean_squares(new, table, state.noise)
    if v is not None:
        prior[np.arange(table.n_views) != v] = 0.0
    return replace(
        state, b=b, b_cov=b_cov, prior=np.append(state.prior, prior, axis=1), energy=np.inf
    )


def _noise(table: ViewsTable, v: int) -> float:
    """The noise variance of a view: from its PCA if known, else from its closed form."""
    rows, js = table.rows, table.columns[v]
    if not js.size:
        return 1.0
    if np.isfinite(table.noise[v]):
        return max(float(table.noise[v]), LEAST_NOISE_WITH_HOLES)
    assert isinstance(rows, Holes)  # on workers it is known
    # Some columns of the rows that have values in them.
    seen = np.asarray(rows.mask)[:, js]
    some = seen.any(axis=1)
    values = np.asarray(rows.values)[np.ix_(some, js)]
    part = sorted_by_pattern(values, seen[some], rows.location[js], rows.unit[js])
    if bool(np.asarray(part.patterns).all()):
        found = decompose(part.values, plan=solve, center=True)
        noise = solve(found.spectrum).noise_variance * found.spectrum.scale**2
    else:
        noise = fill(part, most=min(part.shape) - 1).noise_variance
    return max(float(noise), LEAST_NOISE_WITH_HOLES)


def _divided(data: Holes, root: FloatArray) -> FloatArray:
    return np.asarray(data.values / root)


def _state(
    table: ViewsTable, noise: FloatArray, right: FloatArray, spread: FloatArray
) -> ViewsState:
    """The state with loadings for scores of unit variance, in the units of the table."""
    p, rank = table.view.size, len(right)
    b = np.zeros((p, rank + 1))
    sizes = np.sqrt(np.maximum(spread, LEAST))
    b[:, :rank] = (right * sizes[:, None]).T * np.sqrt(noise)[table.view][:, None]
    prior = _mean_squares(b[:, :rank], table, noise)
    return ViewsState(b, np.zeros((p, rank + 1, rank + 1)), prior, noise)


def _mean_squares(b: FloatArray, table: ViewsTable, noise: FloatArray) -> FloatArray:
    """Mean squares of the loadings in each view, at least `LEAST` times the noise: (V, H)."""
    found = [(b[js] ** 2).mean(axis=0) if js.size else np.zeros(b.shape[1]) for js in table.columns]
    return np.maximum(np.stack(found), LEAST * noise[:, None])


def _rest(data: Holes, columns: Columns, root: FloatArray) -> FloatArray:
    """Residuals of the cells divided by the standard deviation of their noise; 0 in holes."""
    rest = _divided(data, root)
    a = with_ones(latent_means(replace(data, values=rest), columns))
    known = None if bool(np.asarray(data.patterns).all()) else np.asarray(data.mask)
    for rows in row_blocks(rest):
        rest[rows] -= a[rows] @ columns.b.T
        if known is not None:
            np.putmask(rest[rows], ~known[rows], 0.0)
    return rest
