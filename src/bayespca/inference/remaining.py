"""What a free energy still has to gain, from the falls of the last steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Numbers of steps over which falls are compared: single steps of an accelerated run tell little.
WINDOWS = (1, 2, 4)
# Free energies that are looked at.
LAST = 2 * WINDOWS[-1] + 1


# Steps like the last ones that are counted on at most: falls that hardly become smaller have no
# tail to speak of, and a hundred steps would not bring what it promises.
HORIZON = 100


def to_gain(energies: Sequence[float]) -> float:
    """Nats by which the free energy would still fall, in a hundred steps like the last at most.

    Over w steps each it fell by f after f₀: as a geometric sequence it has f²/(f₀ − f) left. The
    largest of several w counts. Without a fall there is nothing left; it is infinite before there
    are two falls.
    """
    found = [_tail(energies, w) for w in WINDOWS if len(energies) > 2 * w]
    if len(energies) > 1 and not energies[-2] > energies[-1]:
        return 0.0
    return max(found, default=np.inf)


def _tail(energies: Sequence[float], w: int) -> float:
    last = energies[-1 - w] - energies[-1]
    before = energies[-1 - 2 * w] - energies[-1 - w]
    most = HORIZON / w * last
    return min(last * last / (before - last), most) if before > last else most
