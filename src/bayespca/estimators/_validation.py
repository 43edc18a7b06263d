"""What users may pass, and the sentences they get when it will not do."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from bayespca import io
from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Array
from bayespca.inference.loop import Callback, Trace
from bayespca.inference.looping import Looping
from bayespca.lowrank.variational import Hyper
from bayespca.sources import seen
from bayespca.sources.blocks import columns_told, open_source
from bayespca.sources.file_pieces import of_files
from bayespca.sources.partitions import is_dask, partitioned
from bayespca.sources.records import Partitions, Source

ITERATED = ("evb", "epb", "emap", "vb", "pb", "pb-a", "pb-b", "map", "ml")


def read_training_data(
    estimator: Any, X: Any, *, in_memory: bool = False, dask: bool = False
) -> Any:
    """X as an engine takes it: an array of floats, a sparse matrix, or a source of blocks; with
    `dask`, partitions of a Dask collection.

    Whether all numbers are finite is seen from the sums that the engine forms anyway.
    """
    if dask and estimator.engine == "dask" and isinstance(X, str | os.PathLike):
        file, X = of_files(X)
        _warn_about_columns(columns_told(file.layout))
    if dask and (is_dask(X) or isinstance(X, Partitions)):
        return _read_dask(estimator, X)
    X = unmasked(X)
    if isinstance(X, io.Table):
        return _adopt_table(estimator, X)
    if isinstance(X, str | os.PathLike) and not Path(X).is_dir():
        file = io.open_file(X)
        if in_memory or file.blocks is None:
            table = file.read()
            _warn_about_columns(
                [f"{name!r} was set aside ({why})" for name, why in table.aside.items()]
            )
            return _adopt_table(estimator, table)
    if _is_blocks(X) and not (in_memory and isinstance(X, np.memmap)):
        if in_memory:
            raise ValueError(
                "iterators are read a block at a time, which these options do not allow: "
                "use engine='auto' and noise='isotropic', or pass an array."
            )
        source = X if isinstance(X, Source) else open_source(X)
        _warn_about_columns(source.notes)
        estimator.n_features_in_ = source.n_features
        if source.names:
            estimator.feature_names_in_ = np.asarray(source.names, dtype=object)
        return source
    if is_foreign_array(X):
        X = _checked_foreign(X)
        estimator.n_features_in_ = X.shape[1]
        return X
    return validate_data(
        estimator,
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        ensure_min_samples=1,
    )


def _read_dask(estimator: Any, X: Any) -> Partitions:
    if estimator.engine not in ("auto", "dask"):
        raise ValueError(
            f"engine={estimator.engine!r} cannot read Dask collections: leave it at 'auto'."
        )
    data = X if isinstance(X, Partitions) else partitioned(X)
    if not data.n_features or data.n_samples == 0:
        n = "?" if data.n_samples is None else data.n_samples
        raise ValueError(f"the Dask collection of {n} rows × {data.n_features} holds no numbers.")
    estimator.n_features_in_ = data.n_features
    if data.names:
        estimator.feature_names_in_ = np.asarray(data.names, dtype=object)
    return data


def refuse_dask(X: Any) -> None:
    """Raise for a Dask collection where data must be in memory."""
    if is_dask(X):
        raise TypeError(
            f"a Dask {type(X).__name__} was given where data must be in memory: only BayesianPCA "
            "and MatrixFactorization.fit_ratings read Dask collections; call compute() on it where "
            "it fits into memory."
        )


def _adopt_table(estimator: Any, table: io.Table) -> Any:
    """The numbers of a table in memory, as an engine takes them."""
    X = validate_data(
        estimator, table.values, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=1
    )
    if table.names is not None:
        estimator.feature_names_in_ = np.asarray(table.names, dtype=object)
    return X


def _arranged(estimator: Any, table: io.Table) -> Any:
    """The features of the fit from a table, by name where both have names."""
    wanted = getattr(estimator, "feature_names_in_", None)
    p = estimator.n_features_in_
    if wanted is None or table.names is None:
        if table.shape[1] != p:
            raise ValueError(
                f"the table has {table.shape[1]} columns of numbers, but the model was fitted on "
                f"{p}."
            )
        values = table.values
    else:
        place = {name: j for j, name in enumerate(table.names)}
        absent = [str(name) for name in wanted if name not in place]
        if absent:
            shown = ", ".join(map(repr, absent[:5])) + (", …" if len(absent) > 5 else "")
            raise ValueError(
                f"the model was fitted on other columns: the table has no {shown} "
                f"({len(absent)} of {p} columns are absent)."
            )
        values = table.values[:, [place[str(name)] for name in wanted]]
    return values.toarray() if is_sparse(values) else values


def _warn_about_columns(notes: Sequence[str]) -> None:
    """Columns of a file that are not among the features are never left out in silence."""
    if notes:
        warnings.warn("; ".join(notes) + ".", UserWarning, stacklevel=5)


def unmasked(X: Any) -> Any:
    """A masked array as one with NaN in the masked cells; the rest as it is, but for Dask's."""
    refuse_dask(X)
    if not isinstance(X, np.ma.MaskedArray):
        return X
    kind = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    values = np.ma.getdata(X).astype(kind)
    return np.where(np.ma.getmaskarray(X), np.asarray(np.nan, kind), values)


