"""Tensors of two modes: the core can be taken into a factor, and the model is that of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca import inference, tensors
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank import holes_posterior
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.spectrum.records import Status
from bayespca.tensors.posterior import completed

from ._reading import functions, general
from .pca import BayesianPCA


@dataclass(frozen=True)
class Found:
    """A finished fit, whatever the number of modes; `mean` is a slice of the first mode."""

    posterior: Any
    core: FloatArray
    factors: tuple[FloatArray, ...]
    mean: FloatArray
    noise_variance: float
    free_energy: float
    trace: inference.Trace | None
    n_iter: int
    converged: bool
    status: Status


def of_tensor(fitted: tensors.Fit) -> Found:
    return Found(
        fitted.posterior,
        fitted.core,
        fitted.factors,
        fitted.posterior.mean,
        fitted.posterior.noise_variance,
        fitted.free_energy,
        fitted.trace,
        len(fitted.trace),
        fitted.converged,
        fitted.status,
    )


def of_matrix(model: BayesianPCA, X: Array, rank: int | None) -> Found:
    """A fitted PCA: the core has the singular values of its low-rank matrix as its diagonal."""
    scores = to_numpy(model.transform(X)).astype(np.float64)
    components = to_numpy(model.components_).astype(np.float64)
    left, s, turn = np.linalg.svd(scores, full_matrices=False)
    right = components.T @ turn.T
    signs = np.sign(np.sum(fixed_signs(right.T) * right.T, axis=1))
    H = s.size if rank is None else rank
    core = np.zeros((H, H))
    core[range(s.size), range(s.size)] = s
    return Found(
        model.posterior_,
        core,
        (completed(left * signs, H), completed(right * signs, H)),
        to_numpy(model.mean_).astype(np.float64),
        float(model.noise_variance_),
        model.free_energy_,
        model.trace_,
        model.n_iter_,
        model.converged_,
        model.status_,
    )


def scores(posterior: Any, X: Array, core: FloatArray, right: FloatArray) -> FloatArray:
    """Rows of the first factor that belong to rows of a matrix."""
    read, posterior = functions(posterior, X)
    along = to_numpy(read.scores(posterior, X)).astype(np.float64)
    components = to_numpy(posterior.components).astype(np.float64)
    H = components.shape[0]
    out = np.zeros((along.shape[0], core.shape[0]))
    out[:, :H] = along @ (components @ right[:, :H]) / np.diag(core)[:H]
    return out


def imputed(posterior: Any, X: Array, *, noise: bool) -> tuple[Array, Array]:
    """Holes filled, and the standard deviation of what is in them."""
    found = posterior if isinstance(posterior, HolesPosterior) else general(posterior)
    return holes_posterior.impute(found, X, noise=noise)
