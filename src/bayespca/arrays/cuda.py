"""Kernels for NVIDIA's GPUs, in `kernels.cu`: compiled by CuPy, for its arrays and torch's.

Array libraries can compute the same, several times slower: without CuPy, torch uses its own calls.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array
from numpy.typing import NDArray

from .namespaces import array_namespace, device
from .places import at
from .types import Array

# Longest column that a thread can keep in its registers. Each length is compiled separately, which
# takes a while the first time, so lengths go in steps.
MOST_IN_REGISTERS, STEP = 96, 4
# Threads of a warp, of a block at most, and enough to keep a device busy for a while.
WARP = 32
THREADS = 512
MANY_THREADS = 1 << 20
# Bytes of shared memory that a block may use without opting in to more.
UNASKED = 48 << 10


def is_served(a: Array) -> bool:
    """Whether an array is on an NVIDIA GPU, and kernels can be compiled for it."""
    if is_cupy_array(a):
        return _kernels() is not None
    return is_torch_array(a) and a.device.type == "cuda" and _kernels() is not None


def fits(H: int) -> bool:
    """Whether H×H matrices fit into the memory that the threads of a block share."""
    return 0 < H and _shared_bytes(H) <= _most_shared_bytes()


def update_rows(
    gram: Array,
    pull: Array,
    starts: NDArray[np.intp],
    share: float,
    ridge: NDArray[np.float64],
    s2: float,
    *,
    shares: Array | None = None,
    last: Array | None = None,
    summed: bool = True,
) -> tuple[Array, Array, Array]:
    """a, second (cov where not `summed`) and log_dets, as `kernels.by_numpy` computes them.

    `shares` of patterns and `last` entries of ã replace `share` and 1 where rows do not all count
    the same. Means overwrite `pull` if it is contiguous, and covariances overwrite `gram` if each
    of its columns is.
    """
    xp, place = array_namespace(pull), device(pull)
    (n, H), m = pull.shape, starts.size - 1
    by_pattern = gram.T if _pitch(gram.T) else _in_one_piece(gram.T)
    pull = pull if _pitch(pull) == H else _in_one_piece(pull)
    begins = None if n == m else xp.asarray(starts, device=place)
    packed = (H + 1) * (H + 2) // 2
    second = xp.empty((m if summed else 0, packed), dtype=xp.float64, device=place)
    log_dets = xp.empty(m, dtype=xp.float64, device=place)
    x = min(-(-H // WARP) * WARP, THREADS)
    rows = _in_registers(H)
    _launch(
        "update_rows",
        (m, 1),
        (x, 1 if rows else max(min(THREADS // x, H // 16), 1)),
        (
            np.int32(H),
            np.int64(_pitch(by_pattern)),
            by_pattern,
            pull,
            begins,
            np.float64(share),
            shares,
            last,
            at(pull, ridge),
            np.float64(s2),
            second if summed else None,
            log_dets,
        ),
        like=pull,
        shared=_shared_bytes(H),
        rows=rows,
    )
    return pull, second.T if summed else by_pattern.T, log_dets


def column_sums(X: Array) -> Array | None:
    """Σx of each column in float64; None unless X is float32 or float64 in row-major order."""
    parts = _parts_of_sums(X, None, squared=False)
    return None if parts is None else array_namespace(X).sum(parts[0], axis=0)


def sums_and_squares(X: Array, shift: Array | None = None) -> tuple[Array, Array] | None:
    """Σ(x − shift) of each column and Σ(x − shift)² of all, in float64 and in one pass.

    None unless X is float32 or float64 in row-major order.
    """
    xp = array_namespace(X)
    parts = _parts_of_sums(X, shift, squared=True)
    return None if parts is None else (xp.sum(parts[0], axis=0), xp.sum(parts[1]))


def _parts_of_sums(X: Array, shift: Array | None, *, squared: bool) -> tuple[Array, Array] | None:
    """Σ(x − shift) and, if `squared`, Σ(x − shift)² of each column, over parts of the rows."""
    xp = array_namespace(X)
    n, p = X.shape
    pitch, dtype = _pitch(X), str(X.dtype).rpartition(".")[2]
    if pitch < p or dtype not in ("float32", "float64"):
        return None
    x = min(-(-p // WARP) * WARP, 256)
    parts = min(max(MANY_THREADS // p, 1), -(-n // 8), 65535)
    totals = xp.empty((parts, p), dtype=xp.float64, device=device(X))
    squares = xp.empty_like(totals) if squared else None
    _launch(
        f"add_up_{dtype}",
        (-(-p // x), parts),
        (x, 1),
        (X, np.int64(n), np.int64(p), np.int64(pitch), shift, totals, squares),
        like=X,
    )
    return totals, squares


def sums_where(mask: Array, x: Array) -> Array | None:
    """Σxⱼ over the j of each row where the mask is True, without a mask of floats.

    None unless the mask is in row-major order.
    """
    xp = array_namespace(x)
    m, p = mask.shape
    if _pitch(mask) != p:
        return None
    sums = xp.empty(m, dtype=xp.float64, device=device(x))
    y = 8
    grid = (-(-m // y), 1)
    _launch("add_up_where", grid, (WARP, y), (mask, np.int64(m), np.int32(p), x, sums), like=x)
    return sums


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of many Hermitian matrices (P, n, n) at once.

    torch decomposes those of more than 32 rows one by one, hundreds of times slower for 60.
    """
    import cupy

    if is_cupy_array(a):
        values, vectors = cupy.linalg.eigh(a)
        return values, vectors
    import torch

    with _place(a):
        values, vectors = cupy.linalg.eigh(cupy.from_dlpack(a))
        there = a.device
        return torch.as_tensor(values, device=there), torch.as_tensor(vectors, device=there)


