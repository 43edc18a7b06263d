"""Cells that are missing where their values are high, or low, which a fit takes for chance.

What a cell should be by the other cells of its row says nothing of whether it is missing, if cells
are missing whatever their values are. If it does, the value itself is the reason, which makes
intervals wrong, or something else in the table, which does not: the cells that are there
look the same in both cases (Molenberghs et al. 2008), so that one has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Advice

CODE = "not-at-random"
# Probability of a false alarm, for all columns of a data set together.
LEVEL = 4e-3
# Cells that are missing, and that are there, of a column that is looked at.
FEWEST = 5
# How far the chance that a missing cell has a higher prediction than one that is there must be off
# a half: of a column by itself, and of all together.
LEAST, LEAST_OF_ALL = 0.1, 0.05
# So many columns are named.
NAMED = 3


class Lean(NamedTuple):
    """How the cells that are missing lie among the predictions of a column, or of all.

    `chance` is that of a missing cell having a higher prediction than one that is there, `z` how
    many standard errors it is off a half. `upper` and `lower` are the shares of cells that
    are missing in the half of the rows with the higher predictions, and in the other.
    """

    chance: float
    z: float
    upper: float
    lower: float

    @property
    def word(self) -> str:
        return "high" if self.z > 0 else "low"


def holes_by_value(
    predicted: FloatArray, missing: FloatArray, names: Sequence[str]
) -> Advice | None:
    """Columns whose cells are missing where they should be high, or low; None where holes are even.

    `predicted` is what each cell should be by the others of its row, `missing` is 1 for holes.
    """
    # A row without any cell is predicted by nothing.
    some = missing.mean(axis=1) < 1
    predicted, missing = predicted[some], missing[some]
    n, holes = len(missing), missing.sum(axis=0)
    use = np.minimum(holes, n - holes) >= FEWEST
    columns = [j for j in np.flatnonzero(use).tolist() if np.ptp(predicted[:, j]) > 0]
    if not columns:
        return None
    places = (rankdata(predicted[:, columns], axis=0) - 0.5) / n
    masks = missing[:, columns]
    leans = dict(zip(columns, map(_lean, places.T, masks.T), strict=True))
    limit = float(norm.isf(LEVEL / 4 / len(columns)))
    found = [
        j for j, lean in leans.items() if abs(lean.z) > limit and abs(lean.chance - 0.5) > LEAST
    ]
    if found:
        found.sort(key=lambda j: -abs(leans[j].z))
        return _of_columns([(names[j], leans[j]) for j in found])
    together = _together(places, masks)
    if abs(together.z) < norm.isf(LEVEL / 4) or abs(together.chance - 0.5) < LEAST_OF_ALL:
        return None
    return _of_all(together)


def _lean(place: FloatArray, missing: FloatArray) -> Lean:
    """The rank-sum test of a column (Wilcoxon 1945); places are ranks over the number of rows."""
    n, a = missing.size, float(missing.sum())
    b = n - a
    chance = (n * float(place @ missing) - a * a / 2) / (a * b)
    z = (chance - 0.5) / np.sqrt((n + 1) / (12 * a * b))
    return Lean(chance, float(z), *_halves(place, missing))


def _together(places: FloatArray, missing: FloatArray) -> Lean:
    """All columns: a sum over rows, which may have more holes than others, over its own spread."""
    n, holes = len(missing), missing.sum(axis=0)
    away = ((missing - missing.mean(axis=0)) * (places - 0.5)).sum(axis=1)
    z = float(away.sum() / (np.sqrt(away @ away) or 1.0))
    chance = 0.5 + n * float(away.sum()) / float((holes * (n - holes)).sum())
    return Lean(chance, z, *_halves(places, missing))


def _halves(places: FloatArray, missing: FloatArray) -> tuple[float, float]:
    upper = places > 0.5
    return float(missing[upper].mean()), float(missing[~upper].mean())


# --- in words ----------------------------------------------------------------------------------


def _of_columns(found: list[tuple[str, Lean]]) -> Advice:
    name, first = found[0]
    others = [f"{other!r} ({lean.word})" for other, lean in found[1:NAMED]]
    more = f"{len(found) - NAMED} more" if len(found) > NAMED else ""
    rest = [*others, *([more] if more else [])]
    also = f"; the same holds for {' and '.join(rest)}" if rest else ""
    return _advice(
        f"Cells of {name!r} are missing more often where its predicted value is {first.word} "
        f"({_shares(first)}){also}.",
        first,
    )


def _of_all(lean: Lean) -> Advice:
    return _advice(
        f"Cells are missing more often where their predicted values are {lean.word}, over all "
        f"columns ({_shares(lean)}).",
        lean,
    )


def _shares(lean: Lean) -> str:
    return (
        f"{100 * lean.upper:.0f} % of the upper half of the rows, {100 * lean.lower:.0f} % of the "
        "lower half"
    )


def _advice(finding: str, lean: Lean) -> Advice:
    side = "low" if lean.z > 0 else "high"
    return Advice(
        CODE,
        f"{finding} Cells are assumed to be missing at random. If the value itself is the reason, "
        f"as where an instrument has a limit, what is filled in is too {side} and its intervals "
        "may be wrong; if the reason is in other columns of the table, they hold. Find out which: "
        "in the first case enter the limit, or do not use what is filled in.",
    )
