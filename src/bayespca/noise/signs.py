"""Signs of other noise in the residuals of a fit, in nats of evidence.

The squared residuals, in units of the noise, show roughly how much evidence one update of the
variances of columns would gain, and then one of rows, of the correlation of neighbours, and of
cells. A full fit gains more than that. Data that have the noise of the model gain next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray, Numbers
from bayespca.lowrank.scales import gained

# Smaller gains are chance.
LEAST_GAIN = 6.0
# Standard errors by which a statistic must exceed its value for equal noise: to be examined more
# closely, and to be a sign.
WORTH_A_LOOK = 2.0
STANDS_OUT = 4.0
# For a quick look: least excess of the log mean variance over the mean log variance, and least
# share of a row's noise that counts as left.
FAR, LEAST_LEFT = 0.05, 0.1
# Least correlation at which neighbours count as alike.
LEAST_CORRELATION = 0.03
# Fewest rows that can show anything.
FEWEST = 4
# Fewest features whose order can show: of the twelve orders of four, one is the best by chance.
FEWEST_IN_ORDER = 5
# Share of a component's squares above which it consists of a single row or column.
MOST_OF_IT = 0.5
# Most columns whose order is compared with others, and the number of these.
FEW_TO_ORDER, N_ORDERS = 30, 19
# Components per column above which they may have absorbed the correlation of neighbours.
SMOOTH = 0.1
# Most features among which correlations are compared.
MOST_FEATURES = 200
# Most cells whose tails are examined.
MOST_CELLS = 40_000


@dataclass(frozen=True)
class Signs:
    """Least gains in nats from separate variances and from the correlation of neighbours.

    `cells` is the gain beyond columns and rows. `absorbed` names signs that components may have
    explained away; a component that consists of one row or column leaves no residuals behind.
    """

    columns: float = 0.0
    rows: float = 0.0
    neighbours: float = 0.0
    cells: float = 0.0
    correlation: float = 0.0
    absorbed: frozenset[str] = frozenset()

    @property
    def seen(self) -> frozenset[str]:
        """Names of the signs that exceed chance or may have been absorbed."""
        gains = vars(self)
        names = ("columns", "rows", "neighbours", "cells")
        return self.absorbed | {name for name in names if gains[name] > LEAST_GAIN}


def signs(
    residuals: FloatArray,
    freedom: FloatArray,
    adjacent: NDArray[np.bool_] | None = None,
    taken: FloatArray | None = None,
) -> Signs:
    """Signs in residuals that are in units of the noise's standard deviation.

    `freedom` is the share of its noise that each cell has left in its residual. `adjacent` says
    which columns have the next one for their neighbour; None means all. `taken` are loadings times
    the root of their shrinkage: what components take from the noise of each column.
    """
    if residuals.shape[0] < FEWEST or not residuals.shape[1]:
        return Signs()
    squares = residuals * residuals
    of_columns, by_columns = of_variances(squares.sum(axis=0), freedom.sum(axis=0))
    of_rows, by_rows = of_variances(squares @ of_columns, freedom.sum(axis=1))
    if by_rows:
        residuals = residuals * np.sqrt(of_rows)[:, None]
    phi, by_neighbours = _alike(residuals, adjacent, taken)
    squares /= freedom
    return Signs(by_columns, by_rows, by_neighbours, _tails(squares, of_rows, of_columns), phi)


def absorbed(loadings: FloatArray, scores: FloatArray) -> frozenset[str]:
    """Names of the sides, "columns" or "rows", on which a component consists of a single entry."""
    sides = {"columns": loadings.T, "rows": scores}
    return frozenset(name for name, values in sides.items() if _is_single(values))


def taken_in_order(Z: FloatArray, adjacent: NDArray[np.bool_], n_components: int) -> frozenset[str]:
    """{"neighbours"} if components may have absorbed the correlation of neighbours, else empty.

    Correlated noise of few columns is smooth, and a few smooth components leave no trace of it in
    the residuals. So the test looks at the centred data Z themselves.
    """
    if n_components <= SMOOTH * Z.shape[1] or Z.shape[0] < FEWEST:
        return frozenset()
    return frozenset({"neighbours"} if _alike(Z, adjacent)[1] > LEAST_GAIN else ())


def _in_order(C: FloatArray) -> bool:
    """Whether neighbours correlate more in the columns' own order than in any of the others."""
    own = abs(C.diagonal(1).mean())
    return all(abs(C[order[1:], order[:-1]].mean()) < own for order in other_orders(len(C)))


def other_orders(p: int) -> list[NDArray[np.intp]]:
    """Random orders of p columns to compare theirs with."""
    rng = np.random.default_rng(0)
    return [rng.permutation(p) for _ in range(N_ORDERS)]


def _is_single(values: FloatArray) -> bool:
    """Whether one of many entries has most of the squares of a column."""
    if values.shape[0] < FEWEST or not values.shape[1]:
        return False
    squares = values**2
    total = np.maximum(squares.sum(axis=0), np.finfo(np.float64).tiny)
    return bool((squares.max(axis=0) > MOST_OF_IT * total).any())