def as_numpy(X: Any) -> Any:
    """Arrays of other libraries as NumPy's; the rest as it is, but for Dask's."""
    refuse_dask(X)
    return to_numpy(X) if is_foreign_array(X) else X


def read_matrix(Y: Any) -> Any:
    """A matrix to factorize: two-dimensional, finite, of floats."""
    refuse_dask(Y)
    if is_foreign_array(Y):
        Y = _checked_foreign(Y)
        check_finite(Y)
        return Y
    return check_array(Y, dtype=[np.float64, np.float32], input_name="Y")


def read_new_data(estimator: Any, X: Any, method: str) -> Any:
    """Rows for a method of a fitted estimator: dense, with the features of the fit, and finite but
    for holes where the estimator takes them.
    """
    X = unmasked(X)
    if isinstance(X, io.Table):
        check_same_place(estimator, np.empty(0), method)
        return check_array(
            _arranged(estimator, X),
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan" if estimator._reads_holes() else True,
        )
    if is_foreign_array(X):
        X = _checked_foreign(X)
        if X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
        if not (estimator._reads_holes() and has_holes(X)):
            check_finite(X)
        check_same_place(estimator, X, method)
        return X
    check_same_place(estimator, np.empty(0), method)
    X = validate_data(
        estimator,
        X,
        reset=False,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite="allow-nan" if estimator._reads_holes() else True,
    )
    return X.toarray() if is_sparse(X) else X


def read_block(estimator: Any, X: Any, *, first: bool) -> Any:
    """A block of rows for `partial_fit`: dense, finite, with the features of the blocks before."""
    refuse_dask(X)
    return validate_data(
        estimator, X, reset=first, dtype=[np.float64, np.float32], ensure_min_samples=1
    )


def read_scores(X: Any, n_components: int, like: Array) -> Any:
    """An array of scores with one column per component, in the type of the components."""
    if not is_foreign_array(X):
        X = np.asarray(X, dtype=like.dtype if is_numpy_array(like) else None)
    if X.ndim != 2 or X.shape[1] != n_components:
        raise ValueError(
            f"expected an array with {n_components} columns, one for each component, "
            f"got one of shape {tuple(X.shape)}."
        )
    return X


def check_same_place(estimator: Any, X: Array, method: str) -> None:
    """Raise unless X is of the library, and on the device, that the estimator was fitted with."""
    fitted = estimator.core_ if hasattr(estimator, "core_") else estimator.components_
    here, there = (array_namespace(a).__name__.rpartition(".")[2] for a in (X, fitted))
    if here != there or device(X) != device(fitted):
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace "
            f"and device as those passed to fit(): {there} on {device(fitted)}, not {here} on "
            f"{device(X)}."
        )


def check_finite(X: Any) -> None:
    """Raise with the place of the first NaN or infinity in X, if there is one."""
    values = X.data if is_sparse(X) else X
    xp = array_namespace(values)
    wrong = ~xp.isfinite(values)
    if not bool(xp.any(wrong)):
        return
    if is_sparse(X):
        first = int(np.argmax(wrong))
        place = f"column {int(X.tocsr().indices[first])}"
    else:
        flat = int(xp.argmax(xp.reshape(xp.astype(wrong, xp.int8), (-1,))))
        place = f"row {flat // X.shape[1]}, column {flat % X.shape[1]} (counting from 0)"
    what = "NaN" if bool(xp.any(xp.isnan(values))) else "infinity"
    raise ValueError(
        f"Input X contains {what}, first at {place}: remove or fill what is not a finite number."
    )


def check_finite_if_possible(X: Any) -> None:
    """As `check_finite`, for data in memory; sources of blocks check themselves."""
    if not isinstance(X, Source | Partitions):
        check_finite(X)


