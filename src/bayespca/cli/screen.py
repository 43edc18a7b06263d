"""Results in the terminal, or as JSON."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bayespca.estimators._halves import RankStability
from bayespca.estimators._lookalikes import DEFAULT, Lookalikes
from bayespca.estimators.findings import Findings
from bayespca.estimators.ranks import EVB, RankReport
from bayespca.estimators.summary import Summary
from bayespca.estimators.wording import (
    ENOUGH,
    holes_sentence,
    kept,
    noise_level,
    noise_sentence,
    percent,
)
from bayespca.version import __version__

from .messages import on_the_command_line
from .standard import named

RULES = {
    DEFAULT: "the most probable number, if the data determine it",
    EVB: "free energy of empirical variational Bayes, if all noise is equal",
    "Minka": "Laplace's approximation to the evidence",
    "Marchenko–Pastur edge": "singular values above the largest of pure noise",
    "Gavish–Donoho": "hard threshold that is best for reconstruction",
    "parallel analysis": "singular values above those of simulated noise",
    "ScreeNOT": "hard threshold for noise of any spectrum",
    "sign flips": "singular values above those of the data with random signs",
    "bi-cross-validation": "the best prediction of held-out blocks",
}
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
UNDER_NOISE = "the same with another noise model"
WIDTH = 100
# Most clusters or modes that are listed.
LISTED = 12


def console() -> Console:
    """Standard output; plain text of a fixed width when it is not a terminal."""
    out = Console(highlight=False, soft_wrap=False)
    return out if out.is_terminal else Console(highlight=False, width=WIDTH)


def shown(text: str) -> str:
    """Text from a file for a terminal, with control characters escaped."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], named(text))


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object; NaN and infinities become null, because JSON does not have them."""
    if "notes" in value:
        value = value | {"notes": [on_the_command_line(note) for note in value["notes"]]}
    json.dump(_plain(value), sys.stdout, ensure_ascii=False, indent=2)
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | bool | None) else named(str(value))


# --- a fit -------------------------------------------------------------------------------------


def print_summary(
    summary: Summary,
    title: str,
    components: list[dict[str, Any]],
    notes: list[str] | None = None,
    stability: RankStability | None = None,
    lookalikes: Lookalikes | None = None,
    *,
    verbose: bool = False,
) -> None:
    """Print the answers, a line for each component, notes, and with `verbose` more figures."""
    out = console()
    what = f"{counted(summary.n_samples, 'sample')} × {counted(summary.n_features, 'feature')}"
    if verbose:
        what += f", method {summary.method}"
    more = _details(summary, stability) if verbose else {}
    drawn = {} if lookalikes is None else {"look-alikes": lookalikes.in_words}
    print_facts(title, what, _answers(summary, stability) | drawn | more)
    if components:
        out.print()
        grid = Grid(box=None, padding=(0, 3, 0, 0), header_style="dim")
        known = "back" in components[0]
        back = ["comes back"] if known else []
        strengths = ["singular value", "shrunk to"] if verbose else []
        for name in ("component", *strengths, "variance", *back):
            grid.add_column(name, justify="right")
        grid.add_column("mostly", overflow="fold")
        for row in components:
            mostly = ", ".join(
                f"{'+' if value >= 0 else '−'}{abs(value):.2f} {name}"
                for name, value in row["mostly"]
            )
            strengths = [f"{row['singular_value']:.4g}", f"{row['shrunk']:.4g}"] if verbose else []
            grid.add_row(
                str(row["component"]),
                *strengths,
                percent(row["explained"]),
                *([percent(row["back"])] if known else []),
                Text(shown(mostly)),
            )
        out.print(Padding(grid, (0, 2)))
    holes = [sentence] if (sentence := holes_sentence(summary)) else []
    print_notes([*holes, *(note.text for note in summary.notes), *(notes or [])])


def print_findings(findings: Findings, title: str, notes: list[str] | None = None) -> None:
    """Print the results of a model of any kind."""
    said = (*findings.facts, *findings.parts[:LISTED])
    facts = {fact.name: ", ".join(filter(None, (fact.value, fact.remark))) for fact in said}
    print_facts(title, findings.size, {"found": findings.headline} | facts)
    print_notes([*(note.text for note in findings.notes), *(notes or [])])


def print_fit(
    source: dict[str, Any],
    title: str,
    account: Findings,
    written: dict[str, str],
    notes: list[str],
    start: float,
    *,
    as_json: bool,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Print the results of a fit that began at `start`; `facts` are for JSON."""
    seconds = time.perf_counter() - start
    if as_json:
        found = source | {"version": __version__} | account.numbers | dict(facts or {})
        found["notes"] = [*account.numbers["notes"], *notes]
        found |= {"written": written, "seconds": round(seconds, 3), "memory_mb": peak_memory()}
        print_json(found)
        return
    print_findings(account, title, notes)
    print_footer(written, f"{took(seconds)}, bayespca {__version__}")


