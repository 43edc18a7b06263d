"""Holes filled from the posterior of a PCA: means with standard deviations, and draws.

Names and places are as in `holes_posterior`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from bayespca.arrays.namespaces import array_namespace, cast, on_host, to_numpy
from bayespca.arrays.packing import normal_vectors, packed, times_each, unpacked, with_ones
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import Array, FloatArray

from . import combined
from .cell_weights import on_host_for_cells
from .holes import Holes
from .holes_posterior import (
    HolesPosterior,
    covariance,
    predictive_noise,
    squares_of_rows,
    unit_of_columns,
    variance_of_rows,
    weighed_rows,
)
from .rows import Columns, device_blocks, latent, latent_draws

# Least share of its error that a cell leaves to the other cells.
LEAST_LEFT = 0.1

# Numbers per block of rows.
AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Unknown:
    """Uncertainty that a factorised posterior leaves out and intervals include; see `intervals`.

    Attributes
    ----------
    covariances
        Covariances of (B, μ), in place of the posterior's: (p, k + 1, k + 1).
    left_out
        Variance of noise-free scaled cells that is due to components that were left out.
    degrees
        ν: the noise variance is as certain as an estimate from this many squares.
    """

    covariances: FloatArray
    left_out: float = 0.0
    degrees: float = math.inf

    @property
    def wider(self) -> float:
        """Factor by which variances grow because the noise variance is not known."""
        return wider(self.degrees)


def wider(degrees: float) -> float:
    """ν/(ν − 2), the variance of Student's t; ν is at least 3."""
    return 1 / (1 - 2 / degrees)


@on_host_for_cells
def impute(
    posterior: HolesPosterior, X: Array, *, noise: bool = True, unknown: Unknown | None = None
) -> tuple[Array, Array]:
    """X with its holes filled by their posterior mean, and the standard deviation of each cell.

    The variance is Var(ãᵀb̃) = ãᵀCⱼã + bⱼᵀSᵢbⱼ + tr SᵢCⱼ; with `noise` it is that of a measurement,
    larger by σ². Observed cells have 0. Sᵢ = Σᵢ + Λ⁻¹(Σₛ bₛbₛᵀ·ãᵀCₛã + rₛ²Cₛ)Λ⁻¹ with Λ = σ²Σᵢ⁻¹
    (Σᵢ and σ² in units of the row's noise, where rows have their own): Σᵢ holds for given loadings,
    and the second term for the uncertain loadings of the observed cells s, with residuals rₛ; see
    `_following`. With `unknown`, Cⱼ are its covariances, components that were left out add to the
    variance unless `noise` is included, which contains them, and variances are those of Student's
    t, because σ² is not known. Without `unknown`, measurements have Sᵢ = Σᵢ, as in the posterior.

    If the posterior has a `filler`, the mean is (1 − w)m₁ + wm₂, with its own m₁, the filler's m₂
    and w the chance that the filler's components hold for the row; the variance grows by
    w(1 − w)(m₂ − m₁)².
    """
    if posterior.filler is not None:
        own, std = impute(replace(posterior, filler=None), X, noise=noise, unknown=unknown)
        other, _ = impute(posterior.filler, X)
        w = _chance_of_filler(posterior, posterior.filler, X)
        apart = other - own
        return own + cast(w, X.dtype) * apart, array_namespace(X).hypot(
            std, cast((w * (1 - w)) ** 0.5, X.dtype) * apart
        )
    whole, rows = posterior, X
    posterior, X = combined.inside(posterior, X)
    xp, columns, data = array_namespace(X), posterior.columns, weighed_rows(posterior, X)
    follows = 0.0 if noise and unknown is None else 1.0
    unknown = Unknown(columns.b_cov) if unknown is None else unknown
    k, (i, j) = columns.rank, np.triu_indices(columns.rank + 1)
    twice, inside = np.where(i == j, 1.0, 2.0), j < k
    spread, outer = unknown.covariances[:, i, j], (columns.b[:, i] * columns.b[:, j])[:, inside]
    inner, second = spread[:, inside], (outer + spread[:, inside]) * twice[inside]
    spread, outer, inner, second, loadings, unit, mean = (
        at(X, values)
        for values in (
            *((spread * twice).T, outer, inner, second.T),
            *(columns.b.T, data.unit, data.location),
        )
    )
    more = unknown.left_out / posterior.unit**2
    if noise:
        more = columns.noise_variance * posterior.cell_tails.spread
    a, cov = latent(data, columns)
    own = variance_of_rows(posterior, X)
    filled, std = xp.empty_like(X), xp.empty_like(X)
    for block in device_blocks(data, k):
        ones = with_ones(a[block.rows, :])
        squares = taken(ones, i, axis=1) * taken(ones, j, axis=1)
        low, of_columns = xp.matmul(ones, loadings), xp.matmul(squares, spread)
        weights = taken(block.mask, block.pattern)
        left = (block.values - weights * low) ** 2
        pulled = xp.matmul(weights**2 * of_columns, outer) + xp.matmul(left, inner)
        gain = taken(cov[block.which, :, :], block.pattern) / columns.noise_variance
        following = packed(xp.matmul(xp.matmul(gain, unpacked(pulled, k)), gain))
        variance = xp.matmul(packed(cov[block.which, :, :]), second)
        variance = taken(variance, block.pattern) + more
        if posterior.tails.are_heavy:
            variance = variance * taken(own, data.order[block.rows])
        variance = variance + of_columns + follows * xp.matmul(following, second)
        variance = variance * unknown.wider
        size = xp.sqrt(xp.where(variance > 0, variance, 0 * variance)) * unit
        seen = weights > 0
        given = taken(X, data.order[block.rows])
        filled[block.rows, :] = xp.where(seen, given, cast(low * unit + mean, X.dtype))
        std[block.rows, :] = cast(xp.where(seen, 0 * size, size), X.dtype)
    return combined.outside(whole, rows, data.in_order(filled), data.in_order(std))


