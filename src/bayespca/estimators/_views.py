"""Several tables of the same samples as users pass them, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _get_feature_names, check_array

from bayespca.arrays.namespaces import is_sparse
from bayespca.arrays.types import Counts, DType, Input, Names, Numbers
from bayespca.io.records import Table, float_type
from bayespca.sources.cluster import dask_module
from bayespca.sources.data import Features
from bayespca.sources.partitions import is_dask, is_dask_table, partitioned
from bayespca.sources.records import DaskArray

from . import _input
from ._base import AnyEstimator
from ._input_types import as_numbers, is_frame, is_list_of_arrays, refuse_others

if TYPE_CHECKING:
    from ._mixed_views import Reader

# Separator between the name of a view and that of a feature.
OF = ": "
# Name of the only view if X is one matrix.
ONLY = "X"


@dataclass(frozen=True, eq=False)
class View:
    """A table with its name; `samples` and `features` are None if they have no names."""

    name: str
    values: Numbers
    samples: Names | None = None
    features: Names | None = None
    is_frame: bool = False


@dataclass(frozen=True, eq=False)
class Views:
    """Tables of the same samples.

    Attributes
    ----------
    values
        Their columns side by side, with NaN for holes and for samples that a table lacks.
    view, names
        The view of each column, and the names of the views.
    features
        Features of all columns.
    samples
        Names of the rows, if they have any.
    kind
        Form of the input: "mapping", "list" or "matrix".
    frames
        The names of the views that were given as pandas' DataFrames.
    """

    values: Numbers
    view: Counts
    names: Names
    features: Features
    samples: Names | None
    kind: str
    frames: frozenset[str] = frozenset()

    @property
    def dtype(self) -> DType:
        return np.dtype(float_type(self.values.dtype))

    def columns(self, name: str) -> Counts:
        return np.flatnonzero(self.view == list(self.names).index(name))


# --- for a fit ---------------------------------------------------------------------------------


def read(
    estimator: AnyEstimator,
    X: Input,
    views: Sequence[Any] | None,
    reader: Reader | None = None,
) -> Views:
    """Read tables for a fit: a mapping, a list, a MuData, or a matrix with a view for each column.

    Without a reader, all columns are numbers.
    """
    tables = tables_in(X)
    if tables is None:
        return _of_matrix(estimator, X, views, reader)
    if views is not None:
        raise ValueError(
            "views names the view of each column of one matrix, but X holds several tables: leave "
            "views out."
        )
    if not tables:
        raise ValueError("X holds no tables: give at least one.")
    read_one = read_table if reader is None else reader.table
    found = [read_one(name, table) for name, table in tables.items() if table is not None]
    columns: list[str] = []
    for one in found:
        # Values on workers are checked later.
        if not is_dask(one.values) and np.isnan(one.values).all():
            refuse_empty(one.name)
        own = range(one.values.shape[1]) if one.features is None else one.features
        columns += [f"{one.name}{OF}{name}" for name in own]
    values, samples = joined(found)
    view = np.repeat(np.arange(len(found)), [one.values.shape[1] for one in found])
    names = np.array([one.name for one in found], dtype=object)
    features = Features(values.shape[1], np.array(columns, dtype=object))
    frames = frozenset(one.name for one in found if one.is_frame)
    return Views(values, view, names, features, samples, _kind(X), frames)


def check_any_varies(live: NDArray[np.bool_], n_samples: int) -> None:
    """Raise if no column of any table varies, as with a single sample."""
    if n_samples == 1:
        raise ValueError(
            "the tables have a single sample, and factors are what samples differ in: give at "
            "least two. Rows are samples, so transpose the table if it has them as columns."
        )
    if not live.any():
        raise ValueError(
            "nothing varies in the tables: every column holds a single value, so there are no "
            "factors to find."
        )


def tables_in(X: Input) -> dict[str, Any] | None:
    """The tables of a mapping, a list or a MuData, by name; None if X is one matrix."""
    X = getattr(X, "mod", X)
    if isinstance(X, Mapping) and not is_sparse(X):
        return {str(name): table for name, table in X.items()}
    some = [one for one in X if one is not None] if isinstance(X, list | tuple) else []
    if some and is_list_of_arrays(some):
        return {f"view {place}": table for place, table in enumerate(X, 1)}
    return None


def _kind(X: Input) -> str:
    return "list" if isinstance(X, list | tuple) else "mapping"


def _of_matrix(
    estimator: AnyEstimator,
    X: Input,
    views: Sequence[Any] | None,
    reader: Reader | None,
) -> Views:
    if reader is not None:
        one = reader.matrix(X)
        values, features = one.values, Features(one.values.shape[1], one.features)
    elif is_dask(X):
        values = _distant(X, "X")
        features = Features(int(values.shape[1]))
    else:
        data = _input.read_with_holes(estimator, X, reset=True, least_rows=2)
        _input.check_any_value(data)
        values, features = data.values, data.features
    p = features.count
    given = [ONLY] * p if views is None else [str(name) for name in views]
    if len(given) != p:
        raise ValueError(
            f"views names {len(given)} columns, but X has {p}: give one name for each."
        )
    names = list(dict.fromkeys(given))
    view = np.array([names.index(name) for name in given])
    return Views(values, view, np.array(names, dtype=object), features, None, "matrix")


def read_table(name: str, table: Input) -> View:
    """Read one table of numbers: an AnnData, a DataFrame, or an array of any library."""
    if isinstance(table, View):
        return replace(read_table(name, table.values), samples=table.samples)
    if is_dask(table):
        return View(name, _distant(table, f"view {name!r}"))
    samples, features, table = parts(table)
    try:
        refuse_others(table)
    except ValueError as error:  # columns of text
        raise ValueError(
            f"view {name!r}: {error} With likelihood={{{name!r}: 'auto'}} they are read as they "
            "are."
        ) from error
    if is_frame(table):
        features = _get_feature_names(table)
    if np.ndim(table) == 2 and not np.shape(table)[1]:
        raise ValueError(f"view {name!r} has no columns: leave it out.")
    checks: dict[str, Any] = {"dtype": _input.FLOATS, "ensure_all_finite": "allow-nan"}
    values = as_numbers(lambda: check_array(table, input_name=f"view {name!r}", **checks), table)
    values = np.asarray(_input.in_place(values).values)
    return View(name, values, samples, features, is_pandas(table))


def parts(table: Input) -> tuple[Names | None, Names | None, Any]:
    """Names of the samples and of the columns of a table, and the table itself.

    An index that counts rows from 0 has no names, unless those of other tables are numbers.
    """
    if isinstance(table, View):
        return (table.samples, *parts(table.values)[1:])
    if hasattr(table, "obs_names") and hasattr(table, "var_names"):
        values = table.X.toarray() if is_sparse(table.X) else np.asarray(table.X)
        return np.array(table.obs_names, object), np.array(table.var_names, object), values
    if isinstance(table, Table):
        values = table.values.toarray() if is_sparse(table.values) else table.values
        ids, names = (None if x is None else np.array(x, object) for x in (table.ids, table.names))
        return ids, names, values
    table = _input.unmasked(_input.as_numpy(table))
    table = table.toarray() if is_sparse(table) else table
    names = np.array([str(one) for one in table.columns], object) if is_frame(table) else None
    samples = None
    if is_pandas(table) and not _counts_rows(table.index):
        samples = np.array(table.index, dtype=object)
    return samples, names, table


def _counts_rows(index: Any) -> bool:
    """Whether an index of pandas is the one of a table without names: 0, 1, 2, …."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def is_pandas(table: Input) -> bool:
    """Whether a table is a DataFrame of pandas, which has an index."""
    return is_frame(table) and hasattr(table, "index")


