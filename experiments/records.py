"""What programs are given, what they hand back, and what is kept of it for the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .comparing import DIFFERS, Comparison
from .watching import Watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .data import Data


T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """What a program is given.

    Attributes
    ----------
    printed
        Its table in `expected.toml`.
    data
        Where data sets are found.
    quick
        Whether fewer seeds and smaller sizes will do. The page says what was run.
    watch
        Learns from loops how far the program has come.
    """

    printed: Mapping[str, Any]
    data: Data
    quick: bool = False
    watch: Watch = field(default_factory=Watch)

    def each(self, items: Iterable[T], share: float = 1.0) -> Iterator[T]:
        """Each of the items of a loop that takes this share of the time; for loops that take long.

        A loop within such a loop divides what one round of the outer one has.
        """
        return self.watch.each(items, share)


@dataclass(frozen=True)
class Table:
    """A table with columns of its own."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> Table:
        rows = tuple(tuple(row) for row in read["rows"])
        return cls(read["caption"], tuple(read["header"]), rows)


@dataclass(frozen=True)
class Outcome:
    """What a program hands back: lines of the page, figures by their captions, and the setting."""

    comparisons: tuple[Comparison, ...]
    setting: str
    seed: str = "none"
    figures: Mapping[str, Figure] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A number known not to come out as it is printed: what comes out, why, and what was tried."""

    what: str
    came_out: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Result:
    """A table or figure as it is on the page. `skipped` says why it is not there."""

    paper: str
    program: str
    title: str
    quick: bool
    seconds: float
    setting: str = ""
    seed: str = ""
    comparisons: tuple[Comparison, ...] = ()
    figures: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    skipped: str = ""
    tables: tuple[Table, ...] = ()

    def unexplained(self) -> list[Comparison]:
        """Lines that differ from the paper, about which `expected.toml` has nothing to say."""
        known = {difference.what: difference.came_out for difference in self.differences}
        return [
            line
            for line in self.comparisons
            if line.verdict == DIFFERS and line.computed not in known.get(line.what, ())
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, read: dict[str, Any]) -> Result:
        return cls(
            **read
            | {
                "comparisons": tuple(Comparison(**line) for line in read["comparisons"]),
                "differences": tuple(
                    Difference(**one | {"came_out": tuple(one["came_out"])})
                    for one in read["differences"]
                ),
                "figures": tuple((file, caption) for file, caption in read["figures"]),
                "remarks": tuple(read["remarks"]),
                "tables": tuple(Table.from_json(one) for one in read.get("tables", ())),
            }
        )