def _in_one_piece(a: Array) -> Array:
    """A contiguous copy in row-major order."""
    xp = array_namespace(a)
    copy = xp.empty(a.shape, dtype=a.dtype, device=device(a))
    copy[:, :] = a
    return copy


def _in_registers(H: int) -> int:
    """Number of rows for which the kernel with columns in registers is compiled; 0 for none."""
    return -(-H // STEP) * STEP if H <= MOST_IN_REGISTERS else 0


# --- kernels and how they are called -----------------------------------------------------------


@cache
def _kernels(rows: int = 0) -> Any:
    """The kernels, for matrices of up to `rows` rows in registers.

    None where there is no CuPy for NVIDIA's GPUs, or where it cannot compile them.
    """
    try:
        import cupy
    except ImportError:
        return None
    if cupy.cuda.runtime.is_hip:
        return None
    source = files(__package__).joinpath("kernels.cu").read_text(encoding="utf-8")
    module = cupy.RawModule(code=source, options=("-std=c++14", f"-DROWS={rows}"))
    try:
        module.compile()
    except (cupy.cuda.compiler.CompileException, ImportError, OSError, RuntimeError):
        return None
    return module


@cache
def _most_shared_bytes() -> int:
    import cupy

    return int(cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def _shared_bytes(H: int) -> int:
    return 8 * (H * (H | 1) + H + 2 * max(_in_registers(H), H))


def _launch(
    name: str,
    grid: tuple[int, int],
    block: tuple[int, int],
    arguments: tuple[Any, ...],
    *,
    like: Array,
    shared: int = 0,
    rows: int = 0,
) -> None:
    """Call a kernel on the device of `like`, after the work that its library has queued there."""
    kernel = _kernel(name, rows)
    with _place(like):
        if shared > UNASKED:
            kernel.max_dynamic_shared_size_bytes = shared
        kernel(grid, block, tuple(map(_argument, arguments)), shared_mem=shared)


@cache
def _kernel(name: str, rows: int) -> Any:
    return _kernels(rows).get_function(name)


def _place(like: Array) -> AbstractContextManager[Any]:
    """Context in which CuPy uses the device and the stream of the library of `like`."""
    import cupy

    if is_cupy_array(like):
        return nullcontext() if like.device == cupy.cuda.Device() else like.device
    import torch

    handle = torch.cuda.current_stream(like.device).cuda_stream
    there = cupy.cuda.Device(like.device.index)
    if there == cupy.cuda.Device() and handle == cupy.cuda.get_current_stream().ptr:
        return nullcontext()
    stack = ExitStack()
    stack.enter_context(there)
    stack.enter_context(_stream(handle))
    return stack


@dataclass(frozen=True)
class _Foreign:
    """A stream of another library."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _stream(handle: int) -> Any:
    """CuPy's stream for a handle."""
    from cupy.cuda import ExternalStream, Stream

    if not handle:
        return Stream.null
    if hasattr(Stream, "from_external"):
        return Stream.from_external(_Foreign(handle))
    return ExternalStream(handle)


def _argument(value: Any) -> Any:
    """A kernel argument: a number, or the address of an array."""
    if value is None:
        return np.intp(0)
    if is_cupy_array(value):
        return np.intp(value.data.ptr)
    return np.intp(value.data_ptr()) if is_torch_array(value) else value


def _pitch(a: Array) -> int:
    """Entries from one row to the next; 0 where the entries of a row are not adjacent."""
    if is_torch_array(a):
        rows, columns = a.stride()
    else:
        rows, columns = (stride // a.itemsize for stride in a.strides)
    return int(rows) if columns == 1 or a.shape[1] == 1 else 0
