"""Data as users pass them: read once into `Data`, or refused with a message that says why."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from sklearn.utils import get_tags
from sklearn.utils.validation import (
    _get_feature_names,
    check_array,
    check_is_fitted,
    validate_data,
)

from bayespca import io
from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Array, DType, FloatArray, Input, Names
from bayespca.engines.decomposing import fits_in_memory
from bayespca.sources.blocks import notes_on_columns, open_source
from bayespca.sources.checks import NotFinite, first_not_finite, not_finite
from bayespca.sources.data import Data, Features, Where, where_of
from bayespca.sources.files import of_files
from bayespca.sources.partitions import is_dask, partitioned
from bayespca.sources.records import Partitions, Source

from ._input_types import as_numbers, refuse_others

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


FLOATS = [np.float64, np.float32]


# --- for a fit ---------------------------------------------------------------------------------


def read(
    estimator: BaseEstimator,
    X: Input,
    *,
    in_memory: bool = False,
    dense: bool = False,
    dask: bool = False,
    twice: bool = False,
    complete: bool = False,
) -> Data:
    """Read X for a fit: an array, a sparse matrix, or a source that is read in blocks.

    Parameters
    ----------
    in_memory
        Whether the fit needs all rows at once, so that files are read whole.
    dense
        Whether it needs a NumPy array, whatever X is.
    dask
        Whether it can leave Dask collections to their workers.
    twice
        Whether it reads the rows twice, which an iterator does not allow.
    complete
        Whether holes are errors; the message names the place of the first one.
    """
    data = _read(estimator, X, in_memory=in_memory, dense=dense, dask=dask, twice=twice)
    if complete:
        check_complete(data)
    return data


def _read(
    estimator: BaseEstimator, X: Input, *, in_memory: bool, dense: bool, dask: bool, twice: bool
) -> Data:
    if dask and estimator.engine == "dask" and _is_path(X):
        file, X = of_files(X)
        _warn_about_columns(notes_on_columns(file.layout))
    if dask and (is_dask(X) or isinstance(X, Partitions)):
        return _read_dask(estimator, X)
    X = unmasked(X)
    if _is_path(X) and not Path(X).is_dir():
        streamed = getattr(estimator, "engine", None) == "streaming"
        X = _read_whole(X, always=in_memory, streamed=streamed)
    checks: dict[str, Any] = {"ensure_all_finite": False, "ensure_min_samples": 1}
    if isinstance(X, io.Table):
        values, features = checked(estimator, X, accept_sparse="csr", **checks)
        return in_place(values, features.names, dense=dense)
    blocks = isinstance(X, str | os.PathLike | np.memmap | Source | Iterator)
    if blocks and not (in_memory and isinstance(X, np.memmap)):
        return _read_blocks(X, in_memory=in_memory, twice=twice)
    if is_foreign_array(X):
        return in_place(_checked_foreign(X), dense=dense)
    sparse = "csr" if get_tags(estimator).input_tags.sparse else False
    values, features = checked(estimator, X, accept_sparse=sparse, dtype=FLOATS, **checks)
    return in_place(values, features.names, dense=dense)


def in_place(values: Array, names: Names | None = None, *, dense: bool = False) -> Data:
    """Data in memory or on a device; raise for a cell that is neither finite nor a hole."""
    if dense:
        values = values.toarray() if is_sparse(values) else to_numpy(values)
    where = where_of(values)
    found = not_finite(values.data if where is Where.SPARSE else values)
    if found.infinite or (found.nan and where is Where.SPARSE):
        raise ValueError(_not_finite_sentence(values, found))
    check_range(found)
    return Data(values, where, Features(int(values.shape[1]), names), found.nan)


def checked(
    estimator: BaseEstimator, X: Input, *, reset: bool = True, **checks: Any
) -> tuple[Array, Features]:
    """X after scikit-learn's checks, and its features: those of the fit, unless `reset`.

    The estimator is only read, for its name and the expected features.
    """
    if isinstance(X, io.Table):
        # Columns are matched by name, unless `reset`.
        values = X.values if reset else _arranged(estimator, X)
        if is_sparse(values) and "accept_sparse" not in checks:
            values = values.toarray()
        values = check_array(values, input_name="X", estimator=estimator, **checks)
        known = Features(int(values.shape[1]), _as_names(X.names))
        return values, known if reset else features_of(estimator)
    refuse_others(X)
    tensor = checks.get("allow_nd", False)
    if not reset:
        checking = partial(validate_data, estimator, X, reset=False, **checks)
        return as_numbers(checking, X, tensor=tensor), features_of(estimator)
    names = _get_feature_names(X)
    checking = partial(check_array, X, input_name="X", estimator=estimator, **checks)
    values = as_numbers(checking, X, tensor=tensor)
    return values, Features(int(values.shape[1]), names)


def read_with_holes(
    estimator: BaseEstimator, X: Input, *, reset: bool, least_rows: int = 1
) -> Data:
    """Read X into a NumPy array in memory, with NaN for holes and masked cells."""
    X, features = checked(
        estimator,
        unmasked(as_numpy(X)),
        reset=reset,
        dtype=FLOATS,
        ensure_all_finite="allow-nan",
        ensure_min_samples=least_rows,
    )
    return in_place(np.asarray(X), features.names)


def read_wide(estimator: BaseEstimator, X: Input) -> tuple[FloatArray, DType]:
    """Rows for a fitted estimator in float64, in which it computes, and the dtype of results."""
    check_is_fitted(estimator)
    values = read_with_holes(estimator, X, reset=False).values
    return np.asarray(values, np.float64), values.dtype


def read_block(estimator: BaseEstimator, X: Input, *, first: bool) -> Data:
    """A block of rows for `partial_fit`: dense, finite, with the features of the blocks before."""
    refuse_dask(X)
    values, features = checked(estimator, X, reset=first, dtype=FLOATS, ensure_min_samples=1)
    check_range(not_finite(values))
    return Data(values, Where.DENSE, features, holes=0)


def features_of(estimator: BaseEstimator) -> Features:
    return Features(estimator.n_features_in_, getattr(estimator, "feature_names_in_", None))


def attributes_of(features: Features) -> dict[str, Any]:
    """scikit-learn's attributes about features; names only if there are any."""
    found: dict[str, Any] = {"n_features_in_": features.count}
    return found if features.names is None else found | {"feature_names_in_": features.names}