def errors_left_out(posterior: HolesPosterior, X: Array) -> FloatArray:
    """Errors of the cells that are there, each predicted without itself; NaN in holes; on the host.

    The error of a cell is that of the fit over (1 − g)(1 − h), with the cell's leverages
    g = ωbᵀΣb/σ² in the scores of its row and h = ωãᵀCã/σ² in the loadings of its column, both in
    units of the row's noise; ω is the weight of the cell.
    """
    posterior, X = combined.inside(posterior, on_host(X))
    columns, data = posterior.columns, weighed_rows(posterior, X)
    k, (i, j) = columns.rank, np.triu_indices(columns.rank + 1)
    twice, inside = np.where(i == j, 1.0, 2.0), j < k
    of_b = (columns.b[:, i] * columns.b[:, j] * twice)[:, inside].T
    of_a = (columns.b_cov[:, i, j] * twice).T
    own = np.broadcast_to(variance_of_rows(posterior, X), (len(X), 1))
    a, cov = latent(data, columns)
    errors = np.empty(X.shape)
    for block in device_blocks(data, k):
        order, ones = data.order[block.rows], with_ones(a[block.rows])
        weights = block.mask[block.pattern] / columns.noise_variance
        g = weights * (packed(cov[block.which]) @ of_b)[block.pattern]
        h = weights * ((ones[:, i] * ones[:, j]) @ of_a) / own[order]
        left = X[order] - (ones @ columns.b.T * data.unit + data.location)
        errors[order] = left / (np.maximum(1 - g, LEAST_LEFT) * np.maximum(1 - h, LEAST_LEFT))
    return errors


def log_odds_of_filler(posterior: HolesPosterior, filler: HolesPosterior, X: Array) -> FloatArray:
    """½N log S₁/S₂ of each row, with the squares of its N errors left out under the posterior, and
    under the filler: the log Bayes factor of normal errors whose scale is the row's own.

    Errors are in units of the columns' standard deviations, as the filler knows them.
    """
    filler, rows = combined.inside(filler, on_host(X))
    unit = np.sqrt(np.diagonal(on_host(covariance(filler))))
    unit = np.where(unit > 0, unit, np.inf)
    squares = [
        np.nansum((errors_left_out(one, rows) / unit) ** 2, axis=1)
        for one in (combined.independent(posterior), filler)
    ]
    own, other = (np.log(np.maximum(one, np.finfo(np.float64).tiny)) for one in squares)
    return np.asarray(0.5 * np.count_nonzero(~np.isnan(rows), axis=1) * (own - other))


def share_of_filler(log_odds: FloatArray) -> float:
    """The most likely share of rows for which the filler's components hold."""

    def loss(share: float) -> float:
        return -float(np.logaddexp(np.log1p(-share), np.log(share) + log_odds).sum())

    found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded")
    return float(found.x)


def _chance_of_filler(posterior: HolesPosterior, filler: HolesPosterior, X: Array) -> Array:
    """Probability that the filler's components hold, for each row: (n, 1), where the rows are."""
    share = posterior.share_of_filler
    logits = log_odds_of_filler(posterior, filler, X) + np.log(share) - np.log1p(-share)
    return at(X, expit(logits)[:, None])


