"""Patches of a volume: where they are, their voxels, and sums over the patches of each voxel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_torch_array
from bayespca.arrays.types import Array

Corner = tuple[int, int, int]
Corners = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Grid:
    """Boxes of one size inside a volume, each a step from the next; the last one ends at the edge.

    Attributes
    ----------
    shape
        Voxels of the volume along its three axes.
    size
        Voxels of a patch along them.
    step
        Voxels from one patch to the next.
    """

    shape: Corner
    size: Corner
    step: int = 1

    @property
    def n_voxels(self) -> int:
        """Voxels of a patch."""
        return int(np.prod(self.size))

    @property
    def n_patches(self) -> int:
        return int(np.prod([self._along(axis).size for axis in range(3)]))

    @property
    def offsets(self) -> Iterator[Corner]:
        """Voxels of a patch, from its corner."""
        x, y, z = map(range, self.size)
        return product(x, y, z)

    def blocks(self, most: int) -> list[Corners]:
        """Corners of patches along the three axes, with `most` patches or one line in a block."""
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
    """A view of all patches: (X', Y', Z', size…, the axes after the third)."""
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
    some = view[np.ix_(*corners)] if isinstance(view, np.ndarray) else view[_open(corners, view)]
    n_patches = corners[0].size * corners[1].size * corners[2].size
    voxels = int(np.prod(some.shape[3:6]))
    return some.reshape((n_patches, voxels, *some.shape[6:]))


def scatter(sums: Array, patches: Array, corners: Corners, grid: Grid) -> None:
    """Add patches (P, voxels, …) to the voxels of the volume, in its place."""
    lengths = tuple(each.size for each in corners)
    for number, offset in enumerate(grid.offsets):
        places = tuple(each + o for each, o in zip(corners, offset, strict=True))
        where: Any = np.ix_(*places) if isinstance(sums, np.ndarray) else _open(places, sums)
        sums[where] += patches[:, number].reshape((*lengths, *patches.shape[2:]))


def _open(corners: tuple[np.ndarray, ...], like: Array) -> tuple[Array, ...]:
    """What `np.ix_` gives, as tensors where `like` is."""
    import torch

    return tuple(torch.as_tensor(each, device=like.device) for each in np.ix_(*corners))
