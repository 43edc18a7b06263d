"""Starting points: the closed form of cells as measurements around their columns' means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import DOUBLE, FloatArray, Matrix
from bayespca.engines.decomposing import decompose
from bayespca.sources.records import Source
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import TINY

from .data import Sites, TableCells, row_blocks
from .likelihoods.normal import NORMAL
from .normals import Normals
from .step import TableProblem, TableState, evaluated_all, sites_of_block

# Components added to those that the closed form keeps. It keeps at most TIMES as many as it is sure
# of, and SOME.
SPARE = 3
TIMES, SOME = 3, 10
# The least prior variance of a component at the start.
LEAST = 1e-3
# The largest standard deviation of z in a column at the start.
LONGEST = 2.0


def start(data: TableCells, problem: TableProblem) -> TableState:
    """Start from the components of the slopes ∂log p/∂z over √ω at the columns' means.

    Their noise has variance 1 where z is near its mean. For zeros and ones they are
    (x − x̄)/√(x̄(1 − x̄)).
    """
    null, found = _by_themselves(data)
    slope = mean_omega(found, data)

    def pulled(rows: slice) -> FloatArray:
        like = _alone(data, null, rows)
        apart = (like.tau - like.omega * null.mean) / slope
        for group, some in data.with_columns():
            apart[:, some] = group.likelihood.reach(apart[:, some])
        return np.asarray(apart * np.sqrt(slope))

    right, strength = strongest(pulled, data, problem.most)
    b = bounded((right * strength[:, None] / np.sqrt(slope)).T, data)
    return _state(data, b, null, found)


def random_start(data: TableCells, problem: TableProblem, rng: np.random.Generator) -> TableState:
    """Start from the largest number of components, with normal draws of loadings."""
    b = rng.normal(size=(data.shape[1], problem.most)) / np.sqrt(max(problem.most, 1))
    return _state(data, b, *_by_themselves(data))


def with_one_more(state: TableState, data: TableCells) -> TableState:
    """Add a component: the strongest in the slopes of the log-likelihood by z."""
    H, n = state.rank, data.shape[0]
    given = state.columns.mean
    slope = np.sqrt(mean_omega(state.found, data))

    def pulled(rows: slice) -> FloatArray:
        like = sites_of_block(state, rows, data)
        m = state.rows.mean[rows] @ given[:, :H].T + given[:, H]
        return np.asarray((like.tau - like.omega * m) / slope)

    right, strength = strongest(pulled, data, 1)
    new = bounded((right * strength[:, None] / slope).sum(axis=0)[:, None], data)[:, 0]
    b = np.insert(given, H, new, axis=1)
    size = max(float(np.sqrt((new**2).mean())), LEAST)
    prior = np.append(state.prior, size)
    b[:, H] /= np.sqrt(size)
    rows = state.rows.with_another(H, np.zeros(n), np.full(n, size))
    squares = np.append(state.rows.squares.mean(axis=0), [size, 1.0])
    columns = sharp(b, state.found.omega.sum(axis=0), squares)
    found = evaluated_all(rows, columns, data.at(state.parameters))
    return replace(
        state, rows=rows, columns=columns, prior=prior, found=found, energy=np.inf, batch=1
    )


def _state(data: TableCells, b: FloatArray, null: _Nulls, alone: Sites) -> TableState:
    """The state with given loadings and with scores at their prior.

    `alone` are the sites, or their sums, of columns by themselves.
    """
    n, H = data.shape[0], b.shape[1]
    # A and B share the size: a has variance s where b has mean square s.
    size = np.maximum(np.sqrt((b**2).mean(axis=0)), LEAST)
    squares = np.append(size, 1.0)
    omega = alone.omega.sum(axis=0)
    columns = sharp(np.column_stack([b / np.sqrt(size), null.mean]), omega, squares)
    cov = np.broadcast_to(packed(np.diag(size)), (n, H * (H + 1) // 2))
    rows = Normals(np.zeros((n, H)), cov, np.full(n, np.log(size).sum()))
    spread = max(float((null.mean**2).mean()), 0.1)
    found = evaluated_all(rows, columns, data.at(null.parameters))
    return TableState(rows, columns, size, spread, found, null.parameters)


def bounded(b: FloatArray, data: TableCells) -> FloatArray:
    """Loadings shortened so that no z spreads further than `LONGEST` before rows are fitted.

    Columns of numbers are exempt: their cells show how far z spreads.
    """
    lengths = np.sqrt((b**2).sum(axis=1, keepdims=True))
    for group, some in data.with_columns():
        if group.likelihood is NORMAL:
            lengths[some] = 0.0
    return np.asarray(b * np.minimum(1.0, LONGEST / np.maximum(lengths, LONGEST)))


def sharp(b: FloatArray, omega: FloatArray, squares: FloatArray) -> Normals:
    """Loadings with the variances that Σω of cells and mean `squares` of scores imply."""
    variances = 1 / np.maximum(omega[:, None] * squares, LEAST)
    return Normals(b, packed(variances[:, :, None] * np.eye(b.shape[1])), np.log(variances).sum(1))


class _Nulls(NamedTuple):
    """Columns by themselves: z of all of them, and parameters of each group."""

    mean: FloatArray
    parameters: tuple[Matrix, ...]


def _by_themselves(data: TableCells) -> tuple[_Nulls, Sites]:
    """Columns by themselves, and sums of the sites of their cells."""
    means, parameters = zip(*(group.null() for group in data.groups), strict=True)
    null = _Nulls(np.concatenate(means), parameters)
    sites = (_alone(data, null, rows).summed for rows in row_blocks(data))
    return null, reduce(Sites.plus, sites)


def _alone(data: TableCells, null: _Nulls, rows: slice) -> Sites:
    """Sites of the cells of some rows, if each column has one z."""
    some = data.at(null.parameters).part(rows)
    return some.sites(np.broadcast_to(null.mean, some.shape), np.zeros(some.shape))


def mean_omega(found: Sites, data: TableCells) -> FloatArray:
    """Mean ω over the observed cells of each column."""
    counts = data.shape[0] if data.seen is None else data.seen.sum(axis=0)
    return np.asarray(np.maximum(found.omega.sum(axis=0) / counts, TINY))


def strongest(
    pulled: Callable[[slice], FloatArray], data: TableCells, most: int
) -> tuple[FloatArray, FloatArray]:
    """Directions to start with, and the standard deviations of rows along them.

    `pulled` returns rows of the matrix to decompose. Its noise has variance 1 if all z are near
    their means; otherwise it has less, and more components are found. There are some to spare:
    unneeded components are dropped later, but missing ones have to be found one by one.
    """
    blocks, (n, p) = row_blocks(data), data.shape
    Y: Any = Source(p, DOUBLE, None, True, lambda: map(pulled, blocks), n)
    if data.keeps_cells:
        Y = np.concatenate(list(map(pulled, blocks)))
    if not most or (data.keeps_cells and not Y.any()):
        return np.zeros((0, p)), np.zeros(0)
    found = decompose(Y, plan=solve, center=True, n_needed=1)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    strong = solve(found.spectrum, noise_variance=1.0).rank
    kept = min(solve(found.spectrum).rank, TIMES * strong + SOME) + SPARE
    right = fixed_signs(np.asarray(found.right(min(kept, most, gamma.size))))
    return right, gamma[: len(right)] / np.sqrt(n)
