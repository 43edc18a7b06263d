"""Rows that repeat other rows: copies, and repeated measurements of the same sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.lowrank.recognising import digests, digests_of_cells
from bayespca.sources.constant import extremes
from bayespca.spectrum.records import Advice, Spectrum
from bayespca.spectrum.solving import solve

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
# such a partner, and most such partners of a row that may be there by chance.
ALIKE, SHARE, BY_CHANCE = 0.75, 0.5, 0.01
# Their greatest squared difference, in units of what residuals with the least correlation have, and
# the least share of pairs within groups that are alike.
FAR, MUTUAL = 2.0, 0.8
# Residuals in fewer directions are alike because of that.
FEWEST_DIRECTIONS = 3
# The median of χ² with one degree of freedom.
MEDIAN = 0.455
REPLICATES = "replicates"
# Most rows of a table in which repeated measurements are sought, most products of their cells, and
# the rows that are compared first.
MOST_ROWS, MOST_PRODUCTS, FEW_ROWS = 1000, 200_000_000, 50
# Share of holes beyond which rows are not compared: with few cells each, they are alike by chance.
FEW_HOLES = 0.1


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
    listed = _listed([f"row {i} of row {first[i]}" for i in copies[: NAMED + 1].tolist()])
    return Advice(
        "repeated-rows",
        f"{copies.size} of {first.size} rows are exact copies of others ({listed}, counting from "
        f"0). They are no new samples: the fit counts each row once, {first.size - copies.size} in "
        "all.",
    )


def of_averages(first: Index) -> Advice:
    """Advice on samples that were fitted by the means of their rows."""
    sizes = np.bincount(first, minlength=first.size)
    listed = _listed(list(map(str, np.flatnonzero(first == sizes.argmax()).tolist())))
    return Advice(
        REPLICATES,
        f"The rows look like repeated measurements of {np.count_nonzero(sizes)} samples: some "
        f"differ by much less than others ({listed}, counting from 0, are of one sample). The "
        "fit counts each sample once, by the mean of its rows.",
    )


def _listed(rows: list[str]) -> str:
    return ", ".join(rows[:NAMED]) + (", …" if len(rows) > NAMED else "")


def replicates(X: Array) -> Index | None:
    """For each row the first one that measures the same sample; None if hardly any row has another.

    Rows of one sample differ by much less than the noise, and all of them are alike; in a series
    only neighbours are. The noise is what some components leave of columns with variance 1. Several
    numbers are tried, because EVB takes what repeated rows have in common for components.
    """
    n, p = (int(size) for size in X.shape)
    if not 4 <= n <= MOST_ROWS or n * n * p > MOST_PRODUCTS:
        return None
    Z = on_host(X).astype(np.float64)
    if np.isnan(Z).mean() > FEW_HOLES:
        return None
    Z = Z[:, np.nanmax(Z, axis=0, initial=-np.inf) > np.nanmin(Z, axis=0, initial=np.inf)]
    if not Z.size:
        return None
    Z = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / np.nanstd(Z, axis=0))
    tall = n > Z.shape[1]
    squares, directions = np.linalg.eigh(Z.T @ Z if tall else Z @ Z.T)
    directions, full = directions[:, ::-1], min(n - 1, Z.shape[1])
    gamma = np.sqrt(np.maximum(squares[::-1][:full], 0.0))
    most = solve(Spectrum(gamma, (Z.shape[1], n - 1)), "evb", other_ranks=False).rank
    best: tuple[float, Index | None] = MUTUAL, None
    for k in [0, *(2**i for i in range(int(most).bit_length()))]:
        W = directions[:, :k]
        left = Z - (Z @ W) @ W.T if tall else Z - W @ (W.T @ Z)
        best = max(best, of_one_sample(Z, left, full - k), key=lambda found: found[0])
    return best[1]


def of_one_sample(rows: FloatArray, residuals: FloatArray, free: int) -> tuple[float, Index | None]:
    """The same from rows and residuals in equal units, after the share of pairs in samples that are
    alike.

    Squared cosines between independent residuals of m free columns have a median of about .455/m,
    and exceed c² with a probability of about (1 − c²)^((m − 1)/2). `free`, the columns less the
    components, is the most that m can be; if columns have noise in common, m is smaller.
    """
    squares, n = np.einsum("ij,ij->i", residuals, residuals), len(residuals)
    if free < FEWEST_DIRECTIONS or n < 4 or not squares.all():
        return 0.0, None
    R = residuals / np.sqrt(squares)[:, None]
    # A few rows tell whether it is worth while to compare all.
    few = np.random.default_rng(0).permutation(n)[:FEW_ROWS]
    cosines = R[few] @ R.T
    cosines[np.arange(few.size), few] = 0.0
    m = MEDIAN / max(float(np.median(cosines**2)), MEDIAN / free)
    if m < FEWEST_DIRECTIONS:
        return 0.0, None
    least = max(ALIKE, np.sqrt(1 - (BY_CHANCE / n) ** (2 / (m - 1))))
    if (cosines.max(axis=1) > least).mean() < SHARE / 2:
        return 0.0, None
    cosines = R @ R.T
    np.fill_diagonal(cosines, 0.0)
    one, other = np.nonzero(cosines > least)
    # Their scores differ no more than their residuals do: a column holds `between` on average.
    between = ((rows[one] - rows[other]) ** 2).mean(axis=1) * free
    near = between <= FAR * (1 - ALIKE) * (squares[one] + squares[other])
    one, other = one[near], other[near]
    # Rows that are equal by chance are those of coarse values (`copied_rows` has the others).
    if np.unique(one).size < max(4, SHARE * n) or not between.all():
        return 0.0, None
    links = coo_array((np.ones(one.size), (one, other)), shape=(n, n))
    _, group = connected_components(links, directed=False)
    sizes = np.bincount(group)
    share = one.size / float(sizes @ (sizes - 1))
    return share, np.unique(group, return_index=True)[1][group]
