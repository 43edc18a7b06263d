"""Model files: an estimator and its record, checked against their annotations.

Nothing is listed here: parameters are those of the constructor, the fitted state is the record
`fit_` with the attributes that `kept_by` names beside it, and each record checks itself. Names of
parameters, records and their fields belong to the version of the format.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any, get_type_hints

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.io import archive
from bayespca.io.archive import FlawError, ModelFileError
from bayespca.io.kinds import kind_of, option_kind, records_of
from bayespca.io.tree import Decoder, Encoder, Json, Kind, check_kinds, members

from ._base import ESTIMATORS, AnyEstimator, kept_by, once

__all__ = ["ModelFileError", "load", "save"]


def save(estimator: AnyEstimator, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not, to a model file; see `load`.

    Raises TypeError for values that a file cannot hold, and OSError if it cannot be written.
    """
    cls, name = type(estimator), type(estimator).__name__
    if ESTIMATORS.get(name) is not cls:
        raise TypeError(f"{name} cannot be saved: only {', '.join(sorted(ESTIMATORS))} can.")
    parameters, encoder = parameter_kinds(cls), Encoder(_records(cls), to_numpy)
    state: Any = estimator.__getstate__()
    strange = sorted(state.keys() - parameters.keys() - kept_by(cls).keys() - SETTINGS.keys())
    if strange:
        raise TypeError(
            f"cannot save {strange[0]}: it is not an attribute of a {name}; remove it (del "
            f"model.{strange[0]}) and keep it elsewhere."
        )
    trees = {key: encoder.encode(value, key) for key, value in sorted(state.items())}
    try:
        version = metadata.version("bayespca")
    except metadata.PackageNotFoundError:
        version = "unknown"
    meta = {
        "bayespca": version,
        "class": name,
        "parameters": {key: tree for key, tree in trees.items() if key in parameters},
        "attributes": {key: tree for key, tree in trees.items() if key not in parameters},
    }
    try:
        _estimator(meta, encoder.arrays)
    except FlawError as flaw:
        raise ValueError(f"this {name} cannot be saved: {flaw}.") from None
    archive.write(path, meta, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file that its `save` has written.

    It returns exactly what was saved, to the last bit: parameters, attributes, and what
    `partial_fit` needs to continue. Arrays of other libraries (torch, CuPy) become NumPy arrays.
    Nothing in a file is ever executed, so it is safe to load files of unknown origin.

    Raises
    ------
    ModelFileError
        A ValueError: the file is not a model file, is damaged, or needs a newer bayespca.
    OSError
        The file does not exist or cannot be read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from bayespca import BayesianPCA, load
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> with TemporaryDirectory() as folder:
    ...     BayesianPCA().fit(X).save(f"{folder}/model.bpca")
    ...     load(f"{folder}/model.bpca").n_components_
    3
    """
    meta, arrays = archive.read(path)
    with archive.naming(path):
        return _estimator(meta, arrays)


# --- what a file may hold ----------------------------------------------------------------------


@once
def _records(cls: type[AnyEstimator]) -> Mapping[str, Any]:
    """The records that a file of this estimator may hold, by name."""
    return records_of(*kept_by(cls).values())


@once
def parameter_kinds(cls: type[AnyEstimator]) -> Mapping[str, Kind]:
    """Allowed values of an estimator's parameters, from the annotations of its constructor."""
    hints, names = get_type_hints(cls.__init__), sorted(inspect.signature(cls).parameters)
    return {name: option_kind(hints.get(name, Any)) for name in names}


def _is_output_setting(value: Any) -> bool:
    known = ("default", "pandas", "polars")
    return (
        isinstance(value, dict)
        and value.keys() <= {"transform"}
        # Arrays would be compared entry by entry.
        and all(v is None or (isinstance(v, str) and v in known) for v in value.values())
    )


# Attributes that an estimator may also hold before it is fitted.
SETTINGS = {"_sklearn_output_config": Kind("a setting of set_output", _is_output_setting)}


# --- from a tree -------------------------------------------------------------------------------


def _estimator(meta: Json, arrays: Mapping[str, np.ndarray]) -> AnyEstimator:
    """The estimator that the tree and the arrays of a file describe."""
    *_, parameters, attributes = members(meta, "bayespca", "class", "parameters", "attributes")
    name, written_by = meta.get("class"), meta.get("bayespca")
    # All estimators of this package register themselves when they are imported.
    import_module("bayespca.estimators")
    cls = ESTIMATORS.get(name) if isinstance(name, str) else None
    if cls is None or not isinstance(written_by, str):
        raise FlawError(f"it holds an estimator of the unknown class {str(name)[:60]!r}")
    kinds, decoder = parameter_kinds(cls), Decoder(_records(cls), arrays)
    trees = dict(zip(kinds, members(parameters, *kinds), strict=True))
    if not isinstance(attributes, dict):
        raise FlawError("it holds something else where attributes should be")
    of_fit = attributes.keys() - SETTINGS.keys()
    unknown = sorted(of_fit - kept_by(cls).keys())
    if unknown:
        raise FlawError(f"the attribute {unknown[0][:60]!r} is unknown")
    if of_fit and "fit_" not in of_fit:
        raise FlawError("the attribute fit_ is missing")
    trees |= attributes
    values = {key: decoder.decode(tree) for key, tree in trees.items()}
    kept = {name: kind_of(annotation) for name, annotation in kept_by(cls).items()}
    check_kinds(f"a {cls.__name__}", values, {**kinds, **SETTINGS, **kept})
    estimator = cls()
    estimator.__dict__.update(values)
    if "fit_" in values:
        try:
            estimator._check_kept()
        except ValueError as error:
            raise FlawError(str(error)) from None
    if decoder.used != arrays.keys():
        raise FlawError("it holds an array that nothing refers to")
    return estimator
