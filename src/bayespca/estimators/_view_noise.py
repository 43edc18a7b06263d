"""Noise of the features of each view, from a PCA of the view alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from bayespca.arrays.places import columns_of
from bayespca.arrays.types import Counts, FloatArray, Input
from bayespca.noise.asked import EVB
from bayespca.sources.cluster import dask_module
from bayespca.sources.records import DaskArray
from bayespca.spectrum.records import Status
from bayespca.views.data import ViewsLook

from ._views import Views
from .pca import BayesianPCA

Noise: TypeAlias = Literal["auto", "isotropic", "per-feature"]
# Noise models of BayesianPCA in which samples or cells have their own noise.
OF_SAMPLES = ("per-sample", "both", "student", "student-cells")


def noise_of_features(
    alone: Sequence[Input | None], given: Views, noise: Noise
) -> tuple[FloatArray, Status]:
    """Noise standard deviation of each feature, from a PCA of its view alone, and advice on it.

    It is NaN for views that are None or have no noise.
    """
    std, status = np.full(given.view.size, np.nan), Status()
    for name, values in zip(given.names, alone, strict=True):
        if values is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = BayesianPCA(n_components=EVB, noise=noise, random_state=0).fit(values)
        js = given.columns(name)
        variance = np.full(js.size, found.noise_variance_)
        if found.noise_ != "isotropic" and hasattr(found, "feature_noise_variance_"):
            variance = np.asarray(found.feature_noise_variance_)
        # Features without noise get the mean variance of the others.
        some = variance > 0
        usual = variance[some].mean() if some.any() else np.nan
        std[js] = np.sqrt(np.where(some, variance, usual))
        if found.noise_ in OF_SAMPLES:
            status = status.but(
                "noise-of-samples",
                f"Samples or cells of view {name!r} differ in noise ({found.noise_}): this "
                "model gives all samples of a view the same noise.",
            )
    return std, status


def rows_with_values(values: FloatArray, js: Counts) -> FloatArray | None:
    """The rows with values in a view; None if there are fewer than two or they do not vary."""
    values = columns_of(values, js)
    some = ~np.isnan(values).all(axis=1)
    values = values if some.all() else values[some]
    # These ignore NaN, and a column without values does not vary.
    varies = np.fmax.reduce(values, initial=-np.inf) > np.fmin.reduce(values, initial=np.inf)
    return values if len(values) > 1 and varies.any() else None


def distant_rows(values: DaskArray, look: ViewsLook, view: Counts, v: int) -> DaskArray | None:
    """`rows_with_values` of view v, on Dask."""
    js, columns = np.flatnonzero(view == v), look.columns
    if look.rows[v] < 2 or not (columns.high > columns.low)[js].any():
        return None
    x = columns_of(values, js)
    if look.rows[v] == columns.n_rows:
        return x
    return x[~dask_module("array").isnan(x).all(axis=1)]
