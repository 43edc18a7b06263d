"""Attributes, parameters and answers of a model, as plain arrays by name.

`make.py` records them next to each model file, and the test compares them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

Arrays = dict[str, np.ndarray]


def attributes(model: Any, names: Iterable[str]) -> Arrays:
    there = [name for name in names if name not in GONE.get(type(model).__name__, ())]
    found = {name: getattr(model, _now(model, name)) for name in there}
    # Files hold the status without how the fit ended, which the trace says.
    return _flat(found | ({"status_": model.fit_.status} if "status_" in found else {}))


# Attributes that were removed because they were wrong.
GONE = {"BinaryPCA": ("components_std_",)}


def _now(model: Any, name: str) -> str:
    """The current name of an attribute.

    Up to version 2, `noise_variance_` was an array if each feature had its own noise.
    """
    own = name == "noise_variance_" and getattr(model, "noise_", "") == "per-feature"
    return "feature_noise_variance_" if own else name


def parameters(model: Any, names: Iterable[str]) -> Arrays:
    values, before = model.get_params(deep=False), BEFORE.get(type(model).__name__, {})
    found: Arrays = {}
    for name in names:
        now, words = before.get(name, (name, {}))
        value = values[now]
        is_word = isinstance(value, str) and value in words
        found[name] = np.array(repr(words[value] if is_word else value))
    return found


def _found(name: str) -> tuple[str, dict[str, Any]]:
    """An option whose value 'auto' was None."""
    return name, {"auto": None}


# Options that had other names or values in files of version 1: their current names, and the old
# spelling of current values.
BEFORE: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "BernoulliMixture": {
        "init_params": ("init", {}),
        "method": ("method", {"ml": "em"}),
        "ones_prior": _found("ones_prior"),
        "weight_concentration_prior": _found("weight_concentration_prior"),
        "zeros_prior": _found("zeros_prior"),
    },
    "GibbsPCA": {"n_components": _found("n_components")},
    "PCAMixture": {
        "rank": ("ranks", {}),
        "weight_concentration": _found("weight_concentration_prior"),
    },
    "VariationalPCA": {"n_components": _found("n_components")},
}


def answers(model: Any, inputs: Arrays) -> Arrays:
    """Results of methods for rows X without and H with holes, or for users, items and ratings."""
    found = _random_numbers(getattr(model, "random_state", None))
    if "users" in inputs:
        found |= _ratings(model, inputs["users"], inputs["items"], inputs["ratings"])
    elif inputs:
        X, H = (_as_fitted(model, inputs[name]) for name in ("X", "H"))
        found |= ANSWERS[type(model).__name__](model, X, H)
    return _flat(found)


# --- values ------------------------------------------------------------------------------------


def _flat(values: dict[str, Any]) -> Arrays:
    """Numbers, strings and arrays; those inside records, lists and tuples are named by path."""
    found: Arrays = {}
    for name, value in values.items():
        inner = _inner(value)
        if inner is not None:
            found |= _flat({f"{name}.{key}": item for key, item in inner.items()})
        elif isinstance(value, bool | int | float | str | np.generic | np.ndarray):
            array = np.asarray(value)
            found[name] = array.astype(str) if array.dtype == object else array
        elif value is not None:
            raise TypeError(f"{name} is a {type(value).__name__}")
    return found


def _inner(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, pd.DataFrame):
        return {"columns": np.array(value.columns, dtype=str), "values": value.to_numpy()}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else None


def _as_fitted(model: Any, X: np.ndarray) -> Any:
    names = getattr(model, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


# --- answers -----------------------------------------------------------------------------------


def _random_numbers(state: Any) -> dict[str, Any]:
    """The next random numbers, from streams that NumPy keeps stable across versions."""
    if isinstance(state, np.random.Generator):
        return {"random": copy.deepcopy(state).bit_generator.random_raw(3)}
    if isinstance(state, np.random.RandomState):
        return {"random": copy.deepcopy(state).normal(size=3)}
    return {}


def _pca(model: Any, X: Any, H: Any) -> dict[str, Any]:
    T = model.transform(X)
    found = {
        "transform": T,
        "transform with std": model.transform(H, return_std=True),
        "inverse_transform": model.inverse_transform(np.asarray(T)),
        "project": model.project(X),
        "denoise": model.denoise(X),
        "impute": model.impute(H, return_std=True),
        "score_samples": model.score_samples(H),
        "score": model.score(X),
        "get_covariance": model.get_covariance(),
        "get_precision": model.get_precision(),
        "get_feature_names_out": model.get_feature_names_out(),
    }
    if hasattr(model, "_seen"):
        more = copy.deepcopy(model).partial_fit(X)
        found["partial_fit"] = (more.n_samples_, more.mean_, more.get_covariance())
    return found


def _gibbs(model: Any, X: Any, H: Any) -> dict[str, Any]:
    scores, std = model.transform(X, return_std=True)
    return {
        "transform": (scores, std),
        "inverse_transform": model.inverse_transform(scores),
        "score_samples": model.score_samples(X),
        "score": model.score(X),
        "get_covariance": model.get_covariance(),
        "aligned_components": model.aligned_components(),
        "aligned_loadings": model.aligned_loadings(),
    }


def _imputer(model: Any, X: Any, H: Any) -> dict[str, Any]:
    return {"transform": model.transform(H), "names": model.get_feature_names_out()}


def _ratings(model: Any, users: Any, items: Any, ratings: Any) -> dict[str, Any]:
    pairs = np.stack([users, items], axis=1)
    return {
        "predict": model.predict(users, items, return_std=True),
        "recommend": model.recommend(users[0], 3, return_std="mean"),
        "similar_items": model.similar_items(items[0], 3),
        "predict_new": model.predict_new(items, ratings, return_std=True),
        "score": model.score(pairs, ratings),
    }


def _tucker(model: Any, X: Any, H: Any) -> dict[str, Any]:
    rows = model.transform(X)
    return {
        "transform": rows,
        "transform with holes": model.transform(H),
        "inverse_transform": model.inverse_transform(np.asarray(rows)),
        "impute": model.impute(H, return_std=True),
        "reconstruct": model.reconstruct(),
    }


def _pca_mixture(model: Any, X: Any, H: Any) -> dict[str, Any]:
    return {
        "predict": model.predict(X),
        "predict_proba": model.predict_proba(H),
        "score_samples": model.score_samples(H),
        "score": model.score(X),
        "transform": model.transform(X),
        "transform in a cluster": model.transform(X, cluster=0),
        "denoise": model.denoise(X),
        "impute": model.impute(H),
    }


def _bernoulli_mixture(model: Any, X: Any, H: Any) -> dict[str, Any]:
    found = {
        "predict": model.predict(X),
        "predict_proba": model.predict_proba(H),
        "impute": model.impute(H),
        "score_samples": model.score_samples(H),
        "score": model.score(X),
    }
    return found | ({"bic": model.bic(X), "aic": model.aic(X)} if model.method == "ml" else {})


def _binary_pca(model: Any, X: Any, H: Any) -> dict[str, Any]:
    scores, std = model.transform(H, return_std=True)
    return {
        "transform": (scores, std),
        "inverse_transform": model.inverse_transform(scores),
        "predict_proba": model.predict_proba(X),
        "impute": model.impute(H),
        "score_samples": model.score_samples(H),
        "score": model.score(X),
    }


def _generalized_pca(model: Any, X: Any, H: Any) -> dict[str, Any]:
    scores, std = model.transform(H, return_std=True)
    return {
        "transform": (scores, std),
        "inverse_transform": model.inverse_transform(scores),
        "predict_cells": model.predict_cells(H),
        "impute": model.impute(H),
        "score_samples": model.score_samples(H),
        "score": model.score(X),
    }


def _gplvm(model: Any, X: Any, H: Any) -> dict[str, Any]:
    """Answers that need no iteration: the descent that places new rows depends on rounding."""
    return {
        "inverse_transform": model.inverse_transform(model.embedding_[: len(X)], return_std=True),
        "sample": model.sample(3, random_state=0),
    }


def _multi_view(model: Any, X: Any, H: Any) -> dict[str, Any]:
    return {
        "transform": model.transform(H, return_std=True),
        "inverse_transform": model.inverse_transform(model.transform(X)),
        "impute": model.impute(H, return_std=True),
        "predict_view": model.predict_view(X, model.view_names_[0], return_std="mean"),
        "score_samples": model.score_samples(H),
    }


ANSWERS = {
    "BayesianPCA": _pca,
    "BayesianPCAImputer": _imputer,
    "BayesianTucker": _tucker,
    "BernoulliMixture": _bernoulli_mixture,
    "BinaryPCA": _binary_pca,
    "GPLVM": _gplvm,
    "GeneralizedPCA": _generalized_pca,
    "GibbsPCA": _gibbs,
    "MultiViewPCA": _multi_view,
    "PCAMixture": _pca_mixture,
    "VariationalPCA": _pca,
}
