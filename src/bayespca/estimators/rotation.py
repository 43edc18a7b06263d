"""`rotate`: components turned into factors that are easier to name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.linear.rotation import OBLIMIN, VARIMAX
from bayespca.lowrank.posterior import latent_std

METHODS = {"varimax": VARIMAX, "oblimin": OBLIMIN}


@dataclass(frozen=True, eq=False)
class RotatedFactors:
    """Factors of a PCA after a rotation.

    Attributes
    ----------
    loadings
        Change of each feature with each factor, which has variance 1: (factors, features), in the
        units of the (scaled) data. If data are scaled and factors uncorrelated, these are
        correlations of features and factors.
    std
        Standard deviations of loadings, with the uncertainty of the rotation and of the sizes of
        factors: (factors, features).
    correlations
        Correlations of the factors: (factors, factors); the identity for varimax.
    rotation
        T: scores of factors are scores of components, scaled to variance 1, times T.
    """

    loadings: FloatArray
    std: FloatArray
    correlations: FloatArray
    rotation: FloatArray
    model: Any
    sizes: FloatArray

    def scores(self, X: Input) -> FloatArray:
        """Posterior means of the scores of rows on the factors: (rows, factors)."""
        found = to_numpy(self.model.transform(X))
        # Whitened scores have variance 1 already.
        found = found if getattr(self.model, "whiten", False) else found / self.sizes
        return np.asarray(found @ self.rotation)


def rotate(model: Any, method: Literal["varimax", "oblimin"] = "varimax") -> RotatedFactors:
    """Rotate the components of a fitted PCA into factors with few large loadings each.

    Use it when components are hard to name. The subspace and predictions stay the same; only the
    axes change. Factors are sorted by the sum of their squared loadings, and the largest loading of
    each is positive.

    Parameters
    ----------
    model
        A fitted `BayesianPCA` or `VariationalPCA`.
    method
        ``"varimax"`` keeps factors uncorrelated (Kaiser 1958); ``"oblimin"`` lets them correlate
        (direct quartimin, Jennrich and Sampson 1966).

    >>> from bayespca import BayesianPCA, rotate
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> rotate(BayesianPCA().fit(X)).loadings.shape
    (3, 12)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of 'varimax', 'oblimin'; got {method!r}.")
    if not hasattr(model, "components_std_"):
        check_is_fitted(model)
        raise TypeError(
            f"{type(model).__name__} has no components with standard deviations: rotate takes a "
            "fitted BayesianPCA or VariationalPCA."
        )
    if not model.n_components_:
        raise ValueError("The model has no components, so there is nothing to rotate.")
    sizes = to_numpy(latent_std(model.posterior_))
    L = to_numpy(model.components_).T * sizes
    rotation = METHODS[method]
    T = rotation.turn(L)
    turned = np.linalg.solve(T, L.T).T
    # The strongest factor comes first, and the largest loading of each is positive.
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(len(T))]
    order = np.argsort(-(turned**2).sum(axis=0), kind="stable")
    T = np.asarray((T * np.where(largest < 0, -1.0, 1.0))[:, order])
    turned = np.linalg.solve(T, L.T).T
    std = rotation.std(L, T, _noise(model), model.n_samples_)
    return RotatedFactors(turned.T, std.T, T.T @ T, T, model, sizes)


def _noise(model: Any) -> FloatArray:
    """Noise variances of features, in the units of scaled data."""
    if hasattr(model, "feature_noise_variance_"):
        scale = to_numpy(model.posterior_.scale)
        return np.asarray(to_numpy(model.feature_noise_variance_) / scale**2)
    return np.full(model.components_.shape[1], float(model.noise_variance_))
