"""The noise variances of many spectra at once, under EVB: what `noise` finds one by one.

Between the noise at which one component is dropped and that at which the next one is, the rank k is
constant, and the free energy is stationary where

    g(s) = LM·s − R(s),    R = Σ_{h>k} γₕ² + s·Σ_{h≤k} (L + M + LM/zₕ),

vanishes. g is concave (`EmpiricalVB.has_one_minimum`), so that there is one minimum at most, where
g rises through zero. From the lower end of the interval, where g < 0, Newton's iteration climbs to
it without ever stepping over it, or finds out that there is none: all intervals of all spectra do
so side by side. At the ends of intervals the slope jumps down, so that these are no minima, but for
the least noise allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .closed_form import learned_edge, learned_strength
from .free_energy import evb_residual, evb_volume
from .noise import Objective
from .records import FloatArray
from .tolerances import LOG_2PI

# Newton's steps at most. Each doubles the digits once it is near.
STEPS = 60
# Relative steps that are rounding.
LAST_DIGITS = 1e-14


def noises(objectives: Sequence[Objective]) -> tuple[FloatArray, FloatArray]:
    """The noise variance with the lowest free energy of each objective, all of them EVB's; and
    that free energy, constants included.
    """
    if not objectives:
        return np.empty(0), np.empty(0)
    begun = _intervals(_Spectra.of(objectives), objectives)
    g, slope = begun.balance()
    inside = _climbed(begun.only((g < 0) & (slope > 0)))
    found = inside.and_others(begun.only(begun.is_first))
    energies = found.energies
    by_energy = np.lexsort((energies, found.which))
    lowest = by_energy[np.unique(found.which[by_energy], return_index=True)[1]]
    cells = found.spectra.L * found.spectra.M
    return found.s[lowest], 0.5 * (energies[lowest] + cells * LOG_2PI)


class _Spectra(NamedTuple):
    """Sizes L and M, and squares of singular values in rows of equal length."""

    L: FloatArray
    M: FloatArray
    g2: FloatArray

    @classmethod
    def of(cls, objectives: Sequence[Objective]) -> _Spectra:
        L, M = np.array([objective.spectrum.shape for objective in objectives], dtype=float).T
        g2 = np.zeros((len(objectives), max(objective.g2.size for objective in objectives)))
        for row, objective in zip(g2, objectives, strict=True):
            row[: objective.g2.size] = objective.g2
        return cls(L, M, g2)


@dataclass(frozen=True, eq=False)
class _Points:
    """A noise variance s in each row, less than `end`, of the spectrum `which`. So many components
    are kept as `rank` says, and `tail` is the sum of the other squares. `is_first` tells the least
    noise of each spectrum.
    """

    spectra: _Spectra
    which: NDArray[np.intp]
    rank: NDArray[np.intp]
    is_first: NDArray[np.bool_]
    s: FloatArray
    end: FloatArray
    tail: FloatArray

    def only(self, taken: NDArray[np.bool_]) -> _Points:
        _, *parts = vars(self).values()
        return _Points(self.spectra, *(part[taken] for part in parts))

    def and_others(self, others: _Points) -> _Points:
        (_, *mine), (_, *theirs) = vars(self).values(), vars(others).values()
        pairs = zip(mine, theirs, strict=True)
        return _Points(self.spectra, *(np.concatenate(pair) for pair in pairs))

    @property
    def cells(self) -> FloatArray:
        return np.asarray((self.spectra.L * self.spectra.M)[self.which])

    @property
    def sizes(self) -> tuple[FloatArray, FloatArray]:
        return self.spectra.L[self.which, None], self.spectra.M[self.which, None]

    @property
    def kept(self) -> NDArray[np.bool_]:
        return np.asarray(np.arange(self.rank.max(initial=0)) < self.rank[:, None])

    @property
    def strengths(self) -> tuple[FloatArray, FloatArray]:
        """x and z; what is not kept has no z below the edge, and does not count."""
        (L, M), g2 = self.sizes, self.spectra.g2[self.which, : self.kept.shape[1]]
        x = np.maximum(g2 / self.s[:, None], learned_edge(L, M, L, M))
        return x, learned_strength(x, L, M, L, M)

    def balance(self) -> tuple[FloatArray, FloatArray]:
        """g and its derivative, LM − Σ (x/(1 − LM/z²) − z)."""
        (x, z), (L, M), kept = self.strengths, self.sizes, self.kept
        left = np.where(kept, evb_residual(z, L, M), 0.0).sum(axis=1)
        with np.errstate(divide="ignore"):
            falls = np.where(kept, x / (1 - L * M / z**2) - z, 0.0).sum(axis=1)
        return self.cells * self.s - self.tail - self.s * left, self.cells - falls

    @property
    def energies(self) -> FloatArray:
        """2F without its constants."""
        (_, z), (L, M) = self.strengths, self.sizes
        costs = np.where(self.kept, evb_volume(z, L, M) + evb_residual(z, L, M), 0.0).sum(axis=1)
        return np.asarray(self.cells * np.log(self.s) + self.tail / self.s + costs)


def _intervals(spectra: _Spectra, objectives: Sequence[Objective]) -> _Points:
    """The lower ends of the intervals of constant rank between which the noise may be."""
    found = [_ends(objective) for objective in objectives]
    lengths = [ends.size - 1 for ends, _ in found]
    return _Points(
        spectra,
        which=np.repeat(np.arange(len(found)), lengths),
        rank=np.concatenate([rank for _, rank in found]),
        is_first=np.concatenate([np.arange(n) == 0 for n in lengths]),
        s=np.concatenate([ends[:-1] for ends, _ in found]),
        end=np.concatenate([ends[1:] for ends, _ in found]),
        tail=np.concatenate(
            [objective.tails[rank] for objective, (_, rank) in zip(objectives, found, strict=True)]
        ),
    )


def _ends(objective: Objective) -> tuple[FloatArray, NDArray[np.intp]]:
    """Where the intervals of one objective end, increasing, and the rank in each of them."""
    least, most = np.exp(objective.bracket())
    drops = objective.drop_noise[::-1]
    first, last = np.searchsorted(drops, (least, most), side="right")
    inside = drops[first:last][drops[first:last] < most]
    rank = drops.size - first - np.arange(inside.size + 1)
    return np.concatenate([[least], inside, [most]]), rank


def _climbed(points: _Points) -> _Points:
    """Where g vanishes, in the intervals in which it does."""
    for _ in range(STEPS):
        g, slope = points.balance()
        with np.errstate(divide="ignore", invalid="ignore"):
            s = points.s - g / slope
        inside = (slope > 0) & (s <= points.end * (1 + LAST_DIGITS))
        moved = np.abs(s - points.s) > LAST_DIGITS * s
        points = replace(points, s=s).only(inside)
        if not moved[inside].any():
            break
    return points
