"""Noise variances of many spectra at once under EVB, which `noise` finds one by one.

Between the noise at which one component is dropped and that at which the next one is, the rank k is
constant, and the free energy is stationary where

    g(s) = LM·s − R(s),    R = Σ_{h>k} γₕ² + s·Σ_{h≤k} (L + M + LM/zₕ),

vanishes. g is concave (`EmpiricalVB.has_one_minimum`), so F has at most one minimum there, where g
rises through zero. From the lower end of the interval, where g < 0, Newton's iteration climbs to it
without ever stepping over it, or finds that there is none; it runs for all intervals of all spectra
at once. At the ends of intervals the slope jumps down, so they are no minima, except for the least
noise allowed.

R never falls as s grows, so there is no minimum between a and b if LM·a > R(b) or LM·b < R(a).
Checking a few points first rules out most intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .closed_form import learned_edge, learned_strength
from .free_energy import evb_residual, evb_volume
from .records import FloatArray
from .spectra import Spectra
from .tolerances import ROUNDING

# Points between the least and the most noise at which R is computed first.
POINTS = 12
# Largest number of Newton steps. Near the minimum each doubles the digits.
STEPS = 60
# Relative rounding error of the ends of intervals, and the relative step after which no larger
# error is left: each step squares it.
LAST_DIGITS = 1e-14
LAST_STEP = 1e-8
# Rounds of a search that need not be exact.
ROUNDS = 3


def noises(spectra: Spectra) -> FloatArray:
    """The noise variance with the lowest free energy of each spectrum."""
    least, most = _brackets(spectra)
    begun = _intervals(spectra, least, most)
    g, slope = begun.balance()
    inside = _climbed(begun.only((g < 0) & (slope > 0)))
    found = inside.and_others(_first(spectra, least))
    by_energy = np.lexsort((found.energies, found.which))
    lowest = by_energy[np.unique(found.which[by_energy], return_index=True)[1]]
    return found.s[lowest]


def noises_near(spectra: Spectra, known: FloatArray) -> FloatArray:
    """The minimum next to the best of a few points and the `known` noise of each spectrum.

    F is never higher there than at those points. Takes a fraction of the time of `noises`, but may
    miss a minimum that is slightly lower than others.
    """
    least, most = _brackets(spectra)
    grid = np.column_stack([_grid(least, most), np.clip(known, least, most)])
    tried = _on_grid(spectra, grid)
    energies = tried.energies.reshape(grid.shape)
    lowest = np.argmin(energies, axis=1) + np.arange(0, grid.size, grid.shape[1])
    begun = tried.at(lowest)
    edges = np.column_stack([most, spectra.drop_noise, least])
    above, below = edges[begun.which, begun.rank], edges[begun.which, begun.rank + 1]
    points = begun
    for _ in range(ROUNDS):
        g, slope = points.balance()
        with np.errstate(divide="ignore", invalid="ignore"):
            s = np.where(slope > 0, points.s - g / slope, points.s)
        s = np.clip(s, np.maximum(below, least), np.minimum(above, most))
        points = replace(points, s=s)
    return np.where(points.energies <= energies.ravel()[lowest], points.s, begun.s)


_Strengths = tuple[FloatArray, FloatArray, FloatArray, FloatArray, NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class _Points:
    """Noise variances s of the spectra `which`, at most `end`, with `rank` components kept."""

    spectra: Spectra
    which: NDArray[np.intp]
    rank: NDArray[np.intp]
    s: FloatArray
    end: FloatArray

    def only(self, taken: NDArray[np.bool_]) -> _Points:
        return self.at(np.flatnonzero(taken))

    def at(self, taken: NDArray[np.intp]) -> _Points:
        _, *parts = vars(self).values()
        return _Points(self.spectra, *(part[taken] for part in parts))

    def and_others(self, others: _Points) -> _Points:
        (_, *mine), (_, *theirs) = vars(self).values(), vars(others).values()
        pairs = zip(mine, theirs, strict=True)
        return _Points(self.spectra, *(np.concatenate(pair) for pair in pairs))

    def _strengths(
        self,
    ) -> _Strengths:
        """x, z, L, M and which components are kept; the others' x is raised to the edge."""
        L, M = self.spectra.sizes
        M = M[self.which]
        kept = np.arange(int(self.rank.max(initial=0))) < self.rank[:, None]
        g2 = self.spectra.g2[self.which, : kept.shape[1]]
        x = np.maximum(g2 / self.s[:, None], learned_edge(L, M, L, M))
        return x, learned_strength(x, L, M, L, M), L, M, kept

    def balance(self) -> tuple[FloatArray, FloatArray]:
        """g and its derivative, LM − Σ (x/(1 − LM/z²) − z)."""
        x, z, L, M, kept = self._strengths()
        left = np.where(kept, evb_residual(z, L, M), 0.0).sum(axis=1)
        with np.errstate(divide="ignore"):
            falls = np.where(kept, x / (1 - L * M / z**2) - z, 0.0).sum(axis=1)
        cells = self.spectra.cells[self.which]
        return (cells - left) * self.s - self._tails, cells - falls

    @property
    def _tails(self) -> FloatArray:
        return np.asarray(self.spectra.tails[self.which, self.rank])

    @property
    def energies(self) -> FloatArray:
        """2F without its constants."""
        _, z, L, M, kept = self._strengths()
        costs = np.where(kept, evb_volume(z, L, M) + evb_residual(z, L, M), 0.0).sum(axis=1)
        cells = self.spectra.cells[self.which]
        return np.asarray(cells * np.log(self.s) + self._tails / self.s + costs)


