"""Bishop's variational PCA of complete data, as a model fitted by `inference.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.inference.loop import Info, Run
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.aligning import FURTHEST, Loadings, change_of_root, logarithm
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import VariationalFit
from bayespca.lowrank.variational import BishopModel, Hyper, posterior_of_weights
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.rank_posterior import posterior_of_rank
from bayespca.spectrum.solving import solve

from .step import (
    Scatter,
    VariationalData,
    VariationalState,
    is_on,
    mean_variance,
    precision,
    relevance,
    start,
    step,
    variational_data,
)


def fit(
    X: Input,
    hyper: Hyper,
    looping: inference.Looping,
    *,
    n_components: int | None = None,
    engine: str = "auto",
    dtype: str = "float64",
) -> VariationalFit:
    """Fit an array, a sparse matrix or a source of blocks; the posterior has the given dtype."""
    data = variational_data(X, center=hyper.has_mean, engine=engine)
    noise = solve(data.found.spectrum, other_ranks=False).noise_variance
    # Only the size of the mean matters, in the units of the data.
    mean = np.full(1, float(np.linalg.norm(data.mean)) / np.sqrt(data.d) * data.unit)
    hyper = hyper.suiting(noise, data.unit, mean)
    most = min(data.d - 1, max(data.N - 1, 0))
    q = most if n_components is None else n_components
    return inference.fit(VariationalModel(hyper.in_units(data.unit), q, dtype), data, looping)


@dataclass(frozen=True)
class VariationalModel(BishopModel[VariationalData, VariationalState]):
    """Bishop's model of sums over samples; `hyper` is in their units."""

    def start(self, data: VariationalData, rng: np.random.Generator) -> VariationalState:
        return start(data, self.hyper, self.q, rng)

    def step(self, state: VariationalState, data: VariationalData) -> tuple[VariationalState, Info]:
        return step(state, data, self.hyper)

    def chart(self, data: VariationalData) -> VariationalChart:
        return VariationalChart(data, self.hyper)

    def digests(self, data: VariationalData) -> Sequence[object]:
        return [data.scatter, data.mean, data.N]

    def posterior(self, state: VariationalState, data: VariationalData) -> HolesPosterior:
        """The columns that are on, largest first."""
        n_on, unit = int(np.count_nonzero(is_on(state, data))), data.unit
        kept = strongest(state, data)[:n_on]
        # Constant columns, which the basis leaves out, have loadings of 0 and a known mean.
        live = np.any(data.basis != 0, axis=0)
        mean: FloatArray = to_numpy(data.found.mean).astype(np.float64)
        if self.hyper.has_mean:
            mean = mean + (state.mu - data.mean) @ data.basis * unit
        return posterior_of_weights(
            weights(state, data, kept),
            live[:, None, None] * state.W_cov[np.ix_(kept, kept)] * unit**2,
            mean=mean,
            mean_variance=np.full(mean.size, mean_variance(state, data, self.hyper) * unit**2),
            noise_variance=unit**2 / precision(state, data, self.hyper),
            dtype=self.dtype,
        )

    def described(
        self, found: Fit[HolesPosterior], run: Run[VariationalState], data: VariationalData
    ) -> VariationalFit:
        state, order = run.state, strongest(run.state, data)
        spectrum, k = data.found.spectrum, found.posterior.columns.rank
        noise = data.unit**2 / precision(state, data, self.hyper)
        return extended(
            found,
            VariationalFit,
            spectrum=spectrum,
            weights=weights(state, data, order),
            alpha=relevance(state, data, self.hyper)[order] / data.unit**2,
            noise_variance=noise,
            n_samples=data.found.n_samples,
            engine=data.found.engine,
            left_out=left_out(spectrum, posterior_of_rank(spectrum), k, noise),
        )


# --- states as vectors -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class VariationalChart:
    """W for a latent space of unit variance, turned towards another W; logarithms of the covariance
    of its rows, and of b_τ. The next step sets μ and Q(α).
    """

    data: Scatter
    hyper: Hyper

    def point(self, state: VariationalState, like: Vector | None) -> StatePoint:
        return StatePoint(_loadings(state).aligned(like).vector, self._errors(state))

    def at(self, state: VariationalState, vector: Vector) -> VariationalState:
        here = _loadings(state)
        goal = here.at(vector).turned_to(here.W)
        T = change_of_root(here.spread, goal.spread)
        log_b = np.clip(goal.rest, here.rest - FURTHEST, here.rest + FURTHEST)
        new = replace(
            state,
            W=goal.W,
            W_cov=T @ state.W_cov @ T.T,
            b_tau=float(np.exp(log_b[0])),
            height=-np.inf,
        )
        before, after = _squares(state, self.data), _squares(new, self.data)
        return replace(new, b_alpha=state.b_alpha * after / before)

    def _errors(self, state: VariationalState) -> FloatArray:
        d, N = self.data.d, self.data.N
        error = 1 / np.sqrt(N * precision(state, self.data, self.hyper))
        return np.concatenate(
            [
                np.full(state.W.size, error),
                np.full(state.W_cov.size, np.sqrt(2 / d)),
                [np.sqrt(2 / (N * d))],
            ]
        )


def _loadings(state: VariationalState) -> Loadings:
    return Loadings(state.W, logarithm(state.W_cov), np.log([state.b_tau]))


def _squares(state: VariationalState, data: Scatter) -> FloatArray:
    """⟨‖w‖²⟩ of each column."""
    return np.asarray((state.W**2).sum(axis=0) + data.d * np.diag(state.W_cov))


# --- the result, in the features and units of the data -----------------------------------------


def strongest(state: VariationalState, data: VariationalData) -> NDArray[np.intp]:
    """The order of the columns: those that are on first, by size."""
    return np.lexsort((-np.linalg.norm(state.W, axis=0), ~is_on(state, data)))


def weights(state: VariationalState, data: VariationalData, order: NDArray[np.intp]) -> FloatArray:
    """⟨W⟩ of some columns, in the features of the data."""
    return np.asarray(data.basis.T @ state.W[:, order] * data.unit)
