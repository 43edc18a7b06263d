"""Patches of a volume: their positions, their voxels, and sums over the patches of each voxel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, device, is_torch_array
from bayespca.arrays.types import Array

Corner = tuple[int, int, int]
Corners = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Grid:
    """Boxes of one size inside a volume, every `step` voxels; the last one ends at the edge.

    `shape` and `size` are the voxels of the volume and of a patch along the three axes.
    """

    shape: Corner
    size: Corner
    step: int = 1

    @property
    def n_patches(self) -> int:
        return int(np.prod([self._along(axis).size for axis in range(3)]))

    def blocks(self, most: int) -> list[Corners]:
        """Corners along the three axes, in blocks of at most `most` patches or a single line."""
        x, y, z = (self._along(axis) for axis in range(3))
        lines = max(1, most // z.size)
        return [
            (x[i : i + 1], y[j : j + lines], z)
            for i in range(x.size)
            for j in range(0, y.size, lines)
        ]

    def _along(self, axis: int) -> np.ndarray:
        last = self.shape[axis] - self.size[axis]
        return np.unique(np.append(np.arange(0, last + 1, self.step), last))


def windows(values: Array, size: Corner) -> Array:
    """A view of all patches: (X', Y', Z', size…, remaining axes)."""
    if is_torch_array(values):
        view: Any = values
        for axis, width in enumerate(size):
            view = view.unfold(axis, width, 1)
    else:
        view = np.lib.stride_tricks.sliding_window_view(values, size, axis=(0, 1, 2))
    extra = values.ndim - 3
    order = (0, 1, 2, *range(3 + extra, 6 + extra), *range(3, 3 + extra))
    return view.permute(order) if is_torch_array(values) else view.transpose(order)


def gathered(view: Array, corners: Corners) -> Array:
    """The patches at these corners: (P, voxels of a patch, …)."""
    some = view[_mesh(corners, view)]
    n_patches = corners[0].size * corners[1].size * corners[2].size
    voxels = int(np.prod(some.shape[3:6]))
    return some.reshape((n_patches, voxels, *some.shape[6:]))


def box(corners: Corners, size: Corner) -> tuple[slice, slice, slice]:
    """The part of the volume that patches at these corners fill."""
    x, y, z = (slice(int(c[0]), int(c[-1]) + width) for c, width in zip(corners, size, strict=True))
    return x, y, z


def laid(patches: Array, corners: Corners, grid: Grid) -> Array:
    """Sums over patches (P, voxels, …) in each voxel of their box.

    It adds along one axis after another, with 15 additions of large arrays for patches of 5×5×5.
    With 125 additions of small arrays, threads would mostly wait for Python's lock.
    """
    xp, lengths = array_namespace(patches), tuple(each.size for each in corners)
    left = patches.reshape((*lengths, *grid.size, *patches.shape[2:]))
    for axis in (2, 1, 0):
        # Of the axes X, Y, Z, x, y, z, …, those of voxels beyond this one are gone. This one goes,
        # too, and that of corners becomes the axis of the box.
        first, width = corners[axis] - corners[axis][0], grid.size[axis]
        shape = list(left.shape)
        del shape[axis + 3]
        shape[axis] = int(first[-1]) + width
        sums = xp.zeros(tuple(shape), dtype=left.dtype, device=device(left))
        before, adjoining = (slice(None),) * axis, first.size == int(first[-1]) + 1
        for offset in range(width):
            part = left[(*(slice(None),) * (axis + 3), offset)]
            where: Any = slice(offset, offset + first.size)
            if not adjoining:
                where = _mesh((first + offset,), sums)[0]
            sums[(*before, where)] += part
        left = sums
    return left


def _mesh(places: tuple[np.ndarray, ...], like: Array) -> tuple[Array, ...]:
    """The result of `np.ix_`, as tensors if `like` is a tensor."""
    found = np.ix_(*places)
    if not is_torch_array(like):
        return found
    import torch

    return tuple(torch.as_tensor(each, device=like.device) for each in found)