@on_host_for_cells
def sample_imputation(
    posterior: HolesPosterior,
    X: Array,
    rng: np.random.Generator,
    *,
    of_columns: np.random.Generator | None = None,
    unknown: Unknown | None = None,
) -> Array:
    """X with its holes filled by one draw of scores, loadings, means and noise.

    Loadings and means are drawn with `of_columns` if it is given, so that other rows can get the
    same ones. With `unknown` they have its covariances, scores follow the drawn loadings, and the
    noise variance is drawn as well, so that draws spread as the standard deviations of `impute`.
    With a `filler`, each row is drawn from one of the two.
    """
    if posterior.filler is not None:
        alone = replace(posterior, filler=None)
        drawn = sample_imputation(alone, X, rng, of_columns=of_columns, unknown=unknown)
        w = to_numpy(_chance_of_filler(posterior, posterior.filler, X))
        moved = impute(posterior.filler, X)[0] - impute(alone, X)[0]
        return drawn + cast(at(X, (rng.random(w.shape) < w) * 1.0), X.dtype) * moved
    whole, rows = posterior, X
    posterior, X = combined.inside(posterior, X)
    xp, columns = array_namespace(X), posterior.columns
    data = weighed_rows(posterior, X)
    own: Array | float = 1.0
    if posterior.tails.are_heavy:
        own = at(X, posterior.tails.draws_given(*squares_of_rows(posterior, X), rng))[:, None]
    normals = own * at(X, rng.normal(size=(len(data.order), columns.rank)))
    a = latent_draws(data, columns, taken(normals, data.order))
    shared, size = of_columns or rng, 1.0
    C = columns.b_cov if unknown is None else unknown.covariances
    of_b = normal_vectors(C, shared, np.arange(len(C)))
    if unknown is not None:
        # A draw of σ over its estimate.
        if np.isfinite(unknown.degrees):
            size = float(np.sqrt(unknown.degrees / shared.chisquare(unknown.degrees)))
        mean, cov = latent(data, columns)
        a = mean + size * (a - mean + _following(data, columns, mean, cov, of_b))
    of_cells = posterior.cell_tails.draws(math.prod(X.shape), rng).reshape(tuple(X.shape))
    noise = size * rng.normal(size=tuple(X.shape)) * np.sqrt(columns.noise_variance) * of_cells
    b = at(X, (columns.b + size * of_b).T)
    drawn = xp.matmul(with_ones(data.in_order(a)), b) + own * at(X, noise)
    drawn = drawn * at(X, unit_of_columns(posterior)) + at(X, posterior.mean)
    drawn = xp.where(xp.isnan(X), cast(drawn, X.dtype), X)
    return combined.outside(whole, rows, drawn)[0]


def _following(data: Holes, columns: Columns, a: Array, cov: Array, of_b: FloatArray) -> Array:
    """First-order change of scores with loadings: Λ⁻¹Σⱼ(rⱼδbⱼ − bⱼ(ãᵀδb̃ⱼ)), rⱼ the residuals of
    the cells; (n, k), in the order of the data's rows. Scores have the means `a` and covariances
    σ²Λ⁻¹.
    """
    k, xp = columns.rank, array_namespace(a)
    found = xp.zeros_like(a)
    b, moved = at(a, columns.b), at(a, of_b)
    for block in device_blocks(data, k):
        ones, weights = with_ones(a[block.rows, :]), taken(block.mask, block.pattern)
        left = block.values - weights * xp.matmul(ones, b.T)
        change = weights * xp.matmul(ones, moved.T)
        pull = xp.matmul(left, moved[:, :k]) - xp.matmul(change, b[:, :k])
        gain = taken(cov[block.which, :, :], block.pattern) / columns.noise_variance
        found[block.rows, :] = times_each(gain, pull)
    return found


def by_others(posterior: HolesPosterior, X: FloatArray) -> FloatArray:
    """E(xᵢⱼ | the other observed cells of row i), less the column's mean and over its scale.

    Rows are Bt + noise with t ~ N(0, I) and noise variances ψ. With G = I + BᵀΨ⁻¹B over observed
    cells and the leverage hⱼ = bⱼᵀG⁻¹bⱼ/ψⱼ, an observed cell xⱼ has contributed to its own
    prediction x̂ⱼ; without that contribution the prediction is (x̂ⱼ − hⱼxⱼ)/(1 − hⱼ).
    """
    B = on_host(posterior.components).T @ posterior.basis * np.sqrt(posterior.latent_variance)
    psi = predictive_noise(posterior)
    Z = (X - on_host(posterior.mean)) / on_host(posterior.scale)
    step = max(1, AT_ONCE // max(1, B.size))
    found = np.empty_like(Z)
    for rows in (slice(i, i + step) for i in range(0, len(Z), step)):
        seen = ~np.isnan(Z[rows])
        x = np.where(seen, Z[rows], 0.0)
        weights = seen / psi
        G = np.eye(B.shape[1]) + (weights[:, None, :] * B.T) @ B
        H = np.linalg.solve(G, np.broadcast_to(B.T, (len(G), *B.T.shape))).swapaxes(1, 2)
        means = np.einsum("ijk,ik->ij", H, (weights * x) @ B)
        leverage = np.where(seen, np.einsum("ijk,jk->ij", H, B) / psi, 0.0)
        found[rows] = (means - leverage * x) / (1 - leverage)
    return found
