"""Orthonormal rows that are added block by block."""

from __future__ import annotations

import numpy as np
from array_api_compat import device

from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.types import Array


class StoredBasis:
    """Orthonormal rows, in storage that doubles when it is full."""

    def __init__(self, width: int, like: Array) -> None:
        self._store = to_namespace(np.empty((0, width)), like, like.dtype)
        self.size = 0

    @property
    def rows(self) -> Array:
        return self._store[: self.size, :]

    def append(self, block: Array) -> None:
        """Add rows, which must be orthonormal to those that are there."""
        size = self.size + int(block.shape[0])
        if size > self._store.shape[0]:
            xp = array_namespace(block)
            old, shape = self.rows, (2 * size, block.shape[1])
            self._store = xp.empty(shape, dtype=block.dtype, device=device(block))
            self._store[: self.size, :] = old
        self._store[self.size : size, :] = block
        self.size = size

    def replace(self, first: int, block: Array) -> None:
        """Put rows in place of those from `first` on."""
        self._store[first : self.size, :] = block
