"""Several views whose factors are known."""

from __future__ import annotations

import numpy as np

PATTERN = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], bool)


def simulated(seed=0, n=100, sizes=(60, 50, 40), pattern=PATTERN, strength=(0.4, 1.0)):
    """Scores, tables that differ in means and noise, and the pattern."""
    rng = np.random.default_rng(seed)
    A, tables = rng.normal(size=(n, len(pattern))), []
    for v, p in enumerate(sizes):
        B = rng.normal(size=(p, len(pattern))) * pattern[:, v]
        B *= rng.uniform(*strength, size=len(pattern))
        size = rng.uniform(0.5, 2)
        tables.append(size * (A @ B.T + rng.normal(size=(n, p))) + 3 * rng.normal(size=p))
    return A, tables, pattern


def side_by_side(tables):
    """One matrix, and the view of each column."""
    return np.concatenate(tables, axis=1), np.repeat(
        np.arange(len(tables)), [x.shape[1] for x in tables]
    )


def pierced(tables, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(x.shape) < share, np.nan, x) for x in tables]


def rows_of(pattern):
    """The rows of a pattern in an order that does not depend on that of the factors."""
    return sorted(map(tuple, np.asarray(pattern, int).tolist()))
