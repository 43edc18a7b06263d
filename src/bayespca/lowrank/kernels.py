"""The posterior of rows given that of columns, pattern by pattern: by NumPy, by numba where there
are many patterns, or by a CUDA kernel on NVIDIA's GPUs.

Packed matrices lie in columns, one for each pattern: H(H + 1)/2 × m.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from bayespca.arrays import cuda
from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.packing import inverses, packed, times_each, unpacked
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray, Index

from .patterns import pattern_of_rows

# Multiplications per sweep beyond which a compiled kernel is worth the seconds it takes to compile,
# and multiplications that take as long as NumPy's calls for one small matrix.
MANY = 2e7
CALLS = 2500
# Rows per pattern beyond which a matrix product for each pattern pays.
ALIKE = 16


class UpdatedRows(NamedTuple):
    """Means (n, H), packed covariances (None where a kernel keeps them to itself), packed Σ⟨ããᵀ⟩
    over the rows of each pattern, log|Σ|.
    """

    a: Array
    cov: Array
    second: Array
    log_dets: Array


class OwnRows(NamedTuple):
    """Numbers that replace common ones where rows do not all count the same.

    `shares` is the weight of each pattern's covariance in Σ⟨ããᵀ⟩, summed over its rows (m,);
    `last` is the last entry of each row's ã, which is otherwise 1 (n,).
    """

    shares: Array
    last: Array


# Any function with the arguments and the result of `by_numpy`.
Kernel: TypeAlias = Callable[..., UpdatedRows]


def kernel_for(n: int, m: int, H: int) -> Kernel:
    """The fastest kernel for n rows with m patterns; it may overwrite `gram` and `pull`."""
    if m * (H**3 + CALLS) <= MANY or n > ALIKE * m:
        return by_numpy
    from .compiled import by_loops

    return by_loops


def has_device_kernel(like: Array, n: int, m: int, H: int) -> bool:
    """Whether `by_device` can update n rows with m patterns on the device of `like`."""
    return n <= ALIKE * m and cuda.is_served(like) and cuda.fits(H)


def by_device(
    gram: Array,
    pull: Array,
    starts: Index,
    share: float,
    ridge: FloatArray,
    s2: float,
    own: OwnRows | None = None,
) -> UpdatedRows:
    """As `by_numpy`, by a CUDA kernel and without covariances; `pull` is overwritten by means."""
    own_or_none = {} if own is None else own._asdict()
    a, second, log_dets = cuda.update_rows(gram, pull, starts, share, ridge, s2, **own_or_none)
    return UpdatedRows(a, None, second, log_dets)


def by_numpy(
    gram: FloatArray,
    pull: FloatArray,
    starts: Index,
    share: float,
    ridge: FloatArray,
    s2: float,
    own: OwnRows | None = None,
) -> UpdatedRows:
    """Update the rows of some patterns.

    Parameters
    ----------
    gram
        Σⱼ⟨bⱼbⱼᵀ⟩ over the observed columns of each pattern, packed: H(H + 1)/2 × m.
    pull
        Σⱼ(xⱼ⟨bⱼ⟩ − ⟨bⱼμⱼ⟩) of each row: (n, H).
    starts
        Where the rows of each pattern begin, with n at the end. Every pattern has rows.
    share
        Weight of each row's covariance in Σ⟨ããᵀ⟩.
    ridge
        σ²/cₐ²: (H,).
    own
        Replaces `share` and the 1 in ã, where rows do not all count the same.
    """
    H = pull.shape[1]
    shares = share * np.diff(starts) if own is None else own.shares
    last = np.ones(len(pull)) if own is None else own.last
    a, cov, log_dets = given_gram(gram, pull, starts, ridge, s2)
    second = _squares(np.concatenate([a, last[:, None]], axis=1), starts)
    cov = packed(cov)
    second[:, np.triu_indices(H + 1)[1] < H] += shares[:, None] * cov
    return UpdatedRows(a, cov.T, second.T, log_dets)


def over_patterns(packed: Array) -> Array:
    """Sum over the patterns, which are the columns of `packed`."""
    found = cuda.column_sums(packed.T) if cuda.is_served(packed) else None
    return array_namespace(packed).sum(packed, axis=1) if found is None else found


def given_gram(
    gram: Array, pull: Array, starts: Index, ridge: FloatArray, s2: float
) -> tuple[Array, Array, Array]:
    """Means Σᵢrᵢ/σ² of rows, covariances Σ = σ²(gram + ridge)⁻¹ of patterns, log|Σ|.

    Works on arrays of any namespace; `starts` and `ridge` are on the host. It may overwrite `gram`
    and `pull`.
    """
    H, m = pull.shape[1], starts.size - 1
    if has_device_kernel(pull, pull.shape[0], m, H):
        a, cov, log_dets = cuda.update_rows(gram, pull, starts, 0.0, ridge, s2, summed=False)
        return a, unpacked(cov.T, H), log_dets
    precision = (unpacked(gram.T, H) + at(pull, np.diag(ridge))) / s2
    cov, log_dets = inverses(precision)
    return times_of_patterns(cov, pull, starts) / s2, cov, log_dets


def times_of_patterns(matrices: Array, rows: Array, starts: Index) -> Array:
    """The product of each row with the symmetric matrix of its pattern: (n, H)."""
    xp, (n, m) = array_namespace(rows), (rows.shape[0], starts.size - 1)
    if n > ALIKE * m:
        edges = pairwise(starts.tolist())
        return xp.concat([rows[i:j, :] @ matrices[r, :, :] for r, (i, j) in enumerate(edges)])
    of_row = matrices if n == m else taken(matrices, pattern_of_rows(starts))
    return times_each(of_row, rows)


def _squares(rows: FloatArray, starts: Index) -> FloatArray:
    """Packed Σxxᵀ over the rows of each pattern."""
    if len(rows) > ALIKE * (starts.size - 1):
        by_pattern = (rows[i:j] for i, j in pairwise(starts))
        return packed(np.stack([x.T @ x for x in by_pattern]))
    k, l = np.triu_indices(rows.shape[1])
    return np.add.reduceat(rows[:, k] * rows[:, l], starts[:-1], axis=0)
