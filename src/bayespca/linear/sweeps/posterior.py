"""The result of sweeps in terms of the data, as a solution like that of the closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.linear.data import Decomposed
from bayespca.linear.posterior import posterior_of
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.posterior import Posterior
from bayespca.spectrum.records import Moments, Solution
from bayespca.spectrum.tolerances import VANISHING

from .step import SweepState

# Weights of singular vectors below this are far below the accuracy of the iteration.
TINY = 1e-9


def solution_of(
    state: SweepState, data: Decomposed, factors: Factors, closed: Solution
) -> Solution:
    """The solution, in the units of the decomposed data.

    The threshold and the probability of each rank come from the closed form: they are properties of
    the model and the data, not of a solution.
    """
    unit = data.unit
    moments = _moments(state, _strongest(state, factors))
    (L, M), log_unit = factors.shape, float(np.log(unit))
    energy = factors.energy_in_units(
        state.energy + L * M * log_unit, rank=state.rank, n_gone=state.n_gone, unit=unit
    )
    return replace(
        closed,
        rank=int(moments.mean_a.size),
        noise_variance=state.noise_variance * (unit * unit),
        shrunk_singular_values=moments.mean_a * moments.mean_b * unit,
        moments=moments.in_units(unit),
        free_energy=energy,
    )


def posterior(
    state: SweepState, data: Decomposed, factors: Factors, solution: Solution
) -> Posterior:
    """The posterior of the data: components are turned into the space of the features."""
    order = _strongest(state, factors)
    directions = _orthonormal(state.b[:, order])
    left = state.a[:, order] / np.linalg.norm(state.a[:, order], axis=0)
    gamma = np.einsum("hk,k,kh->h", directions, data.gamma, left)
    # Most directions have no weight on the weak singular vectors: these need not be computed.
    used = np.flatnonzero(np.abs(directions).max(axis=0, initial=0.0) > TINY)
    count = int(used[-1]) + 1 if used.size else 0
    right = data.found.right(count)
    turn = to_namespace(directions[:, :count], right)
    components = fixed_signs(array_namespace(right).matmul(turn, right))
    return posterior_of(data, solution, components, gamma * data.unit)


def _orthonormal(b: FloatArray) -> FloatArray:
    """The orthonormal rows that are nearest to the directions of columns.

    Sweeps end before directions of nearly equal strength are orthogonal to the last digit.
    """
    left, _, right = np.linalg.svd(b / np.linalg.norm(b, axis=0), full_matrices=False)
    return np.asarray((left @ right).T)


def _moments(state: SweepState, order: NDArray[np.intp]) -> Moments:
    """Moments of the components in a given order."""
    return Moments(
        np.linalg.norm(state.a[:, order], axis=0),
        np.linalg.norm(state.b[:, order], axis=0),
        np.diag(state.a_cov)[order].copy(),
        np.diag(state.b_cov)[order].copy(),
        state.prior_a[order],
        state.prior_b[order],
    )


def _strongest(state: SweepState, factors: Factors) -> NDArray[np.intp]:
    """Components whose mean is not zero, strongest first.

    Under VB with a given prior the others stay in the state: their means shrink by a factor in each
    sweep, so that they are small against their spread.
    """
    L, M = factors.shape
    alive = np.ones(state.rank, dtype=np.bool_)
    sizes = np.ones(state.rank)
    for mean, cov, rows in ((state.a, state.a_cov, M), (state.b, state.b_cov, L)):
        square = np.einsum("kh,kh->h", mean, mean)
        alive &= (square > VANISHING * rows * np.diag(cov)) & (square > 0)
        sizes *= np.linalg.norm(mean, axis=0)
    order = np.argsort(-sizes, kind="stable")
    return np.asarray(order[alive[order]])
