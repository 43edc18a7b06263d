"""Rows that are not independent, as in a series, and rows that dominate a component."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Advice

# Least correlation of residuals in adjacent rows that counts, and least number of standard errors.
# Tables whose rows are sorted or were measured one after the other reach up to 0.25, which
# creates no spurious components.
LEAST, STANDS_OUT = 0.3, 6.0
# Fewest rows that can show an order, and fewest among which one row can stand out.
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
    return Advice(
        "ordered-rows",
        f"Rows next to each other are not independent (correlation {r:.2f} of the residuals): they "
        "look like a time series. The number of components and its probability assume independent "
        "rows; take differences, or use rows further apart.",
    )


def dominating_row(scores: FloatArray) -> Advice | None:
    """Advice if one row makes up most of a component; None otherwise."""
    n = len(scores)
    squares = scores**2
    total = squares.sum(axis=0)
    if n < FEW or not total.size or not total.all():
        return None
    shares = squares.max(axis=0) / total
    h = int(np.argmax(shares))
    if shares[h] < MOST_OF_IT:
        return None
    row = int(squares[:, h].argmax())
    return Advice(
        "dominating-row",
        f"Row {row} (counting from 0) makes up {100 * shares[h]:.0f} % of component {h + 1}: "
        "check it, and leave it out if it is an error.",
    )
