"""Simulated cells of any likelihood, with their natural parameters."""

from __future__ import annotations

import numpy as np

from bayespca import inference
from bayespca.discrete.columns import LIKELIHOODS
from bayespca.discrete.data import ColumnGroup, TableCells, known_table
from bayespca.discrete.fit import general_model
from bayespca.inference import Looping

STRENGTH = {"bernoulli": 1.2, "ordinal": 1.2, "poisson": 0.5, "negative-binomial": 0.5}
BASE = {"poisson": 1.0, "negative-binomial": 1.0}
PARAMETERS = {"normal": (0.3, 0.8, 1), "negative-binomial": (1.0, 5.0, 1), "ordinal": (0.7, 1.5, 3)}


def simulated(kinds, n=300, rank=3, holes=0.0, seed=0):
    """Cells with the given number of columns of each kind, and their natural parameters z."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, rank))
    groups, logits = [], []
    for name in LIKELIHOODS:
        if q := kinds.get(name, 0):
            B = STRENGTH.get(name, 1.0) * rng.normal(size=(rank, q))
            z = A @ B + BASE.get(name, 0.0) + 0.7 * rng.normal(size=q)
            low, high, count = PARAMETERS.get(name, (1.0, 1.0, 0))
            parameters = np.log(rng.uniform(low, high, size=(q, count)))
            x = LIKELIHOODS[name].drawn(z, parameters, rng)
            seen = rng.random(x.shape) >= holes
            seen[0], seen[:, 0] = True, True
            if name == "normal":
                mean, size = x.mean(axis=0), x.std(axis=0)
                x, z = (x - mean) / size, (z - mean) / size
                parameters = parameters - 2 * np.log(size)[:, None]
            known = None if seen.all() else seen
            groups.append(ColumnGroup(LIKELIHOODS[name], np.where(seen, x, 0.0), known, parameters))
            logits.append(z)
    return TableCells(tuple(groups)), np.concatenate(logits, axis=1)


def fitted(cells, n_components=None, **looping):
    """The fit of cells whose column parameters are unknown."""
    data = known_table(cells)
    options = {"max_iter": 300, "tol": 1e-6} | looping
    return inference.fit(general_model(data, n_components=n_components), data, Looping(**options))


def as_matrix(cells):
    """Values with NaN in holes, and the kind and the parameters of each column."""
    values, kinds, parameters = [], [], []
    for group in cells.groups:
        values.append(np.where(group.known > 0, group.values, np.nan))
        kinds += [group.likelihood.name] * group.width
        parameters += list(group.parameters)
    return np.concatenate(values, axis=1), kinds, parameters
