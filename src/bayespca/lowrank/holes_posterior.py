"""The posterior of a PCA for rows with holes: scores, projections, densities and draws.

Every function takes rows with NaN for holes; complete rows are a special case. Names and meanings
are those of `posterior`. Rows may be NumPy arrays or live on the device of another library: results
for rows are then computed there, and stay there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from bayespca.arrays.checks import check_sizes
from bayespca.arrays.namespaces import (
    array_namespace,
    cast,
    numpy_dtype,
    on_host,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.packing import packed, pseudo_inverses, times_each, unpacked, with_ones
from bayespca.arrays.places import at, taken
from bayespca.arrays.types import (
    Array,
    ArrayMatrix,
    ArrayVector,
    Counts,
    FloatArray,
    Matrix,
    Vector,
)
from bayespca.sources.redundant import Combinations
from bayespca.spectrum.tolerances import LOG_2PI, UNDETERMINED

from . import combined
from .axes import SMALLEST, NewRows, more_variance
from .cell_weights import bounds, on_host_for_cells, weighed
from .density import low_rank_normal
from .holes import Block, Holes
from .observing import new_rows
from .recognising import chance_to_be_new, digests
from .rows import Columns, device_blocks, latent, latent_means, misfits_of_rows
from .scales import NORMAL, Tails


@dataclass(frozen=True, eq=False)
class HolesPosterior:
    """Posterior of a PCA with k components in p features.

    Attributes
    ----------
    columns
        Posterior of B and μ, prior of A, noise, for data less `mean`, over `scale` and `unit`.
    mean, scale
        Posterior means of the columns, and divisors of the columns (ones unless scaled); (p,).
    unit
        Divisor of scaled data that makes their size about 1.
    components
        Orthonormal directions for scaled data: (k, p).
    basis
        Scores along them are `basis`·a: (k, k).
    latent_variance
        Variance of a before its row is seen: (k,).
    tails
        Tails of rows that have noise of their own, and scores in units of it.
    cell_tails
        Tails of cells that have noise of their own.
    learned_from
        Digests of the rows that B was learned from, where rows have noise of their own.
    combined
        Columns that follow from others; their loadings are 0.
    filler, share_of_filler
        A posterior of the same data with noise of columns alone, whose components are those of all
        rows, not of the quiet ones; and the share of rows for which they hold. See `imputing`.

    `mean`, `scale` and `components` live where the data did; all others are NumPy arrays.
    """

    columns: Columns
    mean: ArrayVector
    scale: ArrayVector
    unit: float
    components: ArrayMatrix
    basis: Matrix
    latent_variance: Vector
    tails: Tails = NORMAL
    cell_tails: Tails = NORMAL
    learned_from: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    combined: Combinations | None = None
    filler: HolesPosterior | None = None
    share_of_filler: float = 0.0

    @property
    def noise_variance(self) -> float:
        """σ², of scaled data."""
        return self.columns.noise_variance * self.unit**2

    @property
    def directions(self) -> Array:
        """Changes of the features with each score: the components, as holes allow no filter."""
        return combined.directions(self, combined.independent(self).components)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        k, p = self.components.shape
        agree = self.mean.shape == self.scale.shape == (p,)
        agree &= self.latent_variance.shape == (k,) and self.basis.shape == (k, k)
        check_sizes("a HolesPosterior", agree and self.columns.b.shape == (p, k + 1))
        if not 0 < self.unit < np.sqrt(np.finfo(np.float64).max):
            raise ValueError(
                "the unit of a HolesPosterior is not positive, or its square overflows"
            )
        if not (np.isfinite(self.basis).all() and (self.latent_variance >= 0).all()):
            raise ValueError(
                "the basis of a HolesPosterior is not finite, or a latent variance is negative"
            )


def from_columns(
    columns: Columns,
    *,
    location: FloatArray,
    scale: FloatArray,
    unit: float,
    like: Array = None,
) -> HolesPosterior:
    """The posterior record of a fit: B = WᵀSQᵀ, so that scores t = SQᵀa have directions W.

    With `like`, arrays that live where the data did get the device and the dtype of that array.
    """
    H = columns.rank
    U, S, Qt = np.linalg.svd(columns.b[:, :H], full_matrices=False)
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(H)]) if H else np.ones(0)
    signs = np.where(signs == 0, 1.0, signs)
    mean = location + columns.b[:, H] * unit * scale
    centred = columns.b.copy()
    centred[:, H] = 0.0
    like = np.empty(0) if like is None else like
    return HolesPosterior(
        replace(columns, b=centred),
        to_namespace(mean, like),
        to_namespace(scale, like),
        unit,
        to_namespace((U * signs).T, like),
        (S * signs)[:, None] * Qt * unit,
        columns.prior_a,
    )


# --- places and types --------------------------------------------------------------------------


def _typed(posterior: HolesPosterior, values: Array) -> Array:
    """Values in the dtype of the training data."""
    name = numpy_dtype(posterior.components.dtype).name
    return cast(values, getattr(array_namespace(values), name))


def _placed(posterior: HolesPosterior, values: FloatArray) -> Array:
    """Values that were computed on the host, moved to where the components are."""
    return to_namespace(values, posterior.components)


def unit_of_columns(posterior: HolesPosterior) -> FloatArray:
    """Divisors of the columns."""
    return posterior.unit * on_host(posterior.scale)


def _rows(posterior: HolesPosterior, X: Array) -> Holes:
    """New rows in the units of the posterior."""
    return new_rows(X, location=on_host(posterior.mean), unit=unit_of_columns(posterior))


def weighed_rows(posterior: HolesPosterior, X: Array) -> Holes:
    """`_rows` with weights of cells, where cells have noise of their own."""
    data = _rows(posterior, X)
    if not posterior.cell_tails.are_heavy:
        return data
    return weighed(data, posterior.columns, posterior.cell_tails)


def _distances(posterior: HolesPosterior, X: Array) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Squared distance of each row from the mean, its log|2πC| and its number of cells, for a row
    variance u of 1; on the host, in the order of the rows.
    """
    data, B = _rows(posterior, X), _weights(posterior)
    normal = low_rank_normal(B, _noise_at_unit_scale(posterior), scale=data.unit, like=data.values)
    parts = [
        normal.distances(block.values, block.mask, block.starts)
        for block in device_blocks(data, B.shape[1])
    ]
    distance, logs = (np.concatenate([to_numpy(part[i]) for part in parts]) for i in range(2))
    order = np.argsort(data.order)
    return distance[order], logs[order], data.row_counts[order]