def _brackets(spectra: Spectra) -> tuple[FloatArray, FloatArray]:
    """Bounds of the noise between which the minimum must lie, as in `noise.Objective.bracket`."""
    L, M, drops = spectra.L, spectra.M, spectra.drop_noise
    most = np.maximum(spectra.tails[:, 0] / spectra.cells, spectra.least)
    limit = np.ceil(spectra.cells / (L + M)).astype(np.intp) - 1
    rows, rank = np.arange(len(M)), np.minimum(limit, spectra.caps.clip(0, drops.shape[1]))
    least = np.maximum(spectra.tails[rows, rank] / spectra.cells, spectra.rounding)
    ended = np.append(drops, np.zeros((len(M), 1)), axis=1)[rows, rank]
    return np.minimum(np.maximum.reduce([least, ended, spectra.least]), most), most


def _first(spectra: Spectra, least: FloatArray) -> _Points:
    """The points at the least noise of each spectrum."""
    rank = (spectra.drop_noise > least[:, None]).sum(axis=1)
    return _Points(spectra, np.arange(len(least)), rank, least, least)


def _intervals(spectra: Spectra, least: FloatArray, most: FloatArray) -> _Points:
    """The lower ends of the intervals of constant rank in which the noise may be."""
    grid = _grid(least, most)
    hopeful = _hopeful(spectra, grid)
    ends = np.concatenate([grid, spectra.drop_noise], axis=1)
    order = np.argsort(ends, axis=1)
    ends, is_drop = np.take_along_axis(ends, order, axis=1), order >= POINTS
    piece = np.cumsum(~is_drop, axis=1)[:, :-1] - 1
    inside = (piece >= 0) & (piece < POINTS - 1) & (ends[:, 1:] > ends[:, :-1])
    inside &= np.take_along_axis(hopeful, piece.clip(0, POINTS - 2), axis=1)
    rank = spectra.drop_noise.shape[1] - np.cumsum(is_drop, axis=1)[:, :-1]
    which = np.nonzero(inside)[0]
    return _Points(spectra, which, rank[inside], ends[:, :-1][inside], ends[:, 1:][inside])


def _grid(least: FloatArray, most: FloatArray) -> FloatArray:
    steps = np.linspace(0.0, 1.0, POINTS)
    grid = least[:, None] * (most / least)[:, None] ** steps
    grid[:, -1] = most
    return np.asarray(grid)


def _on_grid(spectra: Spectra, grid: FloatArray) -> _Points:
    rank = (spectra.drop_noise[:, None, :] > grid[:, :, None]).sum(axis=2)
    which = np.repeat(np.arange(len(grid)), grid.shape[1])
    return _Points(spectra, which, rank.ravel(), grid.ravel(), grid.ravel())


def _hopeful(spectra: Spectra, grid: FloatArray) -> NDArray[np.bool_]:
    """Whether there may be a minimum between neighbouring points of the grid."""
    own = spectra.cells[:, None] * grid
    residual = own - _on_grid(spectra, grid).balance()[0].reshape(grid.shape)
    # Without components the minimum is at the very end.
    more = 1 + ROUNDING
    return np.asarray(
        (own[:, :-1] <= more * residual[:, 1:]) & (more * own[:, 1:] >= residual[:, :-1])
    )


def _climbed(points: _Points) -> _Points:
    """The points where g vanishes, for the intervals in which it does."""
    for _ in range(STEPS):
        g, slope = points.balance()
        with np.errstate(divide="ignore", invalid="ignore"):
            s = points.s - g / slope
        inside = (slope > 0) & (s <= points.end * (1 + LAST_DIGITS))
        moved = np.abs(s - points.s) > LAST_STEP * s
        points = replace(points, s=s).only(inside)
        if not moved[inside].any():
            break
    return points
