"""Upgrades of model files from earlier versions of the format to the current one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np

from bayespca.io.archive import FlawError
from bayespca.io.kinds import records_of
from bayespca.io.tree import Encoder, Json, Record
from bayespca.lowrank.noise_models import ISOTROPIC, PER_FEATURE
from bayespca.lowrank.records import NoiseFound, PCAFit

from ._base import AnyEstimator, Fitted, kept_by
from ._renaming import renamed_in

Arrays = Mapping[str, np.ndarray]
Trees = dict[str, Json]
Contents = tuple[dict[str, Json], dict[str, np.ndarray]]

# Options that came later, with values that describe what was done before.
ONCE = {"noise": ISOTROPIC.name}
# Fields of `fit_` that came with version 3.
LATER = ("noise", "free_energy_by_rank")
# Fields that files of version 3 may lack, because they were added within that version.
ADDED = {
    "HolesPosterior": ("combined",),
    "MixtureFit": ("evidence",),
    "PCAFit": ("n_copies",),
    "Posterior": ("combined",),
    "TuckerFit": ("unknown",),
    "FactorizationFit": ("draws", "r_hat", "ess"),
    "RatingsDraws": ("row_implicit", "row_centre", "row_spread", "column_spread", "drift"),
    "ViewsFit": ("columns", "omega"),
    **dict.fromkeys(("BinaryFit", "TableFit"), ("r_hat", "ess")),
    **dict.fromkeys(("BinaryPosterior", "TablePosterior"), ("draws",)),
}
# Options that files of version 3 may lack for the same reason.
SAMPLING = ("method", "n_draws", "n_warmup", "n_chains", "thin")
ADDED_OPTIONS = {
    "BinaryPCA": SAMPLING,
    "GeneralizedPCA": SAMPLING,
    "MatrixFactorization": ("noise", "implicit", "n_draws", "n_warmup", "n_chains"),
    "MultiViewPCA": ("likelihood",),
}


def upgraded(
    version: int, meta: dict[str, Json], arrays: Arrays, cls: type[AnyEstimator]
) -> Contents:
    """The tree and the arrays of a file, as the current version would have written them."""
    found = meta, dict(arrays)
    for step in (from_version_1, from_version_2)[version - 1 :]:
        found = step(*found, cls)
    return found


def from_version_1(meta: dict[str, Json], arrays: Arrays, cls: type[AnyEstimator]) -> Contents:
    """Upgrade version 1, where each attribute `x_` stood by itself, to fields `x` of `fit_`.

    Attributes that follow from others are dropped, with arrays that nothing else refers to.
    """
    meta = meta | {"parameters": _options_of_today(meta.get("parameters"), cls)}
    found = meta.get("attributes")
    gone = GONE.get(cls.__name__, ())
    fitted = {name: tree for name, tree in _pairs(found) if _is_fitted(cls, name) or name in gone}
    if not isinstance(found, dict) or not fitted:
        return meta, dict(arrays)
    encoder = Encoder(records_of(cls._record))
    parts = [part for part in fields(cls._record) if part.name not in LATER]
    record = {part.name: _field(part, cls, fitted, arrays, encoder) for part in parts}
    kept = {name: tree for name, tree in found.items() if name not in fitted}
    tree = {"$record": {"class": cls._record.__name__, "fields": record}}
    upgraded = meta | {"attributes": kept | {"fit_": tree}}
    dropped = set(_references(meta)) - set(_references(upgraded))
    left = {name: array for name, array in arrays.items() if name not in dropped}
    return upgraded, left | encoder.arrays


def from_version_2(meta: dict[str, Json], arrays: Arrays, cls: type[AnyEstimator]) -> Contents:
    """Upgrade version 2, where `noise_variance` was an array if features had their own noise.

    Fields of records and options that came later get the values that describe what was done.
    """
    encoder = Encoder(records_of(*kept_by(cls).values()))
    options = _options_of_today(meta.get("parameters"), cls)
    found = _completed(meta.get("attributes"), arrays, encoder)
    return meta | {"parameters": options, "attributes": found}, {**arrays, **encoder.arrays}


def with_later_options(parameters: Json, cls: type[AnyEstimator]) -> Json:
    """The options, with defaults for those that the first files of version 3 lack."""
    added = ADDED_OPTIONS.get(cls.__name__, ())
    if not isinstance(parameters, dict) or not added:
        return parameters
    defaults = cls().get_params(deep=False)
    return {name: Encoder({}).encode(defaults[name], name) for name in added} | parameters


def with_later_fields(kept: Trees, cls: type[AnyEstimator]) -> Trees:
    """Attributes of an estimator, with defaults for fields that early files of version 3 lack."""
    layouts = records_of(*kept_by(cls).values())
    return {name: _with_added(tree, layouts) for name, tree in kept.items()}


def _with_added(tree: Json, layouts: Mapping[str, Record]) -> Json:
    """A record completed by the fields in `ADDED`, as are the records within it."""
    items = dict(_pairs(tree)).get("$tuple")
    if isinstance(items, list):
        return {"$tuple": [_with_added(item, layouts) for item in items]}
    record = dict(_pairs(dict(_pairs(tree)).get("$record")))
    found, layout = record.get("fields"), layouts.get(str(record.get("class")))
    if not isinstance(found, dict) or layout is None:
        return tree
    added = ADDED.get(layout.cls.__name__, ())
    absent = [part for part in fields(layout.cls) if part.name in added]
    later = {part.name: Encoder({}).encode(_default(part), part.name) for part in absent}
    inner = {name: _with_added(part, layouts) for name, part in found.items()}
    return {"$record": record | {"fields": later | inner}}


def _completed(tree: Json, arrays: Arrays, encoder: Encoder) -> Json:
    """A tree with its records completed by all of their fields."""
    if isinstance(tree, list):
        return [_completed(item, arrays, encoder) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tree = {key: _completed(item, arrays, encoder) for key, item in tree.items()}
    record = tree.get("$record")
    if isinstance(record, dict) and isinstance(record.get("fields"), dict):
        layout = encoder.records.get(str(record.get("class")))
        if layout is not None:
            return {"$record": record | {"fields": _fields(record, layout.cls, arrays, encoder)}}
    return tree


def _fields(record: Trees, cls: type, arrays: Arrays, encoder: Encoder) -> Trees:
    """The fields of a record, including those that came later."""
    found = dict(record["fields"])
    if cls is PCAFit:
        found = _with_noise(found, arrays, encoder)
    for part in fields(cls):
        if part.name not in found and _has_default(part):
            found[part.name] = encoder.encode(_default(part), part.name)
    return found


def _with_noise(found: Trees, arrays: Arrays, encoder: Encoder) -> Trees:
    """Fields with one noise variance, the mean over features that vary; `noise` has the others."""
    reference = next(_references(found.get("noise_variance")), None)
    if reference is None or reference not in arrays:
        return found
    own = arrays[reference]
    noise = encoder.encode(NoiseFound(name=PER_FEATURE.name), "noise")
    noise["$record"]["fields"]["features"] = found["noise_variance"]
    mean = float(own[own > 0].mean()) if (own > 0).any() else 0.0
    return found | {"noise_variance": encoder.encode(mean, "noise_variance"), "noise": noise}


def _options_of_today(parameters: Json, cls: type[AnyEstimator]) -> Json:
    """Options by current names and values; later ones get their defaults, or those of `ONCE`."""
    if not isinstance(parameters, dict):
        return parameters
    renamed, options = renamed_in(cls), cls.options
    now: dict[str, Json] = {}
    for before, tree in _pairs(parameters):
        name = renamed.get(before, before)
        now[name] = options[name].now(tree) if name in options else tree
    defaults = cls().get_params(deep=False)
    before = defaults | {name: value for name, value in ONCE.items() if name in defaults}
    return {name: Encoder({}).encode(value, name) for name, value in before.items()} | now


def _pairs(found: Json) -> list[tuple[str, Json]]:
    return list(found.items()) if isinstance(found, dict) else []


def _is_fitted(cls: type[AnyEstimator], name: str) -> bool:
    """Whether an attribute of this name is now read from the record."""
    return isinstance(getattr(cls, name, None), Fitted)


def _field(
    part: Field[Any], cls: type[AnyEstimator], fitted: Trees, arrays: Arrays, encoder: Encoder
) -> Json:
    name = f"{part.name}_"
    if part.name in NEW:
        return NEW[part.name](fitted, arrays)
    if not _is_fitted(cls, name) or part.name in ADDED.get(cls._record.__name__, ()):
        return encoder.encode(_default(part), f"fit_.{part.name}")
    if name not in fitted:
        raise FlawError(f"the attribute {name} is missing")
    return fitted[name]


def _has_default(part: Field[Any]) -> bool:
    return part.default is not MISSING or part.default_factory is not MISSING


def _default(part: Field[Any]) -> Any:
    factory: Any = part.default_factory
    return part.default if part.default is not MISSING else factory()


def _array(fitted: Trees, arrays: Arrays, *names: str) -> np.ndarray:
    """The first array found among these attributes."""
    for name in names:
        for reference in _references(fitted.get(name)):
            if reference in arrays:
                return arrays[reference]
    raise FlawError(f"the attribute {names[0]} is missing")


def _references(tree: Json) -> Iterator[str]:
    """Names of the arrays that a tree refers to."""
    if isinstance(tree, dict):
        inner = tree.get("$array")
        name = inner.get("name") if isinstance(inner, dict) else None
        if isinstance(name, str):
            yield name
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from _references(item)


# Attributes of version 1 that no longer exist.
GONE = {"BinaryPCA": ("components_std_",)}

# Functions that make the fields that no attribute had under this name, or in this form.
NEW: dict[str, Callable[[Trees, Arrays], Json]] = {
    "dtype": lambda fitted, arrays: {"$dtype": _array(fitted, arrays, "mean_", "means_").dtype.str},
    "per_feature": lambda fitted, arrays: _array(fitted, arrays, "noise_variances_").ndim == 2,
    "factors": lambda fitted, arrays: {"$tuple": fitted.get("factors_")},
}
