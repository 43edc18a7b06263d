"""Limits from rows that are known to be clean, where rows are not normal.

The law of `monitoring.law` takes scores and noise for normal. Real rows may have longer tails, or
shorter ones. So the rows of the fit are left out in turns, a tenth at a time; a model like the one
at hand is fitted to the others, and T² and Q of those left out are divided by the limits that the
law has for them, which know of their holes and of how few rows there were. The ratios r of new
clean rows are like these, and of n + 1 that are alike the last is among the largest ⌊α(n + 1)⌋ with
at most the probability α (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World",
Springer 2005): limits are multiplied by

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

# The share at which the law's limits are what ratios refer to.
REFERENCE = 0.05
N_SPLITS = 10


@dataclass(frozen=True, eq=False)
class Calibration:
    """T² and Q of clean rows over their limits, each row left out of the fit; for any share.

    Attributes
    ----------
    t2, q
        Ratios to the limits that hold if rows are normal, at 5 %; sorted. `t2` is empty where the
        model has no components.

    >>> import numpy as np
    >>> from bayespca.monitoring import Calibration
    >>> clean = Calibration(t2=np.linspace(0, 2, 99), q=np.linspace(0, 1, 99))
    >>> round(clean.t2_factor(0.05), 2), round(clean.q_factor(0.05), 2)
    (1.92, 0.96)
    """

    t2: Vector
    q: Vector

    def t2_factor(self, alpha: float) -> float:
        """What T² over its limit at 5 % exceeds in a share α of clean rows."""
        return _factor(self.t2, alpha) if self.t2.size else float("nan")

    def q_factor(self, alpha: float) -> float:
        """The same for Q."""
        return _factor(self.q, alpha)


def _factor(ratios: Vector, alpha: float) -> float:
    place = ceil((1 - alpha) * (ratios.size + 1))
    if place > ratios.size:
        needed = ceil(1 / alpha) - 1
        raise ValueError(
            f"limits at alpha={alpha:g} need {needed} clean rows or more, and there are "
            f"{ratios.size}: give a larger alpha, or leave the clean rows out."
        )
    return float(ratios[place - 1])


def left_out_in_turns(
    model: AnyEstimator, X: Any, ratios: Callable[[AnyEstimator, Any], tuple[Vector, Vector]]
) -> Calibration:
    """Ratios of the rows of an array, each from a model of the others with the same options."""
    if len(X) < 2 * N_SPLITS:
        raise ValueError(
            f"clean rows are left out in turns, a tenth at a time: give {2 * N_SPLITS} or more, "
            f"there are {len(X)}."
        )
    found = []
    for rest, some in KFold(N_SPLITS, shuffle=True, random_state=0).split(X):
        with warnings.catch_warnings():
            # What the model had to say was said when it was fitted to all rows.
            warnings.simplefilter("ignore")
            found.append(ratios(_like(model).fit(X[rest]), X[some]))
    t2, q = (np.sort(np.concatenate(each)) for each in zip(*found, strict=True))
    return Calibration(t2[~np.isnan(t2)], q[~np.isnan(q)])


def _like(model: AnyEstimator) -> AnyEstimator:
    """A model that is not fitted yet, with as many components: T² of others would be another."""
    same, k = clone(model), model.n_components_
    if k and "min_components" in same.get_params():
        same.set_params(n_components=k, min_components=k)
    return same
