"""Filling holes: an imputer for pipelines, one call for a table, and a comparison of imputers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.types import Array, ArrayOrPair, Input, Numbers, RandomState
from bayespca.lowrank import imputing
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import OfComponents
from bayespca.sources.data import Features

from . import _input, _validation
from ._base import Estimator, Fitted
from ._options import Auto, table
from .pca import BayesianPCA, Noise


@dataclass(frozen=True, eq=False)
class ImputerFit(OfComponents):
    """The posterior that fills cells, and the number of steps that it took."""

    posterior: HolesPosterior
    n_iter: int


class BayesianPCAImputer(OneToOneFeatureMixin, TransformerMixin, Estimator[ImputerFit]):
    """Fills NaN by Bayesian PCA; a scikit-learn imputer for pipelines.

    It fills holes as `BayesianPCA.impute` does, and takes the same options. It scales columns by
    default, as most tables with holes have columns of different units. For standard deviations and
    draws use `BayesianPCA` itself.

    >>> from bayespca import BayesianPCAImputer
    >>> import numpy as np
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> X[::7, 4] = np.nan
    >>> bool(np.isnan(BayesianPCAImputer().fit_transform(X)).any())
    False
    """

    options = table(
        *("n_components", "checkpoint", "verbose"),
        noise="The noise model, as in `BayesianPCA`.",
        scale="Whether to divide columns by their standard deviations.",
        max_iter="Maximum number of steps, if there are holes.",
        tol="These steps end when the free energy has, by estimate, less than this share of it "
        "left to gain.",
        random_state="Seed of the randomized engine, whose answer depends on it only by rounding "
        "errors.",
    )

    n_components_ = Fitted("int", "Number of components kept: the most probable one.")

    _: KW_ONLY
    n_components: int | Auto = "auto"
    scale: bool = True
    noise: Noise = "auto"
    max_iter: int = 1000
    tol: float = 1e-8
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    verbose: bool = False

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Fit the model to the observed cells; `callback` is as in `BayesianPCA`."""
        asked = self._chosen()
        values, features = self._read(X, reset=True)
        model = BayesianPCA(**vars(asked)).fit(values, callback=callback)
        self._keep(ImputerFit(model.general_posterior(), model.n_iter_), features)
        return self

    def transform(self, X: Input) -> Array:
        """X with its holes filled; other cells stay as they are."""
        check_is_fitted(self)
        return imputing.impute(self.posterior_, self._read(X, reset=False)[0])[0]

    def _read(self, X: Input, *, reset: bool) -> tuple[Array, Features]:
        return _input.checked(
            self,
            _input.unmasked(X),
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def impute(X: Input, return_std: bool | Literal["mean"] = False, **options: Any) -> ArrayOrPair:
    """Fill the holes (NaN) of data; with `return_std` also return standard deviations.

    `return_std` and the result are as in `BayesianPCA.impute`, options as in `BayesianPCA`; by
    default the most probable number of components is kept.

    >>> from bayespca import impute
    >>> import numpy as np
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> X[::7, 4] = np.nan
    >>> filled, std = impute(X, return_std=True)
    >>> bool(np.isnan(filled).any()), int((std > 0).sum())
    (False, 15)
    """
    return BayesianPCA(**options).fit(X).impute(X, return_std=return_std)


@dataclass(frozen=True)
class EntryScores:
    """Accuracy of imputers on cells that were hidden from them, by name of imputer.

    Attributes
    ----------
    rmse
        Root mean square error on the hidden cells of each fold.
    coverage
        Share of hidden cells within 1.96 standard deviations; NaN if an imputer gives none.
    """

    rmse: Mapping[str, NDArray[np.float64]]
    coverage: Mapping[str, NDArray[np.float64]]

    def __str__(self) -> str:
        lines = [f"{'imputer':30s}{'RMSE':>10s}{'±':>10s}{'within 95 %':>14s}"]
        for name, errors in self.rmse.items():
            spread = errors.std(ddof=1) / np.sqrt(errors.size) if errors.size > 1 else np.nan
            inside = float(np.mean(self.coverage[name]))
            share = "" if np.isnan(inside) else f"{inside:.3f}"
            lines.append(f"{name:30s}{errors.mean():10.4g}{spread:10.2g}{share:>14s}")
        return "\n".join(lines)


def cross_validate_entries(
    imputers: Any, X: Input, *, n_folds: int = 5, random_state: RandomState = 0
) -> EntryScores:
    """Hide known cells, one fold at a time, and measure how well imputers fill them.

    Parameters
    ----------
    imputers
        One imputer or a dictionary of them by name: estimators with `impute(X, return_std=True)`,
        or scikit-learn imputers, which have `fit_transform`.
    X
        A matrix, with or without holes. A fold never hides the last cell of a row or column.
    n_folds
        Number of folds, to which cells are assigned at random.
    random_state
        Seed of the folds.

    Examples
    --------
    >>> from sklearn.impute import SimpleImputer
    >>> from bayespca import BayesianPCAImputer, cross_validate_entries
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> imputers = {"pca": BayesianPCAImputer(), "mean": SimpleImputer()}
    >>> found = cross_validate_entries(imputers, X)
    >>> bool(found.rmse["pca"].mean() < found.rmse["mean"].mean())
    True
    """
    named = imputers if isinstance(imputers, Mapping) else {type(imputers).__name__: imputers}
    values = np.asarray(_input.unmasked(X), dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"expected a matrix, got an array of shape {values.shape}.")
    count = int(np.count_nonzero(~np.isnan(values)))
    if not 2 <= n_folds <= count:
        raise ValueError(
            f"n_folds must be between 2 and the number of cells that are there, {count}; "
            f"got {n_folds!r}."
        )
    folds = _folds(values, n_folds, _validation.generator(random_state))
    rmse: dict[str, list[float]] = {name: [] for name in named}
    coverage: dict[str, list[float]] = {name: [] for name in named}
    for hidden in folds:
        shown = np.where(hidden, np.nan, values)
        for name, imputer in named.items():
            filled, std = _filled(clone(imputer), shown)
            error = (filled - values)[hidden]
            rmse[name].append(_mean(error**2) ** 0.5)
            inside = np.nan if std is None else _mean(np.abs(error) < 1.96 * std[hidden])
            coverage[name].append(inside)
    return EntryScores(
        {name: np.array(errors) for name, errors in rmse.items()},
        {name: np.array(shares) for name, shares in coverage.items()},
    )


def _mean(values: Numbers) -> float:
    """The mean of values; NaN if there are none."""
    return float(values.mean()) if values.size else float("nan")


def _folds(
    X: NDArray[np.float64], n_folds: int, rng: np.random.Generator
) -> list[NDArray[np.bool_]]:
    """Masks of the cells to hide in each fold."""
    cells = rng.permutation(np.flatnonzero(~np.isnan(X)))
    found = []
    for part in np.array_split(cells, n_folds):
        flat = np.zeros(X.size, dtype=np.bool_)
        flat[part] = True
        hidden: NDArray[np.bool_] = flat.reshape(X.shape)
        left = ~np.isnan(X) & ~hidden
        # A row or column with no cell left has nothing to be filled from.
        rows, columns = (np.asarray(left.any(axis=axis)) for axis in (1, 0))
        hidden &= rows[:, None] & columns
        found.append(hidden)
    return found


def _filled(imputer: BaseEstimator, X: NDArray[np.float64]) -> tuple[Numbers, Numbers | None]:
    if hasattr(imputer, "impute"):
        filled, std = imputer.fit(X).impute(X, return_std=True)
        return np.asarray(filled), np.asarray(std)
    return np.asarray(imputer.fit_transform(X)), None
