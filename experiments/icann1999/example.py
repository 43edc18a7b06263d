"""Section 5's example: 100 points in 10 dimensions, standard deviations 5, 4, 3, 2 and six of 1.

The paper says "four orthogonal directions" and not which: they are turned by a random orthogonal
matrix here. What is found depends on the turn no more than rounding does.
"""

from __future__ import annotations

import numpy as np

from bayespca import VariationalPCA

N, DEVIATIONS = 100, np.array([5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
D = DEVIATIONS.size
Q = D - 1
SETTING = f"N = {N}, d = {D}, standard deviations 5, 4, 3, 2 and six of 1 in turned directions."


def points(seed: int, *, turned: bool = True) -> np.ndarray:
    """N rows of d features."""
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((N, D)) * DEVIATIONS
    directions, _ = np.linalg.qr(rng.standard_normal((D, D)))
    return T @ directions.T if turned else T


# Constants of the paper's priors; those that are not here have no units, and this default.
BROAD = {"b_alpha": 1e-3, "b_tau": 1e-3, "beta": 1e-3}


def variational(T: np.ndarray, **options) -> VariationalPCA:
    """The paper's model with its broad priors, all constants 10⁻³, and q = d − 1."""
    return VariationalPCA(n_components=Q, random_state=0, **(BROAD | options)).fit(T)


def norms(W: np.ndarray) -> np.ndarray:
    """Norms of the columns of W."""
    return np.linalg.norm(W, axis=-2)
