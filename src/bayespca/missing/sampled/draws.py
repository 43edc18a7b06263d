"""Draws from the posterior of ratings: predictions from them, and their moments.

The likelihood and the priors do not change under (a, b) ↦ (Ra, R⁻ᵀb), nor under shifts between
factors, biases and m. So for moments each draw is transformed such that factors and biases have
mean 0 over users and over items, and both factors have the same diagonal mean squares. It is then
turned to be like the first draw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.checks import check_sizes
from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray, Matrices, Matrix, Vector
from bayespca.lowrank.aligning import turn_to
from bayespca.missing.ratings.posterior import RatingsFactor, RatingsPosterior

from .data import FeaturedRatings
from .drift import Drift, summed_up
from .step import SampledProblem, SampledState, row_biases

Places = NDArray[np.intp]
# Numbers that NumPy handles in the time it takes to import numba.
FEW = 200_000
# Rounds in which the noise of a new user is found.
ROUNDS = 5


class Predicted(NamedTuple):
    """Mean of each rating, the variance of this mean, and the noise variance."""

    mean: FloatArray
    variance: FloatArray
    noise: FloatArray


@dataclass(frozen=True, eq=False)
class RatingsDraws:
    """Draws of all chains, one chain after the other, for (rating − `location`)/`unit`.

    There are rows (draw, n, K), columns (draw, m, K), their weights and priors, noise precisions,
    and ν of the weights of rows and columns, which is 0 if all cells have the same noise.
    `row_implicit` (draw, m, K) and `row_centre` (m,) are y and f̄ of `prior`; they are empty
    without implicit feedback. `row_spread` and `column_spread` (draw, K, K) add to Λ⁻¹ for rows and
    columns of which nothing is known; they may be empty. `drift` is None if times are unknown.
    """

    rows: Matrices
    columns: Matrices
    row_weights: Matrix
    column_weights: Matrix
    row_mean: Matrix
    row_precision: Matrices
    column_mean: Matrix
    column_precision: Matrices
    noise_precision: Vector
    row_nu: Vector
    column_nu: Vector
    n_chains: int
    location: float
    unit: float
    biases: bool
    row_implicit: Matrices = field(default_factory=lambda: np.empty((0, 0, 0)))
    row_centre: Vector = field(default_factory=lambda: np.empty(0))
    row_spread: Matrices = field(default_factory=lambda: np.empty((0, 0, 0)))
    column_spread: Matrices = field(default_factory=lambda: np.empty((0, 0, 0)))
    drift: Drift | None = None

    @property
    def size(self) -> int:
        return int(self.noise_precision.size)

    @property
    def rank(self) -> int:
        return int(self.rows.shape[2]) - self.biases

    @property
    def noise_variances(self) -> FloatArray:
        """1/(ταβ) of each draw, with geometric means of α and β.

        τ alone says little: a common factor of all weights has the same effect.
        """
        logs = [np.log(w).mean(axis=1) for w in (self.row_weights, self.column_weights)]
        return np.asarray(np.exp(-sum(logs)) / self.noise_precision)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        (D, n, K), m = self.rows.shape, self.columns.shape[1]
        agree = self.columns.shape == (D, m, K) and self.row_weights.shape == (D, n)
        agree &= self.column_weights.shape == (D, m) and self.noise_precision.shape == (D,)
        agree &= self.row_mean.shape == self.column_mean.shape == (D, K)
        agree &= self.row_precision.shape == self.column_precision.shape == (D, K, K)
        agree &= self.row_nu.shape == self.column_nu.shape == (D,)
        agree &= self.n_chains > 0 and D > 0 and D % self.n_chains == 0
        agree &= self.row_implicit.shape in ((0, 0, 0), (D, self.row_centre.size, K))
        agree &= self.row_centre.size in (0, m)
        agree &= self.row_spread.shape == self.column_spread.shape
        agree &= self.row_spread.shape in ((0, 0, 0), (D, K, K))
        check_sizes("RatingsDraws", bool(agree))
        if self.drift is not None:
            self.drift.check()
        known = (self.rows, self.columns, self.row_weights, self.column_weights)
        if not all(np.isfinite(part).all() for part in known) or (self.noise_precision <= 0).any():
            raise ValueError("the numbers of RatingsDraws are not finite or not positive")

    # --- the interface that it shares with `RatingsPosterior` ----------------------------------

    def predicted(
        self, rows: Places, columns: Places, times: FloatArray | None = None
    ) -> FloatArray:
        """Posterior mean of the rating of each pair; −1 stands for a user or item never seen."""
        mean = averaged(self, rows, columns).mean
        return self._rated(mean + self._drifted(rows, times)[0])

    def predicted_with_std(
        self, rows: Places, columns: Places, times: FloatArray | None = None, *, noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        """`predicted`, and the standard deviation of a rating, or of its mean without `noise`."""
        found, (drifted, spread) = averaged(self, rows, columns), self._drifted(rows, times)
        variance = found.variance + _of_strangers(self, rows, columns)
        # Negative covariances of drifts with biases may by chance exceed the variance.
        variance = np.maximum(variance + spread, 0.0) + found.noise * noise
        return self._rated(found.mean + drifted), np.sqrt(variance) * self.unit

    def _drifted(self, rows: Places, times: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        if self.drift is None:
            return np.zeros(rows.size), np.zeros(rows.size)
        return self.drift.at(rows, times)

    def of_all(self, row: int) -> FloatArray:
        """Posterior mean of the ratings of all columns by one row."""
        m = self.columns.shape[1]
        return self.predicted(np.full(m, row), np.arange(m))

    def with_new(self, columns: NDArray[np.int32], values: FloatArray) -> NewUserDraws:
        """Posterior of one new user, from their ratings: N(P⁻¹(ταr + Λμ), P⁻¹), P = ταG + Λ.

        μ includes the shift by what they have rated. Their weight α = (ν + N)/(ν + τ⟨Σβe²⟩) is
        updated in rounds with the rest.
        """
        values = (values - self.location) / self.unit
        b = self.columns[:, columns].astype(np.float64)
        beta = self.column_weights[:, columns].astype(np.float64)
        if self.drift is not None:
            # Each rating is taken to have its own time, so the unknown drift is noise.
            beta = 1 / (1 / beta + (self.noise_precision * self.drift.unknown)[:, None])
        z = _regressor(b, biases=self.biases)
        x = values - b[..., -1] if self.biases else np.broadcast_to(values, beta.shape)
        G = np.einsum("dc,dch,dck->dhk", beta, z, z)
        r = np.einsum("dc,dch,dc->dh", beta, z, x)
        tau, nu, alpha = self.noise_precision, self.row_nu, np.ones(self.size)
        prior = self.row_mean
        if self.row_centre.size and columns.size:
            own = self.row_implicit[:, columns].sum(axis=1, dtype=np.float64)
            prior = prior + own / np.sqrt(columns.size) - self.row_centre @ self.row_implicit
        # What users have rated tells their mean; without ratings its spread is added.
        precision = self.row_precision if columns.size else np.linalg.inv(self.row_cov)
        pull = np.einsum("dhk,dk->dh", precision, prior)
        has_own = bool(nu.any())
        weights = alpha
        for _ in range(ROUNDS if has_own else 1):
            t = tau * alpha
            cov = np.linalg.inv(t[:, None, None] * G + precision)
            mean = np.einsum("dhk,dk->dh", cov, t[:, None] * r + pull)
            if has_own:
                off = x - np.einsum("dch,dh->dc", z, mean)
                squares = np.einsum("dc,dc,dc->d", beta, off, off) + np.einsum("dhk,dhk->d", cov, G)
                alpha = (nu + columns.size) / (nu + tau * squares)
                weights = (nu + columns.size - 2) / (nu + tau * squares)
        return NewUserDraws(self, mean, cov, weights)

    @property
    def row_cov(self) -> FloatArray:
        """Covariance of a row of which nothing is known, in each draw (draw, K, K)."""
        return _wider(self.row_precision, self.row_spread)

    @property
    def column_cov(self) -> FloatArray:
        return _wider(self.column_precision, self.column_spread)

    def _rated(self, low: FloatArray) -> FloatArray:
        return low * self.unit + self.location


def joined(state: SampledState, problem: SampledProblem, data: FeaturedRatings) -> RatingsDraws:
    """Join the kept draws of all chains, one chain after the other."""
    some = [draw for chain in zip(*state.kept, strict=True) for draw in chain]
    rows, columns = [one.rows for one in some], [one.columns for one in some]
    implicit, drift = np.stack([one.implicit.weights for one in rows]), None
    if data.bins is not None:
        biases = np.stack([row_biases(one.theta, problem) for one in rows])
        precision = np.stack([one.drift.precision for one in some])
        means = biases.mean(axis=0, dtype=float)
        drift = summed_up(state.drift, data.bins, precision, means, len(some))
    return RatingsDraws(
        rows=np.stack([one.theta for one in rows]),
        columns=np.stack([one.theta for one in columns]),
        row_weights=np.stack([one.weights for one in rows]),
        column_weights=np.stack([one.weights for one in columns]),
        row_mean=np.stack([one.prior.mean for one in rows]),
        row_precision=np.stack([one.prior.precision for one in rows]),
        column_mean=np.stack([one.prior.mean for one in columns]),
        column_precision=np.stack([one.prior.precision for one in columns]),
        noise_precision=np.array([one.tau for one in some]),
        row_nu=np.array([one.nu for one in rows]),
        column_nu=np.array([one.nu for one in columns]),
        n_chains=len(state.chains),
        location=data.location,
        unit=data.unit,
        biases=problem.biases,
        row_implicit=implicit,
        row_centre=data.row_rated.centre if implicit.shape[1] else np.empty(0),
        row_spread=np.stack([one.spread for one in rows]),
        column_spread=np.stack([one.spread for one in columns]),
        drift=drift,
    )


# --- pairs -------------------------------------------------------------------------------------


def averaged(draws: RatingsDraws, rows: Places, columns: Places) -> Predicted:
    """Moments of ratings over draws; users and items never seen are at the mean of the prior."""
    if rows.size * draws.size * draws.rows.shape[2] <= FEW:
        return averaged_by_numpy(draws, rows, columns)
    return averaged_by_loops(draws, rows, columns)


def averaged_by_loops(draws: RatingsDraws, rows: Places, columns: Places) -> Predicted:
    """`averaged_by_numpy` by compiled loops, one draw after another."""
    # numba takes a second to import.
    from .compiled import add_draw

    found = Predicted(*(np.zeros(rows.size) for _ in range(3)))
    for d in range(draws.size):
        own = draws.rows[d], draws.row_weights[d], draws.row_mean[d], rows
        other = draws.columns[d], draws.column_weights[d], draws.column_mean[d], columns
        strangers = stranger_weight(draws.row_nu[d]), stranger_weight(draws.column_nu[d])
        noise = (draws.noise_precision[d], *strangers)
        add_draw(own, other, noise, draws.biases, d + 1, tuple(found))
    return Predicted(found.mean, found.variance / draws.size, found.noise / draws.size)


def averaged_by_numpy(draws: RatingsDraws, rows: Places, columns: Places) -> Predicted:
    """Mean, variance and mean noise of u + v + aᵀb over draws."""
    found, noise = np.empty((draws.size, rows.size)), np.empty((draws.size, rows.size))
    for d in range(draws.size):
        (a, wa), (b, wb) = _rows_at(draws, d, rows), _columns_at(draws, d, columns)
        found[d] = _low(a, b, biases=draws.biases)
        noise[d] = 1 / (draws.noise_precision[d] * wa * wb)
    return Predicted(found.mean(axis=0), found.var(axis=0), noise.mean(axis=0))


def stranger_weight(nu: float) -> float:
    """1/⟨1/α⟩ under the prior, for a user or item never seen."""
    return (nu - 2) / nu if nu > 2 else 1.0


def _rows_at(draws: RatingsDraws, d: int, places: Places) -> tuple[FloatArray, FloatArray]:
    """Rows and weights in a draw; rows never seen are at the mean of the prior."""
    mean, weight = draws.row_mean[d], stranger_weight(draws.row_nu[d])
    return _at(draws.rows[d], draws.row_weights[d], mean, weight, places)


def _columns_at(draws: RatingsDraws, d: int, places: Places) -> tuple[FloatArray, FloatArray]:
    mean, weight = draws.column_mean[d], stranger_weight(draws.column_nu[d])
    return _at(draws.columns[d], draws.column_weights[d], mean, weight, places)


def _at(
    theta: FloatArray, weights: FloatArray, mean: FloatArray, weight: float, places: Places
) -> tuple[FloatArray, FloatArray]:
    found, w = theta[places].astype(np.float64), weights[places].astype(np.float64)
    found[places < 0], w[places < 0] = mean, weight
    return found, w


def _low(a: FloatArray, b: FloatArray, *, biases: bool) -> FloatArray:
    H = a.shape[-1] - biases
    low = np.einsum("...h,...h->...", a[..., :H], b[..., :H])
    return low + a[..., H] + b[..., H] if biases else low


def _of_strangers(draws: RatingsDraws, rows: Places, columns: Places) -> FloatArray:
    """Variance that the priors of users and items never seen add, averaged over draws.

    zᵀCₐz + yᵀC_by + tr CₐC_b, with C the covariance of a user or item never seen, else 0.
    """
    out = np.zeros(rows.size)
    new_rows, new_columns = rows < 0, columns < 0
    some = np.flatnonzero(new_rows | new_columns)
    if not some.size:
        return out
    i, j = rows[some], columns[some]
    row_cov, column_cov = draws.row_cov, draws.column_cov
    for d in range(draws.size):
        C, D = row_cov[d], column_cov[d]
        (a, _), (b, _) = _rows_at(draws, d, i), _columns_at(draws, d, j)
        y, z = _regressor(a, biases=draws.biases), _regressor(b, biases=draws.biases)
        H = draws.rank
        out[some] += (i < 0) * np.einsum("ih,hk,ik->i", z, C, z)
        out[some] += (j < 0) * np.einsum("ih,hk,ik->i", y, D, y)
        out[some] += ((i < 0) & (j < 0)) * float(np.sum(C[:H, :H] * D[:H, :H]))
    return out / draws.size


def _wider(precision: FloatArray, spread: FloatArray) -> FloatArray:
    """Λ⁻¹ plus the spread of the means."""
    cov = np.asarray(np.linalg.inv(precision), np.float64)
    return cov + spread if spread.size else cov


def _regressor(theta: FloatArray, *, biases: bool) -> FloatArray:
    z = theta.copy()
    if biases:
        z[..., -1] = 1.0
    return z


# --- a new user --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NewUserDraws:
    """Posterior of a new user given each draw: means (draw, K), covariances (draw, K, K), and
    1/⟨1/α⟩ of their weight (draw,).
    """

    draws: RatingsDraws
    mean: FloatArray
    cov: FloatArray
    weights: FloatArray

    def predicted(self, rows: Places, columns: Places) -> FloatArray:
        return self._all(columns)[0]

    def predicted_with_std(
        self, rows: Places, columns: Places, *, noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        mean, variance, of_noise = self._all(columns)
        variance = variance + self.draws._drifted(rows, None)[1]
        return mean, np.sqrt(variance + of_noise * noise) * self.draws.unit

    def of_all(self, row: int) -> FloatArray:
        return self._all(np.arange(self.draws.columns.shape[1]))[0]

    def _all(self, columns: Places) -> tuple[FloatArray, FloatArray, FloatArray]:
        draws, shape = self.draws, (self.draws.size, columns.size)
        found, within, noise = np.empty(shape), np.empty(shape), np.empty(shape)
        new, H = columns < 0, draws.rank
        column_cov = draws.column_cov if new.any() else None
        for d in range(draws.size):
            b, wb = _columns_at(draws, d, columns)
            z = _regressor(b, biases=draws.biases)
            found[d] = _low(self.mean[d], b, biases=draws.biases)
            within[d] = np.einsum("ih,hk,ik->i", z, self.cov[d], z)
            if column_cov is not None:
                # yᵀC_by + tr CₐC_b for items never seen.
                y, D = _regressor(self.mean[d], biases=draws.biases), column_cov[d]
                within[d] += new * (y @ D @ y + np.sum(self.cov[d][:H, :H] * D[:H, :H]))
            noise[d] = 1 / (draws.noise_precision[d] * self.weights[d] * wb)
        mean = found.mean(axis=0) * draws.unit + draws.location
        return mean, found.var(axis=0) + within.mean(axis=0), noise.mean(axis=0)


# Share of the trace of a Gram matrix to add to its diagonal, so that empty components are regular.
JITTER = 1e-12


class Alike(NamedTuple):
    """A draw in the common coordinates: rows, columns and m."""

    rows: FloatArray
    columns: FloatArray
    mean: float


def moments_of(draws: RatingsDraws) -> RatingsPosterior:
    """Means and covariances of the draws as a posterior of factors."""
    first: Alike | None = None
    found = []
    for rows, columns in zip(draws.rows, draws.columns, strict=True):
        one = canonical(rows.astype(np.float64), columns.astype(np.float64), biases=draws.biases)
        one = one if first is None else _turned(one, first, biases=draws.biases)
        first = first or one
        found.append(one)
    return RatingsPosterior(
        rows=_factor(np.stack([one.rows for one in found], axis=1)),
        columns=_factor(np.stack([one.columns for one in found], axis=1)),
        mean=float(np.mean([one.mean for one in found])),
        noise_variance=float(draws.noise_variances.mean()),
        location=draws.location,
        unit=draws.unit,
        biases=draws.biases,
    )


def canonical(rows: FloatArray, columns: FloatArray, *, biases: bool) -> Alike:
    """A draw with means moved into biases and m, and equal diagonal mean squares of factors."""
    H, m = rows.shape[1] - biases, 0.0
    a, b = rows[:, :H], columns[:, :H]
    if biases:
        u, v = rows[:, H], columns[:, H]
        a, v = a - a.mean(axis=0), v + b @ a.mean(axis=0)
        b, u = b - b.mean(axis=0), u + a @ b.mean(axis=0)
        m = float(u.mean() + v.mean())
        rest = (u - u.mean())[:, None], (v - v.mean())[:, None]
    else:
        rest = rows[:, H:], columns[:, H:]
    a, b = _balanced(a, b)
    return Alike(np.hstack([a, rest[0]]), np.hstack([b, rest[1]]), m)


def _balanced(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factors with the same abᵀ, but aᵀa/n and bᵀb/m diagonal and equal, largest first."""
    if not a.shape[1]:
        return a, b
    (n, m), (Ra, Rb) = (len(a), len(b)), (_root(a), _root(b))
    U, s, Vt = np.linalg.svd(Ra.T @ Rb)
    size = np.sqrt(s)
    to_a = np.linalg.solve(Ra.T, U * size) * (n / m) ** 0.25
    to_b = np.linalg.solve(Rb.T, Vt.T * size) * (m / n) ** 0.25
    return a @ to_a, b @ to_b


def _root(a: FloatArray) -> FloatArray:
    """L with LLᵀ = aᵀa"""
    gram = a.T @ a
    return np.asarray(np.linalg.cholesky(gram + JITTER * np.trace(gram) * np.eye(len(gram))))


def _turned(one: Alike, like: Alike, *, biases: bool) -> Alike:
    H = one.rows.shape[1] - biases
    both, others = (np.concatenate([x.rows[:, :H], x.columns[:, :H]]) for x in (one, like))
    Q = np.eye(one.rows.shape[1])
    if H:
        Q[:H, :H] = turn_to(both, others)
    return Alike(one.rows @ Q, one.columns @ Q, one.mean)


def _factor(draws: FloatArray) -> RatingsFactor:
    """Moments of draws of rows, (n, draw, K)."""
    mean = draws.mean(axis=1)
    off = draws - mean[:, None]
    cov = np.matmul(np.swapaxes(off, 1, 2), off) / draws.shape[1]
    least = np.finfo(float).tiny
    prior = np.maximum(np.mean(draws**2, axis=(0, 1)), least)
    return RatingsFactor(mean, packed(cov), prior)
