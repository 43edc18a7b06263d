"""Posterior of a factorization of ratings, and predictions from it with their spread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.checks import check_covariances, check_moments, check_sizes
from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray, Matrix, Vector

from .cells import RatingsSide
from .kernels import Known, RowsTask, covariances_of_rows, regressors, updated

Places = NDArray[np.intp]

# Number of pairs to predict at a time.
CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class RatingsFactor:
    """Posterior of one side.

    `mean` holds the means of its rows (factors, then the bias) (n, K), `cov` their covariances,
    packed, without rows if they are point-estimated, and `prior` the prior variances (K,). `spread`
    holds covariances with the other side integrated out, for intervals; without rows, these are
    `cov`.
    """

    mean: Matrix
    cov: Matrix
    prior: Vector
    spread: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def wide(self) -> FloatArray:
        """The covariances to use for intervals."""
        return self.spread if len(self.spread) else self.cov

    def at(self, places: Places) -> tuple[FloatArray, FloatArray]:
        """Means and covariances (k, K, K) of some rows; −1 stands for a row never seen."""
        K = self.prior.size
        cov = np.zeros((places.size, K, K))
        if len(self.wide):
            cov = unpacked(self.wide[places].astype(np.float64), K)
        cov[places < 0] = np.diag(self.prior)
        return self.means_at(places), cov

    def means_at(self, places: Places) -> FloatArray:
        """Means of some rows; −1 stands for a row never seen."""
        mean = self.mean[places].astype(np.float64)
        mean[places < 0] = 0.0
        return np.asarray(mean)

    def taken(self, places: Places) -> RatingsFactor:
        """Some of the rows, in another order."""
        cov, spread = (some[places] if len(some) else some for some in (self.cov, self.spread))
        return RatingsFactor(self.mean[places], cov, self.prior, spread)

    def std(self) -> FloatArray:
        """Posterior standard deviation of each entry of `mean`."""
        return np.sqrt(self.variances) if len(self.wide) else np.zeros_like(self.mean)

    @property
    def variances(self) -> FloatArray:
        """The diagonals of `wide`."""
        i, j = np.triu_indices(self.prior.size)
        return np.asarray(self.wide[:, i == j])

    def check(self) -> None:
        """Raise ValueError unless the parts belong together, and predictions can be made."""
        n, K = self.mean.shape
        sizes = ((n, K * (K + 1) // 2), (0, K * (K + 1) // 2))
        agree = self.cov.shape in sizes and (not len(self.spread) or self.spread.shape == sizes[0])
        check_sizes("a RatingsFactor", self.prior.shape == (K,) and agree)
        positive = bool((self.prior > 0).all())
        check_moments(
            "a RatingsFactor", self.mean, self.cov, self.spread, self.prior, positive=positive
        )
        check_covariances("a RatingsFactor", bool((self.variances >= 0).all()))


@dataclass(frozen=True, eq=False)
class RatingsPosterior:
    """A rating is (m + u + v + aᵀb)·unit + `location` with noise of variance σ²·unit²."""

    rows: RatingsFactor
    columns: RatingsFactor
    mean: float
    noise_variance: float
    location: float
    unit: float
    biases: bool

    @property
    def rank(self) -> int:
        return int(self.rows.prior.size) - self.biases

    # --- the interface that it shares with draws (`missing.sampled`) ----------------------------

    def predicted(self, rows: Places, columns: Places) -> FloatArray:
        """Posterior mean of the rating of each pair."""
        out = np.empty(rows.size)
        for pairs in _chunks(rows.size):
            a, b = self.rows.means_at(rows[pairs]), self.columns.means_at(columns[pairs])
            out[pairs] = self._low(a, b)
        return self._rated(out)

    def predicted_with_std(
        self, rows: Places, columns: Places, *, noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        """`predicted`, and the standard deviation of a rating, or of its mean without `noise`.

        Var = zᵀCθz + yᵀCφy + tr CₐC_b for θ = (a, u), φ = (b, v), z = (b, 1), y = (a, 1).
        """
        H, mean, variance = self.rank, np.empty(rows.size), np.empty(rows.size)
        for pairs in _chunks(rows.size):
            (a, Ca), (b, Cb) = self.rows.at(rows[pairs]), self.columns.at(columns[pairs])
            mean[pairs] = self._low(a, b)
            if self.biases:
                a[:, H], b[:, H] = 1.0, 1.0
            of_both = np.einsum("ihk,ihk->i", Ca[:, :H, :H], Cb[:, :H, :H])
            of_a, of_b = (np.einsum("ih,ihk,ik->i", z, C, z) for z, C in ((b, Ca), (a, Cb)))
            variance[pairs] = of_a + of_b + of_both
        if noise:
            variance += self.noise_variance
        return self._rated(mean), np.sqrt(variance) * self.unit

    def of_all(self, row: int) -> FloatArray:
        """Posterior mean of the ratings of all columns by one row; −1 is a row never seen."""
        H, b = self.rank, self.columns.mean
        (a,) = self.rows.means_at(np.array([row]))
        low = b[:, :H] @ a[:H]
        return self._rated(low + a[H] + b[:, H] if self.biases else low)

    def with_new(self, columns: NDArray[np.int32], values: FloatArray) -> RatingsPosterior:
        """The posterior with a single new row in place of all, given its ratings of `columns`."""
        starts = np.array([0, columns.size], dtype=np.int64)
        side = RatingsSide(starts, columns, (values - self.location) / self.unit)
        return replace(self, rows=self.folded_in(side))

    def folded_in(self, side: RatingsSide) -> RatingsFactor:
        """Posterior of new rows from their ratings alone; columns stay as they are.

        `spread` includes the uncertainty of the columns rated.
        """
        used, other = np.unique(side.other, return_inverse=True)
        side = RatingsSide(side.starts, other.astype(np.int32), side.values)
        columns, prior, s2 = self.columns, self.rows.prior, self.noise_variance
        mean = columns.mean[used].astype(np.float64)
        cov = columns.cov[used].astype(np.float64) if len(columns.cov) else columns.cov
        given = regressors(mean, cov, self.mean, biases=self.biases)
        integrated = bool(len(self.rows.cov)) or not len(self.rows.mean)
        found = updated(side, RowsTask(given, prior, s2, integrated))
        rows = RatingsFactor(found.mean, found.cov, prior)
        if not (len(rows.cov) and len(columns.cov)):
            return rows
        own = Known(found.mean, found.cov, prior)
        rated = Known(mean, columns.wide[used].astype(np.float64), columns.prior)
        return replace(rows, spread=covariances_of_rows(side, own, rated, s2, biases=self.biases))

    def _low(self, a: FloatArray, b: FloatArray) -> FloatArray:
        H = self.rank
        low = np.einsum("ih,ih->i", a[:, :H], b[:, :H])
        return low + a[:, H] + b[:, H] if self.biases else low

    def _rated(self, low: FloatArray) -> FloatArray:
        return np.asarray((low + self.mean) * self.unit + self.location)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        sizes = {self.rows.prior.size, self.columns.prior.size}
        if len(sizes) != 1 or sizes.pop() < self.biases:
            raise ValueError("the factors of a RatingsPosterior are of different sizes")
        if not (0 < self.unit < np.inf and 0 < self.noise_variance < np.inf):
            raise ValueError("the unit or the noise variance of a RatingsPosterior is not positive")
        if not (np.isfinite(self.mean) and np.isfinite(self.location)):
            raise ValueError("the mean of a RatingsPosterior is not finite")


def _chunks(n: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]


# Largest leverage h of a rating. Beyond it the formula overshoots, because users and items adapt to
# each other: on simulated ratings residuals are a quarter too large at 0.5, and two thirds at 0.7.
LARGEST = 0.5


class LeftOut(NamedTuple):
    """Mean of each rating, and the variance of this mean, without the rating itself.

    Both are NaN if its leverage is above `LARGEST`.
    """

    mean: FloatArray
    variance: FloatArray


def left_out(
    mean: FloatArray, variance: FloatArray, noise: FloatArray, values: FloatArray
) -> LeftOut:
    """Divide the density N(mean, variance) of a rating by its likelihood N(value | ·, noise):

        mean − (value − mean)·h/(1 − h),    variance/(1 − h),    h = variance/noise.

    This is exact if the posterior is normal and the model linear (Allen 1974), as is the case for
    one side given the other. Noise and priors stay as they were found with all ratings.
    """
    h = variance / noise
    h = np.where(h <= LARGEST, h, np.nan)
    return LeftOut(mean - (values - mean) * h / (1 - h), h * noise / (1 - h))
