"""Tensors for `BayesianTucker`: read, checked and squeezed; those with two modes as matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, cast, has_nan, to_namespace, to_numpy
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray, Input
from bayespca.lowrank.noise_models import ISOTROPIC as EQUAL
from bayespca.lowrank.records import PCAPosterior
from bayespca.sources.checks import not_finite
from bayespca.sources.data import Features
from bayespca.tensors.fit import PER_MODE, TuckerFit, TuckerNoise
from bayespca.tensors.posterior import completed

from . import _input
from ._base import AnyEstimator
from ._posterior import functions
from .pca import BayesianPCA

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
    xp = array_namespace(T)
    wrong = xp.isinf(T)
    if bool(xp.any(wrong)):
        place = np.unravel_index(int(np.argmax(to_numpy(wrong))), tuple(T.shape))
        at = ", ".join(str(int(i)) for i in place)
        raise ValueError(f"Input X contains infinity, first at ({at}), counting from 0: remove it.")
    if reset and bool(xp.all(xp.isnan(T))):
        raise ValueError("Input X contains NaN only: there is no value to learn from.")
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
    for n, (rank, size) in enumerate(zip(ranks, shape, strict=True)):
        if rank is None:
            continue
        if not isinstance(rank, Integral) or isinstance(rank, bool) or int(rank) < 1:
            raise ValueError(
                f"ranks[{n}] must be a whole number of at least 1 or None, got {rank!r}."
            )
        if int(rank) > size:
            raise ValueError(f"ranks[{n}] is {rank}, but mode {n} has size {size}.")
    return tuple(None if rank is None else int(rank) for rank in ranks)


def check_model(estimator: AnyEstimator, T: Array, shape: Shape) -> None:
    """Raise for options that do not suit the tensor's shape or its holes."""
    if estimator.center and shape[0] < 2:
        raise ValueError(
            "center=True needs two slices along the first mode, found one (n_samples = 1)."
        )
    if estimator.solver != "gradient":
        return
    if len(shape) < 3:
        raise ValueError(
            "solver='gradient' is for three modes or more; a matrix has a closed form."
        )
    if has_nan(T):
        raise ValueError("solver='gradient' takes tensors without holes: leave solver at 'auto'.")


def squeezed(items: tuple[Any, ...], shape: Shape) -> tuple[Any, ...]:
    """The entries of modes that `squeezed_shape` keeps; None for a mode that it adds."""
    kept = [items[0], *(item for item, size in zip(items[1:], shape[1:], strict=True) if size > 1)]
    return tuple(kept) if len(kept) > 1 else (items[0], None)


def expanded(items: Sequence[Any], shape: Shape, single: Any = 1) -> tuple[Any, ...]:
    """The entries of all modes from those of kept modes; `single` for modes that were dropped."""
    kept = iter(items[1:])
    if all(size == 1 for size in shape[1:]):
        # For a matrix of one column, the last mode was kept.
        return (items[0], *(single,) * (len(shape) - 2), items[1])
    return (items[0], *(next(kept) if size > 1 else single for size in shape[1:]))


# --- tensors with two modes --------------------------------------------------------------------


def of_matrix(model: BayesianPCA, X: Array, rank: int | None) -> TuckerFit:
    """A fitted PCA of a tensor with two modes as a Tucker fit.

    The core can be absorbed into a factor, so a matrix model serves. Singular values of its
    low-rank matrix form a diagonal core.
    """
    scores = to_numpy(model.transform(X)).astype(np.float64)
    basis, root = np.linalg.qr(_loadings(model.posterior_).T)
    left, s, turn = np.linalg.svd(scores @ root.T, full_matrices=False)
    right = basis @ turn.T
    signs = np.sign(np.sum(fixed_signs(right.T) * right.T, axis=1))
    H = s.size if rank is None else rank
    core = np.zeros((H, H))
    core[range(s.size), range(s.size)] = s
    noise = TuckerNoise()
    if model.noise_ != EQUAL.name:
        # Rows and columns are the slices of two modes.
        own = (model.sample_noise_variance_, model.feature_noise_variance_)
        slices = tuple(to_numpy(a).astype(np.float64) for a in own)
        noise = TuckerNoise(name=PER_MODE, slices=slices)
    return TuckerFit(
        model.posterior_,
        model.free_energy_,
        trace=model.trace_,
        converged=model.converged_,
        status=model.fit_.status,
        core=core,
        factors=(completed(left * signs, H), completed(right * signs, H)),
        mean=to_numpy(model.mean_).astype(np.float64),
        noise_variance=float(model.noise_variance_),
        noise=noise,
        unknown=model.uncertain_posterior()[1],
    )


def _loadings(posterior: PCAPosterior) -> FloatArray:
    """The loadings, which multiply scores, in units of the data."""
    found = to_numpy(posterior.directions) * to_numpy(posterior.scale)
    return np.asarray(found, dtype=np.float64)


def scores_of_rows(
    posterior: PCAPosterior, X: Array, core: FloatArray, right: FloatArray
) -> FloatArray:
    """Rows of the first factor for the rows of X."""
    read, posterior = functions(posterior, X)
    along = to_numpy(read.scores(posterior, X)).astype(np.float64)
    loadings = _loadings(posterior)
    H = len(loadings)
    out = np.zeros((along.shape[0], core.shape[0]))
    out[:, :H] = along @ (loadings @ right[:, :H]) / np.diag(core)[:H]
    return out
