"""Columns that follow exactly from others: copies, multiples, sums, and rows with one total.

Such columns have no noise of their own. Counted as columns they look like directions without any
noise, so models leave them out and put them back as what they are, combinations of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky, qr, solve_triangular

from bayespca.arrays.checks import check_sizes
from bayespca.arrays.namespaces import (
    array_namespace,
    eps,
    has_nan,
    on_host,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, Counts, FloatArray, Index, Sparse, Vector

# Residual of a column given the others, relative to its spread, below which it follows from them:
# numbers that were computed or written in single precision reach 1e-7. Then the rounding errors of
# the numbers as stored, in units in the last place, and the most that they may be of the spread, as
# beyond it nothing is known.
EXACT, ROUNDING, MOST_ROUNDING = 1e-6, 16.0, 1e-3
# Smaller coefficients, relative to the largest in units of the columns' spreads, are 0.
SMALL = 1e-4
# Rows in which relations between p columns are sought before all rows confirm them: 2p + MORE.
MORE = 50
# Most columns among which sums are sought; among more, it would take as long as a fit.
MOST = 500
# Combinations with arbitrary coefficients are constraints if they are few, at most this share of
# the columns. Where they are many, the table has low rank and no noise.
FEW = 0.25
# Fewest rows and columns to look at.
FEWEST_ROWS, FEWEST_COLUMNS = 8, 3


@dataclass(frozen=True, eq=False)
class Combinations:
    """Columns that follow from others: x = offset + Σ coefficient·x[source].

    Attributes
    ----------
    columns, offset
        These columns, in increasing order, and their offsets.
    target, source, coefficient
        For each term the place of its column in `columns`, the other column, and its factor.
    """

    columns: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    offset: Vector = field(default_factory=lambda: np.empty(0))
    target: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    source: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    coefficient: Vector = field(default_factory=lambda: np.empty(0))

    def __bool__(self) -> bool:
        return self.columns.size > 0

    def others(self, p: int) -> Index:
        """The columns out of p that do not follow from others."""
        return np.setdiff1d(np.arange(p), self.columns)

    def weights(self, p: int) -> Sparse:
        """Coefficients, (p, number of combinations)."""
        places = (self.source, self.target)
        return sp.csr_array((self.coefficient, places), shape=(p, self.columns.size))

    def completed(self, values: Array, *, offset: bool = False) -> Array:
        """Values of the other columns (m, q), with those of the combinations in their places."""
        if not self:
            return values
        q = values.shape[1]
        p = q + self.columns.size
        found = np.empty((values.shape[0], p))
        found[:, self.others(p)] = to_numpy(values)
        found[:, self.columns] = self.of(found) if offset else self.of(found) - self.offset
        return to_namespace(found, values)

    def of(self, X: FloatArray) -> FloatArray:
        """The combinations of rows of all columns."""
        W = self.weights(X.shape[1])
        used = np.unique(self.source)
        return np.asarray(X[:, used] @ W[used, :] + self.offset)

    def spread(self, std: FloatArray) -> FloatArray:
        """Standard deviations of the combinations of independent columns, (m, p) → (m, c)."""
        return np.asarray(np.sqrt(std**2 @ self.weights(std.shape[1]) ** 2))

    def solved(self, X: FloatArray) -> FloatArray:
        """Rows with the holes filled that combinations determine: one unknown in an equation."""
        found = X.copy()
        for j, column in enumerate(self.columns):
            terms = self.target == j
            members = np.append(self.source[terms], column)
            signed = np.append(self.coefficient[terms], -1.0)
            some = np.flatnonzero(np.isnan(found[:, members]).sum(axis=1) == 1)
            parts = found[np.ix_(some, members)] * signed
            hole = np.isnan(parts).argmax(axis=1)
            values = -(np.nansum(parts, axis=1) + self.offset[j]) / signed[hole]
            found[some, members[hole]] = values
        return found

    def given_known(
        self, X: FloatArray, filled: FloatArray, variance: Vector
    ) -> tuple[FloatArray, FloatArray]:
        """`filled` rows of X, so that combinations that are there hold, and what share of each
        cell's variance that leaves.

        If the holes x of a row have independent errors of variance V, and Ax is known to be t,
        their mean is x + G(t − Ax) with G = VAᵀ(AVAᵀ)⁻¹, and shares 1 − diag(GA) of V are left.
        """
        X, filled, left = self.solved(X), filled.copy(), np.ones_like(filled)
        holes, W = np.isnan(X), self.weights(X.shape[1])
        wanting = ~holes[:, self.columns] & (holes @ (W != 0).astype(float) > 0)
        for i in np.flatnonzero(wanting.any(axis=1)):
            free, known = np.flatnonzero(holes[i]), np.flatnonzero(wanting[i])
            A = W[free][:, known].T.toarray()
            gap = X[i, self.columns[known]] - self.of(filled[i : i + 1])[0, known]
            gain = variance[free, None] * A.T
            gain = gain @ np.linalg.pinv(A @ gain, hermitian=True)
            filled[i, free] += gain @ gap
            left[i, free] = np.clip(1 - (gain * A.T).sum(axis=1), 0.0, 1.0)
        filled[:, self.columns] = self.of(filled)
        return filled, left

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        sizes = {self.target.shape, self.source.shape, self.coefficient.shape}
        agree = len(sizes) == 1 and self.offset.shape == self.columns.shape
        apart = np.intersect1d(self.source, self.columns).size == 0
        known = np.setdiff1d(self.target, np.arange(self.columns.size)).size == 0
        check_sizes("Combinations", agree and apart and known)


NONE = Combinations()


@dataclass(frozen=True, eq=False)
class _Relation:
    """A column in terms of others."""

    column: int
    offset: float
    sources: Index
    coefficients: FloatArray

    @property
    def is_sum(self) -> bool:
        return bool((np.abs(self.coefficients) == 1).all())

    def holds_for(self, X: Array) -> bool:
        """Whether it holds in all rows where its columns are known, up to their rounding."""
        x = on_host(X[:, self.column])
        parts = on_host(taken(X, self.sources, axis=1)) * self.coefficients
        left = np.abs(x - self.offset - parts.sum(axis=1))
        if np.count_nonzero(~np.isnan(left)) < FEWEST_ROWS:
            return False
        spread = float(np.nanstd(x))
        sizes = float(np.nanmax(np.abs(x) + np.abs(parts).sum(axis=1)))
        rounding = min(ROUNDING * eps(X.dtype) * sizes, MOST_ROUNDING * spread)
        return bool(np.nanmax(left) <= max(EXACT * spread, rounding))


def combinations(X: Array) -> Combinations:
    """The columns of a table that follow from others, up to rounding.

    Multiples are found where holes are in the same rows, sums in the rows without holes; they hold
    wherever their columns are known. Unless there are more complete rows than columns, the only sum
    that cannot be chance is a total that all rows share. The order of the columns does not decide
    which of them are left out, unless the choice is arbitrary: sums rather than their parts,
    otherwise the column with the largest spread.
    """
    n, p = (int(size) for size in X.shape)
    if n < FEWEST_ROWS or p < FEWEST_COLUMNS:
        return NONE
    # Numbers near the limits of their type have no spread that could be computed.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        table = _standardised(X, 2 * p + MORE if p <= MOST else MORE)
        copies = list(_copies(X, table))
        rest = np.setdiff1d(table.live, [one.column for one in copies])
        whole = X
        if table.has_holes or has_nan(X):
            holes = to_numpy(array_namespace(X).isnan(X)).any(axis=1)
            whole = taken(X, np.flatnonzero(~holes), axis=0)
        sums = _sums(X, whole, rest, copies, table) if whole.shape[0] >= FEWEST_ROWS else []
    if rest.size - len(sums) < 2:
        # A single column is all that there is: a table of rank one, without noise.
        return NONE
    return _joined([*sums, *copies]) if sums or copies else NONE


@dataclass(frozen=True, eq=False)
class _Standardised:
    """Some rows, centred and divided by the size of each column, 0 in holes.

    `rounding` is the largest rounding error of these numbers.
    """

    rows: FloatArray
    Z: FloatArray
    mean: FloatArray
    size: FloatArray
    live: Index
    rounding: float
    has_holes: bool


def _standardised(X: Array, n_rows: int) -> _Standardised:
    rows = on_host(X[:: max(1, X.shape[0] // n_rows), :])[:n_rows]
    holes = np.isnan(rows)
    has_holes = bool(holes.any())
    known = np.maximum((~holes).sum(axis=0), 1) if has_holes else len(rows)
    mean = np.where(holes, 0.0, rows).sum(axis=0) / known
    Z = np.where(holes, 0.0, rows - mean)
    size = np.sqrt(np.einsum("ij,ij->j", Z, Z))
    largest = np.abs(np.where(holes, 0.0, rows)).max(axis=0) * np.sqrt(len(rows))
    error = ROUNDING * eps(X.dtype) * largest
    live = np.flatnonzero((error < MOST_ROUNDING * size) & np.isfinite(size))
    Z[:, live] /= size[live]
    rounding = float((error[live] / size[live]).max(initial=0.0))
    return _Standardised(rows, Z, mean, size, live, rounding, has_holes)


def _copies(X: Array, table: _Standardised) -> Iterator[_Relation]:
    """Columns that equal, or are multiples of, a column that is no larger and comes earlier."""
    Z, live = table.Z[:, table.live], table.live
    # Multiples have the same product with random numbers, up to sign.
    mark = np.random.default_rng(0).standard_normal(len(Z)) @ Z
    near = max(10 * EXACT, table.rounding)
    order = np.argsort(np.abs(mark))
    starts = np.flatnonzero(np.diff(np.abs(mark)[order], prepend=-np.inf) > near)
    for group in np.split(order, starts[1:]):
        if group.size == 1:
            continue
        waiting = live[np.sort(group)].tolist()
        while len(waiting) > 1:
            sizes = table.size[waiting]
            first = waiting[int(np.argmax(sizes <= sizes.min() * (1 + SMALL)))]
            found = {j: _multiple(X, table, j, first) for j in waiting if j != first}
            yield from (one for one in found.values() if one is not None)
            waiting = [j for j, one in found.items() if one is None]


def _multiple(X: Array, table: _Standardised, j: int, i: int) -> _Relation | None:
    cosine = table.Z[:, j] @ table.Z[:, i]
    if 1 - abs(cosine) > max(EXACT, table.rounding):
        return None
    factor = table.size[j] / table.size[i] * np.sign(cosine)
    return _confirmed(X, table, j, np.array([i]), np.array([factor]))


def _confirmed(
    X: Array, table: _Standardised, j: int, sources: Index, coefficients: FloatArray
) -> _Relation | None:
    """The relation if it holds in all rows, with round coefficients where these do."""
    near = max(SMALL, table.rounding**0.5)
    whole = np.rint(coefficients)
    for a in (np.where(np.abs(coefficients - whole) < near, whole, coefficients), coefficients):
        offset = float(table.mean[j] - table.mean[sources] @ a)
        if np.abs(offset) <= max(EXACT, table.rounding) * np.abs(table.rows[:, j]).max():
            offset = 0.0
        found = _Relation(j, offset, sources, a)
        if found.holds_for(X):
            return found
    return None


# --- sums --------------------------------------------------------------------------------------


def _sums(
    X: Array, whole: Array, rest: Index, copies: list[_Relation], known: _Standardised
) -> list[_Relation]:
    """Columns of `rest` that are combinations of others of them, from the rows without holes.

    `known` are some of these rows, unless it has holes.
    """
    table = _standardised(whole, len(known.rows)) if known.has_holes else known
    rest = np.intersect1d(rest, table.live)
    if rest.size < 2:
        return []
    if len(table.rows) <= rest.size + 1:
        # The rank says nothing here.
        total = _total(X, table, rest, copies)
        return [] if total is None else [total]
    rest = rest[np.lexsort((table.Z[0, rest], -table.size[rest]))]
    Z = table.Z[:, rest]
    nothing = max(EXACT, table.rounding)
    # A quick test: each column has something of its own given those before it.
    with suppress(LinAlgError):
        if np.diag(cholesky(Z.T @ Z, lower=True, check_finite=False)).min() > 10 * nothing:
            return []
    _, R, order = qr(Z, mode="economic", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > nothing * np.sqrt(rest.size)))
    if rank == rest.size:
        return []
    N = np.zeros((rest.size - rank, rest.size))
    N[:, order[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank:]).T
    N[:, order[rank:]] = np.eye(rest.size - rank)
    found, wrong = [], False
    for j, row in _reduced(N, table.size[rest], max(SMALL, table.rounding**0.5)):
        sources = np.flatnonzero(row)
        coefficients = -row[sources] * table.size[rest[j]] / table.size[rest[sources]]
        one = _confirmed(X, table, int(rest[j]), rest[sources], coefficients)
        wrong |= one is None
        if one is not None and (one.is_sum or len(N) <= max(1, FEW * rest.size)):
            found.append(one)
    if wrong and len(table.rows) < whole.shape[0]:
        # Some of the rows show relations that do not hold in all.
        wider = _standardised(whole, 8 * len(table.rows))
        return _sums(X, whole, rest, copies, wider)
    return found


def _total(
    X: Array, table: _Standardised, rest: Index, copies: list[_Relation]
) -> _Relation | None:
    """The column with the largest spread in terms of the others, if all have one total."""
    times = np.ones(X.shape[1])
    for one in copies:
        times[one.sources] += one.coefficients
    near = max(SMALL, table.rounding) * table.size[rest].max(initial=0.0)
    for weights in (times[rest], np.ones(rest.size)):
        if np.ptp(table.rows[:, rest] @ weights) <= near:
            j = int(np.argmax(table.size[rest] * np.abs(weights)))
            others = np.flatnonzero((weights != 0) & (rest != rest[j]))
            return _confirmed(X, table, int(rest[j]), rest[others], -weights[others] / weights[j])
    return None


def _reduced(N: FloatArray, size: FloatArray, small: float) -> Iterator[tuple[int, FloatArray]]:
    """Relations N between standardised columns, each solved for a column that no other contains.

    Yield these columns, and the coefficients of the others with the sign that they have beside it.
    """
    N, waiting, pivots = N.copy(), list(range(len(N))), []
    while waiting:
        N[np.abs(N) < small * np.abs(N).max(axis=1, keepdims=True)] = 0.0
        i = min(waiting, key=lambda k: np.count_nonzero(N[k]))
        waiting.remove(i)
        j = _set_aside(N[i], size)
        N[i] /= N[i, j]
        others = np.arange(len(N)) != i
        N[others] -= N[others, j][:, None] * N[i]
        pivots.append((i, j))
    N[np.abs(N) < small * np.abs(N).max(axis=1, keepdims=True)] = 0.0
    for i, j in pivots:
        row = N[i].copy()
        row[j] = 0.0
        yield j, row


def _set_aside(row: FloatArray, size: FloatArray) -> int:
    """The column of a relation that follows from the others: the sum, or that of largest spread."""
    members = np.flatnonzero(row)
    a = row[members] / size[members]
    equal = np.ptp(np.abs(a)) < 1e-3 * np.abs(a).max()
    for sign in (1, -1):
        alone = np.flatnonzero(np.sign(a) == sign)
        if equal and alone.size == 1 and members.size > 2:
            return int(members[alone[0]])
    spread = size[members] if equal else np.abs(row[members])
    return int(members[np.argmax(spread)])


def _joined(relations: list[_Relation]) -> Combinations:
    """All relations, with their sources expressed in columns that stay."""
    known = {one.column: one for one in relations}
    relations = sorted((_resolved(one, known) for one in relations), key=lambda one: one.column)
    sizes = [one.sources.size for one in relations]
    return Combinations(
        columns=np.array([one.column for one in relations], dtype=np.int64),
        offset=np.array([one.offset for one in relations]),
        target=np.repeat(np.arange(len(relations), dtype=np.int64), sizes),
        source=np.concatenate([one.sources for one in relations]).astype(np.int64),
        coefficient=np.concatenate([one.coefficients for one in relations]),
    )


def _resolved(one: _Relation, known: dict[int, _Relation]) -> _Relation:
    """A multiple of a sum in terms of the parts of the sum."""
    inner = known.get(int(one.sources[0])) if one.sources.size == 1 else None
    if inner is None:
        return one
    factor = float(one.coefficients[0])
    offset = one.offset + factor * inner.offset
    return _Relation(one.column, offset, inner.sources, factor * inner.coefficients)