def variance_of_rows(posterior: HolesPosterior, X: Array) -> Array | float:
    """⟨u⟩ of each row: (n, 1), where the rows are."""
    if not posterior.tails.are_heavy:
        return 1.0
    return at(X, posterior.tails.spread_given(*squares_of_rows(posterior, X)))[:, None]


def squares_of_rows(posterior: HolesPosterior, X: Array) -> tuple[FloatArray, FloatArray]:
    """Squares that determine the noise of each row, and the number of its cells; (n,) both."""
    distance, _, counts = _distances(posterior, X)
    old = np.isin(digests(X), posterior.learned_from)
    if old.any():
        # Of rows that were learned from: Σ⟨(x − ãᵀb̃)²⟩/σ² + Σa²/cₐ².
        data = _rows(posterior, X)
        squares = misfits_of_rows(data, posterior.columns).squares
        distance = np.where(old, squares[np.argsort(data.order)], distance)
    return distance, counts


def _by_block(data: Holes, rank: int, work: Callable[[Block], Array]) -> Array:
    """Results of `work` for the rows of each block, in the order of X."""
    found = [work(block) for block in device_blocks(data, rank)]
    return data.in_order(array_namespace(data.values).concat(found, axis=0))


# --- scores ------------------------------------------------------------------------------------


