"""Files of arrays: .npy, .npz, Matrix Market and .h5ad; tensors, with more than two axes."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from .packages import need
from .records import (
    DType,
    Entries,
    File,
    Floats,
    How,
    Layout,
    RowBlock,
    Table,
    first_line,
    float_type,
    readable,
    rows_per_block,
)
from .writing import replacing

FEATURE_NAMES = ("feature_names", "features", "columns", "var_names", "names")
UNREADABLE_ZIP = (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError)
SAMPLE_NAMES = ("sample_names", "samples", "index", "ids", "obs_names")


def open_npy(path: Path, how: How) -> File:
    """Open an .npy file of a matrix.

    Contiguous rows are read, not mapped: if the address space is limited, it may be too small for
    the whole file.
    """
    shape, is_fortran, stored, offset = _checked_header(path)
    dtype = float_type(stored)
    n, p = shape
    layout = _plain_layout(p, None)

    def rows(first: int, count: int) -> Entries:
        if is_fortran:
            return np.asarray(mapped(path)[first : first + count])
        place = offset + first * p * stored.itemsize
        return np.fromfile(path, stored, count * p, offset=place).reshape(-1, p)

    def read() -> Table:
        return Table(rows(0, n).astype(dtype, copy=False))

    def blocks(block_bytes: int) -> Iterator[RowBlock]:
        step = rows_per_block(p, dtype, block_bytes)
        for i in range(0, n, step):
            yield RowBlock(rows(i, min(step, n - i)).astype(dtype, copy=False))

    return File(path, layout, dtype, n, n * p * dtype.itemsize, read, blocks)


def mapped(path: Path) -> np.memmap[Any, Any]:
    """An .npy file of a matrix as a memory map, which is at least as fast as plain reads."""
    shape, is_fortran, dtype, offset = _checked_header(path)
    return np.memmap(path, dtype, "r", offset, shape, "F" if is_fortran else "C")


def _checked_header(path: Path) -> tuple[tuple[int, int], bool, DType, int]:
    """The result of `_npy_header`; an error unless the file is a complete matrix of numbers."""
    shape, is_fortran, dtype, offset = _npy_header(path)
    if len(shape) != 2:
        tensors = (
            " BayesianTucker and bayespca fit take tensors; denoise, impute and transform take "
            "them with the model that fit saves (--model)."
        )
        raise ValueError(
            f"{path} holds an array of shape {shape}, but two dimensions are needed."
            f"{tensors if len(shape) > 2 else ''}"
        )
    if dtype.kind not in "fbiu":
        raise ValueError(f"{path} holds entries of type {dtype}, but real numbers are needed.")
    if min(shape) < 0:
        raise ValueError(f"{path} is damaged: it claims to hold an array of shape {shape}.")
    expected, found = offset + shape[0] * shape[1] * dtype.itemsize, path.stat().st_size
    if found < expected:
        raise ValueError(
            f"{path} ends early: an array of shape {shape} and type {dtype} takes {expected} "
            f"bytes, and the file has {found}. Copy or write it again."
        )
    if not shape[0] * shape[1]:
        raise ValueError(f"{path} holds an array of shape {shape}: there is nothing to read.")
    return (shape[0], shape[1]), is_fortran, dtype, offset


def _npy_header(path: Path) -> tuple[tuple[int, ...], bool, DType, int]:
    """Shape, whether columns are contiguous, type, and position of the first number."""
    with path.open("rb") as file:
        try:
            header = _header(file)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a .npy file: {first_line(error)}.") from error
        return *header, file.tell()


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, DType]:
    if npy_format.read_magic(file) == (1, 0):
        return npy_format.read_array_header_1_0(file)
    return npy_format.read_array_header_2_0(file)


def most_axes(path: Path) -> int:
    """The largest number of axes of an array in an .npz file; 0 if none can be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            most = 0
            for name in archive.namelist():
                with archive.open(name) as member:
                    most = max(most, len(_header(member)[0]))
            return most
    except UNREADABLE_ZIP:
        return 0


# --- .npz --------------------------------------------------------------------------------------