def has_holes(X: Any) -> bool:
    """Whether an array has NaN, which mean holes, and nothing else that is not finite."""
    if isinstance(X, Source | Partitions) or is_sparse(X):
        return False
    xp = array_namespace(X)
    return bool(xp.any(xp.isnan(X))) and not bool(xp.any(xp.isinf(X)))


def check_any_value(X: Array) -> None:
    """Raise where all cells are holes."""
    xp = array_namespace(X)
    seen.check_any_value(not bool(xp.all(xp.isnan(X))), int(np.prod(X.shape)))


def check_engine_for_holes(estimator: Any) -> None:
    """Raise for an engine that a fit with holes would ignore."""
    if estimator.engine != "auto":
        raise ValueError(
            f"Input X contains NaN, which are holes for engine='auto'; engine={estimator.engine!r} "
            "is for complete data: leave it at 'auto', or fill the holes first."
        )


def check_for_holes(estimator: Any, X: Array) -> None:
    """Raise for options that say nothing about holes, and where all cells of an array are."""
    if not isinstance(X, Partitions):
        check_any_value(X)
    if estimator.solver == "closed":
        raise ValueError(
            "Input X contains NaN, and there is no closed form for holes: leave solver at 'auto', "
            "or fill the holes first."
        )
    if estimator.method == "laplace":
        raise ValueError(
            "Input X contains NaN, and Minka's evidence (method='laplace') is for complete data: "
            "use method='evb', or fill the holes first."
        )
    flat = estimator.method == "map" and estimator.prior_variance is None
    if flat and estimator.n_components == "auto":
        raise ValueError(
            "Input X contains NaN, and method='map' with a flat prior fits every cell that is "
            "there and says nothing of the others: give prior_variance or n_components, or use "
            "method='evb'."
        )


def features_of(estimator: Any) -> dict[str, Any]:
    """The attributes about features that reading data has set."""
    names = ("n_features_in_", "feature_names_in_")
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def adopt_features(reader: Any, estimator: Any) -> None:
    """Let a reader expect the features that an estimator was fitted with."""
    vars(reader).update(features_of(estimator))


def checked_n_components(n_components: Any, method: str) -> int | None:
    """The cap on the rank, None for "auto"."""
    if isinstance(n_components, str) and n_components == "auto":
        if method == "ml":
            raise ValueError("method='ml' needs the number of components: give n_components.")
        return None
    if not isinstance(n_components, Integral) or n_components < 0:
        raise ValueError(
            f"n_components must be 'auto' or a whole number of at least 0, got {n_components!r}."
        )
    return int(n_components)


def check_per_feature(estimator: Any) -> None:
    """Noise of its own for each feature needs a free energy that is bounded and comparable."""
    method = estimator.method
    if method not in ("evb", "vb", "ml") or (method == "vb" and estimator.prior_variance is None):
        raise ValueError(
            "noise='per-feature' works with method='evb', 'ml', and 'vb' with a prior_variance; "
            f"got method={method!r}."
        )
    for name, default in (("noise_variance", "auto"), ("scale", False), ("engine", "auto")):
        value = getattr(estimator, name)
        if value != default:
            raise ValueError(
                f"noise='per-feature' finds the noise and so the scale of each feature by its own "
                f"way: leave {name} at {default!r}, not {value!r}."
            )


def check_iterative(estimator: Any) -> None:
    """Iteration needs a bounded free energy, and a scale that it does not have to find itself."""
    method = estimator.method
    if method not in ITERATED:
        raise ValueError(
            f"solver='iterative' works with method {', '.join(ITERATED)}; got {method!r}."
        )
    if method in ("vb", "pb", "pb-a", "pb-b", "map") and estimator.prior_variance is None:
        raise ValueError(
            f"solver='iterative' with method={method!r} needs a prior_variance: under a flat prior "
            "the free energy has no minimum."
        )
    if estimator.noise == "per-feature":
        raise ValueError("noise='per-feature' has an iteration of its own: leave solver at 'auto'.")


def check_looping(estimator: Any) -> None:
    for name, least in (("max_iter", 1), ("n_init", 1)):
        value = getattr(estimator, name)
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if not (isinstance(estimator.tol, Real) and float(estimator.tol) >= 0):
        raise ValueError(f"tol must be a number of at least 0, got {estimator.tol!r}.")


def looping(estimator: Any, callback: Callback | None) -> Looping:
    """How the iterations of a fit are run, from the parameters that estimators share."""
    return Looping(
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        n_init=estimator.n_init,
        random_state=seed(estimator.random_state),
        callback=callback,
        checkpoint=getattr(estimator, "checkpoint", None),
    )