@combined.of_independent
@on_host_for_cells
def scores(posterior: HolesPosterior, X: Array) -> Array:
    """Posterior mean of the scores, from observed cells."""
    data = weighed_rows(posterior, X)
    a = data.in_order(latent_means(data, posterior.columns))
    return _typed(posterior, array_namespace(a).matmul(a, at(a, posterior.basis.T)))


@combined.of_independent
@on_host_for_cells
def scores_and_std(
    posterior: HolesPosterior,
    X: Array,
    *,
    covariances: FloatArray | None = None,
    new_rows: NewRows | None = None,
) -> tuple[Array, Array]:
    """Scores, and their standard deviations: distances of the noise-free row from them, along the
    fitted components; see `posterior.scores_and_std`.

    With P = (Σⱼbⱼbⱼᵀ + σ²/⟨a²⟩)⁻¹ over the observed cells of a row, scores are a, those of a new
    row are PΣⱼbⱼxⱼ, and their covariance is σ²P. The part of a row outside the subspace of the
    components acts as noise on observed cells: o = (1 − BB⁺)e, where eⱼ has the variance ⟨ãᵀCⱼã⟩,
    moves scores by PΣⱼbⱼoⱼ. `covariances` replace the posterior's Cⱼ.
    """
    columns, data = posterior.columns, weighed_rows(posterior, X)
    a = latent_means(data, columns)
    xp, M = array_namespace(a), at(a, posterior.basis)
    T = data.in_order(xp.matmul(a, M.T))
    if not columns.integrated:
        own = np.einsum("hj,jh->h", on_host(posterior.components) ** 2, along_components(posterior))
        return _typed(posterior, T), _typed(posterior, xp.abs(T) * at(a, np.sqrt(own)))
    given = replace(
        columns,
        b_cov=np.zeros_like(columns.b_cov),
        prior_a=np.maximum(posterior.latent_variance, SMALLEST),
    )
    m, cov = latent(data, given)
    v = taken(xp.sum(xp.matmul(M, cov) * M, axis=-1), data.pattern)
    noise = variance_of_rows(posterior, X)
    v = data.in_order(v) * noise
    new = chance_to_be_new(X, posterior.learned_from)
    new = new if isinstance(new, float) else at(a, new)
    off = xp.matmul(m - a, M.T)
    more = off**2
    if new_rows is not None:
        of_noise = noise if isinstance(noise, float) else taken(noise, data.order)
        for block in device_blocks(data, columns.rank) if columns.rank else ():
            of_scores = xp.matmul(xp.matmul(M, cov[block.which, :, :]), M.T)
            more[block.rows, :] = more_variance(
                taken(of_scores, block.pattern),
                xp.matmul(m[block.rows, :], M.T),
                off[block.rows, :],
                new_rows,
                of_noise if isinstance(of_noise, float) else of_noise[block.rows, :],
            )
    C = columns.b_cov if covariances is None else covariances
    outside = _by_outside(data, posterior, m, cov, C)
    v = v + new * data.in_order(more) + data.in_order(outside)
    return _typed(posterior, T), _typed(posterior, xp.sqrt(xp.where(v > 0, v, 0 * v)))


