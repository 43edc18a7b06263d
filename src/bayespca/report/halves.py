"""Results that reappear in half samples, next to their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from bayespca.estimators._halves import RULES, RankStability
from bayespca.estimators.summary import Summary
from bayespca.estimators.wording import CONDITION, likelihood, percent

from .sentences import linked

# Numbers of dimensions that are less probable than this are left out, unless a half found them.
LEAST = 0.01


@dataclass(frozen=True)
class Number:
    """A number of dimensions: its probability, and the share of the halves that found it.

    `size` is that share in percent, for a bar.
    """

    rank: int
    probability: str
    share: str
    size: float
    kept: bool


@dataclass(frozen=True)
class HalvesTable:
    """The table of numbers of dimensions, and its caption."""

    numbers: list[Number]
    caption: str


def of_numbers(stability: RankStability, summary: Summary) -> HalvesTable:
    probable = {k for k, p in summary.rank_probabilities.items() if p >= LEAST}
    ranks = sorted(probable | set(stability.ranks) | {summary.rank})
    return HalvesTable(
        [_number(rank, stability, summary) for rank in ranks], _caption(stability, summary)
    )


def _number(rank: int, stability: RankStability, summary: Summary) -> Number:
    share = stability.ranks.get(rank, 0.0)
    known = summary.at_least is not None
    probability = likelihood(summary.rank_probabilities.get(rank, 0.0)) if known else "–"
    return Number(rank, probability, percent(share), 100 * share, rank == summary.rank)


def _caption(stability: RankStability, summary: Summary) -> str:
    condition = "" if summary.at_least is None else f"The probability holds {CONDITION}. "
    return linked(
        f"Of the dimensions, {stability.in_words}. The number in a half is "
        f"{RULES[stability.rule]}. {condition}Halves assume less, but know less than the whole: a "
        "weak dimension comes back in few of them, and one that comes back in nearly all does not "
        "depend on a few samples."
    )


def of_components(stability: RankStability, summary: Summary) -> list[str]:
    """Share of halves in which each dimension reappeared; empty if the rank differs."""
    if stability.rank != summary.rank:
        return []
    return [percent(share) for share in stability.directions.tolist()]
