"""Chains of draws from the posterior of Bayesian PCA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import ParamSpec, TypeVar

import numpy as np

from bayespca.arrays.parallel import one_blas_thread
from bayespca.arrays.types import Matrices, Matrix, Stacks
from bayespca.inference.chains import Schedule, kept_states
from bayespca.inference.loop import Callback, Info
from bayespca.lowrank.variational import Hyper

from .step import GibbsData, GibbsState, log_joint, start, sweep

P = ParamSpec("P")
R = TypeVar("R")

PRECISION = (
    "the posterior cannot be computed in double precision: the noise of the data is below "
    "rounding errors, or the prior does not suit their units. Subtract the mean and divide the "
    "data by their scale, or raise b_tau and b_alpha."
)


class PrecisionError(ArithmeticError):
    """Numbers of a chain left the range or the precision of floating-point arithmetic."""


@dataclass(frozen=True, eq=False)
class GibbsDraws:
    """Draws from the posterior in the units of the data; the first two axes are chain and draw.

    W : (chain, draw, d, q), alpha : (chain, draw, q), tau : (chain, draw), mu : (chain, draw, d);
    log_joint : (chain, draw), log p(T, W, α, μ, τ). Columns of W come in any order and may be
    rotated among themselves: compare products, or align them first.
    """

    W: Stacks
    alpha: Matrices
    tau: Matrix
    mu: Matrices
    log_joint: Matrix

    @property
    def size(self) -> int:
        """Number of draws of all chains."""
        return int(self.tau.size)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        chains, n, d, q = self.W.shape
        agree = self.alpha.shape == (chains, n, q) and self.mu.shape == (chains, n, d)
        agree &= self.tau.shape == self.log_joint.shape == (chains, n)
        if not (agree and chains * n):
            raise ValueError("the arrays of GibbsDraws are empty or of different sizes")
        known = np.isfinite(self.W).all() and np.isfinite(self.mu).all()
        if not (known and np.isfinite(self.tau).all() and (self.tau > 0).all()):
            raise ValueError("the draws of GibbsDraws are not finite, or tau is not positive")


def fit(
    data: GibbsData,
    q: int,
    *,
    prior: Hyper,
    schedule: Schedule,
    rngs: list[np.random.Generator],
    callback: Callback | None = None,
) -> GibbsDraws:
    """Run one chain for each generator; `prior` is that of the data in their own units.

    `callback` is called after each sweep of each chain, and cannot end them.
    """
    scaled, shape = prior.in_units(data.unit), (len(rngs), schedule.n_draws)
    draws = GibbsDraws(
        W=np.empty((*shape, data.d, q)),
        alpha=np.empty((*shape, q)),
        tau=np.empty(shape),
        mu=np.empty((*shape, data.d)),
        log_joint=np.empty(shape),
    )
    unit, numbers = data.unit, count(1)

    def swept(state: GibbsState, rng: np.random.Generator) -> GibbsState:
        state = _precise(sweep, state, data, scaled, rng)
        if callback is not None:
            energy = -float(_precise(log_joint, state, data, scaled))
            info = Info(energy, q, float(unit**2 / state.tau), n_steps=schedule.n_sweeps)
            # Floating-point errors in the callback do not concern the chain.
            with np.errstate(divide="warn", over="warn", invalid="warn"):
                callback(next(numbers), info)
        return state

    def store(at: tuple[int, int], state: GibbsState) -> None:
        draws.W[at], draws.alpha[at] = state.W * unit, state.alpha / unit**2
        draws.mu[at], draws.tau[at] = state.mu * unit, state.tau / unit**2
        draws.log_joint[at] = log_joint(state, data, scaled)

    # The matrices are small, and results must not depend on the number of threads.
    with one_blas_thread(), np.errstate(divide="raise", over="raise", invalid="raise"):
        for chain, rng in enumerate(rngs):
            first = _precise(start, data, q, scaled, rng)
            kept = kept_states(first, partial(swept, rng=rng), schedule)
            for draw, state in enumerate(kept):
                _precise(store, (chain, draw), state)
    return draws


def _precise(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Result of a function, whose arithmetic errors become a PrecisionError."""
    try:
        return function(*args, **kwargs)
    except (ArithmeticError, ValueError, np.linalg.LinAlgError) as problem:
        raise PrecisionError(PRECISION) from problem
