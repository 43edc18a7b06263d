"""Fits of complete data by iteration: the problem of the closed forms, solved by sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray, Input, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit
from bayespca.linear.fit import Decomposed, decomposed, described, from_decomposition, posterior_of
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.priors import EmpiricalVB, GivenPrior
from bayespca.spectrum.records import Moments, Solution, Status
from bayespca.spectrum.tolerances import (
    GONE,
    LEAST_BORROWED_OF_SWEEPS,
    LEAST_NOISE_OF_SWEEPS,
    VANISHING,
)

from .step import SweepProblem, SweepState, random_start, start_at, step

# Weights of singular vectors below this are far below the accuracy of the iteration.
TINY = 1e-9
# A component shrinks to no less than this part of its length at once.
SHORTEST = 0.5


def fit(
    X: Input,
    form: ClosedForm,
    looping: inference.Looping,
    *,
    init: str = "random",
    center: bool = True,
    scale: bool = False,
    engine: str = "auto",
) -> PCAFit:
    """Fit by sweeps, which need only the singular values, but all of them.

    Options are those of `BayesianPCA`.
    """
    data = decomposed(
        X,
        form,
        n_needed=EVERYTHING,
        center=center,
        scale=scale,
        engine=engine,
        random_state=looping.random_state,
    )
    if not data.sum_of_squares:
        return from_decomposition(data, form)
    return inference.fit(sweep_model(data, form, init=init), data, looping)


@dataclass(frozen=True, kw_only=True)
class SweepModel(SweepProblem, Model[Decomposed, SweepState, PCAFit]):
    """The problem of a closed form, from normal draws of `most` components or its solution."""

    form: ClosedForm
    most: int
    init: str = "random"

    def start(self, data: Decomposed, rng: np.random.Generator) -> SweepState:
        closed, unit = self._closed(data), data.unit
        noise = closed.noise_variance / (unit * unit)
        if self.has_one_start:
            return start_at(data, self.factors, closed.moments.in_units(1 / unit), noise)
        if self.form.noise_variance == "auto":
            # Half of the mean square until the first sweep, if noise is learned; else EVB's noise.
            least = LEAST_BORROWED_OF_SWEEPS * data.mean_square
            noise = 0.5 * data.mean_square if self.learns_noise else max(noise, least)
        scale = float(data.mean_square**0.25) or 1.0
        return random_start(data, self.factors, self.most, noise, rng, scale)

    def step(self, state: SweepState, data: Decomposed) -> tuple[SweepState, Info]:
        return step(state, data, self)

    def chart(self, data: Decomposed) -> SweepChart | None:
        # Without turning, sweeps must be those of the papers: no acceleration.
        return SweepChart(data, self) if self.settle else None

    def digests(self, data: Decomposed) -> Sequence[object]:
        return [data.gamma, data.unit, data.sum_of_squares, data.log_scale]

    # --- results -------------------------------------------------------------------------------

    def posterior(self, state: SweepState, data: Decomposed) -> Posterior:
        """The posterior whose components are turned into the space of the features."""
        order = _strongest(state, self.factors)
        b = state.b[:, order]
        # Sweeps end before directions of nearly equal strength are orthogonal to the last digit:
        # these are the nearest orthonormal ones.
        u, _, v = np.linalg.svd(b / np.linalg.norm(b, axis=0), full_matrices=False)
        directions = np.asarray((u @ v).T)
        left = state.a[:, order] / np.linalg.norm(state.a[:, order], axis=0)
        gamma = np.einsum("hk,k,kh->h", directions, data.gamma, left)
        # Most directions have no weight on the weak singular vectors: these need not be computed.
        used = np.flatnonzero(np.abs(directions).max(axis=0, initial=0.0) > TINY)
        count = int(used[-1]) + 1 if used.size else 0
        right = data.found.right(count)
        turn = to_namespace(directions[:, :count], right)
        components = fixed_signs(array_namespace(right).matmul(turn, right))
        return posterior_of(data, self._solution(state, data), components, gamma * data.unit)

    def free_energy(self, run: Run[SweepState], data: Decomposed) -> float:
        return data.in_units(self._solution(run.state, data).free_energy)

    def status(self, state: SweepState, data: Decomposed) -> Status:
        return data.found.status + self._closed(data).status

    def described(self, found: Fit[PCAPosterior], run: Run[SweepState], data: Decomposed) -> PCAFit:
        return described(found, data.found, self._solution(run.state, data))

    def _closed(self, data: Decomposed) -> Solution:
        return self.form(data.found.spectrum)

    def _solution(self, state: SweepState, data: Decomposed) -> Solution:
        """The solution, in the units of the decomposed data.

        The threshold and the probability of each rank come from the closed form: they are
        properties of the model and the data, not of a solution.
        """
        unit, order = data.unit, _strongest(state, self.factors)
        moments = Moments(
            np.linalg.norm(state.a[:, order], axis=0),
            np.linalg.norm(state.b[:, order], axis=0),
            np.diag(state.a_cov)[order].copy(),
            np.diag(state.b_cov)[order].copy(),
            state.prior_a[order],
            state.prior_b[order],
        )
        (L, M), log_unit = self.factors.shape, float(np.log(unit))
        energy = self.factors.energy_in_units(
            state.energy + L * M * log_unit, rank=state.rank, n_gone=state.n_gone, unit=unit
        )
        return replace(
            self._closed(data),
            rank=int(order.size),
            noise_variance=state.noise_variance * (unit * unit),
            shrunk_singular_values=moments.mean_a * moments.mean_b * unit,
            moments=moments.in_units(unit),
            free_energy=energy,
        )


def sweep_model(
    data: Decomposed, form: ClosedForm, *, init: str = "random", settle: bool = True
) -> SweepModel:
    """The model of decomposed data whose closed form is `form`."""
    L, M = data.spectrum.shape
    c2 = form.prior_variance
    given = np.inf if c2 is None else float(c2) / (data.unit * data.unit)
    prior = form.method.prior(L, M, given)
    own = FactorPrior("learned")
    if isinstance(prior, GivenPrior):
        own = FactorPrior("given", prior.prior_variance)
    least = GONE * float(np.sqrt(data.mean_square)) or GONE
    cap = data.spectrum.full_rank if form.n_components is None else form.n_components
    most = min(cap, data.gamma.size)
    if isinstance(prior, EmpiricalVB) and form.estimates_noise:
        # EVB cannot keep more where it learns the noise.
        most = min(most, max(prior.rank_limit, 1))
    return SweepModel(
        factors=Factors((L, M), prior.family, own, least),
        learns_noise=form.estimates_noise,
        settle=settle,
        form=form,
        most=most,
        init=init,
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


# --- states as vectors -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SweepChart:
    """W = B·diag(cₐ), turned towards another W, the logarithm of its rows' covariance, and log σ²
    where it is learned. The next step sets A. Before components have found their places there are
    no points: extrapolation from a random start would leave its basin.
    """

    data: Decomposed
    problem: SweepProblem

    def point(self, state: SweepState, like: Vector | None) -> StatePoint | None:
        if not state.calm:
            return None
        parts = self._parts(state).aligned(like)
        return StatePoint(parts.vector, self._errors(state, parts))

    def at(self, state: SweepState, vector: Vector) -> SweepState:
        here, c = self._parts(state), np.sqrt(state.prior_a)
        goal = here.at(vector).turned_to(here.W)
        # A point estimate that comes near zero stays there, even if it would grow in time.
        sizes, before = np.linalg.norm(goal.W, axis=0), np.linalg.norm(here.W, axis=0)
        W = np.where(sizes < SHORTEST * before, here.W * SHORTEST, goal.W)
        new = replace(state, b=W / c)
        if goal.spread.size:
            T = change_of_root(here.spread, goal.spread) * c / c[:, None]
            new = replace(new, b_cov=T @ state.b_cov @ T.T)
        if goal.rest.size:
            log = np.clip(goal.rest, here.rest - FURTHEST, here.rest + FURTHEST)
            new = replace(new, noise_variance=max(float(np.exp(log[0])), LEAST_NOISE_OF_SWEEPS))
        return replace(new, prior_b=self._priors(state, new))

    def _parts(self, state: SweepState) -> Loadings:
        c, integrates = np.sqrt(state.prior_a), self.problem.factors.family.integrates_b
        spread = logarithm(state.b_cov * c * c[:, None]) if integrates else np.empty((0, 0))
        noise = [state.noise_variance] if self.problem.learns_noise else []
        return Loadings(state.b * c, spread, np.log(np.array(noise)))

    def _errors(self, state: SweepState, parts: Loadings) -> FloatArray:
        L, M = self.problem.factors.shape
        return np.concatenate(
            [
                np.full(parts.W.size, np.sqrt(state.noise_variance / M)),
                np.full(parts.spread.size, np.sqrt(2 / L)),
                np.full(parts.rest.size, np.sqrt(2 / (L * M))),
            ]
        )

    def _priors(self, state: SweepState, new: SweepState) -> FloatArray:
        """Prior variances of B; learned ones grow as the loadings do."""
        factors = self.problem.factors
        if not factors.prior.is_learned:
            return state.prior_b
        before, after = (self._squares(one) for one in (state, new))
        growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)
        return np.maximum(state.prior_b * growth, factors.least)

    def _squares(self, state: SweepState) -> FloatArray:
        """⟨‖b‖²⟩ of each component."""
        L, _ = self.problem.factors.shape
        return np.asarray((state.b**2).sum(axis=0) + L * np.diag(state.b_cov))
