"""Sums over rows on the workers: a pass over blocks, and a tree of sums that ends at the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .cluster import computed
from .records import Delayed
from .tasks import mapped_parts, reduced

Total = TypeVar("Total")


def total_over(blocks: tuple[Delayed, ...], sums: Callable[..., Total], *given: object) -> Total:
    """The total over all blocks of what `sums` returns for each."""
    found: Total = computed(reduced(mapped_parts(sums, blocks, broadcast=given), added))[0]
    return found


def added(first: Total, second: Total) -> Total:
    """Add sums over some rows and over the next ones: numbers, arrays, lists, or tuples of them."""
    if isinstance(first, tuple):
        merged = [added(a, b) for a, b in zip(first, second, strict=True)]  # type: ignore[call-overload]
        return type(first)(*merged) if hasattr(first, "_fields") else tuple(merged)  # type: ignore[return-value]
    return first + second  # type: ignore[operator]
