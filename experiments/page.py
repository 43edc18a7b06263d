"""The page: results kept in a folder, and Markdown and HTML made from all that is there."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayespca.io.writing import replacing

from .comparing import DIFFERS, NOT_PRINTED, SKIPPED
from .records import Difference, Result
from .running import ABOUT, PAPERS, expected, programs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
FOLDER, RESULTS = "reproduction", "results.json"
DPI = 110


@dataclass(frozen=True)
class Paper:
    """A paper on the page."""

    name: str
    title: str
    citation: str
    results: tuple[Result, ...]
    printed: str = "printed"


# --- what is kept ------------------------------------------------------------------------------


def keep(out: Path, result: Result, figures: Mapping[str, Figure]) -> None:
    """Add a result to those in a folder, in the place of an older one of the same program."""
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for (file, _), figure in zip(result.figures, figures.values(), strict=True):
        with replacing(folder / file) as target:
            figure.savefig(target, format="png", dpi=DPI)
    kept = {(one.paper, one.program): one for one in results(out)}
    kept[result.paper, result.program] = result
    text = json.dumps([one.to_json() for one in _ordered(kept)], ensure_ascii=False, indent=1)
    with replacing(folder / RESULTS) as target:
        target.write(f"{text}\n".encode())


def results(out: Path) -> list[Result]:
    """The results in a folder, in the order of the papers."""
    path = out / FOLDER / RESULTS
    if not path.is_file():
        return []
    return [Result.from_json(one) for one in json.loads(path.read_text(encoding="utf-8"))]


def _ordered(kept: Mapping[tuple[str, str], Result]) -> Iterable[Result]:
    """In the order of the papers, without what no paper has any more."""
    places = ((paper, program) for paper in PAPERS for program in programs(paper))
    return [kept[place] for place in places if place in kept]


# --- what is written ---------------------------------------------------------------------------


def write(out: Path) -> list[Path]:
    """Write `reproduction.md` and `reproduction.html` from all results in the folder."""
    papers = _papers(results(out))
    pages = {"reproduction.md": markdown(papers), "reproduction.html": html(papers)}
    for name, text in pages.items():
        with replacing(out / name) as target:
            target.write(text.encode())
    return [out / name for name in pages]


def markdown(papers: list[Paper]) -> str:
    return _rendered("page.md.j2", papers, escape=False)


def html(papers: list[Paper]) -> str:
    return _rendered("page.html.j2", papers, escape=True)


def _papers(found: list[Result]) -> list[Paper]:
    grouped = {name: tuple(one for one in found if one.paper == name) for name in PAPERS}
    return [
        Paper(name, results=some, **{key: about[key] for key in ABOUT if key in about})
        for name, some in grouped.items()
        if some
        for about in (expected(name),)
    ]


def _rendered(template: str, papers: list[Paper], *, escape: bool) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": _cell, "duration": duration, "slug": _slug}
    environment.globals |= {"why": why, "tally": tally, "folder": FOLDER}
    return environment.get_template(template).render(papers=papers)


def why(result: Result) -> list[Difference]:
    """What is known of the lines of a result that differ."""
    differing = {line.what for line in result.comparisons if line.verdict == DIFFERS}
    return [difference for difference in result.differences if difference.what in differing]


def tally(some: Iterable[Result]) -> str:
    """How many lines agree, how many differ, how many could not be computed."""
    count: Counter[str] = Counter()
    for result in some:
        count[SKIPPED] += bool(result.skipped)
        count.update(line.verdict for line in result.comparisons)
    agreeing = count.total() - count[DIFFERS] - count[SKIPPED] - count[NOT_PRINTED]
    parts = [f"{agreeing} agree", f"{count[DIFFERS]} differ"]
    if count[SKIPPED]:
        parts.append(f"{count[SKIPPED]} skipped")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """0.3 s, 12 s, 3 min 5 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _cell(text: Any) -> str:
    """Text in a cell of a Markdown table, where a bar would end it."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
