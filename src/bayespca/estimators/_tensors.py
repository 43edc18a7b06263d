"""Tensors and options of `BayesianTucker`: checks whose messages give place and remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, cast, to_namespace, to_numpy
from bayespca.arrays.types import Array, Input
from bayespca.sources.checks import not_finite
from bayespca.sources.data import Features

from . import _input
from ._base import AnyEstimator

Shape = tuple[int, ...]


def read_tensor(
    estimator: AnyEstimator, T: Input, mask: Input = None, *, reset: bool = True
) -> tuple[Array, Features]:
    """Read a tensor of any library as floats with NaN in holes; return it and its features."""
    T = _input.unmasked(T)
    if _input.is_foreign_array(T):
        T = _checked_foreign(T)
        features = Features(int(T.shape[1]))
    else:
        T, features = _input.checked(
            estimator,
            T,
            reset=reset,
            allow_nd=True,
            dtype=_input.FLOATS,
            ensure_all_finite=False,
        )
    T = with_holes(T, mask)
    check_values(T, any_value=reset)
    _input.check_range(not_finite(T))
    return T, features


def _checked_foreign(T: Array) -> Array:
    xp = array_namespace(T)
    if T.ndim < 2:
        raise ValueError(f"Expected 2D array or more, got one of {T.ndim} dimension(s) instead.")
    if not math.prod(T.shape):
        raise ValueError(f"Found a mode of size 0 (shape={tuple(T.shape)}): nothing to factorize.")
    if xp.isdtype(T.dtype, "complex floating"):
        raise ValueError("Complex data not supported.")
    return T if T.dtype in (xp.float32, xp.float64) else cast(T, xp.float64)


def with_holes(T: Array, mask: Input) -> Array:
    """T with NaN where the mask is 0, as in TensorLy; values there do not matter."""
    if mask is None:
        return T
    seen = to_numpy(mask) if _input.is_foreign_array(mask) else np.asarray(mask)
    if seen.shape != tuple(T.shape):
        raise ValueError(f"mask has the shape {seen.shape}, the tensor {tuple(T.shape)}.")
    if not np.isin(seen, (0, 1)).all():
        raise ValueError(
            "mask must be 1 (or True) where there is a value and 0 where there is not."
        )
    xp = array_namespace(T)
    there = to_namespace(seen.astype(np.bool_), T, dtype=xp.bool)
    return xp.where(there, T, xp.full_like(T, np.nan))


def check_values(T: Array, *, any_value: bool) -> None:
    """Raise for infinities and, if `any_value`, for a tensor without any value."""
    xp = array_namespace(T)
    wrong = xp.isinf(T)
    if bool(xp.any(wrong)):
        place = np.unravel_index(int(np.argmax(to_numpy(wrong))), tuple(T.shape))
        at = ", ".join(str(int(i)) for i in place)
        raise ValueError(f"Input X contains infinity, first at ({at}), counting from 0: remove it.")
    if any_value and bool(xp.all(xp.isnan(T))):
        raise ValueError("Input X contains NaN only: there is no value to learn from.")


def check_slices(T: Array, shape: Shape, name: str) -> None:
    """Raise unless slices along the first mode have the shape of those of the fit."""
    if tuple(T.shape[1:]) != shape:
        raise ValueError(
            f"slices along the first mode have the shape {tuple(T.shape[1:])}, but {name} was "
            f"fitted with {shape}."
        )


def squeezed_shape(shape: Shape) -> Shape:
    """Drop modes of size 1 after the first, which carry no information; keep at least two."""
    kept = (shape[0], *(size for size in shape[1:] if size > 1))
    return kept if len(kept) > 1 else (shape[0], 1)


def checked_ranks(ranks: Any, shape: Shape) -> tuple[int | None, ...]:
    """One entry per mode: the given rank, or None if it is to be found."""
    if isinstance(ranks, str) and ranks == "auto":
        return (None,) * len(shape)
    if len(ranks) != len(shape):
        raise ValueError(f"ranks has {len(ranks)} entries, but the tensor has {len(shape)} modes.")
    return tuple(
        _checked_rank(rank, size, n)
        for n, (rank, size) in enumerate(zip(ranks, shape, strict=True))
    )


def _checked_rank(rank: Any, size: int, n: int) -> int | None:
    if rank is None:
        return None
    if not isinstance(rank, Integral) or isinstance(rank, bool) or int(rank) < 1:
        raise ValueError(f"ranks[{n}] must be a whole number of at least 1 or None, got {rank!r}.")
    if int(rank) > size:
        raise ValueError(f"ranks[{n}] is {rank}, but mode {n} has size {size}.")
    return int(rank)


def check_noise(estimator: AnyEstimator) -> None:
    """Raise if the other options rule out a noise variance per slice."""
    if estimator.noise != "per-mode":
        return
    if estimator.method != "evb":
        raise ValueError(
            f"noise='per-mode' works with method='evb'; got method={estimator.method!r}, which can "
            "have noise='isotropic'."
        )
    if estimator.noise_variance != "auto":
        raise ValueError(
            "noise='per-mode' finds its variances itself: leave noise_variance at 'auto', not "
            f"{estimator.noise_variance!r}."
        )


def check_complete(T: Array) -> None:
    if bool(array_namespace(T).any(array_namespace(T).isnan(T))):
        raise ValueError("tensor_ranks takes tensors without holes: use BayesianTucker.")


def check_model(estimator: AnyEstimator, T: Array, shape: Shape) -> None:
    """Raise for options that do not suit the tensor's shape or its holes."""
    if estimator.center and shape[0] < 2:
        raise ValueError(
            "center=True needs two slices along the first mode, found one (n_samples = 1)."
        )
    if estimator.solver == "gradient" and len(shape) < 3:
        raise ValueError(
            "solver='gradient' is for three modes or more; a matrix has a closed form."
        )
    if estimator.solver == "gradient" and bool(array_namespace(T).any(array_namespace(T).isnan(T))):
        raise ValueError("solver='gradient' takes tensors without holes: leave solver at 'auto'.")


def squeezed(items: tuple[Any, ...], shape: Shape, nothing: Any) -> tuple[Any, ...]:
    """The entries of modes that `squeezed_shape` keeps; `nothing` for a mode that it adds."""
    kept = [items[0], *(item for item, size in zip(items[1:], shape[1:], strict=True) if size > 1)]
    return tuple(kept) if len(kept) > 1 else (items[0], nothing)


def expanded(items: Sequence[Any], shape: Shape, single: Any = 1) -> tuple[Any, ...]:
    """The entries of all modes from those of kept modes; `single` for modes that were dropped."""
    kept = iter(items[1:])
    if all(size == 1 for size in shape[1:]):
        # For a matrix of one column, the last mode was kept.
        return (items[0], *(single,) * (len(shape) - 2), items[1])
    return (items[0], *(next(kept) if size > 1 else single for size in shape[1:]))


def common_rank(ranks: tuple[int | None, ...]) -> int | None:
    """The rank of a matrix; two given numbers must be equal."""
    asked = {rank for rank in ranks if rank is not None}
    if len(asked) > 1:
        raise ValueError(f"a matrix has one rank; ranks asks for {ranks[0]} and {ranks[1]}.")
    return asked.pop() if asked else None


def fitted_tensor(estimator: AnyEstimator) -> Array:
    """The tensor of the fit; raise if the model lacks it, as one from a file or a copy does."""
    if not hasattr(estimator, "_tensor"):
        raise ValueError("this model does not carry the tensor it was fitted to: pass it as X.")
    return estimator._tensor
