"""The noise variance: at 0 dB, by maximum likelihood, and by global minimisation of free energy.

As a function of y = log σ² the free energy, minimised over everything else, has derivative

    d(2F)/dy = LM − R(σ²)/σ²,    R = ⟨‖V − BAᵀ‖²⟩, the expected residual,

and R never falls as σ² grows: components shrink, and are dropped. R at the two ends of an interval
thus bounds the slope inside, and the slope bounds F from below. Splitting intervals until the bound
excludes all but one gives the global minimum with a proof, however many local minima there are.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from .priors import NoisePrior
from .records import FloatArray, Spectrum

# exp(−40) is below the resolution of a probability next to 1: ranks further away do not count.
NEGLIGIBLE_NATS = 40.0


def zero_db(spectrum: Spectrum) -> float:
    """Signal and noise of equal energy: σ² = ‖V‖²/(2LM) (aistats2014 Section 4.3)."""
    L, M = spectrum.shape
    return spectrum.sum_of_squares / (2.0 * L * M)


def maximum_likelihood(spectrum: Spectrum, rank: int) -> float:
    """Tipping and Bishop's σ²: the mean of the L − k discarded eigenvalues of VVᵀ/M.

    Eigenvalues that are zero because M < L count among them, so this is right for wide data too.
    """
    L, M = spectrum.shape
    return float(tail_sums(spectrum)[rank] / M / max(L - rank, 1))


def rounding_floor(spectrum: Spectrum) -> float:
    """The noise whose singular values are as small as rounding errors of the largest one."""
    sigma = spectrum.rounding / np.sqrt(spectrum.shape).sum()
    return float(sigma * sigma)


def tail_sums(spectrum: Spectrum) -> FloatArray:
    """Sums of squares from the k-th singular value on, k = 0, 1, …: added up from the small end."""
    squares = np.append(spectrum.singular_values**2, spectrum.residual)
    return np.cumsum(squares[::-1])[::-1]


@dataclass(frozen=True)
class Objective:
    """The free energy of a spectrum as a function of noise variance, and of rank if it is fixed.

    `least` is the smallest noise variance allowed.
    """

    spectrum: Spectrum
    prior: NoisePrior
    max_rank: int
    least: float = 0.0

    @cached_property
    def g2(self) -> FloatArray:
        return self.spectrum.singular_values[: self.max_rank] ** 2

    @cached_property
    def tails(self) -> FloatArray:
        return tail_sums(self.spectrum)

    @cached_property
    def drop_noise(self) -> FloatArray:
        return self.prior.drop_noise(self.g2)

    @cached_property
    def exist_noise(self) -> FloatArray:
        return np.append(np.inf, self.prior.exist_noise(self.g2))

    @cached_property
    def cells(self) -> float:
        return float(self.prior.L) * self.prior.M

    @cached_property
    def resolution(self) -> float:
        """Minima whose 2F differ by less than this must be polished before they are compared."""
        return 1e-3 + 1e-13 * self.cells

    def rank(self, s: float) -> int:
        """Number of components kept at noise s."""
        return int(np.searchsorted(-self.drop_noise, -s, side="left"))

    def terms(self, k: int, s: float) -> tuple[float, float]:
        """2F without its constants, and R, with exactly k components kept at noise s."""
        cost, left = self.prior.kept_terms(self.g2[:k], s)
        cost += self.max_rank * self.prior.dropped(s)
        energy = self.cells * np.log(s) + float(self.tails[k]) / s + cost
        return float(energy), self._residual(k, s, left)

    def residual(self, k: int, s: float) -> float:
        """R with exactly k components kept at noise s."""
        return self._residual(k, s, self.prior.kept_residual(self.g2[:k], s))

    def _residual(self, k: int, s: float, of_kept: float) -> float:
        of_dropped = (self.max_rank - k) * self.prior.dropped_residual(s)
        return float(self.tails[k]) + s * (of_kept + of_dropped)

    def slope(self, k: int, y: float) -> float:
        """d(2F)/dy per cell with k components kept."""
        s = float(np.exp(y))
        return 1.0 - self.residual(k, s) / (self.cells * s)

    def rises(self, point: Point) -> float:
        """The sign of the slope at a point, minimised over the rank."""
        return float(np.sign(self.cells - point.residual * np.exp(-point.y)))

    def at(self, y: float) -> Point:
        """The free energy at log-noise y, minimised over the rank."""
        s = float(np.exp(y))
        k = self.rank(s)
        return Point(y, k, *self.terms(k, s))

    def bracket(self) -> tuple[float, float]:
        """Bounds of log-noise between which the minimum must lie, since s = R/LM there.

        R is at most ‖V‖² plus what the posterior of dropped components adds. It is at least the
        tail of the components beyond `rank_limit`, all of which must be dropped. Below the noise at
        which the last known component is dropped, a truncated spectrum leaves F undetermined.
        """
        n = self.g2.size
        spread = self.max_rank * self.prior.dropped_residual_limit
        upper = (float(self.tails[0]) + spread) / self.cells
        most = min(n, self.prior.rank_limit)
        upper = max(upper, self.least)
        floor = max(rounding_floor(self.spectrum), self.least)
        lower = max(float(self.tails[most]) / self.cells, floor)
        if most < n:
            lower = max(lower, float(self.drop_noise[most]))
        if self.is_cut_off:
            lower = max(lower, float(self.drop_noise[-1])) if n else upper
        return float(np.log(min(lower, upper))), float(np.log(upper))

    @property
    def is_cut_off(self) -> bool:
        """Whether components that might be kept are missing from the spectrum."""
        return not self.spectrum.is_complete and self.g2.size < self.max_rank


@dataclass(frozen=True)
class Point:
    """The free energy at one noise variance: y = log σ², rank kept, 2F and R."""

    y: float
    k: int
    energy: float
    residual: float


@dataclass(frozen=True)
class NoiseEstimate:
    """A global minimum over the noise, and the ranks that come near it.

    `rank_energies` is 2Fₖ minimised over the noise for each rank k, ∞ where it is not within
    `NEGLIGIBLE_NATS` of the minimum. `cut_off` is True where the minimum is at the end of the range
    in which a truncated spectrum determines F.
    """

    noise_variance: float
    rank: int
    rank_energies: FloatArray
    cut_off: bool


def minimise(objective: Objective, *, other_ranks: bool = True) -> NoiseEstimate:
    """Noise variance with the lowest free energy; `other_ranks` adds the energies of those."""
    reach = 2 * NEGLIGIBLE_NATS if other_ranks else _margin(objective)
    pieces = _promising_pieces(objective, reach=reach)
    best = _polished(objective, pieces)
    energies = np.full(objective.g2.size + 1, np.inf)
    energies[best.k] = best.energy
    if other_ranks:
        energies = _rank_profile(objective, best, pieces)
    cut_off = objective.is_cut_off and best.k == objective.g2.size
    return NoiseEstimate(float(np.exp(best.y)), best.k, energies, cut_off)


def with_rank(objective: Objective, best: NoiseEstimate, rank: int) -> NoiseEstimate:
    """The noise variance with the lowest free energy among solutions that keep `rank` components.

    The search goes from the best rank one rank at a time, as far as solutions exist.
    """
    floor = rounding_floor(objective.spectrum)
    rank = min(rank, int(np.count_nonzero(objective.exist_noise[1:] > floor)))
    point = _point(objective, best.rank, float(np.log(best.noise_variance)))
    way = range(best.rank + 1, rank + 1) if rank > best.rank else range(best.rank - 1, rank - 1, -1)
    for k in way:
        point = (_minimum_below if rank > best.rank else _minimum_above)(objective, k, point.y)
    # At the very noise at which a component ceases to exist, rounding decides whether it does.
    y = min(point.y, _log_exist(objective, rank) - 1e-10)
    cut_off = objective.is_cut_off and rank == objective.g2.size
    return NoiseEstimate(float(np.exp(y)), rank, best.rank_energies, cut_off)


def _promising_pieces(objective: Objective, *, reach: float) -> list[tuple[Point, Point]]:
    """Intervals of log-noise in which 2F may come within `reach` of the global minimum.

    In those that may hold the minimum itself, F is known well enough or has one minimum; in the
    others the rank is constant.
    """
    lo, hi = (objective.at(y) for y in objective.bracket())
    if hi.y - lo.y < 1e-12:
        return [(lo, hi)]
    best = min(lo.energy, hi.energy)
    queue = [(_lower_bound(objective.cells, lo, hi), lo.y, lo, hi)]
    found: list[tuple[Point, Point]] = []
    while queue and queue[0][0] <= best + reach:
        bound, _, lo, hi = heapq.heappop(queue)
        if _is_settled(objective, lo, hi, bound, best):
            found.append((lo, hi))
            continue
        middle = objective.at(0.5 * (lo.y + hi.y))
        best = min(best, middle.energy)
        for a, b in ((lo, middle), (middle, hi)):
            heapq.heappush(queue, (_lower_bound(objective.cells, a, b), a.y, a, b))
    return found


def _margin(objective: Objective) -> float:
    """Largest difference of 2F that polishing may reverse."""
    return 4 * objective.resolution


def _lower_bound(cells: float, lo: Point, hi: Point) -> float:
    """A lower bound of 2F between two points, from the bounds of its slope between them."""
    width = hi.y - lo.y
    least = cells - hi.residual * np.exp(-lo.y)
    most = cells - lo.residual * np.exp(-hi.y)
    if least >= 0:
        return lo.energy
    if most <= 0:
        return hi.energy
    # The lines of slope `least` through lo and `most` through hi meet below the curve.
    t = (hi.energy - lo.energy - most * width) / (least - most)
    return float(lo.energy + least * min(max(t, 0.0), width))


def _is_settled(objective: Objective, lo: Point, hi: Point, bound: float, best: float) -> bool:
    """Whether all that matters in an interval is known, or follows from the slopes at its ends."""
    if min(lo.energy, hi.energy) - bound <= objective.resolution:
        return True
    if lo.k != hi.k:
        return False
    hidden = objective.rises(lo) < 0 and objective.rises(hi) < 0
    return bound > best or (objective.prior.has_one_minimum and not hidden)


def _polished(objective: Objective, pieces: list[tuple[Point, Point]]) -> Point:
    """The lowest minimum in any of the intervals, to full precision.

    F is flat there and gives the noise to half the digits only; its slope gives it to all of them.
    """
    lowest = min(point.energy for piece in pieces for point in piece)
    within = lowest + _margin(objective)
    starts: dict[int, Point] = {}
    for lo, hi in pieces:
        if _lower_bound(objective.cells, lo, hi) <= within:
            for point in (lo, hi):
                starts[point.k] = min(starts.get(point.k, point), point, key=lambda p: p.energy)
    found = [_minimum_near(objective, k, point.y) for k, point in starts.items()]
    return min(found, key=lambda point: point.energy)


def _minimum_near(objective: Objective, k: int, start: float) -> Point:
    """The minimum over the noise with k components, downhill from `start`."""
    falling = objective.slope(k, start) < 0
    return (_minimum_above if falling else _minimum_below)(objective, k, start)


def _stationary(objective: Objective, k: int, a: float, b: float) -> Point:
    y = brentq(lambda y: objective.slope(k, y), a, b, xtol=1e-14, rtol=1e-14)
    return _point(objective, k, y)


def _point(objective: Objective, k: int, y: float) -> Point:
    return Point(y, k, *objective.terms(k, float(np.exp(y))))


def _log_exist(objective: Objective, k: int) -> float:
    return float(np.log(objective.exist_noise[k])) if k else np.inf


def _rank_profile(
    objective: Objective, best: Point, pieces: list[tuple[Point, Point]]
) -> FloatArray:
    """2Fₖ minimised over the noise, for the ranks next to the best whose minimum is near it.

    The minimising noise falls as the rank grows, so each search starts where the last one ended.
    It ends where Fₖ is out of reach and no other promising interval lies ahead.
    """
    reach = best.energy + 2 * NEGLIGIBLE_NATS
    others = [(lo.y, hi.y) for lo, hi in pieces if not lo.y <= best.y <= hi.y]
    ahead = (
        min((lo for lo, _ in others), default=np.inf),
        max((hi for _, hi in others), default=-np.inf),
    )
    energies = np.full(objective.g2.size + 1, np.inf)
    energies[best.k] = best.energy
    for ranks, search in (
        (range(best.k + 1, energies.size), _minimum_below),
        (range(best.k - 1, -1, -1), _minimum_above),
    ):
        point = best
        for k in ranks:
            if k and objective.exist_noise[k] <= rounding_floor(objective.spectrum):
                break
            point = search(objective, k, point.y)
            energies[k] = point.energy
            if point.energy > reach and not ahead[0] < point.y < ahead[1]:
                break
    return energies


def _minimum_below(objective: Objective, k: int, start: float) -> Point:
    """The minimum over the noise with k components, looking from `start` towards less noise."""
    top = min(start, _log_exist(objective, k))
    end = _point(objective, k, top)
    # Just below the noise at which a component ceases to exist, the slope may be negative again.
    for y in (top, top - 1e-3, top - 1e-2, top - 1e-1):
        if objective.slope(k, y) > 0:
            inner = _next_stationary(objective, k, y, towards=objective.bracket()[0])
            return inner if y == top else min(inner, end, key=lambda point: point.energy)
    return end


def _minimum_above(objective: Objective, k: int, start: float) -> Point:
    """The minimum over the noise with k components, looking from `start` towards more noise."""
    if objective.slope(k, start) >= 0:
        return _point(objective, k, start)
    top = min(_log_exist(objective, k), max(start, objective.bracket()[1]) + 1.0)
    return _next_stationary(objective, k, start, towards=top)


def _next_stationary(objective: Objective, k: int, y: float, towards: float) -> Point:
    """First point on the way from y where the slope vanishes, by doubling steps; else its end."""
    start, sign = y, np.sign(objective.slope(k, y))
    step = np.copysign(1e-3, towards - y)
    while y != towards:
        y, step = (y + step, 2 * step) if abs(towards - y) > abs(step) else (towards, step)
        if np.sign(objective.slope(k, y)) != sign:
            return _stationary(objective, k, *sorted((start, y)))
    return _point(objective, k, towards)
