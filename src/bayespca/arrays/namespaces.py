"""Arrays of any namespace: where they live, and operations that differ between libraries."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import (
    array_namespace,
    device,
    is_cupy_array,
    is_numpy_array,
    is_torch_array,
    to_device,
)

from .types import AnyDType, Array, DType, FloatArray, Input

__all__ = [
    "array_namespace",
    "cast",
    "device",
    "eps",
    "has_nan",
    "hasty_cholesky",
    "is_numpy_array",
    "is_sparse",
    "is_torch_array",
    "normal_draws",
    "numpy_dtype",
    "on_accelerator",
    "row_blocks",
    "sum_of_squares",
    "to_namespace",
    "to_numpy",
    "triangular_inverse",
]

# A block of rows this large stays in a core's cache while it is centred and multiplied; one on an
# accelerator is large enough to keep all of it busy.
BLOCK_BYTES = 4 << 20
ACCELERATOR_BLOCK_BYTES = 1 << 30


def to_numpy(a: Array) -> np.ndarray:
    """A copy in host memory if the array lives elsewhere, else a view."""
    if is_numpy_array(a):
        return np.asarray(a)
    if hasattr(a, "detach"):
        return np.asarray(a.detach().cpu())
    if hasattr(a, "get"):
        return np.asarray(a.get())
    home = array_namespace(a).__array_namespace_info__().default_device()
    return np.asarray(to_device(a, home))


def on_host(values: Array) -> FloatArray:
    """Values of any library and device as NumPy's float64."""
    return np.asarray(to_numpy(values), dtype=np.float64)


def to_namespace(a: np.ndarray, like: Array, dtype: object = None) -> Array:
    """The array where `like` lives, in its namespace; with the dtype of `like` unless given."""
    xp = array_namespace(like)
    # torch accepts neither negative strides nor read-only arrays.
    if any(stride < 0 for stride in a.strides) or not a.flags.writeable:
        a = np.array(a, order="C")
    dtype = like.dtype if dtype is None else dtype
    if on_accelerator(like) and is_torch_array(like):
        # Does not wait for the device; the numbers are read before this returns.
        return xp.asarray(a).to(device=like.device, dtype=dtype, non_blocking=True)
    return xp.asarray(a, dtype=dtype, device=device(like))


def has_nan(X: Array) -> bool:
    """Whether an array has NaN; one sum is quicker than a test of each cell."""
    xp = array_namespace(X)
    return bool(xp.isnan(xp.sum(X)))


def is_sparse(X: Input) -> bool:
    """Whether X is a scipy sparse matrix or array."""
    return bool(sp.issparse(X))


def cast(a: Array, dtype: AnyDType) -> Array:
    """The array in another dtype; itself if it has it already."""
    return array_namespace(a).astype(a, dtype, copy=False)


def numpy_dtype(dtype: object) -> DType:
    """NumPy's dtype with the same name as a dtype of another namespace."""
    return np.dtype(str(dtype).rpartition(".")[2])


def eps(dtype: object) -> float:
    """The relative precision of a floating-point dtype of any namespace."""
    return float(np.finfo(numpy_dtype(dtype)).eps)


def on_accelerator(a: Array) -> bool:
    """Whether an array lives on a GPU or the like."""
    return bool(is_cupy_array(a) or (is_torch_array(a) and device(a).type != "cpu"))


def normal_draws(
    rng: np.random.Generator, shape: tuple[int, int], like: Array, dtype: AnyDType
) -> Array:
    """Standard normal numbers where `like` lives; a GPU draws them itself, seeded from `rng`."""
    if on_accelerator(like) and is_torch_array(like):
        import torch

        generator = torch.Generator(like.device).manual_seed(int(rng.integers(2**63)))
        return torch.randn(shape, generator=generator, dtype=dtype, device=like.device)
    if on_accelerator(like) and is_cupy_array(like):
        import cupy

        draws = cupy.random.RandomState(int(rng.integers(2**32)))
        return draws.standard_normal(shape, dtype=dtype)
    return to_namespace(rng.standard_normal(shape, numpy_dtype(dtype)), like, dtype)


def hasty_cholesky(gram: Array) -> Array:
    """Cholesky factor, without waiting for the check that it exists: garbage or NaN if not."""
    xp = array_namespace(gram)
    if is_torch_array(gram):
        return xp.linalg.cholesky_ex(gram).L
    if is_cupy_array(gram):
        from cupyx import errstate

        with errstate(linalg="ignore"):
            return xp.linalg.cholesky(gram)
    try:
        return xp.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        return xp.full_like(gram, xp.nan)


def triangular_inverse(L: Array) -> Array:
    """The inverse of a small lower triangle, without a pivoted factorisation on a GPU."""
    xp = array_namespace(L)
    if not on_accelerator(L):
        return xp.linalg.inv(L)
    identity = xp.eye(L.shape[0], dtype=L.dtype, device=device(L))
    if is_torch_array(L):
        return xp.linalg.solve_triangular(L, identity, upper=False)
    from cupyx.scipy.linalg import solve_triangular

    return solve_triangular(L, identity, lower=True)


def sum_of_squares(X: Array) -> float:
    """Σx² in float64, without a float64 copy of a whole float32 array."""
    if is_torch_array(X):
        import torch

        return float(torch.linalg.vector_norm(X, dtype=torch.float64)) ** 2
    if is_cupy_array(X):
        return float(_cupy_squares()(X))
    xp = array_namespace(X)
    blocks = (xp.astype(X[rows, :], xp.float64, copy=False) for rows in row_blocks(X))
    return sum(float(xp.sum(xp.vecdot(block, block))) for block in blocks)


@cache
def _cupy_squares() -> Any:
    import cupy

    square = "(double)x * (double)x"
    return cupy.ReductionKernel("T x", "float64 y", square, "a + b", "y = a", "0", "square_sum")


def row_blocks(X: Array, axis: int = 0) -> list[slice]:
    """Slices of rows (or columns) that fit into cache."""
    n = X.shape[axis]
    bytes_per_row = max(1, X.shape[1 - axis]) * 8
    block_bytes = BLOCK_BYTES if is_numpy_array(X) else ACCELERATOR_BLOCK_BYTES
    size = max(64, block_bytes // bytes_per_row)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
