"""Joint solution for the values of holes and the core.

Given the factors, the mean of the core is linear in the values y of the holes, and its prediction
for them is P·y + …, with P = B·diag(w)·Bᵀ, Bₙ = ÂₙQₙ and w = spread/σ². If the core has nearly as
many entries as there are cells, P is nearly 1: holes filled with the last prediction hardly move in
a sweep. So (1 − P)·y = … is solved by conjugate gradients, each step of which lowers the free
energy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array

from .complete import Projected
from .data import TuckerCells
from .modes import times
from .state import TuckerProblem, TuckerState

# Most gradient steps, and the share of their total gain that one more has to add.
MOST_GRADIENTS = 50
WORTHWHILE = 1e-3


def refilled(
    state: TuckerState, equations: Projected, data: TuckerCells, problem: TuckerProblem
) -> tuple[Projected, TuckerCells]:
    """Fill the holes with the predictions of the core that they lead to, the factors fixed.

    `data` are already filled in some way. Return the equations of the core, and the filled data.
    """
    s2 = state.noise_variance
    core = equations.solved(state.priors, problem.core_variance, s2, integrated=True)
    xp, means = array_namespace(data.values), [rows.mean for rows in state.rows]
    hole = xp.ones_like(data.values) - data.seen
    weights, bases = core.spread / s2, [A @ Q for A, Q in zip(means, core.bases, strict=True)]
    expected = times(at(data.values, core.mean), means)

    def apart(y: Array) -> Array:
        """(1 − P)·y"""
        along = times(y, [B.T for B in bases]) * at(y, weights)
        return y - times(along, bases) * hole

    change = _solved(apart, (expected - data.values) * hole)
    cross = equations.cross + to_numpy(times(change, [A.T for A in means]))
    values = data.values + change
    squares = float(xp.sum(values * values))
    return replace(equations, cross=cross), replace(data, values=values, squares=squares)


def _solved(matrix: Callable[[Array], Array], right: Array) -> Array:
    """x with matrix·x = right for a positive definite matrix, as precisely as pays, from x = 0."""
    xp = array_namespace(right)
    x, left, along = xp.zeros_like(right), right, right
    size, gained = float(xp.sum(left * left)), 0.0
    for _ in range(MOST_GRADIENTS):
        if not size:
            break
        image = matrix(along)
        step = size / float(xp.sum(along * image))
        x, left = x + step * along, left - step * image
        gained += step * size
        if step * size < WORTHWHILE * gained:
            break
        before, size = size, float(xp.sum(left * left))
        along = left + (size / before) * along
    return x
