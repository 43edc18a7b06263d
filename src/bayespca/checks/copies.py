"""Rows that repeat other rows: copies, and repeated measurements of the same sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.lowrank.recognising import digests, digests_of_cells
from bayespca.sources.constant import extremes
from bayespca.spectrum.records import Advice

# Pairs of rows that agree in every column are copies if there are this many times as many as pairs
# that agree in all columns but one, and as pairs that would agree by chance.
CLEARLY = 3.0
# Most rows to name.
NAMED = 5
# Most cells of a table in which copies are sought: beyond that, its rows would have to be fetched.
MOST_CELLS = 50_000_000
# Rows in which pairs are counted if they have as many equal pairs as that.
ENOUGH_ROWS, ENOUGH_PAIRS = 5000, 100
# The first columns, which are enough to see that most tables have no equal rows.
FIRST = 8
# Least correlation of the residuals of repeated measurements, least share of the rows that have
# such a partner, most rows to compare, and most pairs that may look so by chance.
ALIKE, SHARE, MOST_ROWS, BY_CHANCE = 0.9, 0.1, 1000, 1e-3


def copied_rows(X: Array) -> Index | None:
    """For each row the number of the first row that it copies, or its own; None without copies.

    Coarse numbers repeat rows by chance, and these are samples like all others. There, more pairs
    of rows differ in a single column than in none, or values are so frequent that whole rows of
    independent columns would agree. Where hardly any pair differs in a single column, rows that
    agree in all of them are copies. Rows without any value, or with a single one throughout, are
    not.
    """
    n, p = (int(size) for size in X.shape)
    if n < 2 or p < 2 or n * p > MOST_CELLS or not _repeated(digests(X[:, : min(FIRST, p)])).any():
        return None
    marks = digests(X)
    if not (repeated := _repeated(marks)).any():
        return None
    some = np.flatnonzero(repeated)
    low, high = extremes(on_host(taken(X, some)).T)
    marks[some[low >= high]] = some[low >= high]
    # Pairs of some of the rows show which are more frequent.
    rows = np.random.default_rng(0).permutation(n)[:ENOUGH_ROWS]
    if _pairs(marks[rows]) < ENOUGH_PAIRS:
        rows = np.arange(n)
    few, all_pairs = marks[rows], 0.5 * rows.size * (rows.size - 1)
    equal, near, chance = _pairs(few), 0.0, all_pairs
    for j in range(p):
        column = on_host(X[:, j : j + 1])[rows]
        cells = digests_of_cells(column, j)[:, 0].view(np.int64)
        near += _pairs(few - cells) - equal
        if equal <= CLEARLY * chance:
            chance *= _pairs(cells) / all_pairs
        if equal <= CLEARLY * near:
            return None
    if equal <= CLEARLY * chance:
        return None
    _, first, inverse = np.unique(marks, return_index=True, return_inverse=True)
    return first[inverse]


def _repeated(marks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether another row has the same mark."""
    _, inverse, counts = np.unique(marks, return_inverse=True, return_counts=True)
    return counts[inverse] > 1


def _pairs(marks: NDArray[np.int64]) -> float:
    """Number of pairs of equal marks."""
    ordered = np.sort(marks)
    starts = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))
    counts = np.diff(np.append(starts, marks.size)).astype(np.float64)
    return float(counts @ (counts - 1) / 2)


def of_copies(first: Index) -> Advice:
    """Advice that names rows that copy others; `first` is that of `copied_rows`."""
    copies = np.flatnonzero(first != np.arange(first.size))
    some = [f"row {i} of row {first[i]}" for i in copies[:NAMED].tolist()]
    listed = ", ".join(some) + (", …" if copies.size > NAMED else "")
    return Advice(
        "repeated-rows",
        f"{copies.size} of {first.size} rows are exact copies of others ({listed}, counting from "
        f"0). They are no new samples: the fit counts each row once, {first.size - copies.size} in "
        "all.",
    )


def of_replicates(rows: Index, n: int) -> Advice:
    """Advice that names the rows of `replicates`, which are among n."""
    listed = ", ".join(map(str, rows[:NAMED].tolist())) + (", …" if rows.size > NAMED else "")
    return Advice(
        "replicates",
        f"{rows.size} of {n} rows examined have the same residuals as another row ({listed}, "
        "counting from 0): they look like repeated measurements of the same samples, which are not "
        "independent, and give too many components. Average the measurements of each sample.",
    )


def replicates(residuals: FloatArray, free: int) -> Index:
    """Rows whose residuals agree with those of another row, as those of repeated measurements of
    one sample do, whose differences are much smaller than the noise; none if these rows are few.

    Cosines between independent residuals of m free columns have the mean square 1/m, and exceed c
    with a probability of about (1 − c²)^((m − 1)/2). `free`, the columns less the components, is
    the most that m can be; if columns have noise in common, m is smaller.
    """
    R = residuals[:MOST_ROWS]
    norm, n = np.sqrt(np.einsum("ij,ij->i", R, R)), len(R)
    if free < 3 or n < 4 or not norm.all():
        return np.empty(0, np.intp)
    R = R / norm[:, None]
    cosines = R @ R.T
    np.fill_diagonal(cosines, 0.0)
    m = max(min(free, n * (n - 1) / float(np.einsum("ij,ij->", cosines, cosines))), 1.5)
    least = np.sqrt(1 - (BY_CHANCE / n**2) ** (2 / (m - 1)))
    rows = np.flatnonzero(cosines.max(axis=1) > max(ALIKE, least))
    return rows if rows.size >= max(4, SHARE * n) else rows[:0]
