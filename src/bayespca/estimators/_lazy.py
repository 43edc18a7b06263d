"""Methods of fitted estimators on Dask collections: one lazy task per block of rows."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names

from bayespca.arrays.types import Input
from bayespca.lowrank import imputing
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import Unknown
from bayespca.sources.partitions import is_dask_table, partitioned
from bayespca.sources.records import DaskArray, Partitions
from bayespca.sources.tasks import array_of_rows, stacked

from . import _input


def rows(estimator: BaseEstimator, X: Input, method: str, **options: object) -> DaskArray:
    """Results of a method for all rows of X, as Dask arrays with the same blocks as X."""
    _input.check_same_place(estimator, np.empty(0), method)
    return applied(estimator, _checked(estimator, X), method, options)


def _checked(estimator: BaseEstimator, X: Input) -> Partitions:
    """The blocks of a collection; raise unless it has the features of the fit."""
    data = partitioned(X, wide=False)
    if data.n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {data.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    meta = X._meta if is_dask_table(X) else np.empty((0, data.n_features), data.dtype)
    _check_feature_names(estimator, meta, reset=False)
    return data


def imputations(estimator: BaseEstimator, X: Input, n: int, rng: np.random.Generator) -> DaskArray:
    """n copies of X with draws in their holes, (n, rows, p): one block per block of each copy.

    Loadings and means are drawn once per copy, scores and noise for each block.
    """
    data = _checked(estimator, X)
    return stacked(copies(data, max(n, 1), rng, estimator.uncertain_posterior()))[:n]


def copies(
    data: Partitions,
    n: int,
    rng: np.random.Generator,
    known: tuple[HolesPosterior, Unknown | None],
) -> list[DaskArray]:
    """n copies of the blocks, with draws in their holes."""
    like = np.empty((0, data.n_features), data.dtype)
    seeds = rng.integers(2**63, size=n).tolist()
    each = [range(len(data.chunks))]
    return [array_of_rows(data, _drawn, seed, known, like=like, each=each) for seed in seeds]


def _drawn(
    block: np.ndarray, i: int, seed: int, known: tuple[HolesPosterior, Unknown | None]
) -> np.ndarray:
    if not len(block):
        return block
    posterior, unknown = known
    return imputing.sample_imputation(
        posterior,
        block,
        np.random.default_rng([seed, 1 + i]),
        of_columns=np.random.default_rng([seed, 0]),
        unknown=unknown,
    )


def scores(estimator: BaseEstimator, X: Input, method: str) -> DaskArray:
    """`rows` for a method whose argument has one column per component."""
    data = partitioned(X, wide=False)
    if data.n_features != estimator.n_components_:
        raise ValueError(
            f"expected an array with {estimator.n_components_} columns, one for each component, "
            f"got one with {data.n_features}."
        )
    return applied(estimator, data, method, {})


def applied(
    estimator: BaseEstimator, data: Partitions, method: str, options: dict[str, object]
) -> DaskArray:
    """One Dask array per array that the method returns; a row of zeros gives shapes and dtypes."""
    model = copy.copy(estimator)
    # Names were checked before; blocks have none.
    for name in ("feature_names_in_", "_seen"):
        model.__dict__.pop(name, None)
    apply = Apply(method, options)
    answers = apply.answers(np.zeros((1, data.n_features), data.dtype), model)
    joined = apply(np.zeros((1, data.n_features), data.dtype), model)
    found = array_of_rows(data, apply, model, like=joined)
    if len(answers) == 1:
        return found
    edges = np.cumsum([0, *(answer.shape[1] for answer in answers)])
    return tuple(found[:, i:j] for i, j in pairwise(edges))


@dataclass(frozen=True)
class Apply:
    """A method of a model as a function of a block of rows; several results go side by side."""

    method: str
    options: dict[str, object] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return self.method

    def answers(self, block: np.ndarray, model: BaseEstimator) -> tuple[np.ndarray, ...]:
        found = getattr(model, self.method)(block, **self.options)
        return found if isinstance(found, tuple) else (found,)

    def __call__(self, block: np.ndarray, model: BaseEstimator) -> np.ndarray:
        if not len(block):
            return self(np.zeros((1, block.shape[1]), block.dtype), model)[:0]
        found = self.answers(block, model)
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)
