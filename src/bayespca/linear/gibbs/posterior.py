"""Summaries of draws from the posterior of Bayesian PCA, of identified quantities only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import DOUBLE, DType, FloatArray, Matrix, Vector
from bayespca.inference.result import drawn
from bayespca.lowrank.variational import Hyper
from bayespca.spectrum import closed_form
from bayespca.spectrum.records import Advice, Status, samples
from bayespca.spectrum.tolerances import LOG_2PI, ROUNDING_OF_DEVIATIONS

from .fit import GibbsDraws
from .step import GibbsData

# Draws, or rows, in a block.
BLOCK = 256
# Advice is given if the mean of the data is this many standard deviations of its prior away, or if
# the prior of the noise adds this share to the sum of squares.
FAR_MEAN, LARGE_NOISE_PRIOR = 3.0, 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class GibbsFit:
    """The record of a fit: draws, and their summary by identified quantities, in the dtype of the
    data; k components, d features.

    `components` are the leading eigenvectors of the posterior mean of WWᵀ, `components_std` the
    root mean square distance of the draws' principal axes from them, entry by entry.
    `signal_variance` are the eigenvalues of WWᵀ, `explained_variance` is the variance of the data
    along the components, and `explained_variance_ratio` its share of the total. `r_hat` and `ess`
    are ArviZ's, None without it; `status` has advice on the prior and on chains.
    """

    draws: GibbsDraws
    components: Matrix
    components_std: Matrix
    rank_posterior: Vector
    noise_variance: float
    noise_variance_std: float
    signal_variance: Vector
    signal_variance_std: Vector
    mean: Vector
    mean_std: Vector
    explained_variance: Vector
    explained_variance_ratio: Vector
    n_samples: int
    r_hat: dict[str, float | Vector] | None = None
    ess: dict[str, float | Vector] | None = None
    status: Status = field(default_factory=Status)

    @property
    def outcome(self) -> Status:
        """The status, with the number of draws."""
        return drawn(self.status, self.draws.size)

    @property
    def n_components(self) -> int:
        return len(self.components)

    @property
    def n_features(self) -> int:
        return int(self.components.shape[1])

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        (k, p), of_features = self.components.shape, {self.mean.shape, self.mean_std.shape}
        of_components = (
            *(self.signal_variance, self.signal_variance_std),
            *(self.explained_variance, self.explained_variance_ratio),
        )
        agree = self.components_std.shape == (k, p) and of_features == {(p,)}
        if not agree or {a.shape for a in of_components} != {(k,)}:
            raise ValueError(f"its arrays do not have the sizes for {k} components in {p} features")
        d, q = self.draws.W.shape[2:]
        if d != p or k > q or self.rank_posterior.shape != (q + 1,):
            raise ValueError("its draws do not match its components")


def report(
    draws: GibbsDraws, data: GibbsData, dtype: DType = DOUBLE
) -> tuple[GibbsFit, dict[str, FloatArray]]:
    """The summary of the draws, and the quantities whose mixing is to be checked."""
    values, axes = principal_axes(draws.W)
    noise = 1 / draws.tau
    counts = np.count_nonzero(
        values > detectable(data.n, data.d) * noise[..., None], axis=-1
    ).ravel()
    probabilities = np.bincount(counts, minlength=values.shape[-1] + 1) / draws.size
    k = int(np.argmax(probabilities))
    components = reference(draws, k)
    near = matched(axes[..., :k, :], components)
    distance = near - components
    mean = draws.mu.mean(axis=(0, 1))
    projected = data.centred @ components.T
    unit = data.unit**2 / samples(data.n, True)
    variance = np.einsum("nk,nk->k", projected, projected) * unit
    total = float(np.vdot(data.centred, data.centred)) * unit
    of_data = {
        "components": components,
        "components_std": np.sqrt(np.mean(distance * distance, axis=(0, 1))),
        "signal_variance": values[..., :k].mean(axis=(0, 1)),
        "signal_variance_std": values[..., :k].std(axis=(0, 1)),
        "mean": mean,
        "mean_std": draws.mu.std(axis=(0, 1)),
        "explained_variance": variance,
        "explained_variance_ratio": variance / (total or 1.0),
    }
    found = GibbsFit(
        **{name: array.astype(dtype) for name, array in of_data.items()},
        draws=draws,
        noise_variance=float(noise.mean()),
        noise_variance_std=float(noise.std()),
        rank_posterior=probabilities,
        n_samples=data.n,
    )
    return found, {
        "noise_variance": noise,
        "signal_variance": values[..., :k],
        "total_signal_variance": values.sum(axis=-1),
        "mean": (draws.mu - mean) @ components.T,
        "log_joint": draws.log_joint,
    }


def detectable(n: int, d: int) -> float:
    """The signal-to-noise ratio λ/σ² above which a component counts: κ√(d/(n − 1)).

    κ ≈ 2.5 is that of aistats2014 Proposition 1. For a component of variance λ in many samples and
    features the observed strength is x = (1 + λ/σ²)(n − 1 + dσ²/λ) (Baik and Silverstein 2006), if
    λ/σ² > √(d/(n − 1)); this λ is the one whose x is EVB's threshold, so that a component counts
    here where EVB would keep it.
    """
    M = samples(n, True)
    return closed_form.evb_kappa(d, M) * float(np.sqrt(d / M))


def reference(draws: GibbsDraws, k: int) -> FloatArray:
    """The k leading eigenvectors of the posterior mean of WWᵀ, as rows."""
    second, d = signal_covariance(draws), draws.mu.shape[-1]
    if not k:
        return np.empty((0, d))
    vectors = eigh(second, subset_by_index=(d - k, d - 1))[1]
    signed: FloatArray = fixed_signs(np.ascontiguousarray(vectors[:, ::-1].T))
    return signed


def signal_variances(draws: GibbsDraws) -> FloatArray:
    """Eigenvalues of WWᵀ of each draw, descending: (chain, draw, q)."""
    return principal_axes(draws.W)[0]


def aligned_axes(draws: GibbsDraws, components: FloatArray) -> FloatArray:
    """Principal axes of each draw (chain, draw, k, d), with order and signs of `components`."""
    return matched(principal_axes(draws.W)[1][..., : len(components), :], components)


def aligned_loadings(
    draws: GibbsDraws, components: FloatArray, signal_variance: FloatArray
) -> FloatArray:
    """W of each draw, rotated onto the components: (chain, draw, d, k)."""
    return turned(draws.W, components.T * np.sqrt(signal_variance))


def signal_covariance(draws: GibbsDraws) -> FloatArray:
    """Posterior mean of WWᵀ."""
    total = np.zeros((draws.mu.shape[-1],) * 2)
    for W, _, _ in _blocks(draws):
        total += np.tensordot(W, W, axes=([0, 2], [0, 2]))
    return total / draws.size


def covariance(draws: GibbsDraws) -> FloatArray:
    """Posterior mean of the covariance WWᵀ + τ⁻¹I of a row."""
    C = signal_covariance(draws)
    C.flat[:: C.shape[0] + 1] += np.mean(1 / draws.tau)
    return C


# --- rows --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """Scores of a row t given each draw: gain·(t − mean) + offset, and their variance."""

    gain: FloatArray
    offset: FloatArray
    variance: FloatArray


def score_map(draws: GibbsDraws, components: FloatArray, mean: FloatArray) -> ScoreMap:
    """Map to scores: the noise-free row f = μ + Wx in the components' coordinates, R(f − mean).

    ⟨x⟩ = τΣWᵀ(t − μ) with covariance Σ = (I + τWᵀW)⁻¹ (icann1999 Eq. 16 given W, μ, τ). These
    coordinates do not depend on how the columns of W are rotated.
    """
    gains, offsets, variances = [], [], []
    for W, tau, mu in _blocks(draws):
        V = np.sqrt(tau)[:, None, None] * W
        Vt = np.swapaxes(V, 1, 2)
        seen = components @ V
        inner = np.linalg.solve(np.eye(V.shape[2]) + Vt @ V, np.swapaxes(seen, 1, 2))
        gain = np.swapaxes(inner, 1, 2) @ Vt
        gains.append(gain)
        offsets.append(np.einsum("skd,sd->sk", components - gain, mu - mean))
        variances.append(np.einsum("skq,sqk->sk", seen, inner) / tau[:, None])
    return ScoreMap(*(np.concatenate(parts) for parts in (gains, offsets, variances)))


def scores(found: ScoreMap, centred: FloatArray) -> FloatArray:
    """Posterior mean of the scores of rows from which the mean has been subtracted."""
    return centred @ found.gain.mean(axis=0).T + found.offset.mean(axis=0)


def score_std(found: ScoreMap, centred: FloatArray) -> FloatArray:
    """Posterior standard deviation of the scores: within draws and between them.

    Between draws the variance is a quadratic form in (t − mean, 1), formed once for all rows.
    """
    maps = np.concatenate([found.gain, found.offset[..., None]], axis=2)
    maps = maps - maps.mean(axis=0)
    rows = np.column_stack([centred, np.ones(len(centred))])
    between = np.empty((len(centred), maps.shape[1]))
    for k in range(maps.shape[1]):
        form = maps[:, k].T @ maps[:, k] / len(maps)
        between[:, k] = np.einsum("nd,nd->n", rows @ form, rows)
    return np.sqrt(found.variance.mean(axis=0) + np.maximum(between, 0))


def log_density(draws: GibbsDraws, X: FloatArray) -> FloatArray:
    """log of the mean over draws of N(t | μ, WWᵀ + τ⁻¹I), for each row."""
    each = list(zip(*_flat(draws), strict=True))
    parts = [
        logsumexp([_log_density(X[i : i + BLOCK], *draw) for draw in each], axis=0)
        for i in range(0, len(X), BLOCK)
    ]
    return np.concatenate(parts) - np.log(draws.size)


def _log_density(X: FloatArray, W: FloatArray, tau: float, mu: FloatArray) -> FloatArray:
    """As `step.log_likelihood`, row by row."""
    V, Y = np.sqrt(tau) * W, np.sqrt(tau) * (X - mu)
    M = np.eye(V.shape[1]) + V.T @ V
    m = np.linalg.solve(M, V.T @ Y.T).T
    off = Y - m @ V.T
    distance = np.einsum("nd,nd->n", off, off) + np.einsum("nq,nq->n", m, m)
    log_det = np.linalg.slogdet(M)[1] + X.shape[1] * (LOG_2PI - np.log(tau))
    return -0.5 * (distance + log_det)


def sample(draws: GibbsDraws, n: int, rng: np.random.Generator) -> FloatArray:
    """n rows from the posterior predictive distribution, each from a draw picked at random."""
    all_W, all_tau, all_mu = _flat(draws)
    d, q = all_W.shape[1:]
    rows = np.empty((n, d))
    for i in range(0, n, BLOCK):
        picked = rng.integers(draws.size, size=min(BLOCK, n - i))
        x, noise = rng.normal(size=(picked.size, q)), rng.normal(size=(picked.size, d))
        rows[i : i + BLOCK] = (
            all_mu[picked]
            + np.einsum("ndq,nq->nd", all_W[picked], x)
            + noise / np.sqrt(all_tau[picked])[:, None]
        )
    return rows


def _flat(draws: GibbsDraws) -> tuple[FloatArray, FloatArray, FloatArray]:
    """W, τ and μ of all chains, one after another."""
    W, tau, mu = (a.reshape(draws.size, *a.shape[2:]) for a in (draws.W, draws.tau, draws.mu))
    return W, tau, mu


def _blocks(draws: GibbsDraws) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    W, tau, mu = _flat(draws)
    for i in range(0, draws.size, BLOCK):
        yield W[i : i + BLOCK], tau[i : i + BLOCK], mu[i : i + BLOCK]


# --- the prior and the units of the data ---------------------------------------------------------


def prior_advice(data: GibbsData, prior: Hyper) -> tuple[Advice, ...]:
    """Advice for data in whose units the prior is not broad."""
    scaled, found = prior.in_units(data.unit), []
    far = float(np.sqrt(scaled.beta * np.mean(data.mean**2)))
    if far > FAR_MEAN:
        found.append(
            Advice(
                "narrow-mean-prior",
                f"the mean of the data is {far:.1f} prior standard deviations away from 0: "
                "subtract the mean, divide the data by their scale, or lower beta.",
            )
        )
    squares = float(np.vdot(data.centred, data.centred))
    varies = squares > ROUNDING_OF_DEVIATIONS**2 * data.n * data.d
    share = 2 * scaled.b_tau / squares if varies else 0.0
    if share > LARGE_NOISE_PRIOR:
        found.append(
            Advice(
                "large-noise-prior",
                f"b_tau counts as much as {100 * share:.2g} % of the data's sum of squares: divide "
                "the data by their scale, or lower b_tau and b_alpha.",
            )
        )
    return tuple(found)


# --- alignment of draws ------------------------------------------------------------------------
#
# W is known only up to rotations, order and signs: only WWᵀ is identified. The signs of its
# eigenvectors and, where eigenvalues are close, their order differ between draws; `matched` fixes
# both and leaves everything else as drawn, so that the spread is that of the principal axes.
# `turned` rotates W onto a reference, so that the remaining spread excludes rotations within the
# subspace.


def principal_axes(W: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of WWᵀ of each draw, descending (…, q), and eigenvectors as rows (…, q, d)."""
    values, vectors = np.linalg.eigh(np.swapaxes(W, -1, -2) @ W)
    values, vectors = np.maximum(values[..., ::-1], 0), vectors[..., ::-1]
    lengths = np.sqrt(values)[..., None]
    axes = np.swapaxes(W @ vectors, -1, -2) / np.where(lengths > 0, lengths, 1)
    return values, axes


def matched(axes: FloatArray, reference: FloatArray) -> FloatArray:
    """Rows of each draw (…, k, d) in the order and with the signs nearest to those of a reference.

    The order is the assignment that maximises the sum of |cosines|.
    """
    found = np.empty_like(axes)
    for at in np.ndindex(axes.shape[:-2]):
        cosines = reference @ axes[at].T
        rows, columns = linear_sum_assignment(-np.abs(cosines))
        signs = np.where(cosines[rows, columns] < 0, -1.0, 1.0)
        found[at] = signs[:, None] * axes[at][columns]
    return found


def turned(W: FloatArray, reference: FloatArray) -> FloatArray:
    """WQ of each draw, (…, d, q) to (…, d, k), nearest to a reference (d, k) with QᵀQ = I.

    Orthogonal Procrustes: Q = UVᵀ of the singular vectors of Wᵀ·reference.
    """
    U, _, Vt = np.linalg.svd(np.swapaxes(W, -1, -2) @ reference, full_matrices=False)
    return W @ (U @ Vt)
