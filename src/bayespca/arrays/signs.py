"""Signs of directions, fixed in one way everywhere."""

from __future__ import annotations

from .namespaces import array_namespace
from .types import Array


def fixed_signs(components: Array) -> Array:
    """Rows with signs such that the entry of largest magnitude is positive, as svd_flip does."""
    if not components.shape[0]:
        return components
    xp = array_namespace(components)
    largest = xp.argmax(xp.abs(components), axis=1)
    picked = xp.take_along_axis(components, largest[:, None], axis=1)
    return components * xp.where(picked < 0, -xp.ones_like(picked), xp.ones_like(picked))
