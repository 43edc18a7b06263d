"""Rows in an order, as in a series, and rows that dominate a component."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from scipy.stats import rankdata

from bayespca.arrays.types import FloatArray, Index
from bayespca.spectrum.records import Advice

# Least correlation of residuals in adjacent rows that counts, and least number of standard errors.
# Tables whose rows are sorted or were measured one after the other reach up to 0.25, which
# creates no spurious components.
LEAST, STANDS_OUT = 0.3, 6.0
# The same for ranks of scores, of as many as hundreds of components. In a series, their standard
# deviations are √((1 + r²)/(1 − r²)) times too small: 1.3 times.
MUCH, BY_NO_CHANCE = 0.5, 5.0
# Share of all directions above which components leave no residuals that could show an order.
MANY = 0.25
# The codes of advice on rows in an order.
ORDERED, SORTED = "ordered-rows", "sorted-rows"
# Fewest rows, or components, that can show an order, and fewest rows of which one can stand out.
FEWEST, FEW = 8, 20
# Share of a component's squares at which a single row dominates it.
MOST_OF_IT = 0.5


def ordered_rows(residuals: FloatArray) -> Advice | None:
    """Advice if residuals correlate with those one or two rows before; None otherwise.

    Lag 2 is tested as well because the components of a series absorb its correlation at lag 1.
    """
    n, p = residuals.shape
    square = float(np.einsum("ij,ij->", residuals, residuals))
    if n < FEWEST or not square:
        return None
    lags = [residuals[lag:] * residuals[:-lag] for lag in (1, 2)]
    r = max((float(products.sum()) / square for products in lags), key=abs)
    if abs(r) < LEAST or abs(r) * np.sqrt(n * p) < STANDS_OUT:
        return None
    return Advice(ORDERED, _series(f"correlation {r:.2f} of the residuals"))


def _series(shown: str) -> str:
    return (
        f"Rows next to each other are not independent ({shown}): they look like a time series. "
        "The number of components and its probability assume independent rows; take differences, "
        "or use rows further apart."
    )


def sorted_rows(scores: FloatArray, p: int) -> Advice | None:
    """Advice if scores correlate with those one or two rows before; None otherwise.

    Ranks keep two outlying rows that happen to be neighbours from looking like an order. Of sorted
    rows, the strongest components follow the order. If most do, and there are too many of them for
    p columns to leave residuals that could show anything, noise is among them.
    """
    n, k = scores.shape
    if n < FEWEST or not k:
        return None
    ranks = rankdata(scores, axis=0)
    ranks -= ranks.mean(axis=0)
    squares = np.maximum((ranks**2).sum(axis=0), 1.0)
    lags = [(ranks[lag:] * ranks[:-lag]).sum(axis=0) / squares for lag in (1, 2)]
    r = np.abs(lags).max(axis=0)
    h, least = int(np.argmax(r)), max(MUCH, BY_NO_CHANCE / np.sqrt(n))
    if r[h] < least:
        return None
    if k > max(FEWEST, MANY * min(n - 1, p)) and np.median(r) >= least:
        return Advice(ORDERED, _series(f"rank correlation {np.median(r):.2f} of most scores"))
    return Advice(
        SORTED,
        f"Component {h + 1} follows the order of the rows (rank correlation {r[h]:.2f} of scores "
        "in rows next to each other): they look sorted, or ordered in time. Sorted rows do no "
        "harm. In a series, components may be slow drifts, and their standard deviations are too "
        "small; take differences, or use rows further apart.",
    )


def dominating_row(
    scores: FloatArray, named: Collection[int] = (), numbers: Index | None = None
) -> Advice | None:
    """Advice if one row, not among the `named`, makes up most of a component; None otherwise.

    Rows may have numbers of their own.
    """
    n = len(scores)
    squares = scores**2
    total = squares.sum(axis=0)
    if n < FEW or not total.size or not total.all():
        return None
    rows = squares.argmax(axis=0)
    shares = np.where(np.isin(rows, list(named)), 0.0, squares.max(axis=0) / total)
    h = int(np.argmax(shares))
    if shares[h] < MOST_OF_IT:
        return None
    row = int(rows[h] if numbers is None else numbers[rows[h]])
    return Advice(
        "dominating-row",
        f"Row {row} (counting from 0) makes up {100 * shares[h]:.0f} % of component {h + 1}: "
        "check it, and leave it out if it is an error.",
    )
