"""Data of known rank under eight kinds of noise, most of them not white."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from bayespca.arrays.types import FloatArray

Kind = Literal["white", "columns", "rows", "both", "t3", "gross", "ar", "poisson"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Standard deviation of the logarithms of the standard deviations of rows and of columns.
UNEVEN = 0.7
# Share of cells with gross errors, and the standard deviation of these errors.
GROSS, GROSS_STD = 0.01, 10.0
# Correlation of neighbouring columns under "ar".
PHI = 0.7


@dataclass(frozen=True)
class NoisyLowRank:
    """Data X = signal + noise, with the truth behind them.

    `noise_variance` is the noise variance of each cell; `rank` is that of the uncentred signal.

    >>> from bayespca.datasets import noisy
    >>> made = noisy("columns", 100, 20, 3, random_state=0)
    >>> made.rank, made.signal.shape, made.noise_variance.shape
    (3, (100, 20), (100, 20))
    """

    X: FloatArray
    signal: FloatArray
    noise_variance: FloatArray
    rank: int


def noisy(
    kind: Kind,
    n_samples: int = 500,
    n_features: int = 200,
    rank: int = 5,
    *,
    strength: float = 0.6,
    random_state: int | np.random.Generator | None = None,
) -> NoisyLowRank:
    """A product of Gaussian factors plus noise of variance 1 or about 1.

    `kind` is ``"white"``; ``"columns"``, ``"rows"`` or ``"both"``, whose standard deviations differ
    log-normally; ``"t3"``, Student's t with three degrees of freedom; ``"gross"``, with large
    errors in 1 % of the cells; ``"ar"``, autoregressive along the features; or ``"poisson"``,
    counts whose rates have the given rank, for which `strength` is ignored. `strength` is the
    standard deviation of the loadings; 0 gives pure noise, of rank 0.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import noisy
    >>> X = noisy("columns", 200, 40, 3, random_state=0).X
    >>> BayesianPCA().fit(X).noise_
    'per-feature'
    """
    rng = np.random.default_rng(random_state)
    scores = rng.standard_normal((n_samples, rank))
    loadings = strength * rng.standard_normal((rank, n_features))
    white = rng.standard_normal((n_samples, n_features))
    if kind == "poisson":
        return _counts(rng, n_samples, n_features, rank)
    signal = scores @ loadings
    noise, variance = NOISES[kind](rng, white)
    return NoisyLowRank(signal + noise, signal, variance, rank if strength else 0)


Noise = tuple[FloatArray, FloatArray]


def _columns(rng: np.random.Generator, white: FloatArray) -> Noise:
    std = np.exp(UNEVEN * rng.standard_normal((1, white.shape[1])))
    return white * std, np.broadcast_to(std**2, white.shape)


def _rows(rng: np.random.Generator, white: FloatArray) -> Noise:
    std = np.exp(UNEVEN * rng.standard_normal((white.shape[0], 1)))
    return white * std, np.broadcast_to(std**2, white.shape)


def _both(rng: np.random.Generator, white: FloatArray) -> Noise:
    by_rows, of_rows = _rows(rng, white)
    noise, of_columns = _columns(rng, by_rows)
    return noise, of_rows * of_columns


def _gross(rng: np.random.Generator, white: FloatArray) -> Noise:
    wrong = rng.random(white.shape) < GROSS
    noise = white + GROSS_STD * wrong * rng.standard_normal(white.shape)
    return noise, np.where(wrong, 1 + GROSS_STD**2, 1.0)


def _autoregressive(rng: np.random.Generator, white: FloatArray) -> Noise:
    """εⱼ = φεⱼ₋₁ + √(1 − φ²)·white, of variance 1."""
    noise = white.copy()
    for before, column, fresh in zip(noise.T, noise.T[1:], white.T[1:], strict=False):
        column[:] = PHI * before + np.sqrt(1 - PHI**2) * fresh
    return noise, np.ones(white.shape)


NOISES: dict[Kind, Callable[[np.random.Generator, FloatArray], Noise]] = {
    "white": lambda rng, white: (white, np.ones(white.shape)),
    "columns": _columns,
    "rows": _rows,
    "both": _both,
    "t3": lambda rng, white: (rng.standard_t(3, white.shape) / np.sqrt(3), np.ones(white.shape)),
    "gross": _gross,
    "ar": _autoregressive,
}


def _counts(rng: np.random.Generator, n: int, p: int, rank: int) -> NoisyLowRank:
    """Poisson counts whose rates are a product of gamma factors, times a log-normal row factor."""
    depth = np.exp(0.35 * rng.standard_normal((n, 1)))
    parts = rng.gamma(1, 1, (n, rank))
    rates = depth * parts @ rng.gamma(0.3, 1, (rank, p))
    return NoisyLowRank(rng.poisson(rates).astype(np.float64), rates, rates, rank)
