"""Where a model leaves hardly any noise: what of a free energy is rounding."""

from __future__ import annotations

# Of Σx²: what is left of sums that cancel.
ROUNDING = 1e-12
# Relative rise of a free energy that always passes for rounding.
SLACK = 1e-9


def is_rounding(before: float, after: float, squares: float, precision: float) -> bool:
    """Whether a free energy rose by more than `SLACK`, but not by more than rounding.

    Errors of Σx² count half the precision of the noise: where that is very high, no digits are left
    to depend on.
    """
    rise = after - before
    return SLACK * (abs(after) + 1) < rise <= ROUNDING * precision * squares
