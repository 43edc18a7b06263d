"""Posterior of a factorization of ratings, and predictions from it with their spread."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.checks import check_covariances, check_moments, check_sizes
from bayespca.arrays.packing import unpacked
from bayespca.arrays.types import FloatArray, Matrix, Vector

from .cells import RatingsSide
from .kernels import RowsTask, regressors, updated
from .spread import Known, covariances_of_rows

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
        new = places < 0
        mean = self.mean[places].astype(np.float64)
        mean[new] = 0.0
        cov = np.zeros((places.size, K, K))
        if len(self.wide):
            cov = unpacked(self.wide[places].astype(np.float64), K)
        cov[new] = np.diag(self.prior)
        return mean, cov

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
        return predict(self, rows, columns)

    def predicted_with_std(
        self, rows: Places, columns: Places, *, noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        return predict_and_std(self, rows, columns, noise=noise)

    def of_all(self, row: int) -> FloatArray:
        return predict_all(self, row)

    def with_new(self, columns: NDArray[np.int32], values: FloatArray) -> RatingsPosterior:
        """The posterior with a single new row in place of all, given its ratings of `columns`."""
        starts = np.array([0, columns.size], dtype=np.int64)
        side = RatingsSide(starts, columns, (values - self.location) / self.unit)
        return replace(self, rows=with_columns_uncertain(self, side))

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        sizes = {self.rows.prior.size, self.columns.prior.size}
        if len(sizes) != 1 or sizes.pop() < self.biases:
            raise ValueError("the factors of a RatingsPosterior are of different sizes")
        if not (0 < self.unit < np.inf and 0 < self.noise_variance < np.inf):
            raise ValueError("the unit or the noise variance of a RatingsPosterior is not positive")
        if not (np.isfinite(self.mean) and np.isfinite(self.location)):
            raise ValueError("the mean of a RatingsPosterior is not finite")


def predict(posterior: RatingsPosterior, rows: Places, columns: Places) -> FloatArray:
    """Posterior mean of the rating of each pair."""
    out = np.empty(rows.size)
    for pairs in _chunks(rows.size):
        a, b = (_means(f, p[pairs]) for f, p in _sides(posterior, rows, columns))
        out[pairs] = _low(posterior, a, b)
    return _rated(posterior, out)


def predict_and_std(
    posterior: RatingsPosterior, rows: Places, columns: Places, *, noise: bool = True
) -> tuple[FloatArray, FloatArray]:
    """`predict`, and the standard deviation of a rating, or of its mean without `noise`.

    Var = zᵀCθz + yᵀCφy + tr CₐC_b for θ = (a, u), φ = (b, v), z = (b, 1), y = (a, 1).
    """
    mean, variance = np.empty(rows.size), np.empty(rows.size)
    for pairs in _chunks(rows.size):
        a, a_cov = posterior.rows.at(rows[pairs])
        b, b_cov = posterior.columns.at(columns[pairs])
        mean[pairs] = _low(posterior, a, b)
        variance[pairs] = _variance(posterior, a, a_cov, b, b_cov)
    if noise:
        variance += posterior.noise_variance
    return _rated(posterior, mean), np.sqrt(variance) * posterior.unit


def predict_all(posterior: RatingsPosterior, row: int) -> FloatArray:
    """Posterior mean of the ratings of all columns by one row; −1 stands for a row never seen."""
    H, b = posterior.rank, posterior.columns.mean
    (a,) = _means(posterior.rows, np.array([row]))
    low = b[:, :H] @ a[:H]
    return _rated(posterior, low + a[H] + b[:, H] if posterior.biases else low)


def fold_in(posterior: RatingsPosterior, side: RatingsSide) -> RatingsFactor:
    """Posterior of new rows from their ratings alone; columns stay as they are."""
    used, other = np.unique(side.other, return_inverse=True)
    columns = posterior.columns
    mean = columns.mean[used].astype(np.float64)
    cov = columns.cov[used].astype(np.float64) if len(columns.cov) else columns.cov
    given = regressors(mean, cov, posterior.mean, biases=posterior.biases)
    prior = posterior.rows.prior
    integrated = bool(len(posterior.rows.cov)) or not len(posterior.rows.mean)
    cells = RatingsSide(side.starts, other.astype(np.int32), side.values)
    found = updated(cells, RowsTask(given, prior, posterior.noise_variance, integrated))
    return RatingsFactor(found.mean, found.cov, prior)


def with_columns_uncertain(posterior: RatingsPosterior, side: RatingsSide) -> RatingsFactor:
    """`fold_in`, with `spread` that includes the uncertainty of the columns rated."""
    rows, columns = fold_in(posterior, side), posterior.columns
    if not (len(rows.cov) and len(columns.cov)):
        return rows
    used, other = np.unique(side.other, return_inverse=True)
    mean, cov = (part[used].astype(np.float64) for part in (columns.mean, columns.wide))
    spread = covariances_of_rows(
        RatingsSide(side.starts, other.astype(np.int32), side.values),
        Known(rows.mean, rows.cov, rows.prior),
        Known(mean, cov, columns.prior),
        posterior.noise_variance,
        biases=posterior.biases,
    )
    return replace(rows, spread=spread)


def _chunks(n: int) -> list[slice]:
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]


def _sides(
    posterior: RatingsPosterior, rows: Places, columns: Places
) -> tuple[tuple[RatingsFactor, Places], tuple[RatingsFactor, Places]]:
    return (posterior.rows, rows), (posterior.columns, columns)


def _means(factor: RatingsFactor, places: Places) -> FloatArray:
    mean = factor.mean[places].astype(np.float64)
    mean[places < 0] = 0.0
    return np.asarray(mean)


def _low(posterior: RatingsPosterior, a: FloatArray, b: FloatArray) -> FloatArray:
    H = posterior.rank
    low = np.einsum("ih,ih->i", a[:, :H], b[:, :H])
    return low + a[:, H] + b[:, H] if posterior.biases else low


def _variance(
    posterior: RatingsPosterior, a: FloatArray, a_cov: FloatArray, b: FloatArray, b_cov: FloatArray
) -> FloatArray:
    H = posterior.rank
    y, z = a.copy(), b.copy()
    if posterior.biases:
        y[:, H], z[:, H] = 1.0, 1.0
    out = np.einsum("ih,ihk,ik->i", z, a_cov, z) + np.einsum("ih,ihk,ik->i", y, b_cov, y)
    return np.asarray(out + np.einsum("ihk,ihk->i", a_cov[:, :H, :H], b_cov[:, :H, :H]))


def _rated(posterior: RatingsPosterior, low: FloatArray) -> FloatArray:
    return np.asarray((low + posterior.mean) * posterior.unit + posterior.location)
