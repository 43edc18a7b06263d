"""Rounding errors of free energies, where a model leaves hardly any noise."""

from __future__ import annotations

from bayespca.spectrum.tolerances import ROUNDING, SLACK_OF_FREE_ENERGY


def is_rounding(before: float, after: float, squares: float, precision: float) -> bool:
    """Whether a free energy rose beyond `SLACK_OF_FREE_ENERGY`, but not by more than rounding.

    The free energy contains Σx² times half the precision of the noise: where that is very high, no
    reliable digits are left.
    """
    rise = after - before
    return SLACK_OF_FREE_ENERGY * (abs(after) + 1) < rise <= ROUNDING * precision * squares
