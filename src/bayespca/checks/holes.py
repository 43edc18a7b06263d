"""Cells that are missing more often where values are high, or low; a fit assumes this is chance.

If cells are missing regardless of their values, the prediction of a cell from the rest of its row
does not tell whether it is missing. If it does tell, either the value itself is the reason, which
makes intervals wrong, or something else in the table is, which does not. The observed cells look
the same in both cases (Molenberghs et al. 2008), so the user has to know which it is.
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
# Fewest missing cells, and fewest observed cells, in a column that is tested.
FEWEST = 5
# Least distance from ½ of the probability that a missing cell has a higher prediction than an
# observed one: for a single column, and for all columns together.
LEAST, LEAST_OF_ALL = 0.1, 0.05
# Most columns to name.
NAMED = 3


class Lean(NamedTuple):
    """Position of the missing cells among the predictions of one column, or of all columns.

    `chance` is the probability that a missing cell has a higher prediction than an observed one,
    and `z` its distance from ½ in standard errors. `upper` and `lower` are the shares of missing
    cells in the half of the rows with the higher predictions, and in the other half.
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
    """Advice on columns that lack cells mostly where predictions are high, or low; None otherwise.

    `predicted` holds each cell's prediction from the rest of its row; `missing` is 1 for holes.
    """
    # A row without any observed cell has nothing to predict it from.
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
        worst = leans[found[0]]
        others = [f"{names[j]!r} ({leans[j].word})" for j in found[1:NAMED]]
        if len(found) > NAMED:
            others.append(f"{len(found) - NAMED} more")
        also = f"; the same holds for {' and '.join(others)}" if others else ""
        return _advice(
            f"Cells of {names[found[0]]!r} are missing more often where its predicted value is "
            f"{worst.word} ({_shares(worst)}){also}.",
            worst,
        )
    together = _together(places, masks)
    if abs(together.z) < norm.isf(LEVEL / 4) or abs(together.chance - 0.5) < LEAST_OF_ALL:
        return None
    return _advice(
        f"Cells are missing more often where their predicted values are {together.word}, over all "
        f"columns ({_shares(together)}).",
        together,
    )


def _lean(place: FloatArray, missing: FloatArray) -> Lean:
    """Rank-sum test of one column (Wilcoxon 1945); places are ranks over the number of rows."""
    n, a = missing.size, float(missing.sum())
    b = n - a
    chance = (n * float(place @ missing) - a * a / 2) / (a * b)
    z = (chance - 0.5) / np.sqrt((n + 1) / (12 * a * b))
    return Lean(chance, float(z), *_halves(place, missing))


def _together(places: FloatArray, missing: FloatArray) -> Lean:
    """Test of all columns together; rows may differ in holes, so z uses their empirical spread."""
    n, holes = len(missing), missing.sum(axis=0)
    away = ((missing - missing.mean(axis=0)) * (places - 0.5)).sum(axis=1)
    z = float(away.sum() / (np.sqrt(away @ away) or 1.0))
    chance = 0.5 + n * float(away.sum()) / float((holes * (n - holes)).sum())
    return Lean(chance, z, *_halves(places, missing))


def _halves(places: FloatArray, missing: FloatArray) -> tuple[float, float]:
    upper = places > 0.5
    return float(missing[upper].mean()), float(missing[~upper].mean())


# --- in words ----------------------------------------------------------------------------------


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
        f"for example beyond an instrument's limit, imputed values are too {side} and their "
        "intervals may be wrong; if the reason lies in other columns of the table, they are valid. "
        "Find out which it is. In the first case, enter the limit or do not use the imputed "
        "values.",
    )
