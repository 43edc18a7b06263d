"""Simulation designs that other groups published: low rank, and noise that is known.

Written anew from their descriptions: Macdonald, Naim and Ram 2026 (`low_rank`), Dobriban and Owen
2019 (`factors`), Donoho, Gavish and Romanov 2023 (`alike_along_rows`), Landa and Kluger 2023
(`unequal_cells`, `bad_lines`), Su and Wu 2022 (`alike_both_ways`), Ahn and Horenstein 2013
(`panel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter

# Share of the cells that are missing.
MISSING = 0.15
# Singular values of signal in noise that is correlated both ways, and how many can be detected.
SIGNAL, DETECTED = np.repeat([4.0, 2.2, 1.4, 0.4], 3), 6
# Factors of panels, and rows before the first, by which serial correlation has no beginning.
FACTORS, BURN_IN = 3, 100


@dataclass(frozen=True)
class Drawn:
    """Data of a design, and the number of components that is to be found."""

    signal: np.ndarray
    noise: np.ndarray
    rank: int

    @property
    def X(self) -> np.ndarray:
        return self.signal + self.noise


def _frame(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """k orthonormal columns, all equally probable."""
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def _of_singular_values(rng: np.random.Generator, n: int, p: int, values: np.ndarray) -> np.ndarray:
    return (_frame(rng, n, values.size) * values) @ _frame(rng, p, values.size).T


# --- white noise -------------------------------------------------------------------------------


def low_rank(rng: np.random.Generator, n: int, p: int, rank: int) -> Drawn:
    """Standard normal scores and loadings, noise of standard deviation 0.5."""
    signal = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    return Drawn(signal, 0.5 * rng.standard_normal((n, p)), rank)


def without_cells(X: np.ndarray, pattern: str, rng: np.random.Generator) -> np.ndarray:
    """X without 15 % of its cells: any of them ("random"), the least of each column ("censored"),
    or a block of neighbouring rows and columns ("block").
    """
    hidden = np.zeros(X.shape, dtype=bool)
    if pattern == "random":
        hidden = rng.random(X.shape) < MISSING
    elif pattern == "censored":
        hidden = np.quantile(X, MISSING, axis=0) > X
    elif pattern == "block":
        height, width = (max(1, int(np.sqrt(MISSING) * size)) for size in X.shape)
        row, column = rng.integers(X.shape[0] - height + 1), rng.integers(X.shape[1] - width + 1)
        hidden[row : row + height, column : column + width] = True
    return np.where(hidden, np.nan, X)


def factors(
    rng: np.random.Generator, strengths: Sequence[float], n: int = 500, p: int = 300
) -> Drawn:
    """Factors of norm 1 along loadings of norm 1, times √(p/n) times their strengths; the noise has
    variance 1/n.
    """
    k = len(strengths)
    scores, loadings = rng.standard_normal((n, k)), rng.standard_normal((p, k))
    scores, loadings = (part / np.linalg.norm(part, axis=0) for part in (scores, loadings))
    signal = (scores * np.sqrt(p / n) * strengths) @ loadings.T
    return Drawn(signal, rng.standard_normal((n, p)) / np.sqrt(n), k)


# --- noise that is not white -------------------------------------------------------------------


def alike_along_rows(rng: np.random.Generator, values: np.ndarray, n: int, rho: float) -> Drawn:
    """n×n; the noise of each row is autoregressive with variance 1/n."""
    root = np.linalg.cholesky(toeplitz(rho ** np.arange(n)))
    noise = rng.standard_normal((n, n)) @ root.T / np.sqrt(n)
    return Drawn(_of_singular_values(rng, n, n, values), noise, values.size)


def _twenty(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    """Ten strong and ten weak components."""
    return _of_singular_values(rng, n, p, np.repeat(np.sqrt([1000 * p, 3 * p]), 10))


def unequal_cells(rng: np.random.Generator, n: int = 1000, p: int = 2000, rank: int = 10) -> Drawn:
    """Noise variances are a product of lognormal matrices, with mean 1."""
    left = np.exp(np.sqrt(2) * rng.standard_normal((n, rank)))
    right = np.exp(np.sqrt(2) * rng.standard_normal((rank, p)))
    variances = left @ right
    variances /= variances.mean()
    noise = rng.standard_normal((n, p)) * np.sqrt(variances)
    return Drawn(_twenty(rng, n, p), noise, 20)


def bad_lines(rng: np.random.Generator, n: int = 1000, p: int = 2000) -> Drawn:
    """Variances of five rows are 10 times, of five columns 100 times those of the others."""
    rows, columns = np.ones(n), np.ones(p)
    rows[-5:], columns[-5:] = 10, 100
    noise = rng.standard_normal((n, p)) * np.sqrt(np.outer(rows, columns))
    return Drawn(_twenty(rng, n, p), noise, 20)


def alike_both_ways(rng: np.random.Generator, n: int) -> Drawn:
    """n×n, noise A·T·B: T is Student's t with 10 degrees of freedom and variance 1/n; A² and B² are
    rotated at random, with eigenvalues of mean 1.
    """
    T = rng.standard_t(10, (n, n)) / np.sqrt(1.25 * n)
    A, B = (_root(rng, values) for values in spectra(n))
    return Drawn(_of_singular_values(rng, n, n, SIGNAL), A @ T @ B, DETECTED)


def spectra(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of A² and B²: from 1 to 10, and half of them above 10, half 0.3; of mean 1."""
    share = np.arange(1, n + 1) / n
    both = 1 + 9 * share, np.where(share <= 0.5, 10 + share, 0.3)
    return both[0] / both[0].mean(), both[1] / both[1].mean()


def _root(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """A symmetric matrix whose square has these eigenvalues, in random directions."""
    Q = _frame(rng, values.size, values.size)
    return (Q * np.sqrt(values)) @ Q.T


def panel(rng: np.random.Generator, rho: float, beta: float, n: int = 100, p: int = 100) -> Drawn:
    """n times of p series: scores, loadings and errors have variance 1.

    An error contains ρ times the one before and β times the shocks of J neighbours on each side,
    e_t = ρ·e_(t−1) + v_t + β·Σ_h v_th; those of series with all neighbours have variance 1.
    """
    signal = rng.standard_normal((n, FACTORS)) @ rng.standard_normal((FACTORS, p))
    v = rng.standard_normal((n + BURN_IN, p)) @ neighbours(p, beta)
    errors = lfilter([1.0], [1.0, -rho], v, axis=0)[BURN_IN:]
    variance = (1 + 2 * reach(p) * beta**2) / (1 - rho**2)
    return Drawn(signal, errors / np.sqrt(variance), FACTORS)


def reach(p: int) -> int:
    """J: how many neighbours on each side share in an error."""
    return max(10, p // 20)


def neighbours(p: int, beta: float) -> np.ndarray:
    """Weights of the shocks in the errors of series: 1 of their own, β of their neighbours."""
    band = np.zeros(p)
    band[0], band[1 : reach(p) + 1] = 1, beta
    return toeplitz(band)
