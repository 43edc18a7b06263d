"""What others make of a matrix: its rank, or its low-rank part. None where it does not apply."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.validation import check_array

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


def weighted(made: NoisyLowRank, name: str) -> np.ndarray:
    """The low-rank part by the package wpca, `"WPCA"` (Delchambre 2014) or `"EMPCA"` (Bailey 2012),
    for somebody who knows the rank and the noise of every cell.
    """
    import wpca

    _with_todays_names(wpca)
    weights = np.broadcast_to(1 / np.sqrt(made.noise_variance), made.X.shape).copy()
    model = getattr(wpca, name)(n_components=made.rank)
    return np.asarray(model.fit(made.X, weights=weights).reconstruct(made.X, weights=weights))


def _with_todays_names(wpca: Any) -> None:
    """wpca 0.1 names arguments of SciPy and scikit-learn as they were called before 2024."""
    wpca.wpca.linalg = SimpleNamespace(
        eigh=lambda covariance, eigvals: eigh(covariance, subset_by_index=eigvals)
    )
    wpca.utils.check_array = lambda X, force_all_finite=True: check_array(
        X, ensure_all_finite=force_all_finite
    )


def weighted_ways() -> dict[str, Callable[[NoisyLowRank], np.ndarray]]:
    """wpca's, where it is installed."""
    if not find_spec("wpca"):
        return {}
    return {name: partial(weighted, name=name) for name in ("WPCA", "EMPCA")}


def informed(made: NoisyLowRank) -> np.ndarray:
    """The low-rank part by truncated singular values of data in units of their noise: for somebody
    who knows the rank and the noise of every row and column.
    """
    std = np.sqrt(made.noise_variance)
    U, gamma, W = np.linalg.svd(made.X / std, full_matrices=False)
    k = made.rank
    return (U[:, :k] * gamma[:k]) @ W[:k] * std
