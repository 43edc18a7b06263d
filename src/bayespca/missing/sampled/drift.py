"""Drift of users: biases of each user in bins of time, from wide bins to narrow ones.

    x_ij = u_i + v_j + aᵢᵀbⱼ + Σₗ e_l(i, bin of t) + ε,    eₗ ~ N(0, 1/λₗ),    λₗ ~ Γ(a, b),

after the day-specific biases in Koren, "Collaborative filtering with temporal dynamics" (KDD 2009).
How fast users drift is learned: levels whose bins say nothing have a large λ. Effects are drawn
level by level, all runs of a level at once. Only moments over draws are kept, of the sum over the
levels down to each run, since draws of all runs would take more memory than the ratings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.checks import check_sizes
from bayespca.arrays.types import Counts, FloatArray, Matrix, Vector
from bayespca.missing.ratings.cells import RatingsSide

# Ratio of the widths of bins of successive levels.
FACTOR = 16
# Least ratio of the numbers of runs of successive levels, and most runs per cell.
FINER, SHARED = 1.25, 0.75
# Widths from a sixteenth of all time to a millionth: of 200 days, from 12 days to 16 seconds.
LEVELS = 5


@dataclass(frozen=True, eq=False)
class TimeScale:
    """The hierarchy of bins: its origin, its length, and the levels that are in use.

    Times may be in any unit, since bins are fractions of the whole span.
    """

    origin: float
    span: float
    levels: tuple[int, ...]

    def keys(self, rows: NDArray[np.intp], times: FloatArray, level: int) -> NDArray[np.int64]:
        """A number for each pair of row and bin; −1 for unknown rows and times out of range."""
        count = FACTOR**level
        part = (times - self.origin) / self.span
        bins = np.minimum(np.floor(part * count), count - 1)
        inside = (rows >= 0) & (part >= 0) & (part <= 1)
        return np.where(inside, rows * count + np.where(inside, bins, 0).astype(np.int64), -1)


@dataclass(frozen=True, eq=False)
class TimeBins:
    """Runs of cells for each level.

    `order` sorts cells by row and time; run r of a level begins at its starts[r], and keys[r]
    encodes row and bin. `to_columns` permutes cells sorted by rows to cells sorted by columns.
    """

    scale: TimeScale
    order: Counts
    to_columns: Counts
    starts: tuple[Counts, ...]
    keys: tuple[Counts, ...]

    def rows(self, level: int) -> NDArray[np.int64]:
        return self.keys[level] // FACTOR ** self.scale.levels[level]

    def parents(self, level: int) -> NDArray[np.intp]:
        """For each run, the run of the level before that contains it."""
        return np.searchsorted(self.starts[level - 1], self.starts[level], side="right") - 1

    def summed(self, level: int, values: FloatArray) -> FloatArray:
        """Σ over the cells of each run; `values` are in `order`."""
        return np.add.reduceat(values, self.starts[level])

    def spread_out(self, level: int, values: FloatArray) -> FloatArray:
        """Repeat the value of each run for its cells, in `order`."""
        edges = np.append(self.starts[level], self.order.size)
        return np.repeat(values, np.diff(edges))


def binned(side: RatingsSide, times: FloatArray) -> TimeBins:
    """Bins for the times of the cells of a side of rows, in its order.

    Levels in which few cells share a run are left out, because their effects would hardly differ
    from noise; so are levels with hardly more runs than the level before.
    """
    rows = np.repeat(np.arange(side.n_rows), side.counts)
    order = np.lexsort((times, rows))
    origin = float(times.min())
    whole = TimeScale(origin, float(times.max()) - origin, tuple(range(1, LEVELS + 1)))
    starts, keys, levels = [], [], []
    before = int(np.sum(side.counts > 0))
    for level in whole.levels:
        found = whole.keys(rows, times, level)[order]
        first = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
        if FINER * before <= first.size <= SHARED * order.size:
            starts.append(first.astype(np.int64))
            keys.append(found[first])
            levels.append(level)
            before = first.size
    scale = TimeScale(whole.origin, whole.span, tuple(levels))
    to_columns = np.lexsort((rows, side.other))
    return TimeBins(scale, order, to_columns, tuple(starts), tuple(keys))


# Initial λ.
FIRST = 50.0


@dataclass(frozen=True, eq=False)
class DriftDraw:
    """Effects of the runs of each level, and λ of each level (L,); kept draws have no effects."""

    effects: tuple[Vector, ...]
    precision: Vector

    @classmethod
    def none(cls, bins: TimeBins | None) -> DriftDraw:
        """Zero drift to start with; without levels if there are no times."""
        starts = () if bins is None else bins.starts
        return cls(tuple(np.zeros(s.size) for s in starts), np.full(len(starts), FIRST))

    def of_cells(self, bins: TimeBins) -> FloatArray:
        """Σₗ eₗ of each cell, with cells sorted by rows."""
        total = np.zeros(bins.order.size)
        for level, effect in enumerate(self.effects):
            total += bins.spread_out(level, effect)
        found = np.empty_like(total)
        found[bins.order] = total
        return found


def drawn_drift(
    now: DriftDraw,
    bins: TimeBins,
    rest: FloatArray,
    weights: FloatArray,
    gamma: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[DriftDraw, FloatArray]:
    """Draw effects and λ given `rest`, the residuals of cells without drift, their precisions, and
    a and b of Γ, `gamma`:

        e ~ N(Σwr/(λ + Σw), 1/(λ + Σw)),    λ ~ Γ(a + ½R, b + ½Σe²) for R runs.

    The second result is the residuals under the new effects. Cells are sorted by rows.
    """
    (a, b), w = gamma, weights[bins.order]
    left = rest[bins.order]
    for level, effect in enumerate(now.effects):
        left -= bins.spread_out(level, effect)
    effects, precision = [], now.precision.copy()
    for level, effect in enumerate(now.effects):
        left += bins.spread_out(level, effect)
        total = precision[level] + bins.summed(level, w)
        drawn = bins.summed(level, w * left) / total + rng.normal(size=total.size) / np.sqrt(total)
        left -= bins.spread_out(level, drawn)
        rate = b + 0.5 * float(drawn @ drawn)
        precision[level] = rng.standard_gamma(a + 0.5 * drawn.size) / rate
        effects.append(drawn)
    found = np.empty_like(left)
    found[bins.order] = left
    return DriftDraw(tuple(effects), precision), found


@dataclass(frozen=True, eq=False)
class DriftSums:
    """Sums over draws of s and of s² + 2us, for the sum s of effects down to each run and the bias
    u of its row.
    """

    first: tuple[Vector, ...] = ()
    second: tuple[Vector, ...] = ()

    def plus(self, draw: DriftDraw, bins: TimeBins | None, biases: FloatArray) -> DriftSums:
        """The sums with one more draw; `biases` are those of all rows."""
        if bins is None:
            return self
        first, second, s = [], [], np.zeros(0)
        for level, effect in enumerate(draw.effects):
            s = effect + s[bins.parents(level)] if level else effect
            both = s * (s + 2 * biases[bins.rows(level)])
            first.append(self.first[level] + s if self.first else s)
            second.append(self.second[level] + both if self.second else both)
        return DriftSums(tuple(first), tuple(second))


@dataclass(frozen=True, eq=False)
class Drift:
    """Posterior moments of users' drifts, for ratings divided by their unit.

    Each level, from wide to narrow, has the keys of its runs, the mean of the sum s of effects down
    to each run, and what s adds to the variance of a prediction, var(u + s) − var u. `prior` is 1/λ
    of each draw (draw, L).
    """

    origin: float
    span: float
    levels: tuple[int, ...]
    keys: tuple[Counts, ...]
    mean: tuple[Vector, ...]
    variance: tuple[Vector, ...]
    prior: Matrix

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        count = len(self.levels)
        agree = len(self.keys) == len(self.mean) == len(self.variance) == count
        agree = agree and self.prior.ndim == 2 and self.prior.shape[1] == count
        for k, m, v in zip(self.keys, self.mean, self.variance, strict=False):
            agree = agree and k.shape == m.shape == v.shape
        check_sizes("Drift", bool(agree))

    @property
    def unknown(self) -> FloatArray:
        """Σₗ 1/λₗ of each draw: the variance of the drift at a time without any rating nearby."""
        return np.asarray(self.prior.sum(axis=1))

    def at(self, rows: NDArray[np.intp], times: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Expected drift of rows at some times, and what it adds to the variance of predictions.

        Levels without a run at that time have mean 0 and variance 1/λ, as do all without times.
        """
        beyond = self.prior.mean(axis=0)
        mean, variance = np.zeros(rows.size), np.full(rows.size, float(beyond.sum()))
        if times is None:
            return mean, variance
        scale = TimeScale(self.origin, self.span, self.levels)
        for level, number in enumerate(self.levels):
            wanted = scale.keys(rows, times, number)
            keys = self.keys[level]
            place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
            there = keys[place] == wanted
            mean[there] = self.mean[level][place[there]]
            more = float(beyond[level + 1 :].sum())
            variance[there] = self.variance[level][place[there]] + more
        return mean, variance


def summed_up(
    sums: DriftSums, bins: TimeBins, precision: FloatArray, biases: FloatArray, count: int
) -> Drift:
    """Moments over `count` draws; `biases` are means over draws of the biases of rows."""
    scale, mean, variance = bins.scale, [], []
    for level, (first, second) in enumerate(zip(sums.first, sums.second, strict=True)):
        m = first / count
        mean.append(m)
        variance.append(second / count - m * (m + 2 * biases[bins.rows(level)]))
    known = bins.keys, tuple(mean), tuple(variance)
    return Drift(scale.origin, scale.span, scale.levels, *known, prior=1 / precision)