def print_facts(title: str, what: str, facts: dict[str, str]) -> None:
    out = console()
    out.print(Text.assemble((shown(title), "bold"), f"  {what}"))
    out.print()
    grid = Grid.grid(padding=(0, 3))
    grid.add_column(style="dim")
    grid.add_column()
    for name, fact in facts.items():
        grid.add_row(name, Text(fact, overflow="fold"))
    out.print(Padding(grid, (0, 2)))


def _answers(summary: Summary, stability: RankStability | None) -> dict[str, str]:
    """How many components, how many of them matter, and whether they come back."""
    answers = {"components": kept(summary.rank, summary.how_sure)}
    if summary.rank:
        needed = summary.components_for[ENOUGH]
        verb = "holds" if needed == 1 else "hold"
        answers["of the signal"] = f"{needed} of {summary.rank} {verb} {percent(ENOUGH)}"
    if stability is not None:
        other = "" if stability.rank == summary.rank else f" (with {stability.noise} noise)"
        answers["half samples"] = stability.in_words + other
    return answers


def _details(summary: Summary, stability: RankStability | None) -> dict[str, str]:
    shares = [f"{k} for {percent(share)}" for share, k in summary.components_for.items()]
    level = f"standard deviation {noise_level(summary, 4)}"
    finite = math.isfinite(summary.free_energy)
    details = {
        "their numbers": "" if stability is None else stability.numbers_in_words,
        "shares of the signal": ", ".join(shares),
        "variance explained": percent(summary.explained),
        "noise": " ".join(filter(None, (f"{level}.", noise_sentence(summary)))),
        "evidence bound": f"{-summary.free_energy:.6g} nats" if finite else "",
    }
    return {name: value for name, value in details.items() if value}


def print_notes(notes: list[str]) -> None:
    if not notes:
        return
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="yellow")
    grid.add_column(overflow="fold")
    for note in notes:
        grid.add_row("note", Text(shown(on_the_command_line(note))))
    out = console()
    out.print()
    out.print(Padding(grid, (0, 2)))


def print_footer(written: dict[str, str], facts: str = "") -> None:
    """Print the written files, and facts such as time and memory."""
    width = max(9, *(len(what) + 1 for what in written)) if written else 9
    out = console()
    out.print()
    for what, path in written.items():
        out.print(Text.assemble((f"  {what:{width}s}", "dim"), shown(path)))
    if facts:
        out.print(Text(f"  {facts}", style="dim"))


def took(seconds: float) -> str:
    """Time and memory of a command, in words."""
    memory = peak_memory()
    return f"{seconds:.2f} s" + ("" if memory is None else f", {memory:.0f} MB")


def peak_memory() -> float | None:
    """Peak memory of this process in MB; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / 2**20 if sys.platform == "darwin" else peak / 2**10)


# --- rank rules --------------------------------------------------------------------------------


def print_ranks(ranks: RankReport, title: str) -> None:
    assert ranks.n_components is not None
    out, answers = console(), {"components": kept(ranks.n_components, ranks.how_sure)}
    if ranks.stability is not None:
        answers["half samples"] = ranks.stability.in_words
        answers["their numbers"] = ranks.stability.numbers_in_words
    if ranks.lookalikes is not None:
        answers["look-alikes"] = f"{ranks.lookalikes.in_words} {ranks.lookalikes.numbers_in_words}"
    print_facts(title, "", answers)
    out.print()
    grid = Grid(box=None, padding=(0, 3, 0, 2), header_style="dim")
    grid.add_column("rule", no_wrap=True)
    grid.add_column("components", justify="right")
    right = {} if ranks.lookalikes is None else ranks.lookalikes.right
    if right:
        grid.add_column("right in", justify="right")
    grid.add_column("what it looks at", style="dim", overflow="fold")
    for name, rank in ranks.ranks().items():
        share = [percent(right[name]) if name in right else ""] * bool(right)
        grid.add_row(name, f"[bold]{rank}[/bold]", *share, RULES.get(name, UNDER_NOISE))
    out.print(grid)
    out.print()
    for why in filter(None, (ranks.why, ranks.not_asked)):
        out.print(Padding(Text(on_the_command_line(why), overflow="fold"), (0, 2)))


def counted(number: int, noun: str) -> str:
    """A number with its noun: 178 samples, 1 sample; lines may break at the space."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def filled(holes: int, cells: int) -> str:
    were = "was" if holes == 1 else "were"
    return f"{counted(holes, 'hole')} ({percent(holes / cells)} of the cells) {were} filled."