def hyperparameters(estimator: Any) -> Hyper:
    """The constants of the priors of Bishop's model."""
    found: dict[str, Any] = {}
    for name in ("a_alpha", "b_alpha", "a_tau", "b_tau", "beta"):
        value = getattr(estimator, name)
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"{name} must be a positive number, got {value!r}.")
        found[name] = float(value)
    return replace(Hyper(), **found)


def checked_clusters(n_components: Any, max_components: Any, n_rows: int) -> tuple[int, bool]:
    """How many clusters to start with, and whether their number is to be chosen."""
    for name, value in (("n_components", n_components), ("max_components", max_components)):
        if name == "n_components" and isinstance(value, str) and value == "auto":
            continue
        if not isinstance(value, Integral) or int(value) < 1:
            auto = "'auto' or " if name == "n_components" else ""
            raise ValueError(
                f"{name} must be {auto}a whole number of at least 1, the number of clusters; "
                f"got {value!r}."
            )
    if isinstance(n_components, str):
        return max(1, min(int(max_components), n_rows // 5)), True
    if int(n_components) > n_rows:
        raise ValueError(
            f"n_components={n_components} clusters need at least as many rows, and there are "
            f"{n_rows} (n_samples = {n_rows}) that hold a value and count: lower n_components."
        )
    return int(n_components), False


def checked_ranks(rank: Any, method: str, n_clusters: int, choose: bool) -> tuple[int | None, ...]:
    """The rank of each cluster: the largest allowed, None for "auto"; the rank itself for "ml"."""
    if isinstance(rank, str) and rank == "auto":
        if method == "ml":
            raise ValueError("method='ml' needs the rank of the clusters: give rank.")
        return (None,) * n_clusters
    several = not isinstance(rank, Integral | str) and np.ndim(rank) == 1
    given = list(rank) if several else [rank] * n_clusters
    if not all(isinstance(one, Integral) and int(one) >= 0 for one in given):
        raise ValueError(
            "rank must be 'auto', a whole number of at least 0, or one such number for each "
            f"cluster; got {rank!r}."
        )
    if several and (choose or len(given) != n_clusters):
        asked = "'auto'" if choose else n_clusters
        raise ValueError(
            f"rank has {len(given)} entries, one for each cluster, but n_components is {asked}: "
            "give as many, or one number for all."
        )
    return tuple(int(one) for one in given)


def check_concentration(value: Any, method: str) -> None:
    if value is None:
        return
    if method == "ml":
        raise ValueError(
            "weight_concentration is a prior of the weights, which method='ml' point-estimates: "
            "leave it at None."
        )
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"weight_concentration must be None or a positive number, got {value!r}.")


def check_some_weight(weights: NDArray[np.float64]) -> None:
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows: at least one must be positive.")


def check_columns_told(X: Array) -> None:
    """Raise with the first column without any value, if there is one."""
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if empty.size:
        raise ValueError(
            f"Input X has no value in column {int(empty[0])} (counting from 0): leave the column "
            "out."
        )


def warn_of_early_end(trace: Trace, what: str) -> None:
    """Tell how much still changed, and what to do."""
    change = trace.last_change
    by = f" by {change:.1e} of itself" if np.isfinite(change) else ""
    warnings.warn(
        f"{what}{by} in the last of {len(trace)} steps: raise max_iter or tol. The result is "
        "usable.",
        ConvergenceWarning,
        stacklevel=4,
    )


def seed(random_state: Any) -> Any:
    """What NumPy's generators are seeded with, from what scikit-learn's users pass."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state


def generator(random_state: Any) -> np.random.Generator:
    return np.random.default_rng(seed(random_state))


def choose(name: str, value: Any, options: tuple[Any, ...]) -> None:
    """Raise unless an option is one of those that exist."""
    if not any(value is option or value == option for option in options):
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")


def _is_blocks(X: Any) -> bool:
    return isinstance(X, str | os.PathLike | np.memmap | Source | Iterator)


def is_foreign_array(X: Any) -> bool:
    """An array that is not NumPy's: torch, CuPy, array-api-strict."""
    return is_array_api_obj(X) and not is_numpy_array(X) and not is_sparse(X)


def _checked_foreign(X: Any) -> Any:
    xp = array_namespace(X)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got an array of {X.ndim} dimensions instead.")
    if not X.shape[0] or not X.shape[1]:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) "
            f"(shape={tuple(X.shape)}) while a minimum of 1 is required."
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported.")
    return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)
