"""Where the iteration starts: the closed form of a matrix whose holes were filled by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespca.engines import decompose, fixed_signs
from bayespca.spectrum import solve

from .data import Holes
from .vb import State

FloatArray = NDArray[np.float64]

# Times that the filled matrix is factorized and filled again.
ROUNDS = 5
# Components to start with beyond those found in the filled matrix; the free energy drops them.
SPARE = 3


def start(
    data: Holes,
    *,
    max_rank: int | None = None,
    per_feature: bool = False,
    exactly: bool = False,
) -> State:
    """Fill with zeros (the means), then a few times with the closed form's low-rank matrix.

    A filled matrix looks less noisy than it is and its components weaker, so a few more than it
    shows are taken along; with `exactly`, as many as `max_rank`, by maximum likelihood.
    """
    n, p = data.shape
    mask = data.mask
    most = max(0, min(n - 1, p - 1, n if max_rank is None else max_rank))
    filled = data.values
    for _ in range(ROUNDS):
        rank, scores, right = _factors(filled, most, exactly)
        filled = np.where(mask > 0, data.values, scores @ right)
    residual = mask * (data.values - scores @ right)
    noise = float((residual**2).sum() / max(mask.sum(), 1))
    spread = np.maximum((scores**2).mean(axis=0), 1e-6)
    b = np.zeros((p, rank + 1))
    b[:, :rank] = (right * np.sqrt(spread)[:, None]).T
    prior_b = np.maximum((b[:, :rank] ** 2).mean(axis=0), 1e-6)
    noise = max(noise, 1e-8)
    b_cov = np.zeros((p, rank + 1, rank + 1))
    if not per_feature:
        return State(b, b_cov, np.ones(rank), prior_b, noise, is_ml=exactly)
    # The same noise for every feature to begin with, and everything in its units.
    psi = np.full(p, noise)
    return State(b / np.sqrt(noise), b_cov, np.ones(rank), prior_b / noise, 1.0, psi)


def _factors(X: FloatArray, most: int, exactly: bool) -> tuple[int, FloatArray, FloatArray]:
    """Rank to start with, scores and directions of the low-rank part of a complete matrix."""
    found = decompose(X, plan=solve, center=True, n_needed=most if exactly else 0)
    solution = solve(found.spectrum)
    known = found.spectrum.singular_values
    rank = min(most if exactly else solution.rank + SPARE, most, known.size)
    right = fixed_signs(found.right(rank))
    gamma = known[:rank] * found.spectrum.scale
    shrunk = np.append(solution.shrunk_singular_values, np.zeros(rank))[:rank]
    # Spare components enter at a tenth of their strength: enough to grow from.
    weight = np.where(shrunk > 0, shrunk, 0.1 * gamma) / np.where(gamma > 0, gamma, 1)
    scores = (X - found.mean) @ right.T * weight
    return rank, scores, right
