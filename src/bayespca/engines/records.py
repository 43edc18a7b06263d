"""Records that engines take, and that every engine returns: a spectrum, and bases on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from array_api_compat import array_namespace, device

from bayespca.arrays.namespaces import to_namespace
from bayespca.arrays.types import AnyDType, Array, FloatArray
from bayespca.spectrum.records import Solution, Spectrum, Status


class Plan(Protocol):
    """Solves a spectrum, perhaps truncated; the solution's status says if it was long enough.

    Callers that solve many spectra skip the free energies of other ranks.
    """

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution: ...


@dataclass(frozen=True)
class Decomposition:
    """X − mean = U·diag(γ)·Wᵀ, as far as an engine took it; rows of X are samples.

    Attributes
    ----------
    spectrum
        Singular values, shape (features, samples less one if centred), sum of squares. Truncated
        if the engine stopped early.
    right
        `right(k)` is the k×p array of the first k right singular vectors, in the namespace, dtype
        and place of the data. Computed on demand: vectors that are dropped cost nothing.
    mean
        The p column means that were removed, or zeros.
    n_samples
        Rows of X.
    engine
        The name of the engine that ran.
    miss_probability
        An upper bound on the probability that a singular value above the last known one was
        missed; 0 for engines that do not draw random numbers.
    status
        Whether the answer is exact in spite of rounding errors, with advice.
    gram
        (X − mean)ᵀ(X − mean), where the engine computed it.
    left
        `left(k)` is the n×k array of the first left singular vectors, where the engine has them.
    """

    spectrum: Spectrum
    right: Callable[[int], Array]
    mean: Array
    n_samples: int
    engine: str
    miss_probability: float = 0.0
    status: Status = field(default_factory=Status)
    gram: FloatArray | None = None
    left: Callable[[int], Array] | None = None


class Basis(Protocol):
    """Orthonormal rows that are added block by block."""

    @property
    def rows(self) -> Array:
        """All rows."""

    @property
    def size(self) -> int:
        """Number of rows."""

    def append(self, block: Array) -> None:
        """Add rows, which must be orthonormal to those that are there."""


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


class Operator(Protocol):
    """A matrix A = X − 1·meanᵀ with n rows that can be multiplied from both sides.

    `matmul` and `rmatmul` return new arrays, in the wider dtype of the data and the argument.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p): samples, features."""

    @property
    def dtype(self) -> AnyDType:
        """The dtype of the data, in their namespace."""

    @property
    def mean(self) -> Array:
        """The p column means in float64, where the data live; zeros if not `centered`."""

    @property
    def centered(self) -> bool:
        """Whether the means were removed, which leaves one sample less."""

    @property
    def sum_of_squares(self) -> float:
        """‖A‖² to the precision of float64."""

    @property
    def spectrum_shape(self) -> tuple[int, int]:
        """Features, and samples less one if centred, whichever of them are the rows of A."""

    @property
    def is_distant(self) -> bool:
        """Whether A·Q stays where the data are, as rows that multiply but are no array."""

    def new_basis(self, like: Array) -> Basis:
        """An empty basis of vectors with n entries, in the dtype and place of `like`."""

    def matmul(self, Q: Array) -> Array:
        """A·Q for a p×b array."""

    def rmatmul(self, W: Array) -> Array:
        """Aᵀ·W for an n×b array."""


def embedded(found: Decomposition, live: np.ndarray, row: Array) -> Decomposition:
    """The decomposition of data with more columns: those at `live` vary, the others are `row`."""
    xp, p = array_namespace(found.mean), row.shape[0]
    size = int(found.mean.shape[0])
    origin = np.arange(size, size + p)
    origin[live] = np.arange(size)

    def spread(values: Array, fill: Array) -> Array:
        """Columns put where they belong, the others from `fill`."""
        both = xp.concat([values, fill], axis=-1)
        return xp.take(both, xp.asarray(origin, device=device(values)), axis=-1)

    def right(k: int) -> Array:
        vectors = found.right(k)
        zeros = xp.zeros((k, p), dtype=vectors.dtype, device=device(vectors))
        return spread(vectors, zeros)

    gram = None
    if found.gram is not None:
        gram = np.zeros((p, p))
        gram[np.ix_(live, live)] = found.gram
    mean = spread(found.mean, xp.astype(row, found.mean.dtype))
    return replace(found, right=right, mean=mean, gram=gram)


def rescaled(found: Decomposition, scale: float) -> Decomposition:
    """The decomposition of data that are `scale` times as large."""
    gram = None if found.gram is None else found.gram * scale * scale
    return replace(found, spectrum=times(found.spectrum, scale), mean=found.mean * scale, gram=gram)


def times(spectrum: Spectrum, scale: float) -> Spectrum:
    """The spectrum of data that are `scale` times as large."""
    if scale == 1.0:
        return spectrum
    return Spectrum(
        spectrum.singular_values,
        spectrum.shape,
        spectrum.sum_of_squares,
        spectrum.scale * scale,
        spectrum.resolution,
    )
