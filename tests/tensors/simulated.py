"""Tensors whose truth is known, and states for tests of the sweeps."""

from __future__ import annotations

import numpy as np

from bayespca.datasets import low_rank_tensor
from bayespca.lowrank.factors import FactorPrior
from bayespca.spectrum import MAP, PB_B, VB
from bayespca.tensors.data import TuckerCells, tucker_cells
from bayespca.tensors.records import DenseCore, KroneckerCore
from bayespca.tensors.start import from_bases, guess, random
from bayespca.tensors.state import TuckerProblem, TuckerState
from oracles.tucker import Moments

FAMILIES = {"evb": VB, "epb": PB_B, "emap": MAP, "pb": PB_B}


def artificial(seed, sizes=(30, 40, 50), ranks=(3, 4, 5), snr=1.0):
    """ArtificialTF of aistats2014 Section 5.3: the tensor, and its signal without noise."""
    made = low_rank_tensor(sizes, ranks, snr=snr, random_state=seed)
    return made.T, made.signal


def with_holes(T, share, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(T.shape) < share, np.nan, T)


def problem_of(data: TuckerCells, method: str, *, free=True) -> TuckerProblem:
    """The problem of a method; methods with point estimates are given the noise variance."""
    prior = FactorPrior("given", 0.5) if method == "pb" else FactorPrior("learned")
    noise = None if method == "evb" else 0.3
    return TuckerProblem(FAMILIES[method], prior, data.sizes, (free,) * len(data.shape), noise)


def started(T, method, ranks, *, center=False, seed=0, free=True, closed=False):
    """Data, problem, and a state from normal draws or from singular vectors of the unfoldings."""
    data = tucker_cells(T, center=center)
    problem = problem_of(data, method, free=free)
    if closed:
        return data, problem, from_bases(data, problem, guess(data, ranks).bases, 0.01)
    rng = np.random.default_rng(seed)
    return data, problem, random(data, problem, ranks, 0.3, rng)


def moments_of(state: TuckerState) -> Moments:
    """The state for the oracle: a covariance for each row, and one for the whole core."""
    covs = [
        np.broadcast_to(rows.cov, (len(rows.mean), rows.rank, rows.rank)) for rows in state.rows
    ]
    means = [rows.mean for rows in state.rows]
    cov = core_covariance(state.core)
    return Moments(means, covs, state.core.mean, cov, list(state.priors), state.noise_variance)


def core_covariance(core: KroneckerCore | DenseCore) -> np.ndarray:
    if isinstance(core, DenseCore):
        return core.cov
    Q = np.ones((1, 1))
    for basis in core.bases:
        Q = np.kron(Q, basis)
    return Q @ np.diag(core.spread.ravel()) @ Q.T


def unequal(seed, sizes=(12, 14, 16), ranks=(2, 3, 2), snr=1.0, spread=1.0):
    """A tensor whose slices differ in noise by factors of about e^spread, and these variances."""
    T, signal = artificial(seed, sizes, ranks, snr=snr)
    rng = np.random.default_rng(seed)
    variances = [np.exp(spread * rng.normal(size=size)) for size in sizes]
    grid = np.ix_(*variances)
    return signal + (T - signal) * np.sqrt(grid[0] * grid[1] * grid[2]), variances