def open_npz(path: Path, how: How) -> File:
    """Open the array X of an .npz file, or its only matrix, with names and labels if it has any."""
    arrays = _npz_arrays(path)
    name, X = npz_array(path, how, arrays)
    where = f"{path}, array {name!r}"
    if X.ndim != 2:
        raise ValueError(
            f"{where} has shape {X.shape}, but must have two dimensions: rows are samples, "
            "columns are features."
        )
    if X.dtype.kind not in "fbiu":
        raise ValueError(f"{where} holds entries of type {X.dtype}, but numbers are needed.")
    if not X.size:
        raise ValueError(f"{where} has shape {X.shape}: there is nothing to read.")
    n, p = X.shape
    dtype = float_type(X.dtype)
    names = _strings(arrays, FEATURE_NAMES, p)
    layout = _plain_layout(p, names)
    others = {
        key: value
        for key, value in arrays.items()
        if value.shape == (n,) and key not in (*SAMPLE_NAMES, *FEATURE_NAMES)
    }

    def read() -> Table:
        return Table(
            np.array(X, dtype=dtype),
            names,
            _strings(arrays, SAMPLE_NAMES, n),
            others=others,
            aside=dict.fromkeys(others, "another array"),
        )

    return File(path, layout, dtype, n, n * p * dtype.itemsize, read)


def npz_array(
    path: Path, how: How, arrays: dict[str, Entries] | None = None
) -> tuple[str, Entries]:
    """Name and values of the array to read."""
    arrays = _npz_arrays(path) if arrays is None else arrays
    shown = [f"{key} {value.shape}" for key, value in list(arrays.items())[:8]]
    listed = ", ".join(shown) or "none"
    if how.array is not None:
        if how.array not in arrays:
            raise ValueError(f"{path} has no array {how.array!r}; it has {listed}.")
        return how.array, arrays[how.array]
    if "X" in arrays:
        return "X", arrays["X"]
    matrices = [
        (key, value)
        for key, value in arrays.items()
        if value.ndim >= 2 and value.dtype.kind in "fbiu" and value.size > 0
    ]
    if len(matrices) != 1:
        raise ValueError(
            f"{path} has {len(matrices) or 'no'} matrices of numbers: name the array to read, one "
            f"of {listed}."
        )
    return matrices[0]


def _npz_arrays(path: Path) -> dict[str, Entries]:
    with readable(path, ".npz", KeyError, *UNREADABLE_ZIP):
        file = np.load(path, allow_pickle=False)
        # It is a plain array if the file really is an .npy file.
        if not isinstance(file, np.ndarray):
            found = {}
            with file:
                for key in file.files:
                    with suppress(ValueError):  # arrays of Python objects are not read
                        found[key] = file[key]
            return found
    raise ValueError(f"{path} is not an .npz file.")


def _strings(arrays: dict[str, Entries], keys: tuple[str, ...], length: int) -> list[str] | None:
    for key in keys:
        if key in arrays and arrays[key].shape == (length,) and arrays[key].dtype.kind in "US":
            return [str(item) for item in arrays[key].astype(str)]
    return None


# --- Matrix Market and .h5ad -------------------------------------------------------------------


def open_matrix_market(path: Path, how: How) -> File:
    """Open a Matrix Market file, sparse or dense; entries that it leaves out are zeros."""
    import scipy.io

    _check_claim(path)
    flaws = (OSError, ValueError, TypeError, OverflowError, EOFError, MemoryError)
    with readable(path, "Matrix Market", *flaws), warnings.catch_warnings():
        # SciPy will return sparse arrays instead of sparse matrices; what follows takes both.
        warnings.simplefilter("ignore", DeprecationWarning)
        matrix: Any = scipy.io.mmread(str(path))
    if hasattr(matrix, "tocsr"):
        matrix = matrix.tocsr()
    if matrix.ndim != 2 or matrix.dtype.kind not in "fbiu" or not min(matrix.shape):
        raise ValueError(
            f"{path} holds a matrix of shape {matrix.shape} and type {matrix.dtype}, but one of "
            "real numbers is needed."
        )
    dtype = float_type(matrix.dtype)
    values = matrix.astype(dtype)
    n, p = values.shape
    memory = getattr(values, "nnz", n * p) * dtype.itemsize
    return File(path, _plain_layout(p, None), dtype, n, memory, lambda: Table(values))


