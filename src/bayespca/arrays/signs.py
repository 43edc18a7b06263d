"""Signs of directions, fixed in one way everywhere."""

from __future__ import annotations

from .namespaces import array_namespace
from .types import Array


def fixed_signs(components: Array) -> Array:
    """Rows with signs such that the entry of largest magnitude is positive, as svd_flip does."""
    return components * signs_of(components)[:, None]


def signs_of(components: Array) -> Array:
    """The sign of the entry of largest magnitude in each row, 1 where all are 0."""
    xp = array_namespace(components)
    if not components.shape[0]:
        return xp.sum(components, axis=1)
    largest = xp.argmax(xp.abs(components), axis=1)
    picked = xp.take_along_axis(components, largest[:, None], axis=1)[:, 0]
    return xp.where(picked < 0, -xp.ones_like(picked), xp.ones_like(picked))
