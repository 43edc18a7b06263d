"""Sums over rows that are on workers: a pass over blocks, and a tree of sums that ends here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .cluster import computed
from .records import Delayed
from .tasks import mapped_parts, reduced

Total = TypeVar("Total")


def total_over(blocks: tuple[Delayed, ...], sums: Callable[..., Total], *given: object) -> Total:
    """What a function sums up over a block, of all blocks."""
    found: Total = computed(reduced(mapped_parts(sums, blocks, broadcast=given), added))[0]
    return found


def added(first: Total, second: Total) -> Total:
    """Sums over some rows and over those that follow: numbers, arrays, lists, or tuples of them."""
    if isinstance(first, tuple):
        merged = [added(a, b) for a, b in zip(first, second, strict=True)]  # type: ignore[call-overload]
        return type(first)(*merged) if hasattr(first, "_fields") else tuple(merged)  # type: ignore[return-value]
    return first + second  # type: ignore[operator]