def _by_outside(
    data: Holes, posterior: HolesPosterior, a: Array, cov: Array, C: FloatArray
) -> Array:
    """Variance of each score due to the part of a row outside the subspace of the components,

    Σⱼ ⟨ãᵀCⱼã⟩·(M P cⱼ)² with cⱼ = bⱼ[j is there] − (Σₛbₛbₛᵀ)(BᵀB)⁻¹bⱼ: (n, k), in the order of the
    data's rows. Scores have the means `a` and the covariances σ²P.
    """
    k, xp = posterior.columns.rank, array_namespace(a)
    b = posterior.columns.b[:, :k]
    i, j = np.triu_indices(k + 1)
    spread = C[:, i, j] * np.where(i == j, 1.0, 2.0)
    spread, inner = at(a, spread.T), at(a, spread[:, j < k].T)
    outer = at(a, packed(b[:, :, None] * b[:, None, :]))
    inverse = np.linalg.pinv(b) if k else b.T
    b, back, M = (at(a, each) for each in (b, inverse, posterior.basis))
    s2, found = posterior.columns.noise_variance, xp.zeros_like(a)
    for block in device_blocks(data, k) if k else ():
        gram = unpacked(xp.matmul(block.mask, outer), k)
        moved = block.mask[:, None, :] * b.T - xp.matmul(gram, back)
        of_pattern = cov[block.which, :, :]
        gains = xp.matmul(xp.matmul(M, of_pattern / s2), moved) ** 2
        ones = with_ones(a[block.rows, :])
        squares = xp.matmul(taken(ones, i, axis=1) * taken(ones, j, axis=1), spread)
        squares = squares + taken(xp.matmul(packed(of_pattern), inner), block.pattern)
        found[block.rows, :] = times_each(taken(gains, block.pattern), squares)
    return found


def latent_std(posterior: HolesPosterior) -> Array:
    """Standard deviation of each score over the training data; 1 for a score that is always 0."""
    d = latent_variance_of_scores(posterior)
    return _placed(posterior, np.sqrt(np.where(d > 0, d, 1.0)))


def latent_variance_of_scores(posterior: HolesPosterior) -> FloatArray:
    """Variance of each score before its row is seen."""
    return np.asarray((posterior.basis**2) @ posterior.latent_variance)


@combined.of_independent
def project(posterior: HolesPosterior, X: Array) -> Array:
    """Least-squares coordinates along the components, from observed cells.

    If the cells of a row do not determine a direction, the coordinate along it is 0.
    """
    data = _rows(posterior, X)
    W = on_host(posterior.components)
    k = len(W)
    components = at(data.values, W)
    outer = at(data.values, packed(W.T[:, :, None] * W.T[:, None, :]))
    xp = array_namespace(data.values)

    def work(block: Block) -> Array:
        inverse = pseudo_inverses(unpacked(xp.matmul(block.mask, outer), k), UNDETERMINED)
        inverse = taken(inverse, block.pattern)
        Z = block.values * posterior.unit
        T = times_each(inverse, xp.matmul(Z, components.T))
        # Squares of singular values have lost digits; a step from the residuals restores them.
        rest = (Z - xp.matmul(T, components)) * taken(block.mask, block.pattern)
        return T + times_each(inverse, xp.matmul(rest, components.T))

    if not k:
        return _typed(posterior, data.values[:, :0])
    return _typed(posterior, _by_block(data, k, work))


def reconstruct(posterior: HolesPosterior, T: Array) -> Array:
    """Rows that have the scores T: mean + scale·TW."""
    W, scale, mean = (at(T, a) for a in (posterior.directions, posterior.scale, posterior.mean))
    return _typed(posterior, array_namespace(T).matmul(at(T, T), W) * scale + mean)


def along_components(posterior: HolesPosterior) -> FloatArray:
    """Posterior variance of the entries of the directions: (p, k)."""
    k = posterior.components.shape[0]
    # With a given number of components, maximum likelihood may leave one at zero.
    back = np.linalg.pinv(posterior.basis / posterior.unit) if k else posterior.basis
    cov = posterior.columns.b_cov[:, :k, :k]
    # w = M⁻ᵀ b, because wᵀMa = bᵀa.
    return np.einsum("ih,jik,kh->jh", back, cov, back)


# --- the distribution of a new row -------------------------------------------------------------


def predictive_noise(posterior: HolesPosterior) -> FloatArray:
    """Noise variance of each scaled feature of a new row: σ² plus the uncertainty of B and μ."""
    return _noise_at_unit_scale(posterior) * posterior.unit**2


