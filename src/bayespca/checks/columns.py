"""Columns that follow from others, in words."""

from __future__ import annotations

from collections.abc import Sequence

from bayespca.sources.redundant import Combinations
from bayespca.spectrum.records import Advice

# Largest numbers of findings to name, and of columns in one of them.
NAMED, TERMS = 3, 8
DONE = (
    "They carry no noise of their own and would look like components: the fit leaves them out, and "
    "takes what it says about them from the others."
)
KEPT = (
    "They carry no noise of their own, so maximum likelihood underestimates the noise: leave them "
    "out."
)


def dependent_columns(combined: Combinations, names: Sequence[str], *, kept: bool) -> Advice:
    """Advice that names the columns that follow from others; `kept` if they are fitted, too."""
    some = [_words(combined, j, names) for j in range(min(NAMED, combined.columns.size))]
    more = combined.columns.size - len(some)
    text = "; ".join(some) + (f"; and {more} more" if more else "")
    return Advice(
        "dependent-columns", f"Some columns are redundant: {text}. {KEPT if kept else DONE}"
    )


def _words(combined: Combinations, j: int, names: Sequence[str]) -> str:
    """A combination in words: a copy, a multiple, a sum, a total, or anything else."""
    terms, offset = combined.target == j, float(combined.offset[j])
    a, sources = combined.coefficient[terms], [names[i] for i in combined.source[terms]]
    own = names[combined.columns[j]]
    if len(sources) == 1:
        verb = "equals" if a[0] == 1 and not offset else "is a multiple of"
        return f"{own!r} {verb} {sources[0]!r}"
    if (a == 1).all() and not offset:
        return f"{own!r} is the sum of {_listed(sources)}"
    if (a == -1).all():
        if len(sources) + 1 == len(names):
            return f"rows sum to {offset:.6g}, so {own!r} follows from the others"
        return f"{_listed([*sources, own])} sum to {offset:.6g}"
    return f"{own!r} follows from {_listed(sources)}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > TERMS:
        return f"{len(names)} columns"
    *first, last = [repr(name) for name in names]
    return f"{', '.join(first)} and {last}"
