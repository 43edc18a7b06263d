"""Other rules for the rank, to stand beside EVB's: Minka's evidence and four thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.optimize import brentq
from scipy.special import gammaln

from .noise import rounding_floor, tail_sums
from .noise_law import largest_singular_value, marchenko_pastur_median
from .records import FloatArray, Spectrum
from .tolerances import LOG_2PI


@dataclass(frozen=True)
class Evidence:
    """Log evidence of each rank k = 0, 1, …, in nats.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> int(spectrum.minka(seen).log_evidence.argmax())
    3
    """

    log_evidence: FloatArray

    @property
    def rank(self) -> int:
        return int(np.argmax(self.log_evidence))


def minka(spectrum: Spectrum) -> Evidence:
    """Minka's Laplace approximation to the evidence of probabilistic PCA with k components.

    "Automatic choice of dimensionality for PCA" (2000), Eq. 76–79, with d = L and N = M::

        p(D|k) ≈ p(U) (∏_{j≤k} λⱼ)^{−N/2} v^{−N(d−k)/2} (2π)^{(m+k)/2} |A|^{−1/2} N^{−k/2}

    and the constants of the Gaussian density, so that it compares with −F. Rank 0, rank-deficient
    spectra and data with fewer samples than features are included.

    p(U)(2π)^{m/2}|A|^{−1/2} approximates an average over bases of a factor that is at most 1. Where
    eigenvalues are nearly equal, Laplace's approximation exceeds that, without limit where they are
    equal; it is capped at 1, and the angle between two directions at its range of π.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> int(spectrum.minka(seen).log_evidence.argmax())
    3
    """
    unit = spectrum.without_rounding().at_unit_scale()
    d, N = unit.shape
    lam = unit.singular_values**2 / N
    lam = lam[: np.count_nonzero(lam)]
    k = np.arange(min(lam.size, d - 1) + 1)
    floor = max(rounding_floor(unit), np.finfo(np.float64).tiny)
    v = np.maximum(tail_sums(unit)[: k.size] / N / (d - k), floor)
    m = d * k - k * (k + 1) / 2
    log_average_over_bases = _log_uniform_bases(d, k.size) + 0.5 * (
        m * np.log(2 * np.pi / N) - _log_rotation_curvature(unit, lam, v)
    )
    log_evidence = (
        -0.5 * N * _running_sum(np.log(lam))[: k.size]
        - 0.5 * N * (d - k) * np.log(v)
        + 0.5 * k * np.log(2 * np.pi / N)
        + np.minimum(log_average_over_bases, 0.0)
    )
    constants = 0.5 * N * d * (LOG_2PI + 1 + 2 * np.log(unit.scale))
    return Evidence(log_evidence - constants)


def _running_sum(terms: FloatArray) -> FloatArray:
    return np.append(0.0, np.cumsum(terms))


def _log_uniform_bases(d: int, n: int) -> FloatArray:
    """log p(U) for k = 0 … n − 1: the uniform density on orthonormal bases of k directions in d."""
    half = 0.5 * (d - np.arange(n - 1))
    return _running_sum(gammaln(half) - half * np.log(np.pi) - np.log(2))


def _log_rotation_curvature(unit: Spectrum, lam: FloatArray, v: FloatArray) -> FloatArray:
    """log |A| − m·log N for each k: Σ_{i≤k} Σ_{j>i} log (1/λ̂ⱼ − 1/λ̂ᵢ)(λᵢ − λⱼ).

    λ̂ⱼ is λⱼ up to k and v beyond. Sums over pairs within k and pairs across k are running sums of
    one matrix of log-differences; only the log-differences to v need a second one.
    """
    d, N = unit.shape
    n, k = lam.size, np.arange(v.size)
    within, onward, to_noise = np.zeros(n), np.zeros(n), np.zeros(v.size)
    for rows in _blocks(n):
        gaps = np.triu(_log_gap(lam[rows, None], lam[rows.start :], N), 1)
        within[rows.start :] += gaps.sum(axis=0)
        onward[rows] = gaps.sum(axis=1) + _log_gaps_to_unlisted(unit, lam[rows], n)
    for ks in _blocks(v.size):
        gaps = _log_gap(lam[: ks.stop], v[ks, None], N)
        to_noise[ks] = np.tril(gaps, ks.start - 1).sum(axis=1)
    log_lam, pairs = _running_sum(np.log(lam))[k], _running_sum(within)[k]
    inside = 2 * pairs - (k - 1) * log_lam
    across = _running_sum(onward)[k] - pairs + (d - k) * (to_noise - log_lam - k * np.log(v))
    return inside + across


def _blocks(n: int, size: int = 256) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _log_gap(larger: FloatArray, smaller: FloatArray, N: float) -> FloatArray:
    """log(λᵢ − λⱼ), with differences at least the one whose rotation angle has range π."""
    least = np.sqrt(larger * (2 / np.pi / N)) * np.sqrt(smaller)
    return np.log(np.maximum(larger - smaller, least))


def _log_gaps_to_unlisted(unit: Spectrum, lam: FloatArray, n_listed: int) -> FloatArray:
    """Σⱼ log(λᵢ − λⱼ) over the eigenvalues that are zero, or known only by their sum."""
    d, N = unit.shape
    n_cut = unit.full_rank - unit.singular_values.size if unit.residual else 0
    mean_cut = np.array(unit.residual / N / max(n_cut, 1))
    return n_cut * _log_gap(lam, mean_cut, N) + (d - n_listed - n_cut) * np.log(lam)


def marchenko_pastur(spectrum: Spectrum, noise_variance: float | None = None) -> int:
    """Number of singular values above the edge σ(√L + √M) of pure noise.

    Without a noise variance, each k gives one: the residual of k components over its
    (L − k)(M − k) degrees of freedom. The answer is the first k at which the
    next singular value is below the edge of an (L − k)×(M − k) matrix of that noise.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> spectrum.marchenko_pastur(seen)
    3
    """
    spectrum = spectrum.without_rounding()
    L, M = spectrum.shape
    gamma = spectrum.singular_values
    if noise_variance is not None:
        edge = largest_singular_value(noise_variance, (L, M)) / spectrum.scale
        return int(np.count_nonzero(gamma > edge))
    k = np.arange(min(gamma.size, spectrum.full_rank - 1))
    unit = spectrum.at_unit_scale()
    sigma = np.sqrt(tail_sums(unit)[k] / ((L - k) * (M - k)))
    below = unit.singular_values[k] <= sigma * (np.sqrt(L - k) + np.sqrt(M - k))
    return int(np.argmax(below)) if below.any() else int(k.size)


def gavish_donoho(spectrum: Spectrum, noise_variance: float | None = None) -> int:
    """Number of singular values above the optimal hard threshold of Gavish and Donoho (2014).

    The threshold is λ*(β)·√max(L, M)·σ for known noise. For unknown noise the median singular value
    over the square root of the Marčenko–Pastur median stands for √max(L, M)·σ, which needs every
    singular value.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> spectrum.gavish_donoho(seen)
    3
    """
    spectrum = spectrum.without_rounding()
    L, M = spectrum.shape
    beta = min(L, M) / max(L, M)
    factor = np.sqrt(2 * (beta + 1) + 8 * beta / (beta + 1 + np.sqrt(beta**2 + 14 * beta + 1)))
    gamma = spectrum.singular_values
    if noise_variance is not None:
        unit = np.sqrt(max(L, M) * noise_variance) / spectrum.scale
    elif not spectrum.is_complete:
        raise ValueError(
            f"the median singular value is not among the {gamma.size} of {spectrum.full_rank} that "
            "are known: give noise_variance, or all singular values."
        )
    else:
        everything = np.append(gamma, np.zeros(spectrum.full_rank - gamma.size))
        unit = np.median(everything) / np.sqrt(marchenko_pastur_median(beta))
    return int(np.count_nonzero(gamma > factor * unit))


def screenot(spectrum: Spectrum, largest: int = 20) -> int:
    """Number of singular values above the threshold of ScreeNOT (Donoho, Gavish, Romanov 2023).

    The noise may have any spectrum. The rule takes that of the data, and replaces the first
    `largest` singular values, which must include the signal, by what the shape of the others
    suggests. With φ(y) = mean of y/(y² − z²) over these z, and D = φ·(βφ + (1 − β)/y), the error of
    truncation is least at the y where y·D′(y)/D(y) = −4. It needs every singular value, and more
    than 2·largest of them.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> spectrum.screenot(seen, largest=5)
    3
    """
    spectrum = spectrum.without_rounding()
    gamma = spectrum.singular_values
    if not spectrum.is_complete:
        raise ValueError("ScreeNOT needs all singular values.")
    y = np.append(gamma, np.zeros(spectrum.full_rank - gamma.size))
    k = min(largest, (y.size - 2) // 2)
    if k < 1 or not y[k]:
        return int(np.count_nonzero(y))
    share = (1 - (np.arange(k) / k) ** (2 / 3)) / (2 ** (2 / 3) - 1)
    z = np.append(y[k] + share * (y[k] - y[2 * k]), y[k:])
    beta = min(spectrum.shape) / max(spectrum.shape)
    return int(np.count_nonzero(y > z[0] * _least_error(z / z[0], beta)))


def _least_error(z: FloatArray, beta: float) -> float:
    """The y with y·D′(y)/D(y) = −4, for noise whose largest singular value is 1."""

    def excess(y: float) -> float:
        gaps = y**2 - z**2
        phi, slope = float(np.mean(y / gaps)), -float(np.mean((y**2 + z**2) / gaps**2))
        other, other_slope = beta * phi + (1 - beta) / y, beta * slope - (1 - beta) / y**2
        return y * (slope / phi + other_slope / other) + 4

    # The largest of all is √3, of a square matrix whose noise has equal singular values.
    return float(brentq(excess, 1 + 1e-9, 2.0, xtol=1e-12))


def parallel_analysis(
    spectrum: Spectrum,
    *,
    n_draws: int = 100,
    quantile: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> int:
    """Horn's parallel analysis: components above those of pure noise of the same total variance.

    It compares the k-th singular value with a quantile of the k-th singular value of Gaussian
    matrices of the same shape, and stops at the first that fails.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> spectrum.parallel_analysis(seen)
    2
    """
    L, M = spectrum.shape
    unit = spectrum.at_unit_scale()
    observed = unit.singular_values**2
    rng = np.random.default_rng(random_state)
    bands = [_bartlett(L, int(M), rng) for _ in range(n_draws)]
    noise = unit.sum_of_squares / (L * M)
    top, passed = min(16, observed.size), 0
    while passed == top < observed.size or passed == 0 < top:
        draws = np.array([_largest_eigenvalues(band, top) for band in bands])
        below = observed[:top] <= noise * np.quantile(draws, quantile, axis=0)
        passed = int(np.argmax(below)) if below.any() else top
        if passed < top or top == observed.size:
            break
        top = min(4 * top, observed.size)
    return passed


def _bartlett(L: int, M: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """BBᵀ, tridiagonal, of the bidiagonal B with the singular values of an L×M Gaussian matrix.

    Householder reflections leave χ-distributed entries (Dumitriu and Edelman 2002), so a draw costs
    L + M random numbers and no dense matrix.
    """
    short, long = sorted((L, M))
    diagonal = rng.chisquare(long - np.arange(short))
    below = rng.chisquare(short - np.arange(1, short)) if short > 1 else np.zeros(0)
    return diagonal + np.append(0.0, below), np.sqrt(diagonal[:-1] * below)


def _largest_eigenvalues(band: tuple[FloatArray, FloatArray], count: int) -> FloatArray:
    n = band[0].size
    values = eigvalsh_tridiagonal(*band, select="i", select_range=(n - count, n - 1))
    return np.asarray(values[::-1], dtype=np.float64)