def of_variances(squares: FloatArray, counts: Numbers) -> tuple[FloatArray, float]:
    """Precisions in units of that of the mean variance, and the nats they gain over equal ones.

    They are 1 and gain nothing if Bartlett's statistic is in the range of equal variances.
    """
    N = np.maximum(counts.astype(np.float64), 1.0)
    freedom = max(N.size - 1, 1)
    if _statistic(squares, N) < freedom + WORTH_A_LOOK * np.sqrt(2 * freedom):
        return np.ones(N.size), 0.0
    found, gain = gained(squares, N)
    return found.precision * float(squares.sum() / N.sum()), gain


def _statistic(squares: FloatArray, N: FloatArray) -> float:
    """Bartlett's statistic: ΣN·log of the mean variance minus Σ(N·log of each variance)."""
    total, logs = float(N.sum()), np.log(np.maximum(squares / N, 1e-300))
    return total * float(np.log(squares.sum() / total)) - float(N @ logs)


def is_far_from_equal(rows: FloatArray) -> bool:
    """Whether a few rows suffice to show that noise differs between rows or columns.

    The stronger half of all directions is removed, and components with it; the rest is tested.
    Returns False if there are more than half as many rows as columns.
    """
    Z = rows - rows.mean(axis=0)
    Z = Z[:, Z.any(axis=0)]
    if len(Z) < FEWEST or Z.shape[1] < 2 * len(Z):
        return False
    weak = np.linalg.eigh(Z @ Z.T)[1][:, : len(Z) // 2]
    squares = (weak @ (weak.T @ Z)) ** 2
    left = np.maximum(np.einsum("ij,ij->i", weak, weak), LEAST_LEFT)
    of_columns = _statistic(squares.sum(axis=0), np.full(Z.shape[1], left.sum()))
    of_rows = _statistic(squares.sum(axis=1), Z.shape[1] * left)
    # With equal variances, Bartlett's statistic is about 1 per column.
    return max(of_columns, of_rows) > FAR * left.sum() * Z.shape[1] + Z.shape[1]


def _tails(squares: FloatArray, of_rows: FloatArray, of_columns: FloatArray) -> float:
    """Nats that noise of cells would gain beyond rows and columns; 0 for normal fourth moments."""
    mean = float(of_rows @ squares @ of_columns) / squares.size
    fourth = float(of_rows**2 @ (squares * squares) @ of_columns**2) / squares.size / mean**2
    if fourth - 3 < STANDS_OUT * np.sqrt(24 / squares.size):
        return 0.0
    step = squares.size // MOST_CELLS + 1
    unit = (squares * of_columns * of_rows[:, None]).ravel()[::step] / mean
    return step * gained(np.maximum(unit, 1e-8), 1.0)[1]


def _alike(
    E: FloatArray, adjacent: NDArray[np.bool_] | None, taken: FloatArray | None = None
) -> tuple[float, float]:
    """Correlation of neighbouring columns, and the nats it gains.

    The gain is 0 if other columns are as much alike as neighbours, so that the order says nothing.
    White noise without what components took has the covariance I − VᵀV, with V the loadings times
    the root of their shrinkage: residuals of columns with the same component are not independent.
    """
    n, p = E.shape
    if p < FEWEST_IN_ORDER or (adjacent is not None and not adjacent.any()):
        return 0.0, 0.0
    size = np.sqrt(np.einsum("ij,ij->j", E, E))
    size[size == 0] = 1.0
    V = np.zeros((0, p)) if taken is None else taken
    V = V / np.sqrt(np.maximum(1 - np.einsum("hj,hj->j", V, V), LEAST_LEFT))
    beside = np.einsum("ij,ij->j", E[:, 1:], E[:, :-1]) / (size[1:] * size[:-1])
    beside += np.einsum("hj,hj->j", V[:, 1:], V[:, :-1])
    beside = beside if adjacent is None else beside[adjacent]
    step = -(-p // MOST_FEATURES)
    some, V = E[:, ::step] / size[::step], V[:, ::step]
    alike = some.T @ some + V.T @ V
    others = alike[np.triu_indices(len(alike), 2)]
    phi = float(beside.mean())
    if not others.size:
        return phi, 0.0
    error = float(others.std()) / np.sqrt(beside.size)
    stands_out = abs(phi - float(others.mean())) > STANDS_OUT * error
    if not stands_out or abs(phi) < LEAST_CORRELATION:
        return phi, 0.0
    # Noise of neighbours falls off: φ² at a distance of two. Items of one scale are alike at both.
    next_but_one = float(alike.diagonal(2).mean()) if step == 1 else phi * phi
    if abs(next_but_one - phi) < abs(next_but_one - phi * phi):
        return phi, 0.0
    if p <= FEW_TO_ORDER and beside.size == p - 1 and not _in_order(alike):
        return phi, 0.0
    return phi, -0.5 * n * beside.size * float(np.log1p(-min(phi * phi, 0.99)))
