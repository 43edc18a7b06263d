"""What others make of a matrix: its rank, or its low-rank part. None where it does not apply."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from bayespca.datasets import NoisyLowRank
from bayespca.linear import rank_rules

Ranker = Callable[[np.ndarray, int], int | None]

# Upper bound of the rank that ScreeNOT is given, where the matrix allows it.
LARGEST = 20


def sign_flips(X: np.ndarray, seed: int) -> int:
    """Parallel analysis with random signs (Hong, Sheng, Dobriban 2020), of centred data."""
    return rank_rules.sign_flips(X - X.mean(axis=0), np.random.default_rng(seed))


def screenot(X: np.ndarray, seed: int) -> int:
    """ScreeNOT (Donoho, Gavish, Romanov 2023), of centred data."""
    from screenot import adaptiveHardThresholding

    most = min(LARGEST, (min(X.shape) - 2) // 2)
    return int(adaptiveHardThresholding(X - X.mean(axis=0), most)[2])


def bipca(X: np.ndarray, seed: int) -> int | None:
    """Biwhitened PCA (Landa, Zhang, Kluger 2022) of counts; it takes nothing else, and no rows and
    columns of zeros.
    """
    from bipca import BiPCA

    if X.min() < 0 or not np.array_equal(X, np.round(X)):
        return None
    X = X[X.any(axis=1)][:, X.any(axis=0)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
        return int(BiPCA(verbose=0, seed=seed).fit(X).mp_rank)
    return None


RANKERS: dict[str, tuple[str, Ranker]] = {
    "sign flips": ("numpy", sign_flips),
    "ScreeNOT": ("screenot", screenot),
    "BiPCA": ("bipca", bipca),
}


def installed() -> dict[str, Ranker]:
    """Those that can be run here."""
    return {name: rank for name, (package, rank) in RANKERS.items() if find_spec(package)}


def informed(made: NoisyLowRank) -> np.ndarray:
    """The low-rank part by truncated singular values of data in units of their noise: for somebody
    who knows the rank and the noise of every row and column.
    """
    std = np.sqrt(made.noise_variance)
    U, gamma, W = np.linalg.svd(made.X / std, full_matrices=False)
    k = made.rank
    return (U[:, :k] * gamma[:k]) @ W[:k] * std
