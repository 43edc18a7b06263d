"""Factorization of ratings as a model: its starts, steps, moves between ranks, and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.factors import FactorPrior, Factors
from bayespca.spectrum.closed_form import evb_threshold, learned_strength
from bayespca.spectrum.methods import EVB, Method
from bayespca.spectrum.records import Status
from bayespca.spectrum.solving import borrowed_noise
from bayespca.spectrum.tolerances import GONE

from .data import RatingsCells, SpreadTask
from .kernels import ROUNDS, Known, inverted
from .posterior import RatingsFactor, RatingsPosterior
from .start import random_start, start, with_one_more
from .step import RatingsChart, RatingsProblem, RatingsState, step, task_of

# Components to start with if their number is to be found; doubled as long as all are kept.
FIRST = 16
# Most loadings for which steps are accelerated, as those of the last ten steps must be stored.
REMEMBERED = 2_000_000
# Variance of a component too weak to be found, over the noise, that intervals must not ignore.
MUCH = 0.2


@dataclass(frozen=True, eq=False)
class RatingsFit(Fit[RatingsPosterior]):
    """A finished fit; `noise_variance` is in the units of the ratings."""

    noise_variance: float = float("nan")


@dataclass(frozen=True)
class RatingsModel(RatingsProblem, Model[RatingsCells, RatingsState, RatingsFit]):
    """Factorization of ratings by a method that learns its priors.

    It starts with `rank` components, and has at most `most` of them. The posterior has the given
    `dtype`; `init` is as in `MatrixFactorization`.
    """

    method: Method = EVB
    most: int = 0
    rank: int = 0
    init: str = "closed"
    dtype: str = "float64"
    borrows_noise: bool = False

    def start(self, data: RatingsCells, rng: np.random.Generator) -> RatingsState:
        if self.has_one_start:
            return start(data, self, self.rank)
        return random_start(data, self, self.rank, rng)

    def step(self, state: RatingsState, data: RatingsCells) -> tuple[RatingsState, Info]:
        return step(state, data, self)

    def chart(self, data: RatingsCells) -> RatingsChart | None:
        return RatingsChart(data, self) if data.shape[1] * self.rank <= REMEMBERED else None

    def digests(self, data: RatingsCells) -> Sequence[object]:
        return data.digests()

    # --- noise of another model ----------------------------------------------------------------

    def lender(self) -> RatingsModel | None:
        """The EVB model that lends its noise to point-estimating methods, else None.

        Their own free energies have no usable minimum over the noise.
        """
        if self.fixed_noise is not None or self.method.learns_noise:
            return None
        return replace(self, method=EVB, factors=_factors(EVB, self.factors.shape))

    def lent(self, state: RatingsState) -> Self:
        return replace(self, fixed_noise=state.noise_variance, borrows_noise=True)

    # --- ranks ---------------------------------------------------------------------------------

    def wider(self, state: RatingsState) -> Self | None:
        """The model with twice as many components to start with, if all of these are kept."""
        if not state.rank == self.rank < self.most:
            return None
        return replace(self, rank=min(2 * self.rank, self.most))

    def moves(self, data: RatingsCells) -> Sequence[Move[RatingsState]]:
        def less(state: RatingsState) -> RatingsState | None:
            return state.without(state.rank - 1) if state.rank else None

        def more(state: RatingsState) -> RatingsState | None:
            return with_one_more(state, data, self) if state.rank < self.most else None

        return [Move(less, more)] if self.prunes else []

    # --- results -------------------------------------------------------------------------------

    def posterior(self, state: RatingsState, data: RatingsCells) -> RatingsPosterior:
        b, b_cov = state.b.astype(self.dtype), state.b_cov.astype(self.dtype)
        rows = RatingsFactor(*data.rows(task_of(state, self), self.dtype), state.prior_a)
        columns = RatingsFactor(b, b_cov, state.prior_b)
        if len(rows.cov) and len(columns.cov):
            # Covariances of both sides with the other integrated out; see `kernels`.
            task = SpreadTask(task_of(state, self), Known(state.b, state.b_cov, state.prior_b))
            for _ in range(ROUNDS):
                cov = inverted(data.spread(task), state.prior_b)
                task = task._replace(columns=task.columns._replace(cov=cov))
            rows = replace(rows, spread=data.spread_of_rows(task, self.dtype))
            columns = replace(columns, spread=task.columns.cov.astype(self.dtype))
        return RatingsPosterior(
            rows=rows,
            columns=columns,
            mean=state.location,
            noise_variance=state.noise_variance,
            location=data.location,
            unit=data.unit,
            biases=self.biases,
        )

    def free_energy(self, run: Run[RatingsState], data: RatingsCells) -> float:
        """The free energy in the units of the ratings.

        Each factor scales with the square root of the unit, and biases with the unit.
        """
        log_unit, factors = float(np.log(data.unit)), self.factors
        energy = run.free_energy + (data.n_cells + factors.points * self.biases) * log_unit
        state = run.state
        return factors.energy_in_units(energy, rank=state.rank, n_gone=state.n_gone, unit=data.unit)

    def status(self, state: RatingsState, data: RatingsCells) -> Status:
        status = Status()
        if not data.squares:
            status = status.but(
                "all-equal",
                "All ratings are the same, so the data do not show how much other ratings could "
                "differ; predictions have no spread.",
            )
        elif self.prunes and (unseen := _unseen(data)) > MUCH:
            status = status.but(
                "few-ratings",
                f"With only {data.n_cells} ratings, a component with up to {unseen:.0%} of the "
                "noise variance would not be found. Standard deviations of factors, and of "
                'predictions without noise (return_std="mean"), ignore it and are too small if it '
                "exists; those of ratings include it.",
            )
        return status.but(*borrowed_noise(self.method.name)) if self.borrows_noise else status

    def described(
        self, found: Fit[RatingsPosterior], run: Run[RatingsState], data: RatingsCells
    ) -> RatingsFit:
        return extended(
            found, RatingsFit, noise_variance=float(run.state.noise_variance * data.unit**2)
        )


def _unseen(data: RatingsCells) -> float:
    """Largest variance in a cell, over that of the noise, of a component that EVB does not keep.

    For n×m data with N cells it is the strength at EVB's threshold, over N.
    """
    n, m = (float(size) for size in data.shape)
    least = learned_strength(np.array([evb_threshold(n, m)]), n, m, n, m)
    return float(least[0]) / max(data.n_cells, 1)


def ratings_model(
    data: RatingsCells,
    method: Method = EVB,
    *,
    n_components: int | None = None,
    noise_variance: float | None = None,
    biases: bool = True,
    init: str = "closed",
    dtype: str = "float64",
) -> RatingsModel:
    """The model of ratings, with at most as many components as the data allow.

    Options are those of `MatrixFactorization`; None stands for what is to be estimated.
    """
    n, m = data.shape
    most = max(min(n, m) - 1, 0)
    most = most if n_components is None else min(n_components, most)
    return RatingsModel(
        factors=_factors(method, (m, n)),
        biases=biases,
        fixed_noise=None if noise_variance is None else noise_variance / data.unit**2,
        method=method,
        most=most,
        rank=min(FIRST, most) if n_components is None else most,
        init=init,
        dtype=dtype,
    )


def _factors(method: Method, shape: tuple[float, float]) -> Factors:
    return Factors(shape, method.prior(*shape, np.inf).family, FactorPrior("learned"), GONE)
