"""Evidence that directions gain as they make room for each other (docs/rank.md)."""

from __future__ import annotations

import numpy as np

from . import spheres
from .records import FloatArray
from .spiked import SpikedSpectrum
from .strengths import Ranks, Strengths

# Number of sure components next to the contested ones that make room one by one.
BESIDE = 12
# With so many cells the noise is known so well that the gain of `Rooms` does not depend on it.
MANY_CELLS = 4000


class Rooms:
    """Log-evidence gained as directions make room for each other, for each rank of a window."""

    def __init__(self, spiked: SpikedSpectrum, ranks: Ranks) -> None:
        self.spiked = spiked
        self.first, self.n = int(ranks[0]), ranks.size - 1
        self.beside = min(self.first, BESIDE)
        self.log_noise = spiked.log_noise(ranks)
        self.slopes = np.zeros(ranks.size)
        start = self.first - self.beside
        self.bulk = spheres.lumped(spiked.squares, start, int(ranks[-1]))
        self.frames: list[spheres.Frame] = []

    def _frame(self, i: int) -> spheres.Frame:
        """The frame with i contested components; also sets the slope of its gain over log σ²."""
        k, y = self.beside + i, float(self.log_noise[i])
        shares = self._shares(i)
        near = self.frames[i - 1].near if i else None
        found = spheres.frame(self.bulk, shares, float(np.exp(y)), near)
        rank = np.array([self.first + i])
        if k > 1 and self.spiked.given is None and self.spiked.cells(rank)[0] < MANY_CELLS:
            step = float(self.spiked.width(rank)[0])
            moved = np.clip(1 - np.exp(step) * (1 - shares), 0.01, 1.0)
            other = spheres.frame(self.bulk, moved, float(np.exp(y + step)), found.near)
            self.slopes[i] = (other.gain - found.gain) / step
        return found

    def _shares(self, i: int) -> FloatArray:
        noise = float(np.exp(self.log_noise[i]))
        return self.spiked.shares(self.bulk.values[: self.beside + i], noise)

    def gain(self, i: int, nodes: FloatArray) -> FloatArray:
        """The gain at the nodes; call in the order of ranks: each begins where the last ended."""
        if i == len(self.frames):
            self.frames.append(self._frame(i))
        return np.asarray(self.frames[i].gain + self.slopes[i] * (nodes - self.log_noise[i]))

    def worth(self, i: int, grid: Strengths, larger: tuple[FloatArray, float] | None) -> FloatArray:
        """Log-evidence by strength of the i-th contested component, relative to `gain`."""
        k, y = self.beside + i, float(self.log_noise[i + 1])
        worth = self._of_far_ones(grid.s, y)
        if not k:
            return worth
        own = self._shares(i + 1)
        others = own[:-1, None]
        gaps = (self.bulk.values[:k, None] - self.bulk.values[k]) / (2 * np.exp(y))
        if larger is not None:
            mean, before = larger
            others = np.maximum(others, 1 - (1 - mean) * np.exp(y - before))
        x = own[:-1, None] * gaps
        less = np.clip((others - grid.s) * gaps, 0.0, x)
        at_own = (own[:-1, None] - own[-1]) * gaps
        room = spheres.log_room(self.frames[i], x, np.append(less, at_own, axis=1)).sum(axis=0)
        return np.asarray(worth + room[:-1] - room[-1])

    def _of_far_ones(self, s: FloatArray, log_noise: float) -> FloatArray:
        """The part of sure components far above, whose gaps are so large that only shares count."""
        g2 = self.spiked.g2[: self.first - self.beside]
        if not g2.size:
            return np.zeros(s.size)
        shares = np.clip(1 - self.spiked.M * np.exp(log_noise) / g2, 0.02, 1.0)
        return np.asarray(-0.5 * np.log1p(-np.minimum(s / shares[:, None], 0.99)).sum(axis=0))
