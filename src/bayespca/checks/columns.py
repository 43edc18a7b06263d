"""Redundant columns: copies, multiples and sums of other columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Advice

# Residual of a column given the others, relative to its size, below which it follows from them.
NOTHING = 1e-9
# Smaller coefficients, in units of the columns' sizes, are rounding errors.
SMALL = 1e-6
# Largest numbers of columns to check, of findings to name, and of terms in a sum.
MOST, NAMED, TERMS = 500, 3, 8
# Fewest rows to check.
FEWEST = 8


def dependent_columns(rows: FloatArray, names: Sequence[str]) -> Advice | None:
    """Advice that names columns determined by others; None if there are none.

    `rows` must be complete. Sums are found only if there are more rows than columns.
    """
    n, p = rows.shape
    if n < FEWEST or p < 2 or p > MOST:
        return None
    Z = rows - rows.mean(axis=0)
    size = np.sqrt(np.einsum("ij,ij->j", Z, Z))
    live = np.flatnonzero(size > NOTHING * np.abs(rows).max(axis=0) * np.sqrt(n))
    Z = Z[:, live] / size[live]
    known = [names[j] for j in live.tolist()]
    found, copies = _copies(Z, rows[:, live], known)
    rest = np.setdiff1d(np.arange(live.size), copies)
    if n > rest.size + 1:
        units = size[live][rest]
        found += _sums(Z[:, rest], units, [known[j] for j in rest.tolist()])
    if not found:
        return None
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    text = "; ".join(found[:NAMED]) + more
    return Advice(
        "dependent-columns",
        f"Some columns are redundant: {text}. They carry no noise of their own, so the noise is "
        "underestimated and the number of components overestimated. Leave them out.",
    )


def _copies(Z: FloatArray, rows: FloatArray, names: list[str]) -> tuple[list[str], list[int]]:
    """Columns that equal an earlier column or are a multiple of one: as text, and their indices."""
    found, copies = [], []
    for j, i in zip(*np.nonzero(np.tril(np.abs(Z.T @ Z) > 1 - NOTHING, -1)), strict=True):
        if i in copies or j in copies:
            continue
        if np.linalg.norm(Z[:, j] - np.sign(Z[:, j] @ Z[:, i]) * Z[:, i]) > SMALL:
            continue
        verb = "equals" if np.array_equal(rows[:, i], rows[:, j]) else "is a multiple of"
        found.append(f"{names[j]!r} {verb} {names[i]!r}")
        copies.append(int(j))
    return found, copies


def _sums(Z: FloatArray, units: FloatArray, names: list[str]) -> list[str]:
    """Descriptions of columns that are combinations of a few others."""
    if Z.shape[1] < 3:
        return []
    _, R, order = qr(Z, mode="economic", pivoting=True)
    rank = int(np.count_nonzero(np.abs(np.diag(R)) > NOTHING))
    found = []
    for last in order[rank:]:
        parts, *_ = np.linalg.lstsq(Z[:, order[:rank]], Z[:, last], rcond=None)
        use = np.abs(parts) > SMALL
        if not 2 <= np.count_nonzero(use) <= TERMS:
            continue
        members = [*order[:rank][use].tolist(), int(last)]
        # Σ coefficient·column is constant, in units of the data.
        found.append(_words(np.append(parts[use], -1.0) / units[members], members, names))
    return found


def _words(coefficients: FloatArray, members: Sequence[int], names: list[str]) -> str:
    """The equation between columns in words: one is the sum of the others, or follows from them."""
    signs = np.sign(coefficients)
    equal = np.ptp(np.abs(coefficients)) < SMALL * np.abs(coefficients).max()
    for sign in (1, -1):
        alone = np.flatnonzero(signs == sign)
        if equal and alone.size == 1 and len(members) > 2:
            parts = [names[m] for k, m in enumerate(members) if k != alone[0]]
            return f"{names[members[alone[0]]]!r} is the sum of {_listed(parts)}"
    *others, last = [names[m] for m in members]
    return f"{last!r} follows from {_listed(others)}"


def _listed(names: Sequence[str]) -> str:
    *first, last = [repr(name) for name in names]
    return f"{', '.join(first)} and {last}" if first else last
