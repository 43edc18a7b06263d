"""Numbers of a fitted PCA put into words, for notebooks, reports and the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.noise_models import NOISES, OUTLYING_ROWS
from bayespca.spectrum.records import ALL_ZERO, AT_LEAST

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from .summary import Summary

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# The share of the signal that the headline mentions.
ENOUGH = 0.95
# The least probability of a range of numbers of components.
RANGE = 0.9
# The condition that is printed with every probability of a number of components.
CONDITION = "if the noise is as assumed"


class KindOfColumn(NamedTuple):
    """The usual names of one column with some likelihood, and of several."""

    one: str
    many: str


KINDS = {
    "normal": KindOfColumn("number", "numbers"),
    "bernoulli": KindOfColumn("yes/no", "yes/no"),
    "categorical": KindOfColumn("category", "categories"),
    "ordinal": KindOfColumn("rank", "ranks"),
    "poisson": KindOfColumn("count", "counts"),
    "negative-binomial": KindOfColumn("count", "counts"),
}
MINUS = "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


def nothing_varies(summary: Summary) -> bool:
    """Whether data say nothing about dimensions: all rows are the same, or there is only one."""
    return any(note.code == ALL_ZERO for note in summary.notes)


def headline(summary: Summary) -> str:
    """The main result in one sentence: how many dimensions there are."""
    k = summary.rank
    needed = summary.components_for[ENOUGH]
    if nothing_varies(summary):
        return "Nothing varies in these data."
    if not summary.determined:
        return undetermined(k, needed, "dimension")
    if k == 0:
        clearly = "clearly " if summary.most_probable else ""
        return f"No dimension stands out {clearly}from the noise."
    noun = "dimension" if k == 1 else "dimensions"
    if summary.given:
        return f"{counted(k).capitalize()} {noun}, as requested."
    if any(note.code == AT_LEAST for note in summary.notes):
        return f"{counted(k).capitalize()} {noun}, as requested; fewer stand out from the noise."
    probable = k if summary.most_probable is None else summary.most_probable
    bound = "at least " if k < probable else "up to " if k > probable else ""
    found = f"There {'is' if k == 1 else 'are'} {bound}{counted(k)} {noun} in these data"
    return f"{found}." if needed == k else f"{found}; {_enough(needed)}."


def noise_sentence(summary: Summary) -> str:
    """A sentence on what has its own noise, and the evidence for it; empty for equal noise."""
    reason = NOISES[summary.noise].reason
    if not reason:
        return ""
    nats = summary.noise_evidence.get(summary.noise)
    why = (
        ", as the options specify"
        if nats is None
        else f" ({nats:,.0f}{SPACE}nats more evidence than equal noise)"
    )
    if not summary.outliers or any(note.code == OUTLYING_ROWS for note in summary.notes):
        return f"{reason}{why}."
    one, noun = summary.outliers == 1, "cell" if summary.noise == "student-cells" else "sample"
    found = f"{counted(summary.outliers).capitalize()} {noun}{'' if one else 's'}"
    are = "is probably an outlier" if one else "are probably outliers"
    return f"{reason}{why}. {found} {are}."


def holes_sentence(summary: Summary) -> str:
    """A sentence on what is assumed about missing cells; empty if there are none."""
    if summary.engine != "holes":
        return ""
    return "Missing cells are assumed to be missing at random: not because of their own values."


def in_brief(k: int, probabilities: Sequence[float] | FloatArray) -> str:
    """How sure a number of components is: "with a probability of 84 %".

    `probabilities` are those of each number; none if the data do not determine it. Where the
    number has less than one half, a range of numbers has at least `RANGE`.
    """
    if not len(probabilities):
        verb = "stands" if k == 1 else "stand"
        return f"{verb} out; more cannot be told apart from deviations from the model"
    known = np.append(probabilities, np.zeros(max(k + 1 - len(probabilities), 0)))
    if (probable := int(known.argmax())) != k:
        at_least = likelihood(float(known[k:].sum()))
        return f"at least so many with a probability of {at_least}, most probably {probable}"
    if known[k] >= 0.5:
        return f"with a probability of {likelihood(float(known[k]))}"
    low, high = k, k + 1
    while (total := float(known[low:high].sum())) < RANGE:
        down = low and (high == known.size or known[low - 1] >= known[high])
        low, high = (low - 1, high) if down else (low, high + 1)
    return f"from {low} to {high - 1} with a probability of {likelihood(total)}"


def kept(k: int, how_sure: str) -> str:
    """The number of components and how sure it is: "5, with a probability of 94 %, if …"."""
    if " probability of " in how_sure:
        return f"{k}, {how_sure}, {CONDITION}"
    return f"{k} {how_sure}" if how_sure.startswith("stand") else f"{k}, {how_sure}"


def undetermined(k: int, needed: int, noun: str = "component") -> str:
    """How many components there are where the data do not determine it; `needed` hold 95 %."""
    known = f"{counted(k).capitalize()} {noun}{'' if k == 1 else 's'} {in_brief(k, ())}."
    return known if needed == k else f"{known} {_enough(needed).capitalize()}."


def _enough(needed: int) -> str:
    """How many components hold most of the signal."""
    verb = "holds" if needed == 1 else "hold"
    return f"{counted(needed)} {verb} {percent(ENOUGH)} of the signal"


def noise_level(summary: Summary, digits: int = 3) -> str:
    """The noise's standard deviation, or those of the quietest and of the noisiest feature."""
    if summary.feature_noise is None:
        return significant(summary.noise_variance**0.5, digits)
    least, most = (significant(variance**0.5, min(digits, 2)) for variance in summary.feature_noise)
    return least if least == most else f"{least} to {most}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 21st."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def counted(number: int) -> str:
    """A number as running text has it: a word up to ten, grouped digits beyond."""
    return NUMBERS[number] if 0 <= number < len(NUMBERS) else f"{number:,}"


def plural(number: int, noun: str) -> str:
    """A number with its noun: 178 samples, 1 sample."""
    return f"{number:,}{SPACE}{noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share between 0 and 1 as "36 %" or "0.4 %"; 0 % and 100 % only if they are exact."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    near_an_end = 0 < share < 0.0095 or 0.9905 < share < 1
    return f"{100 * share:.1f} %" if near_an_end else f"{100 * share:.0f} %"


def likelihood(probability: float) -> str:
    """A probability in percent; one that rounds to 0 or 1 is still not a certainty."""
    return percent(min(max(probability, 1e-9), 1 - 1e-9))


def significant(value: float, digits: int = 3) -> str:
    """A number for readers: `digits` significant digits, a true minus sign, and powers as 10ⁿ."""
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    text = f"{value:#.{digits}g}".removesuffix(".")
    if "e" in text:
        mantissa, _, exponent = text.replace(".e", "e").partition("e")
        if 0 < int(exponent) < 6:
            return f"{float(text):,.0f}".replace("-", MINUS)
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        text = f"{mantissa}·10{power}"
    return text.replace("-", MINUS)


def feature_names(model: BaseEstimator) -> list[str]:
    """Names of the features of a fitted model."""
    return names_of(getattr(model, "feature_names_in_", None), int(model.n_features_in_))


def names_of(names: Iterable[object] | None, count: int) -> list[str]:
    """Names of features; numbers, counting from 0, if they have none."""
    if names is None:
        return [f"feature {j}" for j in range(count)]
    return [str(name) for name in names]
