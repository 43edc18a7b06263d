"""Values that displays read from fitted estimators: NumPy arrays, noise variances, names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators.wording import feature_names, percent
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.sources.partitions import is_dask
from bayespca.spectrum.records import Spectrum

# Longer names are cut, so that they leave room for the plot.
LONGEST_NAME = 24


def array(values: Input) -> np.ndarray:
    """Arrays or frames of any library as a NumPy array; refuses Dask's, which may be large."""
    if is_dask(values):
        raise TypeError(
            f"a Dask {type(values).__name__} has rows on its workers: compute a sample of them and "
            "draw that, as in X[:10_000].compute()."
        )
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    if isinstance(values, list | tuple):
        return np.asarray(values)
    return to_numpy(values)


def is_missing(values: np.ndarray) -> NDArray[np.bool_]:
    """Mask of the values that are NaN, NaT, None or pandas' NA."""
    if values.dtype.kind in "fcmM":
        return np.isnan(values)
    if values.dtype == object:
        # NaN is the one value that differs from itself; pandas' NA raises an error when compared.
        found = [
            value is None or type(value).__name__ == "NAType" or bool(value != value)  # noqa: PLR0124
            for value in values.ravel()
        ]
        return np.array(found, dtype=np.bool_).reshape(values.shape)
    return np.zeros(values.shape, dtype=np.bool_)


def spectrum_of(estimator: AnyEstimator) -> Spectrum:
    """The spectrum of a fit; an error if it has none."""
    check_is_fitted(estimator)
    spectrum = getattr(estimator, "spectrum_", None)
    if spectrum is None:
        raise ValueError(
            f"this {type(estimator).__name__} has no singular values of complete data to show."
        )
    return spectrum


def unit_of_data(estimator: AnyEstimator) -> str:
    """Suffix of an axis label for data that were divided by their noise."""
    own = getattr(estimator, "noise_", ISOTROPIC.name) != ISOTROPIC.name
    return " (of data with equal noise)" if own else ""


def n_components(estimator: AnyEstimator, *, what: str) -> int:
    """The rank; an error if there are no components to show."""
    check_is_fitted(estimator)
    k = int(estimator.n_components_)
    if k == 0:
        raise ValueError(f"the model found rank 0, so there are no {what} to show.")
    return k


def short_feature_names(estimator: AnyEstimator) -> list[str]:
    """The names of the features; long ones are cut."""
    return [shortened(name) for name in feature_names(estimator)]


def component_label(estimator: AnyEstimator, h: int) -> str:
    """Name and share of variance of component h, counted from 1: "component 1 (36 %)"."""
    ratio = getattr(estimator, "explained_variance_ratio_", None)
    if ratio is None:
        return f"component {h}"
    return f"component {h} ({percent(float(array(ratio)[h - 1]))})"


def shortened(name: object, longest: int = LONGEST_NAME) -> str:
    """A name cut to fit beside a plot."""
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"
