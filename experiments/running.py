"""The programs of a paper, run one after another."""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from .data import Data, Missing
from .records import Difference, Outcome, Result, Run
from .watching import Watch

Advance = Callable[[float], None]

HERE = Path(__file__).parent
# In this order on the page.
PAPERS = (
    *("icml2011", "icann1999", "aistats2014", "lecture", "note", "noise", "views", "claims"),
    "rankbench",
)
# What `expected.toml` says of the paper itself; its tables are the programs.
ABOUT = ("title", "citation", "printed")


def expected(paper: str) -> dict[str, Any]:
    """The data file of a paper: `title`, `citation`, and a table for each program.

    `printed` is the heading of the column of printed numbers, where there is no paper to print any.
    """
    return tomllib.loads((HERE / paper / "expected.toml").read_text(encoding="utf-8"))


def programs(paper: str) -> list[str]:
    """Tables and figures of a paper, in its order."""
    return [name for name in expected(paper) if name not in ABOUT]


def chosen(target: str) -> list[tuple[str, str]]:
    """The programs that a target means: "all", a paper, or one program as "paper/program"."""
    paper, _, program = target.partition("/")
    papers = PAPERS if target == "all" else (paper,)
    known = {name: programs(name) for name in papers if name in PAPERS}
    if not known or (program and program not in known[paper]):
        choices = "all, " + ", ".join(PAPERS)
        of_paper = f", or one of {', '.join(known[paper])} as {paper}/…" if known else ""
        raise ValueError(f"there is no {target!r} to reproduce: choose {choices}{of_paper}.")
    return [(p, name) for p, names in known.items() for name in names if program in ("", name)]


def reproduce(
    paper: str, program: str, *, data: Data, quick: bool, advance: Advance | None = None
) -> tuple[Result, Outcome]:
    """One table or figure. Where data are missing, the result says which.

    `advance` is called with each share of the program that is done.
    """
    printed = expected(paper)[program]
    differences = tuple(
        Difference(one["what"], tuple(one["came_out"]), one["why"])
        for one in printed.get("differences", ())
    )
    module = import_module(f"{__package__}.{paper}.{program}")
    watch = Watch() if advance is None else Watch(advance)
    begin = perf_counter()
    skipped = ""
    try:
        with warnings.catch_warnings():
            # What is worth knowing of a fit is among the remarks of its program.
            warnings.simplefilter("ignore")
            outcome = module.reproduce(Run(printed, data, quick, watch))
    except Missing as reason:
        outcome, skipped = Outcome((), setting=""), str(reason)
    result = Result(
        paper,
        program,
        printed["title"],
        quick,
        perf_counter() - begin,
        outcome.setting,
        outcome.seed,
        outcome.comparisons,
        tuple(
            (f"{paper}-{program}-{number}.png", caption)
            for number, caption in enumerate(outcome.figures, start=1)
        ),
        outcome.remarks,
        differences,
        skipped,
        outcome.tables,
    )
    return result, outcome
