"""Tensors of two modes: the core can be taken into a factor, and the model is that of a matrix."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank import holes_posterior
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import PCAPosterior
from bayespca.tensors.fit import TuckerFit
from bayespca.tensors.posterior import completed

from ._reading import functions, general
from .pca import BayesianPCA


def of_matrix(model: BayesianPCA, X: Array, rank: int | None) -> TuckerFit:
    """A fitted PCA: the core has the singular values of its low-rank matrix as its diagonal."""
    scores = to_numpy(model.transform(X)).astype(np.float64)
    components = to_numpy(model.components_).astype(np.float64)
    left, s, turn = np.linalg.svd(scores, full_matrices=False)
    right = components.T @ turn.T
    signs = np.sign(np.sum(fixed_signs(right.T) * right.T, axis=1))
    H = s.size if rank is None else rank
    core = np.zeros((H, H))
    core[range(s.size), range(s.size)] = s
    return TuckerFit(
        model.posterior_,
        model.free_energy_,
        trace=model.trace_,
        converged=model.converged_,
        status=model.status_,
        core=core,
        factors=(completed(left * signs, H), completed(right * signs, H)),
        mean=to_numpy(model.mean_).astype(np.float64),
        noise_variance=float(model.noise_variance_),
    )


def scores(posterior: PCAPosterior, X: Array, core: FloatArray, right: FloatArray) -> FloatArray:
    """Rows of the first factor that belong to rows of a matrix."""
    read, posterior = functions(posterior, X)
    along = to_numpy(read.scores(posterior, X)).astype(np.float64)
    components = to_numpy(posterior.components).astype(np.float64)
    H = components.shape[0]
    out = np.zeros((along.shape[0], core.shape[0]))
    out[:, :H] = along @ (components @ right[:, :H]) / np.diag(core)[:H]
    return out


def imputed(posterior: PCAPosterior, X: Array, *, noise: bool) -> tuple[Array, Array]:
    """Holes filled, and the standard deviation of what is in them."""
    found = posterior if isinstance(posterior, HolesPosterior) else general(posterior)
    return holes_posterior.impute(found, X, noise=noise)
