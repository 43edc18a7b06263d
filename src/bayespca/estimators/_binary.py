"""Tables of zeros and ones as users pass them, and messages about other input."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bayespca.arrays.types import DType, FloatArray, Input, Numbers
from bayespca.inference.result import Fit
from bayespca.sources.data import BinaryCells, BoolArray, Features

from . import _input, _validation
from ._base import AnyEstimator, F
from ._iterating import Iterating
from ._warnings import warn


@dataclass(frozen=True, eq=False)
class BinaryData(BinaryCells):
    """A table of zeros and ones, its columns, and the dtype of results computed from it."""

    features: Features = field(kw_only=True)
    dtype: DType = field(kw_only=True)


class BinaryReader(Iterating[F]):
    """An estimator for tables of zeros and ones, in which NaN are holes."""

    def _read(self, X: Input) -> BinaryData:
        check_is_fitted(self)
        return read(self, X, reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        # scikit-learn's checks use numbers other than zeros and ones.
        tags._skip_test = self.binarize is None
        return tags


def read(estimator: AnyEstimator, X: Input, *, reset: bool) -> BinaryData:
    """Read a table of 0, 1 and NaN, or of any numbers if `binarize` is a threshold.

    Cells are booleans, integers or floats of any size; masked cells and NaN are holes.
    """
    X, features = _input.checked(
        estimator,
        _input.as_numpy(_input.unmasked(X)),
        reset=reset,
        dtype="numeric",
        ensure_all_finite="allow-nan",
    )
    if X.dtype.kind not in "biuf":
        X = X.astype(np.float64)
    seen = ~np.isnan(X) if X.dtype.kind == "f" else np.ones(0, dtype=np.bool_)
    holes = None if seen.all() else seen
    ones = _ones(X, holes, estimator.binarize, features)
    return BinaryData(ones, holes, dtype=_kept_type(X.dtype), features=features)


def _kept_type(dtype: DType) -> DType:
    """float32 stays float32; everything else becomes float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _ones(X: Numbers, seen: BoolArray | None, threshold: Any, features: Features) -> BoolArray:
    if threshold is not None:
        if not isinstance(threshold, Real) or not np.isfinite(float(threshold)):
            raise ValueError(f"binarize must be None or a number, got {threshold!r}.")
        return np.ascontiguousarray(float(threshold) < X)
    ones = np.ascontiguousarray(X == 1)
    wrong = ~ones & (X != 0)
    if seen is not None:
        wrong &= seen
    if wrong.any():
        raise ValueError(_wrong_value(X, wrong, features))
    return ones


def _wrong_value(X: Numbers, wrong: BoolArray, features: Features) -> str:
    row, column = (int(i) for i in np.argwhere(wrong)[0])
    names = features.names
    named = "" if names is None else f" ({str(names[column])!r})"
    return (
        f"X must hold 0, 1, and NaN for holes: column {column}{named} holds "
        f"{X[row, column].item()!r} in row {row} (counting from 0). Recode it, or give binarize=t "
        "to count values above t as 1."
    )


def check_any_value(data: BinaryCells) -> None:
    """Raise if all cells are holes."""
    if data.seen is not None and not data.seen.any():
        raise ValueError(f"Input X has no value at all: its {data.seen.size} cells are NaN.")


def checked_weights(sample_weight: Input, data: BinaryCells) -> FloatArray | None:
    """Row weights as floats, checked; None if there are none."""
    if sample_weight is None:
        return None
    weights = np.asarray(
        _check_sample_weight(sample_weight, data.ones, dtype=np.float64, ensure_non_negative=True)
    )
    if not weights.any():
        raise ValueError("sample_weight is 0 for every row: at least one must count.")
    return weights


def report(
    estimator: AnyEstimator, fitted: Fit[Any], data: BinaryCells, found: str, seconds: float
) -> None:
    """Warn if the sweeps ended early, and print a summary line if `verbose` is set."""
    warn(fitted)
    if estimator.verbose:
        n, p = data.shape
        print(
            f"bayespca: {n}×{p}, {found}, free energy {fitted.free_energy:.6g} after "
            f"{fitted.n_iter} sweeps, {seconds:.2f} s"
        )


def filled(X: BinaryData, probabilities: FloatArray, kind: str) -> Numbers:
    """The table with its holes filled by probabilities of 1, or by the more probable value."""
    _validation.choose("kind", kind, ("probability", "value"))
    found = probabilities > 0.5 if kind == "value" else probabilities
    values = X.ones if X.seen is None else np.where(X.seen, X.ones, found)
    return np.asarray(values, dtype=X.dtype)
