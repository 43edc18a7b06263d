"""Tables of zeros and ones as users pass them, and messages about other input."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import DType, FloatArray, Input, Numbers
from bayespca.sources.data import BinaryCells, Features

from . import _input, _validation
from ._base import AnyEstimator, F, Iterating


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
    threshold = estimator.binarize
    if threshold is not None:
        if not isinstance(threshold, Real) or not np.isfinite(float(threshold)):
            raise ValueError(f"binarize must be None or a number, got {threshold!r}.")
        ones = np.ascontiguousarray(float(threshold) < X)
    else:
        ones = np.ascontiguousarray(X == 1)
        wrong = ~ones & (X != 0)
        if holes is not None:
            wrong &= holes
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            named = "" if features.names is None else f" ({str(features.names[column])!r})"
            raise ValueError(
                f"X must hold 0, 1, and NaN for holes: column {column}{named} holds "
                f"{X[row, column].item()!r} in row {row} (counting from 0). Recode it, or give "
                "binarize=t to count values above t as 1."
            )
    # float32 stays float32; everything else becomes float64.
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    if reset and holes is not None and not holes.any():
        raise ValueError(f"Input X has no value at all: its {holes.size} cells are NaN.")
    return BinaryData(ones, holes, dtype=dtype, features=features)


def filled(X: BinaryData, probabilities: FloatArray, kind: str) -> Numbers:
    """The table with its holes filled by probabilities of 1, or by the more probable value."""
    _validation.choose("kind", kind, ("probability", "value"))
    found = probabilities > 0.5 if kind == "value" else probabilities
    values = X.ones if X.seen is None else np.where(X.seen, X.ones, found)
    return np.asarray(values, dtype=X.dtype)
