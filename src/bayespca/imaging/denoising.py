"""Denoising of volumes by patches, each shrunk by the closed form of empirical variational Bayes.

A patch of n voxels and V volumes, less the mean of each volume over its voxels, is a low-rank
matrix plus noise. Its singular values γ become γ̂ (aistats2014 Eq. 10, 11), and the estimates that
patches give for a voxel are averaged with weights 1/variance. The posterior variance, averaged over
the cells of a patch, is

    σ²(1/n + Σₕ dₕ(L + M + LM/zₕ)/nV),  d = γ̂/γ,  z = γγ̂/σ²,  (L, M) = (n − 1, V) in order:

the variance of the mean, plus ⟨‖baᵀ‖²⟩ − γ̂² of each component.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays import cuda
from bayespca.arrays.namespaces import (
    array_namespace,
    device,
    is_numpy_array,
    on_accelerator,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.parallel import by_shares, in_turn
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.closed_form import learned_strength
from bayespca.spectrum.free_energy import evb_residual
from bayespca.spectrum.tolerances import TINY

from .bulk import bulk_noise, thresholds
from .patches import Corner, Corners, Grid, box, gathered, laid, windows

# Bytes of patches processed at a time: small enough for the CPU's cache, or large enough to keep
# an accelerator busy.
BLOCK, ACCELERATOR_BLOCK = 4 << 20, 1 << 30
# With fewer voxels, noise and signal cannot be told apart.
LEAST_VOXELS = 5
# Noise below this share of the data's mean square is rounding.
LEAST_NOISE = 1e-14

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Denoised:
    """A volume without its noise.

    >>> import numpy as np
    >>> from bayespca import imaging
    >>> rng = np.random.default_rng(0)
    >>> shape = np.outer(np.ones(6**3), [4.0, 2.0, 1.0, 3.0] * 5).reshape(6, 6, 6, 20)
    >>> clean = imaging.denoise(shape + rng.normal(size=shape.shape))
    >>> clean.values.shape, clean.rank.shape
    ((6, 6, 6, 20), (6, 6, 6))
    >>> round(float(clean.noise_std.mean()), 1)
    1.0

    Attributes
    ----------
    values
        The signal, with the shape and type of the data: (x, y, z, volumes).
    noise_std
        Standard deviation of the noise in each voxel; for complex data, that of the real and of the
        imaginary part: (x, y, z). NaN in voxels that were not denoised.
    rank
        Number of components, averaged over the patches that contain a voxel: (x, y, z).
    std
        Posterior standard deviation of the signal within one patch, averaged over patches and
        volumes: (x, y, z).
    patch
        Voxels of a patch along the three axes.
    """

    values: Array
    noise_std: Array
    rank: Array
    std: Array
    patch: Corner


def denoise(
    data: Array,
    *,
    mask: Array | None = None,
    patch: int | Corner | None = None,
    step: int = 1,
    noise_std: float | Array | None = None,
    callback: Progress | None = None,
) -> Denoised:
    """Remove noise from a series of volumes; each patch finds its own rank.

    Use it for diffusion and functional MRI, and for any other data with many images of one scene.
    The noise must be normal and independent from voxel to voxel: denoise first, before any
    interpolation. Magnitudes at a low signal-to-noise ratio are not normal; complex data are.

    Parameters
    ----------
    data
        (x, y, z, volumes), real or complex; NumPy, or a torch tensor on any device.
    mask
        Voxels to denoise: (x, y, z). The others are returned unchanged, and so are voxels that do
        not vary.
    patch
        Voxels of a patch along each axis, one number or three. By default, the smallest odd cube
        with more voxels than there are volumes.
    step
        Voxels from one patch to the next. 2 takes a fifth of the time.
    noise_std
        Standard deviation of the noise if it is known: one number, or one for each voxel (x, y, z).
    callback
        Called with the number of finished patches and their total number.

    Returns
    -------
    Denoised
        The signal, and maps of the noise, the rank and the posterior standard deviation.

    >>> import numpy as np
    >>> from bayespca.imaging import denoise
    >>> rng = np.random.default_rng(0)
    >>> signal = np.outer(rng.normal(size=6 * 6 * 5), rng.normal(size=30)).reshape(6, 6, 5, 30)
    >>> found = denoise(signal + 0.1 * rng.normal(size=signal.shape))
    >>> float(np.abs(found.noise_std.mean() - 0.1).round(2)), float(found.rank.max())
    (0.0, 1.0)
    """
    data = checked_volume(data)
    shape: Corner = tuple(data.shape[:3])
    size = patch_size(patch, shape, data.shape[3])
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 1:
        raise ValueError(f"step must be a whole number of at least 1, got {step!r}.")
    grid = Grid(shape, size, int(step))
    job = _Job.of(data, checked_mask(mask, data), checked_noise(noise_std, shape), grid)
    sums, maps = job.summed(callback)
    # Weighted averages over patches; voxels without a patch keep their data.
    xp, channels, weight = array_namespace(data), _channels(data), maps[..., 0]
    there = weight > 0
    over = xp.where(there, weight, xp.ones_like(weight))
    signal = xp.astype(sums / over[..., None] + job.center, data.dtype)
    unknown = xp.full_like(weight, float("nan"))
    noise, rank, variance = (xp.where(there, maps[..., k] / over, unknown) for k in (1, 2, 3))
    return Denoised(
        xp.where(there[..., None], signal, data),
        xp.sqrt(noise / channels),
        rank,
        xp.sqrt(variance / channels),
        grid.size,
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """Source of the patches: the data less the mean of each volume, 0 outside the mask; those
    means, the mask as numbers, known noise variances, and the smallest possible noise variance.
    """

    values: Array
    center: Array
    inside: Array
    noise: FloatArray | None
    grid: Grid
    least: float

    @classmethod
    def of(cls, data: Array, mask: Array, noise: FloatArray | None, grid: Grid) -> _Job:
        xp = array_namespace(data)
        inside = xp.astype(mask, xp.float64)
        count = max(float(xp.sum(inside)), 1.0)
        weights = xp.astype(inside, data.dtype)[..., None]
        center = xp.sum(data * weights, axis=(0, 1, 2)) / count
        values = (data - center) * weights
        square = float(xp.sum(xp.abs(values) ** 2)) / (count * data.shape[3])
        return cls(values, center, inside, noise, grid, max(LEAST_NOISE * square, TINY))

    @property
    def channels(self) -> int:
        return _channels(self.values)

    def summed(self, callback: Progress | None) -> tuple[Array, Array]:
        """Weighted sums over patches, added in an order that does not depend on threads.

        They are the signal (x, y, z, V); and, along the last axis of maps (x, y, z, 4), the weight,
        the noise variance, the rank and the variance of the signal.
        """
        xp, (n, V) = array_namespace(self.values), (math.prod(self.grid.size), self.values.shape[3])
        wide = xp.complex128 if self.channels == 2 else xp.float64
        where = {"device": device(self.values)}
        signal = xp.zeros((*self.grid.shape, V), dtype=wide, **where)
        maps = xp.zeros((*self.grid.shape, 4), dtype=xp.float64, **where)
        views = windows(self.values, self.grid.size), windows(self.inside, self.grid.size)
        bytes_at_most = ACCELERATOR_BLOCK if on_accelerator(self.values) else BLOCK
        blocks = self.grid.blocks(max(1, bytes_at_most // (8 * n * V)))

        def work(corners: Corners) -> tuple[Array, Array]:
            values, inside = (gathered(view, corners) for view in views)
            found = self._patches(xp.astype(values, wide), inside, corners)
            signal_of, maps_of = (laid(each, corners, self.grid) for each in found)
            return signal_of, maps_of

        done, total = 0, self.grid.n_patches
        # One block at a time keeps an accelerator busy.
        found = map(work, blocks) if on_accelerator(self.values) else in_turn(work, blocks)
        for corners, (values, known) in zip(blocks, found, strict=True):
            part = box(corners, self.grid.size)
            signal[part] += values
            maps[part] += known
            done += corners[0].size * corners[1].size * corners[2].size
            if callback is not None:
                callback(done, total)
        return signal, maps

    def _patches(self, values: Array, inside: Array, corners: Corners) -> tuple[Array, Array]:
        """Weighted signal of some patches (P, n, V), and their weighted maps (P, n, 4)."""
        xp = array_namespace(values)
        count = xp.sum(inside, axis=1)
        mean = xp.sum(values, axis=1) / xp.clip(count, 1.0, None)[:, None]
        apart = values - mean[:, None, :]
        apart *= inside[..., None]
        eigenvalues, vectors = _decomposed(apart)
        V, known = self.values.shape[3], to_numpy(count)
        enough = known >= LEAST_VOXELS
        # Patches with too few voxels are computed as if they had enough, and get weight 0.
        n = np.where(enough, known, LEAST_VOXELS)
        L, M = np.minimum(V, n - 1.0), np.maximum(V, n - 1.0)
        if self.noise is None:
            noise = bulk_noise(np.maximum(eigenvalues, 0.0), L, M)
        else:
            noise = self.channels * gathered(windows(self.noise, self.grid.size), corners).mean(1)
        noise = np.maximum(noise, self.least)
        shrinkage, spread = _closed_form(eigenvalues / noise[:, None], L, M)
        rank = (shrinkage > 0).sum(axis=1).astype(np.float64)
        variance = noise * (1 / n + spread / (n * V))
        top = int(rank.max(initial=0))
        kept = vectors[:, :, :top]
        kept = to_namespace(kept, apart) if is_numpy_array(kept) else kept
        signal = _filtered(apart, kept, to_namespace(shrinkage[:, :top], inside))
        signal += mean[:, None, :]
        weight = to_namespace(enough / variance, inside)[:, None] * inside
        columns = (np.ones_like(variance), noise, rank, variance)
        each = to_namespace(np.stack(columns, axis=1), inside)
        signal *= weight[..., None]
        return signal, each[:, None, :] * weight[..., None]


def _closed_form(x: FloatArray, L: FloatArray, M: FloatArray) -> tuple[FloatArray, FloatArray]:
    """d = γ̂/γ of all components, and Σₕ dₕ(L + M + LM/zₕ) of each matrix, x = γ²/σ²."""
    limit = thresholds(L, M)[:, None]
    L, M, kept = L[:, None], M[:, None], x > limit
    # Dropped components are computed at the threshold, where the square root is real.
    x = np.where(kept, x, limit)
    z = learned_strength(x, L, M, L, M)
    d = np.where(kept, z / x, 0.0)
    return d, (d * evb_residual(z, L, M)).sum(axis=1)


def _decomposed(apart: Array) -> tuple[FloatArray, Array]:
    """Squared singular values of matrices (P, n, V), and singular vectors of the shorter side, both
    in descending order.

    Without the batched CUDA solver, torch solves small eigenproblems on a device one by one. The
    host's cores are faster, and the vectors are then a NumPy array.
    """
    turned = _adjoint(apart)
    gram = turned @ apart if apart.shape[2] <= apart.shape[1] else apart @ turned
    if cuda.is_served(gram):
        values, vectors = cuda.eigh(gram)
    else:
        here = to_numpy(gram)
        if on_accelerator(gram):
            parts = by_shares(lambda some: np.linalg.eigh(here[some]), len(here))
            values, vectors = (np.concatenate(each) for each in zip(*parts, strict=True))
        else:
            # On the host, blocks already run on separate threads.
            values, vectors = np.linalg.eigh(here)
    flip = array_namespace(vectors).flip
    return to_numpy(values)[:, ::-1], flip(vectors, axis=2)


def _filtered(apart: Array, vectors: Array, shrinkage: Array) -> Array:
    """Matrices whose components are shrunk."""
    xp = array_namespace(apart)
    scaled = vectors * xp.astype(shrinkage, vectors.dtype)[:, None, :]
    if apart.shape[2] <= apart.shape[1]:
        return (apart @ scaled) @ _adjoint(vectors)
    return scaled @ (_adjoint(vectors) @ apart)


def _adjoint(a: Array) -> Array:
    xp = array_namespace(a)
    turned = xp.matrix_transpose(a)
    return xp.conj(turned) if _channels(a) == 2 else turned


def _channels(a: Array) -> int:
    """Real numbers per cell: 2 for complex data."""
    return 2 if array_namespace(a).isdtype(a.dtype, "complex floating") else 1


# --- checks of the input -----------------------------------------------------------------------


def checked_volume(data: Any) -> Array:
    """The data as finite floating-point numbers with four axes."""
    if not hasattr(data, "dtype"):
        data = np.asarray(data)
    shape = tuple(data.shape)
    if len(shape) != 4:
        raise ValueError(
            f"data has shape {shape}, but a series of volumes has four axes (x, y, z, volumes). "
            "A series of slices is data[:, :, None, :]."
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
