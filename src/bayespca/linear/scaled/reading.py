"""Tables of complete data for updates of their noise, from wherever the data are."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import (
    array_namespace,
    is_numpy_array,
    numpy_dtype,
    on_host,
    to_namespace,
)
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines import gram, map_reduce, streaming
from bayespca.engines.moments import RunningMoments, scatter_of
from bayespca.engines.records import Decomposition
from bayespca.sources.checks import UnusableData
from bayespca.sources.columns import column_scales, rescaled_columns
from bayespca.sources.constant import constant_columns, varies_beyond_rounding
from bayespca.sources.data import Where, where_of
from bayespca.sources.records import Partitions
from bayespca.sources.rounding import ROWS, rounding_variances
from bayespca.sources.tasks import every_nth

from .cells import GRAM, CellTable, centred_sums, is_float64, mean_of
from .data import GramTable, NoisyTable
from .partitioned import DistantTable, kept_blocks

# Sums of squares outside these limits may have lost digits to overflow or underflow.
SAFE = (1e-200, 1e200)
LIMITS = {np.dtype(np.float64): (1e-90, 1e90), np.dtype(np.float32): (1e-14, 1e14)}
# Most cells that are converted to double precision.
FEW_CELLS = 2_000_000
# Engines that add up data outside memory.
ENGINES = {Where.PARTITIONS: "dask", Where.BLOCKS: "streaming"}


def noisy_table(
    X: Any,
    *,
    center: bool,
    rows: bool,
    scale: bool = False,
    engine: str = "auto",
    found: Decomposition | None = None,
    known: FloatArray | None = None,
    errors: FloatArray | None = None,
    rounding: FloatArray | None = None,
) -> NoisyTable:
    """A table of data in memory, in blocks or on Dask; with `rows`, the noise of rows may differ.

    Data that were decomposed (`found`), and scaled in the same way, are not read again if their
    Gram matrix is known. `known` are relative noise variances of the rows, `errors` relative
    standard deviations of the columns, which become the units of the noise. `rounding` are
    variances due to rounding, estimated from rows at hand; None to estimate them here.
    """
    where = where_of(X)
    width = X.shape[1] if where.in_memory else X.n_features
    if where.in_memory:
        rounding = rounding_variances(X)
    given, units = X, np.ones(width)
    if scale:
        scales = column_scales(X, center=center)
        units, X = on_host(scales), rescaled_columns(X, scales)
    if errors is not None:
        units, X, found = units * errors, rescaled_columns(X, to_namespace(errors, X)), None
    like = X[:0, :] if where is Where.DENSE else np.empty(0, X.dtype)
    nothing = np.zeros(width)
    read = _Read(nothing, 0, center, like, units, known, nothing if rounding is None else rounding)
    product = gram_of(found)
    rows = rows or known is not None
    if not rows and found is not None and product is not None and len(units) <= GRAM:
        read = read._replace(mean=on_host(found.mean), n_samples=found.n_samples)
        return _gram_table(product, read, found.engine)
    if not where.in_memory:
        looks = where is Where.PARTITIONS and rounding is None
        return _from_afar(X, read, rows=rows, rounded=given if looks else None)
    return _in_memory(X.toarray() if where is Where.SPARSE else X, read, rows=rows, engine=engine)


def _from_afar(X: Any, read: _Read, *, rows: bool, rounded: Partitions | None) -> NoisyTable:
    """A table of data that are summed elsewhere, or brought here if they have few rows.

    `rounded` are the data from which to estimate rounding, if it is not known.
    """
    if where_of(X) is Where.PARTITIONS:
        state = map_reduce.moments(X)
    elif rows:
        raise UnusableData(
            "noise variances of rows need data in memory or on Dask: use noise='per-feature' or "
            "'isotropic' for data that are read in blocks."
        )
    else:
        state = streaming.moments(X)
    if state.scatter is None:
        dense = np.concatenate(state.rows)
        read = read._replace(rounding=rounding_variances(dense) * read.units**2)
        return _in_memory(dense, read, rows=rows, engine="auto")
    read = read._replace(mean=state.mean, n_samples=state.n_samples)
    if rows:
        return _on_workers(X, state, read._replace(rounding=np.zeros_like(read.units)))
    if rounded is not None:
        some = every_nth(rounded, max(1, state.n_samples // ROWS))
        read = read._replace(rounding=rounding_variances(some.rows))
    product, mean, _ = scatter_of(state, center=read.centred)
    return _gram_table(product, read._replace(mean=mean), ENGINES[where_of(X)])


def _in_memory(dense: Array, read: _Read, *, rows: bool, engine: str) -> NoisyTable:
    """A table with the Gram matrix where that is sufficient, otherwise with all cells."""
    (n, p), center = dense.shape, read.centred
    if is_numpy_array(dense) and n * p <= FEW_CELLS:
        # Rounds of single precision may end in another minimum.
        dense = dense.astype(np.float64, copy=False)
    by_gram = n > p and p <= GRAM and not rows and engine in ("auto", "gram")
    seen = centred_sums(dense) if center and is_float64(dense) and not by_gram else None
    unit = 1.0
    if seen is None or not seen.are_in(LIMITS[np.dtype(np.float64)]):
        # Squares would overflow or vanish.
        xp = array_namespace(dense)
        peak = max(abs(float(xp.max(dense))), abs(float(xp.min(dense))))
        least, most = LIMITS[numpy_dtype(dense.dtype)]
        unit = 1.0 if not peak or least < peak < most else peak
    if unit != 1.0:
        dense, seen = dense / unit, None
    read = read._replace(n_samples=n, units=read.units * unit, unit=unit)
    if by_gram:
        xp = array_namespace(dense)
        product, mean = gram.feature_gram(dense, center=center, dtype=xp.float64)
        return _gram_table(on_host(product), read._replace(mean=on_host(mean)), "gram")
    if center:
        read = read._replace(mean=mean_of(dense) if seen is None else seen.mean)
    live = np.setdiff1d(np.arange(p), constant_columns(dense, center=center))
    live = live if live.size else np.arange(p)
    values = dense if live.size == p else taken(dense, live, axis=1)
    squares = None if seen is None else seen.squares[live]
    return CellTable(**read.of(live), values=values, engine=engine, known_squares=squares)


def gram_of(found: Decomposition | None) -> FloatArray | None:
    """The Gram matrix of a decomposition, unless it overflowed or lost digits."""
    if found is None or found.gram is None:
        return None
    size = float(np.trace(found.gram))
    return found.gram if SAFE[0] < size < SAFE[1] else None


class _Read(NamedTuple):
    """Properties of all columns, scaled by their units."""

    mean: FloatArray
    n_samples: int
    centred: bool
    like: Array
    units: FloatArray
    known: FloatArray | None
    rounding: FloatArray
    unit: float = 1.0

    def of(self, live: NDArray[np.intp]) -> dict[str, Any]:
        """The fields of a `NoisyTable` with the `live` columns."""
        own = {"mean": self.mean[live], "units": self.units[live], "live": live}
        own |= {"rounding": (np.sqrt(self.rounding[live]) / self.units[live]) ** 2}
        return self._asdict() | own | {"mean_of_row": self.mean * self.units}


def _gram_table(product: FloatArray, read: _Read, engine: str) -> GramTable:
    norms, dtype = np.sqrt(np.maximum(np.diag(product), 0)), numpy_dtype(read.like.dtype)
    live = np.flatnonzero(varies_beyond_rounding(norms, read.mean, read.n_samples, dtype))
    inner = product if live.size == read.mean.size else product[np.ix_(live, live)]
    return GramTable(**read.of(live), gram=inner, engine=engine)


def _on_workers(X: Partitions, state: RunningMoments, read: _Read) -> DistantTable:
    """A table of more rows than columns, which workers keep in a suitable unit."""
    unit = state.unit
    product, mean, n = scatter_of(
        replace(state, mean=state.mean / unit, unit=1.0), center=read.centred
    )
    read = read._replace(mean=mean, units=read.units * unit, unit=unit)
    table = _gram_table(product, read, "dask")
    blocks, lengths = kept_blocks(X, table.live, unit)
    own = {field.name: getattr(table, field.name) for field in fields(NoisyTable)}
    distant = DistantTable(**own, gram=table.gram, blocks=blocks, lengths=lengths)
    some = distant.every_nth(max(1, n // ROWS))
    return replace(distant, rounding=rounding_variances(some))
