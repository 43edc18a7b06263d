"""Limits from rows that are known to be clean, for rows that are not normal.

The law of `monitoring.law` assumes that scores and noise are normal. Real rows may have longer or
shorter tails. Therefore each tenth of the rows is left out in turn, and a model with the same
options is fitted to the others. T² and Q of the rows left out are divided by their limits under the
law, which allow for their holes and for the number of rows of the fit. The ratios r of new clean
rows are exchangeable with these: the last of n + 1 is among the largest ⌊α(n + 1)⌋ with a
probability of at most α (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World",
Springer 2005). So limits are multiplied by

    the ⌈(1 − α)(n + 1)⌉-th smallest of r₁, …, rₙ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from bayespca.arrays.types import Vector
from bayespca.estimators._base import AnyEstimator

# Ratios refer to the law's limits at this share.
REFERENCE = 0.05
N_SPLITS = 10


@dataclass(frozen=True, eq=False)
class Calibration:
    """T² and Q of clean rows over their limits, each row left out of the fit; for any share.

    Attributes
    ----------
    t2, q
        Ratios to the limits for normal rows at 5 %, sorted. `t2` is empty if the model has no
        components.

    >>> import numpy as np
    >>> from bayespca.monitoring import Calibration
    >>> clean = Calibration(t2=np.linspace(0, 2, 99), q=np.linspace(0, 1, 99))
    >>> round(clean.t2_factor(0.05), 2), round(clean.q_factor(0.05), 2)
    (1.92, 0.96)
    """

    t2: Vector
    q: Vector

    def t2_factor(self, alpha: float) -> float:
        """The ratio of T² to its limit at 5 % that a share α of clean rows exceeds."""
        return _factor(self.t2, alpha) if self.t2.size else float("nan")

    def q_factor(self, alpha: float) -> float:
        """The ratio of Q to its limit at 5 % that a share α of clean rows exceeds."""
        return _factor(self.q, alpha)


def _factor(ratios: Vector, alpha: float) -> float:
    place = ceil((1 - alpha) * (ratios.size + 1))
    if place > ratios.size:
        needed = ceil(1 / alpha) - 1
        raise ValueError(
            f"limits at alpha={alpha:g} need {needed} clean rows or more, but there are "
            f"{ratios.size}: choose a larger alpha, or do without clean rows."
        )
    return float(ratios[place - 1])


def left_out_in_turns(
    model: AnyEstimator, X: Any, ratios: Callable[[AnyEstimator, Any], tuple[Vector, Vector]]
) -> Calibration:
    """Ratios of the rows of X, each from a model with the same options fitted without the row."""
    if len(X) < 2 * N_SPLITS:
        raise ValueError(
            f"clean rows are left out in turns, a tenth at a time: give {2 * N_SPLITS} or more, "
            f"there are {len(X)}."
        )
    found = []
    for rest, some in KFold(N_SPLITS, shuffle=True, random_state=0).split(X):
        with warnings.catch_warnings():
            # The fit to all rows has already given these warnings.
            warnings.simplefilter("ignore")
            found.append(ratios(_like(model).fit(X[rest]), X[some]))
    t2, q = (np.sort(np.concatenate(each)) for each in zip(*found, strict=True))
    return Calibration(t2[~np.isnan(t2)], q[~np.isnan(q)])


def _like(model: AnyEstimator) -> AnyEstimator:
    """An unfitted copy with as many components: T² depends on their number."""
    same, k = clone(model), model.n_components_
    if k and "min_components" in same.get_params():
        same.set_params(n_components=k, min_components=k)
    return same
