"""Results in the terminal, or as JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from bayespca.estimators._halves import RankStability
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.stories import Story
from bayespca.estimators.summary import Summary
from bayespca.estimators.wording import (
    conditional,
    holes_sentence,
    likelihood,
    noise_level,
    noise_sentence,
    percent,
)

from .standard import named
from .wording import on_the_command_line

METHOD_NAMES = {
    "evb": "empirical variational Bayes",
    "epb": "empirical partially Bayes",
    "emap": "empirical MAP",
    "global-epb": "empirical partially Bayes (global)",
    "global-emap": "empirical MAP (global)",
    "vb": "variational Bayes",
    "pb": "partially Bayes",
    "pb-a": "partially Bayes (A integrated)",
    "pb-b": "partially Bayes (B integrated)",
    "map": "MAP",
    "ml": "maximum likelihood",
    "laplace": "Minka's evidence",
    "gibbs": "Gibbs sampling",
}
RULES = {
    "EVB": "free energy of empirical variational Bayes, noise included",
    "Minka": "Laplace's approximation to the evidence",
    "Marchenko–Pastur edge": "singular values above the largest of pure noise",
    "Gavish–Donoho": "hard threshold that is best for reconstruction",
    "parallel analysis": "singular values above those of simulated noise",
    "most probable": "the probability of each number, averaged over directions and strengths",
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
) -> None:
    """Print the headline, a line for each component, and notes."""
    out = console()
    what = (
        f"{counted(summary.n_samples, 'sample')} × {counted(summary.n_features, 'feature')}, "
        f"{METHOD_NAMES.get(summary.method, summary.method)}"
    )
    out.print(Text.assemble((shown(title), "bold"), f"  {what}"))
    out.print()
    out.print(Padding(_headline(summary, stability), (0, 2)))
    if components:
        out.print()
        out.print(Padding(_components(components), (0, 2)))
    print_notes([*(note.text for note in summary.notes), *(notes or [])])


def print_story(story: Story, title: str, notes: list[str] | None = None) -> None:
    """Print the results of a model of any kind."""
    said = (*story.facts, *story.parts[:LISTED])
    facts = {fact.name: ", ".join(filter(None, (fact.value, fact.remark))) for fact in said}
    print_facts(title, story.size, {"found": story.headline} | facts)
    print_notes([*(note.text for note in story.notes), *(notes or [])])


def print_facts(title: str, what: str, facts: dict[str, str]) -> None:
    """Print a headline, and a line for each fact."""
    out = console()
    out.print(Text.assemble((shown(title), "bold"), f"  {what}"))
    out.print()
    grid = Grid.grid(padding=(0, 3))
    grid.add_column(style="dim")
    grid.add_column()
    for name, fact in facts.items():
        grid.add_row(name, fact)
    out.print(Padding(grid, (0, 2)))


def _headline(summary: Summary, stability: RankStability | None) -> Grid:
    grid = Grid.grid(padding=(0, 3))
    grid.add_column(style="dim")
    grid.add_column()
    found = f"[bold green]{summary.rank}[/bold green]"
    if summary.probability is not None:
        found += f", with {conditional(summary.probability)}"
    grid.add_row("components", found)
    others = {k: v for k, v in summary.rank_probabilities.items() if k != summary.rank}
    if others:
        listed = ", ".join(f"{rank}: {likelihood(p)}" for rank, p in sorted(others.items()))
        grid.add_row("other numbers", listed)
    if stability is not None:
        grid.add_row("half samples", Text(stability.in_words, overflow="fold"))
    if summary.rank > 1:
        needed = [f"{k} for {percent(share)}" for share, k in summary.components_for.items()]
        grid.add_row("of the signal", ", ".join(needed))
    grid.add_row("variance explained", percent(summary.explained))
    grid.add_row("noise", f"standard deviation {noise_level(summary, 4)}")
    if sentence := noise_sentence(summary):
        grid.add_row("", Text(sentence, overflow="fold"))
    if sentence := holes_sentence(summary):
        grid.add_row("holes", Text(sentence, overflow="fold"))
    if math.isfinite(summary.free_energy):
        grid.add_row("evidence bound", f"{-summary.free_energy:.6g} nats")
    return grid


def _components(components: list[dict[str, Any]]) -> Grid:
    grid = Grid(box=None, padding=(0, 3, 0, 0), header_style="dim")
    known = "back" in components[0]
    back = ["comes back"] if known else []
    for name in ("component", "singular value", "shrunk to", "variance", *back):
        grid.add_column(name, justify="right")
    grid.add_column("mostly", overflow="fold")
    for row in components:
        mostly = ", ".join(
            f"{'+' if value >= 0 else '−'}{abs(value):.2f} {name}" for name, value in row["mostly"]
        )
        grid.add_row(
            str(row["component"]),
            f"{row['singular_value']:.4g}",
            f"{row['shrunk']:.4g}",
            percent(row["explained"]),
            *([percent(row["back"])] if known else []),
            Text(shown(mostly)),
        )
    return grid


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
    out = console()
    out.print(Text(shown(title), style="bold"))
    out.print()
    grid = Grid(box=None, padding=(0, 3, 0, 2), header_style="dim")
    grid.add_column("rule", no_wrap=True)
    grid.add_column("components", justify="right")
    grid.add_column("what it looks at", style="dim", overflow="fold")
    for name, rank in ranks.ranks().items():
        grid.add_row(name, f"[bold]{rank}[/bold]", RULES.get(name, UNDER_NOISE))
    out.print(grid)
    out.print()
    found = f"noise standard deviation {math.sqrt(ranks.noise_variance):.4g}."
    if not math.isnan(ranks.evb_probability):
        found = f"EVB's rank has probability {likelihood(ranks.evb_probability)}; {found}"
    out.print(f"  If all noise is equal: {found}")
    for why in filter(None, (ranks.why, ranks.not_asked)):
        out.print(Padding(Text(on_the_command_line(why), overflow="fold"), (0, 2)))
    if ranks.stability is not None:
        _print_stability(out, ranks.stability)


def counted(number: int, noun: str) -> str:
    """A number with its noun: 178 samples, 1 sample; lines may break at the space."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def filled(holes: int, cells: int) -> str:
    """A sentence on the number of filled cells."""
    were = "was" if holes == 1 else "were"
    return f"{counted(holes, 'hole')} ({percent(holes / cells)} of the cells) {were} filled."


def _print_stability(out: Console, stability: RankStability) -> None:
    """Print how often the rank and the components reappear in half samples."""
    sentence = f"Half samples: {stability.in_words}"
    out.print(Padding(Text(sentence, overflow="fold"), (0, 2)))
    shares = enumerate(stability.directions.tolist(), start=1)
    if listed := ", ".join(f"{h}: {percent(share)}" for h, share in shares):
        text = f"Components come back in these shares of the halves: {listed}."
        out.print(Padding(Text(text, overflow="fold"), (0, 2)))
