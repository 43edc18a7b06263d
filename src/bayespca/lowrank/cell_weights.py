"""Squared residuals of cells, and weights of cells in new rows where cells have their own noise.

Weights and scores of a new row are updated in turns: a cell far from where the other cells of its
row predict it hardly counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace, is_numpy_array, to_namespace, to_numpy
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.tolerances import LOG_2PI

from .cells import log_ratio_of_gammas
from .holes import Holes, floats
from .rows import Columns, misfits_of_rows, updater
from .scales import Tails

Reader = TypeVar("Reader", bound=Callable[..., Any])

# The most turns, and the largest change of a weight at which they end.
TURNS = 50
SETTLED = 1e-6


def squares_of_cells(
    data: Holes, columns: Columns, *, share: float, root: FloatArray | None
) -> FloatArray:
    """⟨(x − ãᵀb̃)²⟩/σ² of all cells, holes included, with A at its best for the columns: (n, p).

    ãᵀb̃ has the variance tr⟨ããᵀ⟩⟨b̃b̃ᵀ⟩ − (ãᵀb̃)², which takes one product for a block of rows.
    """
    H, s2 = columns.rank, columns.noise_variance
    i, j = np.triu_indices(H + 1)
    second = (columns.second[:, i, j] * np.where(i == j, 1.0, 2.0)).T.copy()
    rounding = data.rounding
    if rounding is not None and root is not None:
        rounding = rounding / root**2
    found, update = np.empty(data.shape), updater(data, columns, share=share, root=root)

    def work(edge: tuple[int, int]) -> None:
        block, rows = update(edge)
        last = np.ones((len(rows.a), 1)) if block.weights is None else block.weights.root[:, None]
        fitted = np.concatenate([rows.a, last], axis=1) @ columns.b.T
        left = data.plain_values[block.rows] * (last if root is None else last / root) - fitted
        square = np.matmul(rows.second.T, second, out=found[block.rows])
        square -= fitted * fitted
        np.maximum(square, 0.0, out=square)
        square += left * left
        if rounding is not None:
            square += last**2 * rounding
        square /= s2

    for _ in in_turn(work, data.edges()):
        pass
    return found


def weighed(data: Holes, columns: Columns, tails: Tails) -> Holes:
    """Rows on the host, with the weights that Student's t gives their cells."""
    seen = floats(data.mask)
    weights = seen
    for _ in range(TURNS):
        found = squares_of_cells(data.with_cells(weights), columns, share=1.0, root=None)
        found = seen * (tails.shape + 0.5) / (tails.rate + 0.5 * found)
        change = np.abs(found - weights).max(initial=0.0)
        weights = found
        if change < SETTLED:
            break
    return data.with_cells(weights)


def bounds(data: Holes, columns: Columns, tails: Tails) -> FloatArray:
    """The variational bound on the log density of each row, for weighted cells: (n,).

    With scores at their best for the weights ω it is −½Q − gain (`rows.RowMisfits`), and for each
    cell −½ log 2πσ²s² less the cost of ω.
    """
    found = misfits_of_rows(data, columns)
    alpha, beta, weights = tails.shape, tails.rate, data.patterns
    seen = weights > 0
    logs = np.log(weights, where=seen, out=np.zeros_like(weights))
    # β + R/2 = (α + ½)/ω
    of_rate = seen * np.log((alpha + 0.5) / beta) - logs
    half_of_squares = seen * (alpha + 0.5) - beta * weights
    constant = 0.5 * np.log(beta) - log_ratio_of_gammas(alpha)
    cost = (alpha + 0.5) * of_rate - half_of_squares + seen * constant
    scale = 0.5 * (LOG_2PI + np.log(columns.noise_variance)) + np.log(data.unit)
    return -(0.5 * found.squares + found.gain + cost.sum(axis=1) + seen @ scale)


def on_host_for_cells(read: Reader) -> Reader:
    """Decorate a reader so that rows with weighted cells are read on the host; results go back."""

    @wraps(read)
    def reading(posterior: Any, X: Array, *args: Any, **options: Any) -> Any:
        if not posterior.cell_tails.are_heavy or is_numpy_array(X):
            return read(posterior, X, *args, **options)
        found = read(posterior, to_numpy(X), *args, **options)
        if isinstance(found, tuple):
            return tuple(_at_place(part, X) for part in found)
        return _at_place(found, X)

    return reading  # type: ignore[return-value]


def _at_place(values: FloatArray, like: Array) -> Array:
    return to_namespace(values, like, getattr(array_namespace(like), values.dtype.name))