def _read_dask(estimator: BaseEstimator, X: Input) -> Data:
    if estimator.engine not in ("auto", "dask"):
        raise ValueError(
            f"engine={estimator.engine!r} cannot read Dask collections: leave it at 'auto'."
        )
    data = X if isinstance(X, Partitions) else partitioned(X)
    if not data.n_features or data.n_samples == 0:
        n = "?" if data.n_samples is None else data.n_samples
        raise ValueError(f"the Dask collection of {n} rows × {data.n_features} holds no numbers.")
    return Data(data, Where.PARTITIONS, Features(data.n_features, _as_names(data.names)), None)


def _read_blocks(X: Input, *, in_memory: bool, twice: bool) -> Data:
    if in_memory:
        raise ValueError(
            "X is an iterator, which is read a block at a time, but this fit needs all rows at "
            "once: pass an array, as np.concatenate(list(X)) makes. BayesianPCA with its default "
            "engine reads blocks."
        )
    source = X if isinstance(X, Source) else open_source(X)
    if twice and not source.rereadable:
        raise ValueError(
            "scale=True and rank_report read the data twice, but an iterator can be read only "
            "once: give an array, a file or a memory map."
        )
    _warn_about_columns(source.notes)
    return Data(source, Where.BLOCKS, Features(source.n_features, _as_names(source.names)), None)


def _read_whole(path: str | os.PathLike[str], *, always: bool, streamed: bool) -> Input:
    """The table in a file, or the path if the file can and should be read in blocks."""
    file = io.open_file(path)
    if file.blocks is not None and not always and (streamed or not fits_in_memory(file.memory)):
        return path
    table = file.read()
    notes = notes_on_columns(file.layout)
    empty = [name for name, why in table.aside.items() if why == "empty"]
    _warn_about_columns([*notes, *(f"column {name!r} was skipped (empty)" for name in empty)])
    return table


