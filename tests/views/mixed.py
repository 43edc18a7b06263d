"""Views of numbers, flags, counts and ranks whose factors are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayespca.discrete.columns import TableColumn, as_cells
from bayespca.views.mixed.data import mixed_views

PATTERN = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]], bool)
KINDS = ("normal", "bernoulli", "poisson")
STRENGTH = {"normal": (0.5, 1.0), "bernoulli": (1.0, 2.0), "poisson": (0.4, 0.8)}
STRENGTH |= {"ordinal": (1.0, 2.0), "negative-binomial": (0.4, 0.8)}
COUNTS = ("poisson", "negative-binomial")


class Truth(NamedTuple):
    """Scores, natural parameters of each view, and the tables."""

    scores: np.ndarray
    natural: list
    tables: list


def simulated(seed=0, n=200, sizes=(40, 60, 30), pattern=PATTERN, kinds=KINDS):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, len(pattern)))
    natural, tables = [], []
    for v, (p, kind) in enumerate(zip(sizes, kinds, strict=True)):
        strength = rng.uniform(*STRENGTH[kind], size=len(pattern))
        B = rng.normal(size=(p, len(pattern))) * pattern[:, v] * strength
        z = A @ B.T + 0.5 * rng.normal(size=p) + (1.0 if kind in COUNTS else 0.0)
        natural.append(z)
        tables.append(_drawn(kind, z, rng))
    return Truth(A, natural, tables)


def _drawn(kind, z, rng):
    if kind == "normal":
        return z + rng.normal(size=z.shape)
    if kind == "bernoulli":
        return (rng.random(z.shape) < expit(z)) * 1.0
    if kind == "ordinal":
        return np.digitize(z + rng.logistic(size=z.shape), [-1.5, 0.0, 1.5]) * 1.0
    if kind == "poisson":
        return rng.poisson(np.exp(np.minimum(z, 12.0))) * 1.0
    return rng.poisson(rng.gamma(3.0, np.exp(np.minimum(z, 12.0)) / 3.0)) * 1.0


def columns_of(tables, kinds):
    """Descriptions of the columns; numbers and counts are centred at their means."""
    found = []
    for table, kind in zip(tables, kinds, strict=True):
        for x in table.T:
            levels = {"bernoulli": (0.0, 1.0), "ordinal": (0.0, 1.0, 2.0, 3.0)}.get(kind, ())
            center = 0.0 if levels else float(np.nanmean(x))
            found.append(TableColumn(f"c{len(found)}", kind, levels, center))
    return found


def as_views(tables, kinds=KINDS):
    """Tables side by side, as sweeps see them."""
    columns, X = columns_of(tables, kinds), np.concatenate(tables, axis=1)
    view = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
    return mixed_views(as_cells(X, columns), columns, view, n_views=len(tables))
