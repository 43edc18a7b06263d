"""Files of tensors, arrays with more than two axes: .npy and .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .array_files import most_axes, npy_shape, npz_array
from .records import Floats, How, first_line, float_type
from .writing import replacing


def is_tensor_file(path: Path, how: How) -> bool:
    """Whether a file holds an array with more than two axes."""
    if path.suffix.lower() == ".npy" and path.is_file():
        return len(npy_shape(path)) > 2
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
    array = npz_array(path, how)[1] if path.suffix.lower() == ".npz" else _read_npy(path)
    if array.dtype.kind not in "fbiu":
        raise ValueError(f"{path} holds entries of type {array.dtype}, but numbers are needed.")
    return array.astype(float_type(array.dtype), copy=False)


def _read_npy(path: Path) -> Floats:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as .npy: {first_line(error)}") from error


def check_tensor_ending(path: Path) -> None:
    """Raise if a tensor cannot be written to a file of this name."""
    if path.suffix.lower() != ".npy":
        raise ValueError(f"{path} would hold a tensor: its name must end with .npy.")


def write_tensor(path: Path, values: Floats) -> None:
    """Write an array to an .npy file, whole or not at all."""
    with replacing(path) as file:
        np.save(file, np.asarray(values))
