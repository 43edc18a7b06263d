"""What a free energy still has to gain, from the falls of the last steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Numbers of steps over which falls are compared: single steps of an accelerated run tell little.
WINDOWS = (1, 2, 4)
# Free energies that are looked at.
LAST = 3 * WINDOWS[-1] + 1
# Free energies that say little of the ratio of a geometric sequence, and its least ratio.
FEW = 3
LEAST_RATIO = 0.1

# Steps like the last ones that are counted on at most: falls that hardly become smaller have no
# tail to speak of, and a hundred steps would not bring what it promises.
HORIZON = 100


def to_gain(energies: Sequence[float]) -> float:
    """Nats by which the free energy would still fall, in a hundred steps like the last at most.

    Over w steps each it fell by f after f₀: as a geometric sequence with the ratio r = f/f₀ it has
    f·r/(1 − r) left. The largest of several w counts, and of two r in turn, and no r is below a
    tenth: the first falls of a run are too large to say how small the next will be. Before there
    are three falls, at least as much is left as the last one brought. Without a fall there is
    nothing left; it is infinite before there are two.
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