def _as_names(names: Sequence[str] | None) -> Names | None:
    return np.asarray(names, dtype=object) if names else None


def _warn_about_columns(notes: Sequence[str]) -> None:
    """Warn about columns of a file that are not among the features."""
    if notes:
        warnings.warn("; ".join(notes) + ".", UserWarning, stacklevel=5)


def _is_path(X: Input) -> bool:
    return isinstance(X, str | os.PathLike)


# --- holes, and values that are not finite -----------------------------------------------------


def check_complete(data: Data) -> None:
    """Raise if data in memory have a hole, with the place of the first one."""
    if data.holes:
        raise ValueError(_not_finite_sentence(data.values, NotFinite(nan=data.holes)))


def check_resampled(data: Data, who: str, holes: str) -> None:
    """Raise unless data are complete, dense and in memory; `holes` is what to do about holes."""
    if data.holes:
        raise ValueError(f"Input X contains NaN: {holes}")
    if data.where is Where.SPARSE:
        raise ValueError(f"{who} need dense data: call toarray() first.")
    if data.where is not Where.DENSE:
        raise ValueError(f"{who} need data in memory: load all rows, or a subset.")


def check_not_empty(X: Input) -> None:
    """Raise for an array or a table without rows or columns, in scikit-learn's words."""
    if not (X.shape[0] and X.shape[1]):
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) "
            f"(shape={tuple(X.shape)}) while a minimum of 1 is required."
        )


def check_any_value(data: Data) -> None:
    """Raise if all cells are holes."""
    if data.is_empty:
        raise ValueError(f"Input X has no value at all: its {data.holes} cells are NaN.")


def check_every_column(data: Data) -> None:
    """Raise if a column has no value, naming the first such column."""
    empty = np.flatnonzero(np.isnan(data.values).all(axis=0)) if data.holes else np.empty(0)
    if empty.size:
        raise ValueError(
            f"Input X has no value in column {int(empty[0])} (counting from 0): leave the column "
            "out."
        )


def check_range(found: NotFinite) -> None:
    """Raise if numbers are so large or small that their squares overflow or vanish."""
    if found.largest:
        raise ValueError(
            f"the largest magnitude in X is {found.largest:.1g}, and squares of such "
            "numbers leave the range of floating-point numbers: divide the data by their scale."
        )


def _not_finite_sentence(X: Input, found: NotFinite) -> str:
    if is_sparse(X):
        (cell,) = first_not_finite(X.data)
        place = f"column {int(X.indices[cell])}"
    else:
        row, column = first_not_finite(X)
        place = f"row {row}, column {column} (counting from 0)"
    what = "NaN" if found.nan else "infinity"
    return f"Input X contains {what}, first at {place}: remove or fill values that are not finite."


# --- for methods of a fitted estimator ---------------------------------------------------------


def read_new(estimator: BaseEstimator, X: Input, method: str) -> Array:
    """Read rows for a method of a fitted estimator: dense, with the features of the fit, and finite
    except for holes if the estimator takes them.
    """
    X = unmasked(X)
    finite = "allow-nan" if estimator._reads_holes() else True
    if isinstance(X, io.Table):
        check_same_place(estimator, np.empty(0), method)
        values = _arranged(estimator, X)
        values = values.toarray() if is_sparse(values) else values
        return check_array(values, dtype=FLOATS, ensure_all_finite=finite)
    if is_foreign_array(X):
        X = _checked_foreign(X)
        if X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
        data = in_place(X)
        if not estimator._reads_holes():
            check_complete(data)
        check_same_place(estimator, X, method)
        return X
    check_same_place(estimator, np.empty(0), method)
    refuse_others(X)
    given: dict[str, Any] = {"accept_sparse": "csr", "dtype": FLOATS, "ensure_all_finite": finite}
    X = as_numbers(lambda: validate_data(estimator, X, reset=False, **given), X)
    return X.toarray() if is_sparse(X) else X


