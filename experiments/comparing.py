"""What a paper prints beside what came out, and whether the two agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

AS_PRINTED = "as printed"
WITHIN = "within sampling error"
HOLDS = "holds"
DIFFERS = "differs"
NOT_PRINTED = "no number printed"
SKIPPED = "skipped"

NOTHING = "–"
# Printed and computed counts are taken to differ where they would by chance in 1 of 100 cases,
# and a printed draw where fewer than 1 in 20 draws lie as far out.
LEVEL, TAIL = 0.01, 0.05


@dataclass(frozen=True)
class Comparison:
    """One line of the page."""

    what: str
    printed: str
    computed: str
    verdict: str


def number(what: str, printed: float, computed: float, *, digits: int = 0) -> Comparison:
    """A number that must come out as it is printed: to so many digits after the point."""
    texts = f"{printed:.{digits}f}", f"{computed:.{digits}f}"
    return Comparison(what, *texts, AS_PRINTED if texts[0] == texts[1] else DIFFERS)


def value(what: str, printed: Any, computed: Any) -> Comparison:
    """Something else that must come out as it is printed: a mark, a tuple of ranks."""
    return Comparison(
        what, str(printed), str(computed), AS_PRINTED if printed == computed else DIFFERS
    )


def claim(what: str, printed: str, computed: str, *, holds: bool) -> Comparison:
    """A sentence of the paper, and the figure that bears it out or does not."""
    return Comparison(what, printed, computed, HOLDS if holds else DIFFERS)


def shown(what: str, computed: Any) -> Comparison:
    """A figure to which the paper prints no number."""
    return Comparison(what, NOTHING, str(computed), NOT_PRINTED)


def skipped(what: str, printed: Any, reason: object) -> Comparison:
    """What could not be computed here."""
    return Comparison(what, str(printed), str(reason), SKIPPED)


def one_of_draws(what: str, printed: float, draws: Sequence[float]) -> Comparison:
    """A number that depends on random data of which the paper shows one draw.

    It is among what random data give if at least 1 in 20 draws lie as far out, to either side.
    """
    counts = Counter(draws)
    below = sum(n for draw, n in counts.items() if draw <= printed)
    above = sum(n for draw, n in counts.items() if draw >= printed)
    usual = min(below, above) >= TAIL / 2 * len(draws)
    verdict = AS_PRINTED if set(counts) == {printed} else WITHIN if usual else DIFFERS
    return Comparison(what, str(printed), _listed(counts), verdict)


def frequencies(what: str, printed: Mapping[Any, int], computed: Sequence[Hashable]) -> Comparison:
    """How often each outcome came: printed counts, and the outcomes of our own trials.

    Fisher's exact test of every outcome against all others, at a level of 1 % for all together.
    """
    counts = Counter(computed)
    expected = Counter(dict(printed))
    outcomes = set(counts) | set(expected)
    least = min(_chance(expected, counts, outcome) for outcome in outcomes)
    if _shares(counts) == _shares(expected):
        verdict = AS_PRINTED
    else:
        verdict = WITHIN if least * len(outcomes) >= LEVEL else DIFFERS
    return Comparison(what, _listed(expected), _listed(counts), verdict)


def _shares(counts: Counter[Any]) -> dict[Any, Fraction]:
    return {outcome: Fraction(n, counts.total()) for outcome, n in counts.items()}


def _chance(a: Counter[Any], b: Counter[Any], outcome: Hashable) -> float:
    """The p-value of Fisher's exact test that `outcome` is as likely in one as in the other."""
    from scipy.stats import fisher_exact

    table = [[n[outcome], n.total() - n[outcome]] for n in (a, b)]
    return float(fisher_exact(table)[1])


def _listed(counts: Counter[Any]) -> str:
    """8 (90 %), 9 (10 %): the commonest first."""
    n = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return ", ".join(f"{outcome} ({percent(count, n)})" for outcome, count in ordered)


def percent(count: int, n: int) -> str:
    """A share in per cent, with a digit more where whole per cents would not tell it."""
    share = 100 * count / n
    return f"{share:.0f} %" if abs(share - round(share)) < 1e-9 else f"{share:.1f} %"
