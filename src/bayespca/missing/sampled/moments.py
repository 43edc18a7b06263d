"""Moments of draws: means and covariances of factors after alignment.

The likelihood and the priors do not change under (a, b) ↦ (Ra, R⁻ᵀb), nor under shifts between
factors, biases and m. So each draw is transformed such that factors and biases have mean 0 over
users and over items, and both factors have the same diagonal mean squares. It is then turned to be
like the first draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.aligning import turn_to
from bayespca.missing.ratings.posterior import RatingsFactor, RatingsPosterior

from .draws import RatingsDraws

# Share of the trace of a Gram matrix to add to its diagonal, so that empty components are regular.
JITTER = 1e-12


class Alike(NamedTuple):
    """A draw in the common coordinates: rows, columns and m."""

    rows: FloatArray
    columns: FloatArray
    mean: float


def moments_of(draws: RatingsDraws) -> RatingsPosterior:
    """Means and covariances of the draws as a posterior of factors."""
    first: Alike | None = None
    found = []
    for rows, columns in zip(draws.rows, draws.columns, strict=True):
        one = canonical(rows.astype(np.float64), columns.astype(np.float64), biases=draws.biases)
        one = one if first is None else _turned(one, first, biases=draws.biases)
        first = first or one
        found.append(one)
    return RatingsPosterior(
        rows=_factor(np.stack([one.rows for one in found], axis=1)),
        columns=_factor(np.stack([one.columns for one in found], axis=1)),
        mean=float(np.mean([one.mean for one in found])),
        noise_variance=float(draws.noise_variances.mean()),
        location=draws.location,
        unit=draws.unit,
        biases=draws.biases,
    )


def canonical(rows: FloatArray, columns: FloatArray, *, biases: bool) -> Alike:
    """A draw with means moved into biases and m, and equal diagonal mean squares of factors."""
    H, m = rows.shape[1] - biases, 0.0
    a, b = rows[:, :H], columns[:, :H]
    if biases:
        u, v = rows[:, H], columns[:, H]
        a, v = a - a.mean(axis=0), v + b @ a.mean(axis=0)
        b, u = b - b.mean(axis=0), u + a @ b.mean(axis=0)
        m = float(u.mean() + v.mean())
        rest = (u - u.mean())[:, None], (v - v.mean())[:, None]
    else:
        rest = rows[:, H:], columns[:, H:]
    a, b = _balanced(a, b)
    return Alike(np.hstack([a, rest[0]]), np.hstack([b, rest[1]]), m)


def _balanced(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factors with the same abᵀ, but aᵀa/n and bᵀb/m diagonal and equal, largest first."""
    if not a.shape[1]:
        return a, b
    (n, m), (Ra, Rb) = (len(a), len(b)), (_root(a), _root(b))
    U, s, Vt = np.linalg.svd(Ra.T @ Rb)
    size = np.sqrt(s)
    to_a = np.linalg.solve(Ra.T, U * size) * (n / m) ** 0.25
    to_b = np.linalg.solve(Rb.T, Vt.T * size) * (m / n) ** 0.25
    return a @ to_a, b @ to_b


def _root(a: FloatArray) -> FloatArray:
    """L with LLᵀ = aᵀa"""
    gram = a.T @ a
    return np.asarray(np.linalg.cholesky(gram + JITTER * np.trace(gram) * np.eye(len(gram))))


def _turned(one: Alike, like: Alike, *, biases: bool) -> Alike:
    H = one.rows.shape[1] - biases
    both, others = (np.concatenate([x.rows[:, :H], x.columns[:, :H]]) for x in (one, like))
    Q = np.eye(one.rows.shape[1])
    if H:
        Q[:H, :H] = turn_to(both, others)
    return Alike(one.rows @ Q, one.columns @ Q, one.mean)


def _factor(draws: FloatArray) -> RatingsFactor:
    """Moments of draws of rows, (n, draw, K)."""
    mean = draws.mean(axis=1)
    off = draws - mean[:, None]
    cov = np.matmul(np.swapaxes(off, 1, 2), off) / draws.shape[1]
    least = np.finfo(float).tiny
    prior = np.maximum(np.mean(draws**2, axis=(0, 1)), least)
    return RatingsFactor(mean, packed(cov), prior)
