"""Likelihoods of a table's columns, as given or as dtypes and values suggest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.discrete.columns import (
    CATEGORICAL,
    COUNTS,
    LARGEST_COUNT,
    NAMES,
    WITH_LEVELS,
    Histogram,
    TableColumn,
    likelihood_of_counts,
    likelihood_of_whole,
)

from ._tables import Level, RawColumn, RawTable

# A column with more levels than this holds names, not categories.
MOST_LEVELS = 50

# Likelihoods for columns of a sparse matrix, whose zeros are cells like any other.
OF_SPARSE = (*COUNTS, "bernoulli")


def described(raw: RawTable, likelihood: Any) -> tuple[TableColumn, ...]:
    """Description of each column; `likelihood` is "auto", one name for all, or names by column."""
    asked = _asked(raw, likelihood)
    if raw.is_sparse:
        # All columns are zeros and ones, or all are counts, unless given otherwise.
        matrix = raw.table.tocsc()
        auto = "bernoulli" if bool((matrix.data == 1).all()) else None
        kinds = [asked.get(name, auto) for name in raw.names]
        _check_sparse(raw, [kind or COUNTS[0] for kind in kinds])
        found = []
        for j, (name, kind) in enumerate(zip(raw.names, kinds, strict=True)):
            stored = matrix.data[matrix.indptr[j] : matrix.indptr[j + 1]]
            if kind == "bernoulli":
                found.append(TableColumn(name, kind, (0.0, 1.0)))
                continue
            values, counts = np.unique(stored, return_counts=True)
            zeros = matrix.shape[0] - stored.size
            every = Histogram(np.append(values, 0.0), np.append(counts, float(zeros)))
            found.append(TableColumn(name, kind or likelihood_of_counts(every), center=every.mean))
        return tuple(found)
    return tuple(described_column(column, asked.get(column.name)) for column in raw.columns)


def codes(raw: RawTable, columns: Sequence[TableColumn]) -> Any:
    """Cells as numbers, counts or codes of levels, NaN in holes: (n, p); sparse if the table is."""
    if raw.is_sparse:
        _check_sparse(raw, [column.likelihood for column in columns])
        return raw.table
    pairs = zip(raw.columns, columns, strict=True)
    return np.stack([_codes(column, known) for column, known in pairs], axis=1)


def _asked(raw: RawTable, likelihood: Any) -> dict[str, str]:
    """The given likelihoods, by column."""
    names = raw.names
    if isinstance(likelihood, str):
        given: Mapping[Any, Any] = {} if likelihood == "auto" else dict.fromkeys(names, likelihood)
    else:
        given = likelihood
    found = {}
    for key, name in given.items():
        column = f"x{key}" if isinstance(key, int | np.integer) else str(key)
        if column not in names:
            raise ValueError(f"likelihood names the column {key!r}, which X does not have.")
        if name not in (*NAMES, "auto"):
            listed = ", ".join(map(repr, NAMES))
            raise ValueError(
                f"likelihood of {key!r} must be 'auto' or one of {listed}, not {name!r}."
            )
        if name != "auto":
            found[column] = name
    return found


def _check_sparse(raw: RawTable, kinds: Sequence[str]) -> None:
    """Raise unless the cells of a sparse matrix suit the likelihoods of its columns."""
    for name, kind in zip(raw.names, kinds, strict=True):
        if kind not in OF_SPARSE:
            raise ValueError(
                f"X is sparse, and its column {name!r} is {kind!r}: sparse matrices are for "
                f"{', '.join(map(repr, OF_SPARSE))}; give a dense table."
            )
    data, bits = raw.table.data, np.array([kind == "bernoulli" for kind in kinds])
    whole = (data >= 0) & (data <= LARGEST_COUNT) & (data == np.floor(data))
    wrong = np.flatnonzero(~whole | (bits[raw.table.indices] & (data > 1)))
    if wrong.size:
        j = int(raw.table.indices[wrong[0]])
        row = int(np.searchsorted(raw.table.indptr, wrong[0], side="right")) - 1
        what = "0 or 1" if bits[j] else "a count"
        raise ValueError(
            f"column {raw.names[j]!r} of the sparse X holds {data[wrong[0]]:g} in row {row} "
            f"(counting from 0), which is not {what}: correct it, or give a dense table."
        )


def described_column(raw: RawColumn, asked: str | None) -> TableColumn:
    """Description of one column; if `asked` is None, the table suggests its likelihood."""
    if raw.holes.all():
        raise ValueError(f"column {raw.name!r} has no values: leave it out.")
    if raw.numbers is None:
        return _of_labels(raw, asked)
    values = raw.numbers[~raw.holes]
    name = asked or _likelihood_of(raw, values)
    if name in WITH_LEVELS:
        distinct, counts = np.unique(values, return_counts=True)
        levels: Sequence[Level] = tuple(distinct.tolist())
        if raw.is_flags:
            levels = (False, True)
        elif name == CATEGORICAL:
            levels = by_frequency(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
        elif name == "bernoulli" and set(levels) <= {0.0, 1.0}:
            levels = (0.0, 1.0)
        return _with_levels(raw.name, name, levels)
    if name in COUNTS:
        _check_counts(raw.name, raw.numbers)
        return TableColumn(raw.name, name, center=float(values.mean()))
    spread = float(values.std())
    # A constant column is scaled by its size, or by 1 if it is zero.
    tiny = spread <= 1e-12 * float(np.abs(values).max())
    scale = (float(np.abs(values).max()) or 1.0) if tiny else spread
    return TableColumn(raw.name, "normal", center=float(values.mean()), scale=scale)


def _likelihood_of(raw: RawColumn, values: FloatArray) -> str:
    """The likelihood that flags or numbers suggest."""
    distinct = np.unique(values)
    if raw.is_flags or np.array_equal(distinct, [0.0, 1.0]):
        return "bernoulli"
    is_whole = bool((values >= 0).all() and (values == np.floor(values)).all())
    if not is_whole or distinct.size == 1:
        return "normal"
    return likelihood_of_whole(values)


def _of_labels(raw: RawColumn, asked: str | None) -> TableColumn:
    there = [label for label in raw.labels or () if label is not None]
    counts: dict[Level, int] = {}
    for label in there:
        counts[label] = counts.get(label, 0) + 1
    if asked is not None and asked not in WITH_LEVELS:
        raise ValueError(
            f"column {raw.name!r} holds labels such as {there[0]!r}, so it cannot be {asked!r}: "
            f"ask for one of {', '.join(map(repr, WITH_LEVELS))}, or turn it into numbers."
        )
    if asked == "ordinal" and not raw.order and len(counts) > 2:
        raise ValueError(
            f"the levels of column {raw.name!r} have no order: make it an ordered category, or ask "
            "for 'categorical'."
        )
    name = asked or ("ordinal" if raw.order and raw.is_ordered else CATEGORICAL)
    if len(counts) == 2 and asked is None:
        name = "bernoulli"
    if name == CATEGORICAL:
        return _with_levels(raw.name, name, by_frequency(counts))
    ordered = [level for level in raw.order if level in counts] or sorted(counts, key=str)
    return _with_levels(raw.name, name, ordered)


def by_frequency(counts: Mapping[Level, int]) -> list[Level]:
    """Levels, most frequent first: the order in which sticks are broken."""
    return sorted(counts, key=lambda level: (-counts[level], str(level)))


def _with_levels(name: str, likelihood: str, levels: Sequence[Level]) -> TableColumn:
    if len(levels) == 1:
        raise ValueError(
            f"column {name!r} has a single level, {levels[0]!r}, which says nothing about the "
            "rows: leave it out."
        )
    if len(levels) > MOST_LEVELS:
        raise ValueError(
            f"column {name!r} has {len(levels)} levels, more than {MOST_LEVELS}: leave it out if "
            "it names rows, merge rare levels, or turn it into numbers."
        )
    if likelihood == "bernoulli" and len(levels) != 2:
        raise ValueError(
            f"column {name!r} has {len(levels)} levels, and 'bernoulli' is for two: ask for "
            "'categorical' or 'ordinal'."
        )
    return TableColumn(name, likelihood, tuple(levels))


# --- codes -------------------------------------------------------------------------------------


def _codes(raw: RawColumn, column: TableColumn) -> FloatArray:
    if column.levels:
        place = {level: float(k) for k, level in enumerate(column.levels)}
        values = raw.labels if raw.numbers is None else raw.numbers.tolist()
        codes = [
            np.nan if hole else place.get(value, -1.0)
            for value, hole in zip(values or (), raw.holes, strict=True)
        ]
        found = np.array(codes)
        unknown = np.flatnonzero(found == -1)
        if unknown.size:
            raise ValueError(
                f"column {column.name!r} holds {(values or [])[unknown[0]]!r} in row {unknown[0]} "
                f"(counting from 0), a level that the fit has not seen among its {len(place)}: "
                "make it a hole to have it filled, or fit again with such rows."
            )
        return found
    if raw.numbers is None:
        label = next(label for label in raw.labels or () if label is not None)
        raise ValueError(
            f"column {column.name!r} held numbers in the fit, and holds labels such as {label!r} "
            "now."
        )
    if column.likelihood in COUNTS:
        _check_counts(column.name, raw.numbers)
    return raw.numbers


def _check_counts(name: str, values: FloatArray) -> None:
    wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) & ~np.isnan(values))
    if wrong.size:
        value = float(values[wrong[0]])
        what = "negative" if value < 0 else "fractional"
        raise ValueError(
            f"column {name!r} holds {value:g} in row {wrong[0]} (counting from 0), and counts are "
            f"never {what}: ask for the likelihood 'normal' for it, or correct it."
        )
    if (values > LARGEST_COUNT).any():
        raise ValueError(
            f"column {name!r} holds {np.nanmax(values):g}, which is too much for a count: ask for "
            "the likelihood 'normal' for it, or take logarithms first."
        )
