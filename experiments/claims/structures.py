"""Data of known rank that differ from what a PCA assumes, and real tables drawn again.

`sample` draws one of the kinds: scores that are not normal, noise that is skewed, correlated or
multiplied, few rows, counts, shares, answers to questions, spectra. Most have 200 rows, 30 columns
and 3 components.

`Factors` are those of a real table by maximum likelihood. New data of them have a known rank and
the loadings and variances of columns that occur in practice, where a weak component may belong to
few columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Data, and their number of components.
Sample = tuple[np.ndarray, int]
# The rows of a real table that is drawn again: normal scores and noise; t₆ noise of rows; the
# table's own scores; the table's own scores and residuals.
ROWS = ("equal", "heavy", "clusters", "residuals")
# The least share of noise in a column: maximum likelihood may find none.
LEAST_NOISE = 0.08


def parts(
    rng: np.random.Generator, n: int = 200, p: int = 30, k: int = 3, size: float = 0.6
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, loadings and white noise."""
    scores, loadings = rng.standard_normal((n, k)), size * rng.standard_normal((k, p))
    return scores, loadings, rng.standard_normal((n, p))


# --- scores ------------------------------------------------------------------------------------


def white(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    return z @ w + e, 3


def heavy_scores(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    return (rng.standard_t(3, z.shape) / np.sqrt(3)) @ w + e, 3


def clusters(rng: np.random.Generator) -> Sample:
    """Four groups of rows at the corners of a tetrahedron."""
    _, w, e = parts(rng)
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return corners[rng.integers(4, size=200)] @ w + e, 3


def small_cluster(rng: np.random.Generator) -> Sample:
    """The third component is that of eight rows."""
    z, w, e = parts(rng)
    z[:, 2] = 0
    z[:8, 2] = 5
    return z @ w + e, 3


# --- noise -------------------------------------------------------------------------------------


def skewed_noise(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    e = np.exp(rng.standard_normal(e.shape))
    return z @ w + (e - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e), 3


def multiplicative(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    return (6 + z @ w) * (1 + 0.25 * e), 3


def rounded(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    return np.round(z @ w + 0.4 * e), 3


def zero_inflated(rng: np.random.Generator) -> Sample:
    """Three cells of ten are zero."""
    z, w, e = parts(rng)
    return np.where(rng.random(e.shape) < 0.3, 0, 4 + z @ w + e), 3


def one_noisy_column(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng)
    e[:, 0] *= 5
    return z @ w + e, 3


def sparse_loadings(rng: np.random.Generator) -> Sample:
    """Each component is that of five columns."""
    w = np.zeros((3, 30))
    for row in w:
        row[rng.choice(30, 5, replace=False)] = 1.0
    return rng.standard_normal((200, 3)) @ w + rng.standard_normal((200, 30)), 3


def equicorrelated(rng: np.random.Generator) -> Sample:
    z, e = rng.standard_normal((200, 1)), rng.standard_normal((200, 30))
    return np.sqrt(0.3) * z + np.sqrt(0.7) * e, 1


def correlated_rows(rng: np.random.Generator) -> Sample:
    """The noise of each row is correlated with that of the row before."""
    z, w, e = parts(rng)
    for i in range(1, 200):
        e[i] = 0.8 * e[i - 1] + 0.6 * e[i]
    return z @ w + e, 3


# --- rows --------------------------------------------------------------------------------------


def rows_twice(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng, n=100)
    return np.vstack([z @ w + e] * 2), 3


def batches(rng: np.random.Generator) -> Sample:
    """Every second row has twice the noise and a shift, which is the fourth component."""
    z, w, e = parts(rng)
    second = (np.arange(200) % 2)[:, None]
    return z @ w + e * (1 + second) + second * rng.standard_normal(30), 4


def twenty_rows(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng, 20, 10, 2, 1.0)
    return z @ w + e, 2


def fifty_rows(rng: np.random.Generator) -> Sample:
    z, w, e = parts(rng, 50, 20, 3, 0.8)
    return z @ w + e * np.exp(0.5 * rng.standard_normal(20)), 3


def many_genes(rng: np.random.Generator) -> Sample:
    """60×1000, with strengths of 2, 3, 5 and 8 times the detection limit."""
    n, p = 60, 1000
    frame = np.linalg.qr(rng.standard_normal((p, 4)))[0]
    size = np.sqrt(np.array([2, 3, 5, 8]) * np.sqrt(p / n))
    noise = np.exp(0.5 * rng.standard_normal(p))
    scores = rng.standard_normal((n, 4)) * size
    return (scores @ frame.T + rng.standard_normal((n, p))) * noise, 4


# --- counts, shares, answers, spectra ----------------------------------------------------------


def counts_log(rng: np.random.Generator) -> Sample:
    """Negative binomial counts with library sizes, as log(1 + counts per median size)."""
    n, p = 60, 500
    log_mean = (
        rng.normal(2, 1, p)
        + 0.25 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
        + 0.3 * rng.standard_normal((n, 1))
    )
    drawn = rng.poisson(np.exp(log_mean) * rng.gamma(10, 0.1, (n, p)))
    sizes = drawn.sum(axis=1, keepdims=True)
    return np.log1p(drawn / sizes * np.median(sizes)), 3


def rows_sum_to_100(rng: np.random.Generator) -> Sample:
    """Log-normal parts in per cent of their sum."""
    z, w, e = parts(rng, 200, 12)
    amounts = np.exp(1 + z @ w + 0.3 * e)
    return 100 * amounts / amounts.sum(axis=1, keepdims=True), 3


def questionnaire(rng: np.random.Generator) -> Sample:
    """Fifteen items on scales from 1 to 5, five for each factor."""
    w = 0.7 * np.kron(np.eye(3), np.ones(5))
    y = rng.standard_normal((300, 3)) @ w + np.sqrt(0.51) * rng.standard_normal((300, 15))
    return (y[:, :, None] > np.array([-1.5, -0.5, 0.5, 1.5])).sum(axis=2) + 1.0, 3


def bands() -> tuple[np.ndarray, np.ndarray]:
    """80 channels, and three peaks over them."""
    x = np.arange(80)
    return x, np.array([np.exp(-0.5 * ((x - c) / 6) ** 2) for c in (20, 38, 60)])


def peaks(rng: np.random.Generator) -> Sample:
    _, shapes = bands()
    return rng.gamma(2, 1, (150, 3)) @ shapes + 0.15 * rng.standard_normal((150, 80)), 3


def peaks_smooth_noise(rng: np.random.Generator) -> Sample:
    """Noise smoother than any autoregression of order one."""
    x, shapes = bands()
    root = np.linalg.cholesky(np.exp(-0.5 * ((x[:, None] - x) / 2.0) ** 2) + 1e-6 * np.eye(80))
    return rng.gamma(2, 1, (150, 3)) @ shapes + 0.15 * rng.standard_normal((150, 80)) @ root.T, 3


def no_signal_skewed(rng: np.random.Generator) -> Sample:
    return rng.gamma(1, 1, (200, 30)) * np.exp(rng.standard_normal(30)), 0


def no_signal_heavy(rng: np.random.Generator) -> Sample:
    return rng.standard_t(3, (100, 20)), 0


MAKERS: tuple[Callable[[np.random.Generator], Sample], ...] = (
    *(white, heavy_scores, clusters, small_cluster, skewed_noise, multiplicative, rounded),
    *(zero_inflated, one_noisy_column, sparse_loadings, equicorrelated, correlated_rows),
    *(rows_twice, batches, twenty_rows, fifty_rows, many_genes, counts_log, rows_sum_to_100),
    *(questionnaire, peaks, peaks_smooth_noise, no_signal_skewed, no_signal_heavy),
)
KINDS = tuple(make.__name__.replace("_", "-") for make in MAKERS)


def sample(kind: str, seed: int) -> Sample:
    """Data of a kind, and their number of components."""
    number = KINDS.index(kind)
    return MAKERS[number](np.random.default_rng((seed, number)))


# --- real tables drawn again -------------------------------------------------------------------


@dataclass(frozen=True)
class Factors:
    """Factors of a table by maximum likelihood, in units of its columns' standard deviations.

    `scores` have variance 1 and no correlations; `residuals` have mean 0 and variance 1 in each
    column, of which the model has `noise`.
    """

    loadings: np.ndarray
    noise: np.ndarray
    scores: np.ndarray
    residuals: np.ndarray
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, table: np.ndarray, k: int) -> Factors:
        from sklearn.decomposition import FactorAnalysis

        mean, std = table.mean(axis=0), table.std(axis=0)
        z = (table - mean) / std
        model = FactorAnalysis(k, tol=1e-6, max_iter=3000, svd_method="lapack").fit(z)
        scores = model.transform(z)
        left = z - scores @ model.components_
        scores = scores - scores.mean(axis=0)
        precision = np.linalg.inv(np.cov(scores.T, ddof=0).reshape(k, k))
        return cls(
            model.components_,
            np.maximum(model.noise_variance_, LEAST_NOISE),
            scores @ np.linalg.cholesky(precision),
            (left - left.mean(axis=0)) / left.std(axis=0),
            *(mean, std),
        )

    @property
    def strengths(self) -> np.ndarray:
        """Variances of the components over those of the noise, over the detection limit √(p/n)."""
        n, p = self.residuals.shape
        white = self.loadings / np.sqrt(self.noise)
        return np.linalg.eigvalsh(white @ white.T)[::-1] / np.sqrt(p / n)

    def drawn(self, rows: str, seed: int) -> Sample:
        """As many new rows as the table has, of one of `ROWS`."""
        (n, p), k = self.residuals.shape, len(self.loadings)
        rng = np.random.default_rng((seed, k))
        if rows in ("clusters", "residuals"):
            z = self.scores[rng.integers(n, size=n)]
        else:
            z = rng.standard_normal((n, k))
        if rows == "residuals":
            e = np.array([rng.permutation(column) for column in self.residuals.T]).T
        else:
            e = rng.standard_normal((n, p))
        if rows == "heavy":
            e = e * np.sqrt(2 / 3 / rng.gamma(3, 1 / 3, (n, 1)))
        X = (z @ self.loadings + e * np.sqrt(self.noise)) * self.std + self.mean
        return X, int((self.strengths > 1).sum())
