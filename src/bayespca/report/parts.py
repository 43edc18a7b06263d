"""Parts of the pages of all models: a header, sections, and the data that the script draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from bayespca.estimators.findings import Findings, findings_of
from bayespca.estimators.wording import percent
from bayespca.version import __version__

from . import loadings
from .figures import Figure, JsonObject, trace
from .loadings import Card, Directions, LoadingsTable
from .scores import Samples, Scores, read_scores


@dataclass(frozen=True)
class StripPart:
    """A part of the strip under the headline; it is hatched if `rest`."""

    name: str
    share: float
    title: str
    rest: bool = False


@dataclass(frozen=True)
class Strip:
    """Shares that make up a whole, side by side."""

    parts: list[StripPart]
    label: str
    note: str


@dataclass(frozen=True)
class TallyRow:
    """A rule or a number: its cells, and its bar in percent, coloured if it is that of the page."""

    cells: Sequence[str]
    size: float
    agrees: bool
    about: str = ""


@dataclass(frozen=True)
class Tally:
    """A table with a bar in each row; the column `finds` has a number of dimensions."""

    id: str
    title: str
    head: Sequence[str]
    rows: Sequence[TallyRow]
    caption: str
    finds: int | None = None


@dataclass(frozen=True)
class Section:
    """A section: cards, figures and tallies, with a `text` above them and a `remark` below; or
    samples with a `sentence` about them; or a table.
    """

    id: str
    title: str
    text: str = ""
    cards: Sequence[Card] = ()
    figures: Sequence[Figure] = ()
    tallies: Sequence[Tally] = ()
    remark: str = ""
    points: Scores | None = None
    sentence: str = ""
    table: LoadingsTable | None = None


@dataclass(frozen=True, eq=False)
class Content:
    """The content of a page: `facts` say how it was computed, `data` are for the script."""

    name: str
    account: Findings
    strip: Strip | None
    facts: Mapping[str, str]
    data: JsonObject
    sections: Sequence[Section]
    glossary: Mapping[str, str]


def content(
    model: Any,
    sections: Sequence[Section | None],
    *,
    name: str | None = None,
    account: Findings | None = None,
    strip: Strip | None = None,
    found: Directions | None = None,
    shares: Sequence[float] = (),
    details: Mapping[str, str],
    facts: Mapping[str, str] | None = None,
    noise: Sequence[Figure] = (),
    glossary: Mapping[str, str] | None = None,
) -> Content:
    """The page of a model from its account and sections; sections that are None are left out.

    They are followed by all loadings of the components that are `found`, and by figures of `noise`
    and of the search. `shares` are those of the components that are drawn, by default of those
    found. `facts` and `details` are the lines of "how it was computed".
    """
    account = account or findings_of(model)
    shares = found.shares.tolist() if found else shares
    shown = [section for section in sections if section is not None]
    if found and (table := loadings.table(found)):
        shown.append(Section("features", f"Every {found.row}", table=table))
    search = trace(model)
    if noise or search:
        title = "Where the noise is" if noise else "The search"
        shown.append(Section("more", title, figures=[*noise, *([search] if search else [])]))
    figures = [figure for section in shown for figure in section.figures]
    points = next((section.points for section in shown if section.points), None)
    if facts is None:
        defaults = type(model)().get_params()
        given = {k: v for k, v in model.get_params().items() if v != defaults[k]}
        options = ", ".join(f"{name}={value!r}" for name, value in given.items())
        facts = {
            "bayespca": f"version {__version__}",
            "Data": account.size,
            "Model": f"{type(model).__name__}({options})",
            "Seed": "none" if model.random_state is None else str(model.random_state),
        }
        energy, steps = account.numbers["free_energy"], account.numbers["n_iter"]
        if isfinite(energy):
            facts["Free energy"] = f"{energy:,.6g} nats"
        if steps:
            unsettled = "" if account.numbers["converged"] else ", not settled"
            facts["Steps"] = f"{steps:,}{unsettled}"
    return Content(
        name=name or type(model).__name__,
        account=account,
        strip=strip,
        facts={**facts, **details},
        data={
            "figures": {
                figure.id: {"data": figure.data, "layout": figure.layout, "height": figure.height}
                for figure in figures
            },
            "scores": points.drawing if points else None,
            "loadings": loadings.bars(found) if found else [],
            "shares": [percent(float(share)) for share in shares[:50]],
        },
        sections=shown,
        glossary=glossary or {},
    )


# --- sections that several models have ---------------------------------------------------------


def dimensions(found: Directions, text: str, back: Sequence[str] = ()) -> Section:
    """Section that describes the first dimensions with cards; `back` is as in `loadings.cards`."""
    cards, k = loadings.cards(found, back), len(found.loadings)
    if not cards:
        text = "There are none to describe: nothing varies together more than chance would allow."
    if len(cards) < k:
        text += f" The first {len(cards)} of {k} are shown."
    return Section("dimensions", "What the dimensions are", text, cards=cards)


def where(
    samples: Samples, title: str = "Where the samples lie", noun: str = "sample"
) -> Section | None:
    """Section with the positions of samples; None if there is nothing to draw."""
    points = read_scores(**samples)
    if points is None:
        return None
    text = f"Each dot is one {noun}; those near each other are alike."
    if points.n_components < 2:
        text = (
            f"Each dot is one {noun}: its place along the one dimension, in the order of the data."
        )
    if points.n_points < points.n_samples:
        text += f" {points.n_points:,} of {points.n_samples:,} are drawn, picked at random."
    return Section("samples", title, points=points, sentence=text)
