"""Complete data by iteration: the same problem as the closed forms', solved by sweeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import Prior
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.priors import GivenPrior, empirical_vb
from bayespca.spectrum.records import Moments, Solution, Spectrum
from bayespca.spectrum.tolerances import VANISHING

from . import step as matrix_wise
from .step import Problem, State

LEARNS_NOISE = ("evb", "vb", "ml")


@dataclass(frozen=True)
class Found:
    """What the iteration found.

    `directions` (k, K) are those of the components in the basis of the singular vectors, `gamma` is
    the size of the data along them.
    """

    solution: Solution
    directions: FloatArray
    gamma: FloatArray
    run: inference.Run[State]


def solve(
    spectrum: Spectrum,
    method: str,
    closed: Solution,
    *,
    noise_variance: float | str = "auto",
    prior_variance: float | None = None,
    max_rank: int | None = None,
    looping: inference.Looping,
    from_closed: bool = False,
    settle: bool = True,
) -> Found:
    """Solve by sweeps from normal draws, or from the closed form.

    `closed` is the closed-form solution, for what is a property of the model and the data rather
    than of a solution: the threshold, the probability of each rank, and the noise where the free
    energy of a method has no usable minimum over it.
    """
    unit = spectrum.at_unit_scale()
    u2 = unit.scale * unit.scale
    L, M = unit.shape
    given = np.inf if prior_variance is None else float(prior_variance) / u2
    of_method = METHODS[method].prior(L, M, given)
    is_given = isinstance(of_method, GivenPrior)
    prior = Prior("given", given) if is_given else Prior("learned")
    learns = noise_variance == "auto" and method in LEARNS_NOISE
    problem = Problem.of(unit, of_method.family, prior, learns_noise=learns, settle=settle)
    mean_square = unit.sum_of_squares / (L * M)
    # Half of everything, until the first sweep has been made.
    noise = 0.5 * mean_square if learns else closed.noise_variance / u2
    H = min(unit.full_rank if max_rank is None else max_rank, unit.singular_values.size)
    if method == "evb" and learns:
        # No more than the method can keep.
        H = min(H, max(empirical_vb(L, M).rank_limit, 1))

    def start(rng: np.random.Generator) -> State:
        if from_closed:
            moments = closed.moments.in_units(1 / unit.scale)
            return matrix_wise.start_at(problem, moments, closed.noise_variance / u2)
        return matrix_wise.start(problem, H, noise, rng, scale=float(mean_square**0.25) or 1.0)

    step = partial(matrix_wise.step, problem=problem)
    run = looping.run(step, start, n_init=1 if from_closed else None)
    moments, directions, gamma = _components(run.state, problem)
    solution = replace(
        closed,
        rank=int(gamma.size),
        noise_variance=run.state.noise_variance * u2,
        shrunk_singular_values=moments.mean_a * moments.mean_b * unit.scale,
        moments=moments.in_units(unit.scale),
        free_energy=problem.factors.energy_in_units(
            run.free_energy + L * M * float(np.log(unit.scale)),
            rank=run.state.rank,
            n_gone=run.state.n_gone,
            unit=unit.scale,
        ),
    )
    return Found(solution, directions, gamma * unit.scale, run)


def _components(state: State, problem: Problem) -> tuple[Moments, FloatArray, FloatArray]:
    """Moments of the components, strongest first, their directions, and the data along them."""
    size_a, size_b = (np.linalg.norm(factor, axis=0) for factor in (state.a, state.b))
    order = np.argsort(-size_a * size_b, kind="stable")
    order = order[_alive(state, problem)[order]]
    directions = (state.b[:, order] / size_b[order]).T
    left = state.a[:, order] / size_a[order]
    gamma = np.einsum("hk,k,kh->h", directions, problem.gamma, left)
    moments = Moments(
        size_a[order],
        size_b[order],
        np.diag(state.a_cov)[order].copy(),
        np.diag(state.b_cov)[order].copy(),
        state.prior_a[order],
        state.prior_b[order],
    )
    return moments, directions, gamma


def _alive(state: State, problem: Problem) -> NDArray[np.bool_]:
    """Which components have a mean: under VB with a given prior those without it stay in the state.

    Their means vanish by a factor in each sweep, so that they are small against their spread.
    """
    L, M = problem.shape
    alive = np.ones(state.rank, dtype=np.bool_)
    for factor, cov, rows in ((state.a, state.a_cov, M), (state.b, state.b_cov, L)):
        mean = np.einsum("kh,kh->h", factor, factor)
        alive &= (mean > VANISHING * rows * np.diag(cov)) & (mean > 0)
    return alive
