"""Errors for data whose flaws show only after reading has begun."""

from __future__ import annotations


class UnusableData(ValueError):  # noqa: N818 - it is what was found
    """Data that cannot be used as they are; the message gives place, finding and remedy.

    `block`, `row` (of that block) and `column` count from 0, None where they are not known. All of
    them come back with an error from a worker.
    """

    def __init__(
        self,
        message: str,
        block: int | None = None,
        row: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, block, row, column)
        self.block, self.row, self.column = block, row, column

    def __str__(self) -> str:
        return str(self.args[0])


class IncompleteData(UnusableData):
    """Data with NaN, which are holes: a reason to take another way, where there is one."""