def _check_claim(path: Path) -> None:
    """Raise if a header claims more numbers than the file can hold: SciPy allocates them first."""
    with path.open("rb") as file:
        is_array = b" array " in file.readline(1000).lower()
        size = next((line for line in file if not line.startswith(b"%") and line.strip()), b"")
    try:
        sizes = [int(word) for word in size.split()]
    except ValueError:
        return  # SciPy reports the error
    entries = math.prod(sizes[:2]) if is_array else sizes[-1] if sizes else 0
    # Fewest bytes of an entry: a digit, or two indices with a space and the end of a line.
    least = entries * (1 if is_array else 4)
    if min(sizes, default=0) < 0 or least > path.stat().st_size:
        raise ValueError(
            f"{path} cannot be read as Matrix Market: it claims to hold {entries:,} numbers, and "
            f"has {path.stat().st_size:,} bytes. Copy or write it again."
        )


def open_h5ad(path: Path, how: How) -> File:
    """Open X, or a layer, of an annotated data matrix, with the names of cells and genes."""
    anndata = need("anndata", f"reading {path}")

    # anndata and h5py raise errors of many types for a damaged file.
    with readable(path, ".h5ad", Exception):
        data = anndata.read_h5ad(path)
    if how.array is not None and how.array not in data.layers:
        layers = ", ".join(map(repr, data.layers)) or "none"
        raise ValueError(f"{path} has no layer {how.array!r}; it has {layers}.")
    X: Any = data.X if how.array is None else data.layers[how.array]
    if X is None or not min(X.shape):
        raise ValueError(f"{path} holds no data.")
    X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    values = X.astype(float_type(X.dtype))
    names = [str(name) for name in data.var_names]
    others = {str(key): np.asarray(data.obs[key].astype(object)) for key in data.obs}

    def read() -> Table:
        return Table(
            values,
            names,
            [str(name) for name in data.obs_names],
            others=others,
            aside=dict.fromkeys(others, "annotation"),
        )

    layout = _plain_layout(values.shape[1], names)
    memory = getattr(values, "nnz", values.size) * values.dtype.itemsize
    return File(path, layout, values.dtype, values.shape[0], memory, read)


def _plain_layout(p: int, names: list[str] | None) -> Layout:
    """A layout whose columns are all features."""
    return Layout(p, None if names is None else tuple(names), tuple(range(p)))


# --- tensors -----------------------------------------------------------------------------------


def is_tensor_file(path: Path, how: How) -> bool:
    """Whether a file holds an array with more than two axes."""
    if path.suffix.lower() == ".npy" and path.is_file():
        return len(_npy_header(path)[0]) > 2
    if path.suffix.lower() == ".npz" and path.is_file():
        return most_axes(path) > 2 and npz_array(path, how)[1].ndim > 2
    return False


def read_tensor(path: Path, how: How) -> Floats:
    """Read an array of numbers with any number of axes; NaN are holes."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if how != How(array=how.array):
        raise ValueError(
            f"{path} holds a tensor: options on how to read a table do not apply to it."
        )
    if path.suffix.lower() == ".npz":
        array = npz_array(path, how)[1]
    else:
        with readable(path, ".npy", ValueError, EOFError):
            array = np.asarray(np.load(path, allow_pickle=False))
    if array.dtype.kind not in "fbiu":
        raise ValueError(f"{path} holds entries of type {array.dtype}, but numbers are needed.")
    return array.astype(float_type(array.dtype), copy=False)


def check_tensor_ending(path: Path) -> None:
    """Raise if a tensor cannot be written to a file of this name."""
    if path.suffix.lower() != ".npy":
        raise ValueError(f"{path} would hold a tensor: its name must end with .npy.")


def write_tensor(path: Path, values: Floats) -> None:
    """Write an array to an .npy file, whole or not at all."""
    with replacing(path) as file:
        np.save(file, np.asarray(values))