def refuse_empty(name: str) -> NoReturn:
    raise ValueError(f"view {name!r} has no value at all: leave it out.")


# --- samples -----------------------------------------------------------------------------------


def joined(found: Sequence[View]) -> tuple[Numbers, Names | None]:
    """Tables side by side: by the names of their samples if all have them, else by position."""
    distant = any(is_dask(one.values) for one in found)
    if any(_are_numbers(one.samples) for one in found):
        # Rows that were shuffled or taken out still have their numbers; the others do, too.
        found = [
            replace(one, samples=np.arange(len(one.values)).astype(object))
            if one.samples is None and one.is_frame
            else one
            for one in found
        ]
    if all(one.samples is not None for one in found) and not distant:
        return _by_name(found)
    first = found[0]
    for one in found[1:]:
        if len(one.values) != len(first.values):
            raise ValueError(
                f"view {one.name!r} has {len(one.values)} rows, but {first.name!r} has "
                f"{len(first.values)}: give DataFrames whose index names the samples, or rows that "
                "match."
            )
    samples = next((one.samples for one in found if one.samples is not None), None)
    return _beside([one.values for one in found]), samples


def _are_numbers(samples: Names | None) -> bool:
    return samples is not None and all(isinstance(name, int | np.integer) for name in samples)


def _by_name(found: Sequence[View]) -> tuple[Numbers, Names]:
    """Tables side by side, matched by sample; NaN where a table lacks a sample."""
    samples = [[] if one.samples is None else one.samples.tolist() for one in found]
    for one, own in zip(found, samples, strict=True):
        twice = next((name for name, count in Counter(own).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"view {one.name!r} has the sample {twice!r} twice: keep one of them.")
    names = list(dict.fromkeys(name for own in samples for name in own))
    place = {name: i for i, name in enumerate(names)}
    parts = []
    for k, (one, own) in enumerate(zip(found, samples, strict=True)):
        others = [*samples[:k], *samples[k + 1 :]]
        if others and not set().union(*others) & set(own):
            raise ValueError(
                f"view {one.name!r} shares no sample with the other views: its first is "
                f"{own[0]!r}, theirs is {others[0][0]!r}."
            )
        part = np.full((len(names), one.values.shape[1]), np.nan, dtype=one.values.dtype)
        part[[place[name] for name in own]] = one.values
        parts.append(part)
    return np.concatenate(parts, axis=1), np.array(names, dtype=object)


# --- new samples -------------------------------------------------------------------------------


def read_new(estimator: AnyEstimator, X: Input, reader: Reader | None = None) -> Views:
    """Read rows of new samples, with NaN for views that are not given."""
    fit = estimator.fit_
    names, features = fit.names, _input.features_of(estimator)
    tables = tables_in(X)
    if tables is None:
        if reader is not None:
            values = reader.matrix(X).values
        elif not is_dask(X):
            values = np.asarray(_input.read_with_holes(estimator, X, reset=False).values)
        else:
            values, p = _distant(X, "X"), estimator.n_features_in_
            if values.shape[1] != p:
                raise ValueError(f"X has {values.shape[1]} features, but the fit had {p}.")
        return Views(values, fit.view, names, features, None, "matrix")
    if isinstance(X, list | tuple) and len(tables) != names.size:
        raise ValueError(
            f"X is a list of {len(tables)} views, but the model has {names.size}: put None where "
            "one is absent, or give a dict."
        )
    unknown = [name for name in tables if name not in names]
    if unknown:
        known = ", ".join(map(repr, names))
        raise ValueError(f"the model has no view {unknown[0]!r}: its views are {known}.")
    read_one = read_table if reader is None else reader.table
    found = [read_one(name, table) for name, table in tables.items() if table is not None]
    if not found:
        raise ValueError("X holds no tables: give at least one of the views.")
    own = []
    for one in found:
        order = order_of_columns(one.name, one.features, one.values.shape[1], fit, features)
        if order is None:
            own.append(one)
            continue
        named = None if one.features is None else one.features[order]
        own.append(replace(one, values=one.values[:, order], features=named))
    side_by_side, samples = joined(own)
    if is_dask(side_by_side):
        values = _arranged_lazily(side_by_side, own, fit)
    else:
        shape, dtype = (len(side_by_side), fit.view.size), side_by_side.dtype
        values = np.full(shape, np.nan, dtype=dtype)
        for one, js in zip(own, _places(own), strict=True):
            values[:, fit.view == list(names).index(one.name)] = side_by_side[:, js]
    frames = frozenset(one.name for one in found if one.is_frame)
    return Views(values, fit.view, names, features, samples, _kind(X), frames)


def _places(own: Sequence[View]) -> list[slice]:
    """Columns of each table among those of all tables side by side."""
    edges = np.cumsum([0, *(one.values.shape[1] for one in own)]).tolist()
    return [slice(begin, end) for begin, end in pairwise(edges)]


def _arranged_lazily(joined: DaskArray, own: Sequence[View], fit: Any) -> DaskArray:
    """The columns of all views of the fit, with NaN for views that are not given."""
    given = dict(zip((one.name for one in own), _places(own), strict=True))
    sizes = np.bincount(fit.view, minlength=fit.names.size).tolist()

    def nothing(p: int) -> DaskArray:
        shape, chunks = (joined.shape[0], p), (joined.chunks[0], -1)
        return dask_module("array").full(shape, np.nan, chunks=chunks, dtype=joined.dtype)

    parts = [
        joined[:, given[name]] if name in given else nothing(size)
        for name, size in zip(fit.names, sizes, strict=True)
    ]
    order = np.argsort(np.argsort(fit.view, kind="stable"), kind="stable")
    values = _beside(parts)
    return values if (np.diff(order) == 1).all() else values[:, order]


def order_of_columns(
    name: str, given: Names | None, count: int, fit: Any, features: Features
) -> list[int] | None:
    """Places in a table of the fit's columns of a view; None if they are taken in order."""
    wanted = None
    if features.names is not None:
        # Names that the columns had in their own table, unless they are just numbers.
        mine = features.names[fit.view == list(fit.names).index(name)]
        wanted = [str(own).removeprefix(f"{name}{OF}") for own in mine]
        if wanted == [str(j) for j in range(len(wanted))]:
            wanted = None
    if given is not None and wanted is not None:
        place = {str(own): j for j, own in enumerate(given)}
        absent = [own for own in wanted if own not in place]
        if absent:
            raise ValueError(f"view {name!r} has no column {absent[0]!r}, which the fit had.")
        return [place[own] for own in wanted]
    p = int(np.count_nonzero(fit.view == list(fit.names).index(name)))
    if count != p:
        raise ValueError(f"view {name!r} has {count} columns, but the fit had {p}.")
    return None


# --- results -----------------------------------------------------------------------------------


def given_back(values: Numbers, like: Views) -> Any:
    """Rows in the form of the input: a matrix, a dict or a list of tables."""
    if like.kind == "matrix":
        return values
    found = {str(name): _table(values, like, str(name)) for name in like.names}
    return list(found.values()) if like.kind == "list" else found


def _table(values: Numbers, like: Views, name: str) -> Any:
    js = like.columns(name)
    if name not in like.frames:
        return values[:, js]
    pandas = import_module("pandas")
    names = like.features.names
    own = None if names is None else [str(one).removeprefix(f"{name}{OF}") for one in names[js]]
    return pandas.DataFrame(values[:, js], index=like.samples, columns=own)


# --- on Dask -----------------------------------------------------------------------------------


def _distant(table: Input, name: str) -> DaskArray:
    """Return `table` if it is a Dask matrix with a known number of rows; raise otherwise."""
    if is_dask_table(table) or not hasattr(table, "chunks"):
        raise TypeError(
            f"{name} is a Dask {type(table).__name__}, but views on Dask are arrays, whose rows "
            "belong together by their place: give what its to_dask_array(lengths=True) makes."
        )
    if table.ndim == 2 and np.isnan(table.shape[0]):
        raise ValueError(
            f"the number of rows of {name} is not known: call its compute_chunk_sizes() first."
        )
    if table.ndim == 2 and not all(table.shape):
        raise ValueError(
            f"{name} has {table.shape[0]} rows and {table.shape[1]} columns: leave it out."
        )
    partitioned(table, wide=False)  # raises unless it is a matrix of numbers
    return table


def _beside(tables: Sequence[Numbers | DaskArray]) -> Numbers | DaskArray:
    """Tables with the same rows, side by side; a Dask array if any of them is one."""
    if not any(map(is_dask, tables)):
        return np.concatenate(tables, axis=1)
    array = dask_module("array")
    first: DaskArray = next(table for table in tables if is_dask(table))
    rows = first.chunks[0]
    lazy = [t if is_dask(t) else array.from_array(t, chunks=(rows, -1)) for t in tables]
    return array.concatenate(lazy, axis=1)
