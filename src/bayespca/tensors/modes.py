"""Operations along modes: unfoldings, products with matrices, and updates of modes in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray

S = TypeVar("S")
C = TypeVar("C")


def unfolded(T: Array, n: int) -> Array:
    """T₍ₙ₎: one row for each place along mode n, the other modes in their order."""
    xp = array_namespace(T)
    order = (n, *(m for m in range(T.ndim) if m != n))
    return xp.reshape(xp.permute_dims(T, order), (T.shape[n], size_without(T.shape, n)))


def size_without(shape: Sequence[int], n: int) -> int:
    """∏_{m≠n} of sizes."""
    return math.prod(shape[:n]) * math.prod(shape[n + 1 :])


def mode_product(T: Array, X: Array, n: int) -> Array:
    """T ×ₙ X: every column of T along mode n, multiplied by X from the left.

    T is not permuted: the product reads it in memory order for every mode.
    """
    xp, shape = array_namespace(T), tuple(T.shape)
    left, right = math.prod(shape[:n]), math.prod(shape[n + 1 :])
    if right == 1:
        out = xp.matmul(xp.reshape(T, (left, shape[n])), X.T)
    elif left == 1:
        out = xp.matmul(X, xp.reshape(T, (shape[n], right)))
    else:
        out = xp.matmul(X, xp.reshape(T, (left, shape[n], right)))
    return xp.reshape(out, (*shape[:n], X.shape[0], *shape[n + 1 :]))


def times(T: Array, matrices: Sequence[Array], skip: int | None = None) -> Array:
    """T ×₁ X₁ ×₂ X₂ …, except along the mode `skip`; matrices are moved to the device of T."""
    for n in reversed(range(T.ndim)):
        if n != skip:
            T = mode_product(T, at(T, matrices[n]), n)
    return T


def times_along(T: Array, vectors: Sequence[FloatArray | None]) -> Array:
    """T times a number for each place along each mode; None leaves a mode unchanged."""
    for n, vector in enumerate(vectors):
        if vector is not None:
            xp = array_namespace(T)
            T = T * xp.reshape(at(T, vector), (-1, *(1,) * (T.ndim - 1 - n)))
    return T


def outer(vectors: Sequence[FloatArray]) -> FloatArray:
    """v₁ ∘ v₂ ∘ …"""
    out = np.ones(())
    for vector in vectors:
        out = out[..., None] * vector
    return np.asarray(out)


def in_turn(
    state: S,
    carried: C,
    modes: Sequence[int],
    *,
    contract: Callable[[S, C, Iterable[int]], C],
    update: Callable[[S, C, int], S],
) -> tuple[S, C]:
    """Update mode after mode, each with all the others contracted in their current state.

    Half of the modes are contracted for the other half, and so on recursively: the whole tensor is
    read twice, not once for each mode. Return the state, and what the last mode was updated with.
    """
    if len(modes) == 1:
        return update(state, carried, modes[0]), carried
    half = len(modes) // 2
    last = carried
    for mine, others in ((modes[:half], modes[half:]), (modes[half:], modes[:half])):
        part = contract(state, carried, others)
        state, last = in_turn(state, part, mine, contract=contract, update=update)
    return state, last
