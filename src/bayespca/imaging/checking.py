"""Checks of the input of `denoise`; each message names the mistake and its remedy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray

from .patches import Corner

AXES = "(x, y, z, volumes)"


def checked_volume(data: Any) -> Array:
    """The data as finite floating-point numbers with four axes."""
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    shape = tuple(data.shape)
    if len(shape) != 4:
        raise ValueError(
            f"data has shape {shape}, but a series of volumes has four axes {AXES}. A series of "
            "slices is data[:, :, None, :]."
        )
    if shape[3] < 2:
        raise ValueError(
            f"data has shape {shape}: its last axis counts volumes, and there must be at least "
            "two. If volumes come first, give numpy.moveaxis(data, 0, -1)."
        )
    xp = array_namespace(data)
    if xp.isdtype(data.dtype, ("bool", "integral")):
        data = xp.astype(data, xp.float64)
    if not xp.isdtype(data.dtype, ("real floating", "complex floating")):
        raise TypeError(f"data has type {data.dtype}, but numbers are needed.")
    finite = xp.isfinite(data)
    if not bool(xp.all(finite)):
        missing = math.prod(shape) - int(xp.count_nonzero(finite))
        raise ValueError(
            f"data has {missing} cells that are NaN or infinite: set them to 0 and leave their "
            "voxels out by mask=."
        )
    return data


def checked_mask(mask: Any, data: Array) -> Array:
    """Mask of the voxels to denoise: those in the given mask that vary."""
    xp, shape = array_namespace(data), tuple(data.shape[:3])
    varies = xp.any(data != data[..., :1], axis=-1)
    if mask is None:
        return varies
    found = np.asarray(to_numpy(mask) if hasattr(mask, "dtype") else mask)
    if found.shape != shape:
        turned = (
            " Its axes seem to be in another order." if sorted(found.shape) == sorted(shape) else ""
        )
        raise ValueError(f"mask has shape {found.shape}, but data have voxels {shape}.{turned}")
    if not found.any():
        raise ValueError("mask is empty: no voxel takes part.")
    return varies & to_namespace(found != 0, varies)


def checked_noise(noise_std: Any, shape: Corner) -> FloatArray | None:
    """Noise variance of each voxel, or None if it is unknown."""
    if noise_std is None:
        return None
    found = np.asarray(to_numpy(noise_std) if hasattr(noise_std, "dtype") else noise_std, float)
    if found.shape not in ((), shape):
        raise ValueError(
            f"noise_std has shape {found.shape}: give one number, or one for each voxel, {shape}."
        )
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise ValueError("noise_std must be positive and finite in all voxels.")
    return np.broadcast_to(found * found, shape)


def checked_step(step: Any) -> int:
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 1:
        raise ValueError(f"step must be a whole number of at least 1, got {step!r}.")
    return int(step)


def patch_size(patch: Any, shape: Corner, volumes: int) -> Corner:
    """Voxels of a patch along each axis: as given, or the smallest odd cube with more voxels than
    volumes. A patch covers axes shorter than its side completely.
    """
    if patch is None:
        size = 3
        while math.prod(min(size, s) for s in shape) <= volumes and size < max(shape):
            size += 2
        patch = size
    sizes = tuple(patch) if isinstance(patch, tuple | list) else (patch,) * 3
    whole = all(isinstance(s, int | np.integer) and s >= 1 for s in sizes)
    if len(sizes) != 3 or not whole:
        raise ValueError(f"patch must be one whole number or three of them, got {patch!r}.")
    found = tuple(min(int(s), full) for s, full in zip(sizes, shape, strict=True))
    if math.prod(found) < 8:
        raise ValueError(
            f"A patch of {' × '.join(map(str, found))} voxels is too small to tell noise from "
            "signal: give a larger patch=."
        )
    return found[0], found[1], found[2]
