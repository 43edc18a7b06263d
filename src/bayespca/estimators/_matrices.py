"""Tensors with two modes: the core can be absorbed into a factor, so a matrix model serves."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank import imputing
from bayespca.lowrank.from_complete import general
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.noise_models import ISOTROPIC as EQUAL
from bayespca.lowrank.records import PCAPosterior
from bayespca.tensors.fit import PER_MODE, TuckerFit, TuckerNoise
from bayespca.tensors.posterior import completed

from ._posterior import functions
from .pca import BayesianPCA


def of_matrix(model: BayesianPCA, X: Array, rank: int | None) -> TuckerFit:
    """A fitted PCA as a Tucker fit; singular values of its low-rank matrix form a diagonal core."""
    scores = to_numpy(model.transform(X)).astype(np.float64)
    basis, root = np.linalg.qr(_loadings(model.posterior_).T)
    left, s, turn = np.linalg.svd(scores @ root.T, full_matrices=False)
    right = basis @ turn.T
    signs = np.sign(np.sum(fixed_signs(right.T) * right.T, axis=1))
    H = s.size if rank is None else rank
    core = np.zeros((H, H))
    core[range(s.size), range(s.size)] = s
    return TuckerFit(
        model.posterior_,
        model.free_energy_,
        trace=model.trace_,
        converged=model.converged_,
        status=model.fit_.status,
        core=core,
        factors=(completed(left * signs, H), completed(right * signs, H)),
        mean=to_numpy(model.mean_).astype(np.float64),
        noise_variance=float(model.noise_variance_),
        noise=_noise(model),
        unknown=model.uncertain_posterior()[1],
    )


def _noise(model: BayesianPCA) -> TuckerNoise:
    """The noise of a PCA for a Tucker fit: rows and columns are the slices of two modes."""
    if model.noise_ == EQUAL.name:
        return TuckerNoise()
    own = (model.sample_noise_variance_, model.feature_noise_variance_)
    return TuckerNoise(name=PER_MODE, slices=tuple(to_numpy(a).astype(np.float64) for a in own))


def _loadings(posterior: PCAPosterior) -> FloatArray:
    """The loadings, which multiply scores, in units of the data."""
    found = to_numpy(posterior.directions) * to_numpy(posterior.scale)
    return np.asarray(found, dtype=np.float64)


def scores(posterior: PCAPosterior, X: Array, core: FloatArray, right: FloatArray) -> FloatArray:
    """Rows of the first factor for the rows of X."""
    read, posterior = functions(posterior, X)
    along = to_numpy(read.scores(posterior, X)).astype(np.float64)
    loadings = _loadings(posterior)
    H = len(loadings)
    out = np.zeros((along.shape[0], core.shape[0]))
    out[:, :H] = along @ (loadings @ right[:, :H]) / np.diag(core)[:H]
    return out


def imputed(
    posterior: PCAPosterior, X: Array, unknown: imputing.Unknown | None
) -> tuple[Array, Array]:
    """X with its holes filled, and the standard deviations of the filled values."""
    found = posterior if isinstance(posterior, HolesPosterior) else general(posterior)
    return imputing.impute(found, X, unknown=unknown)