@combined.completes(combined.squares)
def covariance(posterior: HolesPosterior) -> Array:
    """Covariance of a new row: scale·(B diag(⟨a²⟩) Bᵀ + diag(ψ))·scale, times ⟨u⟩."""
    B, psi, unit = _weights(posterior), _noise_at_unit_scale(posterior), _unit_of_rows(posterior)
    inner = B @ B.T + np.diag(psi)
    return _placed(posterior, inner * unit[:, None] * unit)


@combined.completes(combined.bordered)
def precision(posterior: HolesPosterior) -> Array:
    """Inverse of `covariance`, by the matrix inversion lemma; see `posterior.precision`."""
    B, psi, unit = _weights(posterior), _noise_at_unit_scale(posterior), _unit_of_rows(posterior)
    small = np.eye(B.shape[1]) + (B.T / psi) @ B
    inner = np.diag(1 / psi) - (B / psi[:, None]) @ np.linalg.solve(small, B.T / psi)
    return _placed(posterior, inner / unit[:, None] / unit)


@combined.of_independent
@on_host_for_cells
def log_density(posterior: HolesPosterior, X: Array) -> Array:
    """Log density of the observed cells of each row, under the predictive Gaussian.

    Where rows have noise of their own it is that of Student's t. Where cells have, it is a bound,
    from scores and weights of cells that are fitted to each row.
    """
    if posterior.cell_tails.are_heavy:
        data = weighed_rows(posterior, X)
        found = bounds(data, posterior.columns, posterior.cell_tails)
        return _typed(posterior, data.in_order(found))
    if posterior.tails.are_heavy:
        distance, logs, counts = _distances(posterior, X)
        found = posterior.tails.log_density(distance, logs - counts * LOG_2PI, counts)
        return _typed(posterior, at(X, found))
    data, B = _rows(posterior, X), _weights(posterior)
    normal = low_rank_normal(B, _noise_at_unit_scale(posterior), scale=data.unit, like=data.values)

    def work(block: Block) -> Array:
        return normal.log_densities(block.values, block.mask, block.starts)

    return _typed(posterior, _by_block(data, B.shape[1], work))


@combined.completes(combined.rows)
def sample(posterior: HolesPosterior, n: int, rng: np.random.Generator) -> Array:
    """Draw n new rows from the Gaussian with the predictive mean and covariance, or from Student's
    t where rows or cells have noise of their own.
    """
    B, k = _weights(posterior), posterior.components.shape[0]
    psi = _noise_at_unit_scale(replace(posterior, cell_tails=NORMAL))
    draws = rng.normal(size=(n, k + B.shape[0]))
    of_cells = posterior.cell_tails.draws(draws[:, k:].size, rng).reshape(n, -1)
    inner = draws[:, :k] @ B.T + draws[:, k:] * np.sqrt(psi) * of_cells
    inner *= posterior.tails.draws(n, rng)[:, None]
    return _placed(posterior, inner * unit_of_columns(posterior) + on_host(posterior.mean))


def _weights(posterior: HolesPosterior) -> FloatArray:
    """B·diag(⟨a²⟩)^½, at unit scale."""
    return posterior.columns.b[:, :-1] * np.sqrt(posterior.latent_variance)


def _noise_at_unit_scale(posterior: HolesPosterior) -> FloatArray:
    cov = posterior.columns.b_cov
    k = posterior.components.shape[0]
    spread = np.einsum("jhh,h->j", cov[:, :k, :k], posterior.latent_variance) + cov[:, k, k]
    return np.asarray(posterior.columns.noise_variance * posterior.cell_tails.spread + spread)


def _unit_of_rows(posterior: HolesPosterior) -> FloatArray:
    """Divisors of the columns of a new row, times √⟨u⟩ where rows have noise of their own."""
    return unit_of_columns(posterior) * np.sqrt(posterior.tails.spread)
