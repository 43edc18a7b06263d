"""Estimate of how far a free energy will still fall, from the falls of the last steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Numbers of steps over which falls are compared: single steps of an accelerated run say little.
WINDOWS = (1, 2, 4)
# Number of free energies that are used.
LAST = 3 * WINDOWS[-1] + 1
# Number of free energies too small to give the ratio of a geometric sequence, and its least ratio.
FEW = 3
LEAST_RATIO = 0.1

# Most steps like the last ones that are counted on: the tail of falls that hardly become smaller
# promises more than a hundred steps would bring.
HORIZON = 100


def to_gain(energies: Sequence[float]) -> float:
    """Nats by which the free energy would still fall, in at most a hundred steps like the last.

    If it fell by f₀ over w steps and by f over the next w, a geometric sequence with the ratio
    r = f/f₀ has f·r/(1 − r) left. The largest result of several w counts, each with the larger of
    two successive r. No r is below a tenth per step: the first falls of a run are too large to say
    how small the next will be. Before there are three falls, at least as much is left as the last
    one brought. Nothing is left if the last step did not fall; before two falls it is infinite.
    """
    if len(energies) > 1 and not energies[-2] > energies[-1]:
        return 0.0
    if len(energies) < FEW:
        return np.inf
    least = energies[-2] - energies[-1] if len(energies) == FEW else 0.0
    return max(least, *(_tail(energies, w) for w in WINDOWS if len(energies) > 2 * w))


def _tail(energies: Sequence[float], w: int) -> float:
    falls = -np.diff(energies[-1::-w][:4][::-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = max(np.max(falls[1:] / falls[:-1]), LEAST_RATIO**w)
    most = HORIZON / w * falls[-1]
    return float(min(falls[-1] * ratio / (1 - ratio), most) if ratio < 1 else most)