def _arranged(estimator: BaseEstimator, table: io.Table) -> Array:
    """The features of the fit from a table, matched by name if both have names."""
    wanted = getattr(estimator, "feature_names_in_", None)
    p = estimator.n_features_in_
    if wanted is not None and table.names is not None:
        place = {name: j for j, name in enumerate(table.names)}
        check_all_there(wanted, place)
        return table.values[:, [place[str(name)] for name in wanted]]
    if table.shape[1] != p:
        raise ValueError(
            f"the table has {table.shape[1]} columns of numbers, but the model was fitted on {p}."
        )
    return table.values


def check_all_there(wanted: Sequence[Any], known: Collection[str]) -> None:
    """Raise unless all columns of the fit are among the known ones."""
    absent = [str(name) for name in wanted if str(name) not in known]
    if absent:
        shown = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
        raise ValueError(
            f"the model was fitted on other columns: the table has no {shown} "
            f"({len(absent)} of {len(wanted)} columns are absent)."
        )


def read_scores(X: Input, n_components: int, like: Array) -> Array:
    """An array of scores with one column per component, in the type of the components."""
    if not is_foreign_array(X):
        X = np.asarray(X, dtype=like.dtype if is_numpy_array(like) else None)
    if X.ndim != 2 or X.shape[1] != n_components:
        raise ValueError(
            f"expected an array with {n_components} columns, one for each component, "
            f"got one of shape {tuple(X.shape)}."
        )
    return X


def check_same_place(estimator: BaseEstimator, X: Array, method: str) -> None:
    """Raise unless X is from the same library and on the same device as the data of the fit."""
    fitted = estimator.core_ if hasattr(estimator, "core_") else estimator.components_
    here, there = (array_namespace(a).__name__.rpartition(".")[2] for a in (X, fitted))
    if here != there or device(X) != device(fitted):
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace "
            f"and device as those passed to fit(): {there} on {device(fitted)}, not {here} on "
            f"{device(X)}."
        )


# --- arrays of any library ---------------------------------------------------------------------


def read_matrix(Y: Input) -> Array:
    """A matrix to factorize: two-dimensional, finite, of floats."""
    refuse_dask(Y)
    if is_foreign_array(Y):
        data = in_place(_checked_foreign(Y))
        check_complete(data)
        return data.values
    refuse_others(Y)
    values = as_numbers(lambda: check_array(Y, dtype=FLOATS, input_name="Y"), Y)
    check_range(not_finite(values))
    return values


def unmasked(X: Input) -> Input:
    """A masked array with NaN in its masked cells; other input unchanged, but Dask is refused."""
    refuse_dask(X)
    if not isinstance(X, np.ma.MaskedArray):
        return X
    kind = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    values = np.ma.getdata(X).astype(kind)
    return np.where(np.ma.getmaskarray(X), np.asarray(np.nan, kind), values)


def as_numpy(X: Input) -> Input:
    """Arrays of other libraries as NumPy arrays; other input unchanged, but Dask is refused."""
    refuse_dask(X)
    return to_numpy(X) if is_foreign_array(X) else X


def refuse_dask(X: Input) -> None:
    """Raise for a Dask collection where data must be in memory."""
    if is_dask(X):
        raise TypeError(
            f"a Dask {type(X).__name__} was given where data must be in memory: only BayesianPCA, "
            "MultiViewPCA and MatrixFactorization.fit_ratings read Dask collections; call "
            "compute() on it where it fits into memory."
        )


def is_foreign_array(X: Input) -> bool:
    """Whether X is an array that is not NumPy's: torch, CuPy, array-api-strict."""
    return is_array_api_obj(X) and not is_numpy_array(X) and not is_sparse(X)


def _checked_foreign(X: Input) -> Array:
    xp = array_namespace(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of {X.ndim} dimensions instead.")
    check_not_empty(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported.")
    return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)
