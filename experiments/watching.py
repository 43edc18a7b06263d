"""How far a program has come, as its loops report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


def _nobody(share: float) -> None:
    """Nobody watches."""


@dataclass
class Watch:
    """Adds up what is done of a program, and says so: `advance` is called with shares of it.

    A loop within a loop divides what one round of the outer one has.
    """

    advance: Callable[[float], None] = _nobody
    _done: float = field(default=0.0, init=False)
    _round: float = field(default=1.0, init=False)

    def each(self, items: Iterable[T], share: float = 1.0) -> Iterator[T]:
        """Each of the items; when all are done, so is this share of the round around them."""
        todo = list(items)
        outer, begin = self._round, self._done
        self._round = outer * share / max(len(todo), 1)
        try:
            for number, item in enumerate(todo, start=1):
                yield item
                self._reach(begin + number * outer * share / len(todo))
        finally:
            self._round = outer

    def _reach(self, done: float) -> None:
        self.advance(done - self._done)
        self._done = done
