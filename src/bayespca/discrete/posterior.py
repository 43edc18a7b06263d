"""Results of a fitted PCA of natural parameters: scores, cells, densities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from bayespca.arrays.checks import check_covariances, check_moments, check_sizes
from bayespca.arrays.packing import are_covariances, packed, triangle, unpacked
from bayespca.arrays.types import FloatArray, Matrices, Matrix, Vector

from .cells import moments, regressors, sites
from .data import Sites, TableCells, row_blocks
from .gibbs import posterior as drawing
from .gibbs.posterior import NaturalDraws
from .likelihoods.bernoulli import averages
from .normals import Normals
from .step import improved_rows

# Most steps for new rows, and the relative fall of a row's free energy below which they end.
MOST_STEPS, SETTLED = 200, 1e-7


@dataclass(frozen=True, eq=False)
class NaturalPosterior:
    """Posterior of low-rank natural parameters with k components in p columns of the matrix.

    Attributes
    ----------
    b, b_cov
        Mean (p, k + 1) and covariance (p, k + 1, k + 1) of the rows of (B, μ).
    prior
        Prior variances of the scores a in the coordinates of B: (k,).
    components
        Orthonormal directions in the space of natural parameters: (k, p).
    basis
        Scores along them are `basis`·a: (k, k).
    latent_variance
        Mean ⟨a²⟩ over the training rows: (k,).
    draws
        Draws from the posterior, over which results for rows are averaged; None if there are none.
    """

    b: Matrix
    b_cov: Matrices
    prior: Vector
    components: Matrix
    basis: Matrix
    latent_variance: Vector
    draws: NaturalDraws | None = field(default=None, kw_only=True)

    @property
    def columns(self) -> Normals:
        return Normals(self.b, packed(self.b_cov), np.zeros(len(self.b)))

    def check(self) -> None:
        """Raise ValueError unless the parts fit together and scores can be solved for."""
        k, p = self.components.shape
        agree = self.b.shape == (p, k + 1) and self.b_cov.shape == (p, k + 1, k + 1)
        agree &= self.prior.shape == self.latent_variance.shape == (k,)
        what = f"a {type(self).__name__}"
        check_sizes(what, agree and self.basis.shape == (k, k))
        moments = (self.b, self.b_cov, self.basis, self.prior)
        positive = bool((self.prior > 0).all() and (self.latent_variance >= 0).all())
        check_moments(what, *moments, positive=positive)
        check_covariances(what, are_covariances(self.b_cov))
        if self.draws is not None:
            self.draws.check()
            check_sizes(what, self.draws.b.shape[2] == p)


@dataclass(frozen=True, eq=False)
class BinaryPosterior(NaturalPosterior):
    """Posterior of a binary PCA: natural parameters are logits."""


@dataclass(frozen=True, eq=False)
class TablePosterior(NaturalPosterior):
    """Posterior of a generalized PCA.

    Attributes
    ----------
    b_spread
        Covariance (p, k + 1, k + 1) of the rows of (B, μ) with the scores integrated out, for
        intervals: `b_cov`, which takes the scores as independent, is too narrow.
    parameters
        Parameters of the likelihood of each group of columns.
    """

    b_spread: Matrices
    parameters: tuple[Matrix, ...]

    def check(self) -> None:
        super().check()
        widths = sum(len(some) for some in self.parameters)
        check_sizes("a TablePosterior", self.b_spread.shape == self.b_cov.shape)
        check_sizes("a TablePosterior", widths == len(self.b))
        check_covariances("a TablePosterior", are_covariances(self.b_spread))


def from_factors(rows: Normals, columns: Normals, prior: FloatArray) -> dict[str, Any]:
    """The parts of a `NaturalPosterior`: B = WᵀSQᵀ, so that scores t = SQᵀa have directions W."""
    H = prior.size
    U, S, Qt = np.linalg.svd(columns.mean[:, :H], full_matrices=False)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(H)] < 0, -1.0, 1.0)
    return dict(
        b=columns.mean,
        b_cov=columns.matrices,
        prior=prior,
        components=(U * signs).T,
        basis=(S * signs)[:, None] * Qt,
        latent_variance=rows.squares.mean(axis=0),
    )


def score_variance(posterior: NaturalPosterior) -> FloatArray:
    """Variance of each score over the training rows, including its uncertainty."""
    return np.asarray((posterior.basis**2) @ posterior.latent_variance)


# --- rows --------------------------------------------------------------------------------------


def scores(posterior: NaturalPosterior, data: TableCells) -> tuple[FloatArray, FloatArray]:
    """Posterior means of the scores of rows and their standard deviations: (n, k) each."""
    if posterior.draws is not None:
        components, center = posterior.components, posterior.b[:, -1]
        mean, variance = drawing.score_moments(posterior.draws, data, components, center)
        return mean, np.sqrt(variance)
    M = posterior.basis
    parts = [
        (found.rows.mean @ M.T, np.einsum("kh,nhl,kl->nk", M, _spread(posterior, found), M))
        for found in _by_block(posterior, data)
    ]
    means, variances = (np.concatenate(each) for each in zip(*parts, strict=True))
    return means, np.sqrt(variances)


def spread_of_columns(
    columns: Normals, blocks: Iterable[tuple[Normals, FloatArray]], prior: FloatArray
) -> FloatArray:
    """Covariances of the rows of (B, μ) with the scores integrated out: (p, k + 1, k + 1).

    As for scores (`_spread`), a cell measures ⟨ã⟩ᵀb̃ with variance 1/ω + bᵀcov(a)b. `blocks` are
    rows and the ω of their cells.
    """
    H = columns.mean.shape[1] - 1
    k, l = triangle(H)
    b = columns.mean[:, :H]
    outer_b, twice = (b[:, k] * b[:, l]).T, np.where(k == l, 1.0, 2.0)
    total = np.zeros((len(b), (H + 1) * (H + 2) // 2))
    for rows, omega in blocks:
        outer = Normals(rows.mean, np.zeros_like(rows.cov), rows.log_dets).second_with_one
        total += (omega / (1 + omega * ((rows.cov * twice) @ outer_b))).T @ outer
    return np.asarray(np.linalg.inv(unpacked(total, H + 1) + np.diag(1 / prior)))


def _spread(posterior: NaturalPosterior, found: _SettledRows) -> FloatArray:
    """Covariances of the scores of rows with the loadings integrated out: (n, k, k).

    A cell measures ⟨bⱼ⟩ᵀa with variance 1/ω + ãᵀcov(b̃ⱼ)ã. r(a), which takes the loadings as
    independent, counts their uncertainty as precision and is too narrow.
    """
    rows, omega, H = found.rows, found.sites.omega, posterior.prior.size
    k, l = triangle(H + 1)
    wide = np.concatenate([rows.mean, np.ones((len(rows.mean), 1))], axis=1)
    twice = packed(posterior.b_cov) * np.where(k == l, 1.0, 2.0)
    uncertain = (wide[:, k] * wide[:, l]) @ twice.T
    inside, b = l < H, posterior.b
    outer = b[:, k[inside]] * b[:, l[inside]]
    precision = unpacked((omega / (1 + omega * uncertain)) @ outer, H)
    return np.asarray(np.linalg.inv(precision + np.diag(1 / posterior.prior)))


def probabilities(posterior: NaturalPosterior, data: TableCells) -> FloatArray:
    """⟨σ(z)⟩ of each cell, given the observed cells of its row."""
    if posterior.draws is not None:
        return averages(*drawing.natural_moments(posterior.draws, data)).probability
    given = regressors(posterior.columns)

    def of_block(rows: Normals) -> FloatArray:
        return averages(*moments(rows, rows.second_with_one, given)).probability

    return np.concatenate([of_block(found.rows) for found in _by_block(posterior, data)])


def log_density(posterior: NaturalPosterior, data: TableCells) -> FloatArray:
    """A lower bound on log p(x) of the observed cells of each row: (n,)."""
    parts = [
        found.sites.log_likelihood.sum(axis=1) - found.rows.energies(posterior.prior)
        for found in _by_block(posterior, data)
    ]
    return np.concatenate(parts)


def natural_at_scores(posterior: NaturalPosterior, T: FloatArray) -> FloatArray:
    """T·W + μ: natural parameters of cells at given scores."""
    return np.asarray(T @ posterior.components + posterior.b[:, -1])


def at_scores(posterior: NaturalPosterior, T: FloatArray) -> FloatArray:
    """σ(T·W + μ): probabilities of cells at given scores."""
    z = natural_at_scores(posterior, T)
    return np.asarray(averages(z, np.zeros_like(z)).probability)


class Natural(NamedTuple):
    """Posterior mean and variance of z in each cell: (n, q) each."""

    mean: FloatArray
    variance: FloatArray


def natural(posterior: TablePosterior, data: TableCells) -> Natural:
    """Mean and variance of z in all cells of rows, given their observed cells."""
    if posterior.draws is not None:
        return Natural(*drawing.natural_moments(posterior.draws, data))
    H = posterior.prior.size
    k, l = triangle(H)
    b, twice = posterior.b[:, :H], np.where(k == l, 1.0, 2.0)
    outer = (b[:, k] * b[:, l]).T
    spread = regressors(Normals(0 * posterior.b, packed(posterior.b_spread), np.zeros(0)))
    parts = []
    for found in _by_block(posterior, data):
        a, cov = found.rows.mean, packed(_spread(posterior, found))
        rows = Normals(a, cov, np.zeros(len(a)))
        # ãᵀcov(b̃)ã + bᵀcov(a)b + tr(cov(a)cov(b))
        variance = rows.second_with_one @ spread.doubled + (cov * twice) @ outer
        parts.append((a @ b.T + posterior.b[:, H], variance))
    return Natural(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def drawn_natural(
    posterior: TablePosterior, data: TableCells, rng: np.random.Generator
) -> FloatArray:
    """A draw of z in all cells: a draw of the loadings, and of the scores of each row."""
    if posterior.draws is not None:
        return drawing.drawn_natural(posterior.draws, data, rng)
    b = _drawn(posterior.b, posterior.b_spread, rng)
    parts = [
        _drawn(found.rows.mean, _spread(posterior, found), rng)
        for found in _by_block(posterior, data)
    ]
    return np.asarray(np.concatenate(parts) @ b[:, :-1].T + b[:, -1])


def _drawn(mean: FloatArray, cov: FloatArray, rng: np.random.Generator) -> FloatArray:
    # Entries of variance 0, such as loadings of a factor that a view lacks, have no Cholesky root.
    certain = np.einsum("nhh->nh", cov) == 0
    known = cov + certain[:, :, None] * np.eye(cov.shape[1])
    roots = np.linalg.cholesky(known) if cov.size else cov
    draws = np.einsum("nhk,nk->nh", roots, rng.normal(size=mean.shape))
    return np.asarray(mean + np.where(certain, 0.0, draws))


class _SettledRows(NamedTuple):
    rows: Normals
    sites: Sites


def _by_block(posterior: NaturalPosterior, data: TableCells) -> Iterator[_SettledRows]:
    for rows in row_blocks(data):
        yield _settled(posterior, data.part(rows), data.shape[0])


def _settled(posterior: NaturalPosterior, cells: TableCells, n_in_all: int) -> _SettledRows:
    """The posterior of rows given that of columns, by descent from the prior."""
    given, prior, n = regressors(posterior.columns), posterior.prior, cells.shape[0]
    cov = np.repeat(packed(np.diag(prior))[None, :], n, axis=0)
    rows = Normals(np.zeros((n, prior.size)), cov, np.full(n, np.log(prior).sum()))
    found = sites(rows, rows.second_with_one, given, cells)
    energies = rows.energies(prior) - found.log_likelihood.sum(axis=1)
    # Each row stops on its own, so that its result does not depend on the rows beside it.
    going = np.arange(n)
    for _ in range(MOST_STEPS):
        some, _, like = improved_rows(
            *(rows[going], found.at(going), given, prior, cells.part(going)), n_in_all
        )
        rows = rows.but(going, some)
        found.put(going, like)
        new = some.energies(prior) - like.log_likelihood.sum(axis=1)
        fallen = energies[going] - new > SETTLED * (1 + np.abs(new))
        energies[going] = new
        going = going[fallen]
        if not going.size:
            break
    return _SettledRows(rows, found)
