"""The GP-LVM as models: variational, and with point-estimated latent points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from bayespca.arrays.types import DOUBLE, DType, FloatArray
from bayespca.inference.descent import Descent, begun, descended
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.spectrum.records import Status

from . import exact
from .bound import JITTER, solve
from .data import GPData
from .kernels import Kernel, KernelHyper, Latent, covariance, first, first_hyper
from .posterior import GPPosterior
from .start import (
    FIRST_RELEVANCE,
    HELD,
    HELD_RATIO,
    LEAST_RELEVANCE,
    principal_scores,
    start,
    unrolled,
)
from .step import (
    ITERATIONS,
    GPState,
    LatentPoint,
    begin,
    begin_again,
    freed,
    point_of,
    step,
    without_least,
)

S = TypeVar("S")

# Least noise variance, in units of the data's variance.
LEAST_NOISE = 1e-12
# A trial without a dimension is run if it costs fewer nats than this at first, or if there are at
# most FEW_ROWS rows: a circle found in three dimensions ends in one, 800 nats lower.
MOST_LOST, FEW_ROWS = 100.0, 500


@dataclass(frozen=True, eq=False)
class GPFit(Fit[GPPosterior]):
    """A finished fit of n rows.

    Attributes
    ----------
    linear_free_energy
        Free energy of a linear PCA with the same kind of noise; NaN if there is none.
    n_samples
        Number of rows of the data.
    dtype
        Type of the data and of results.
    """

    linear_free_energy: float = float("nan")
    n_samples: int = 0
    dtype: DType = DOUBLE

    @property
    def nonlinear_evidence(self) -> float:
        """Nats by which the curved model is better than the linear one.

        NaN for point-estimated latent points, which have no evidence.
        """
        if self.posterior.has_points:
            return np.nan
        return self.linear_free_energy - self.free_energy

    @property
    def n_components(self) -> int:
        return self.posterior.n_components

    @property
    def n_features(self) -> int:
        return self.posterior.n_features


@dataclass(frozen=True)
class LatentModel(Model[GPData, S, GPFit]):
    """A GP-LVM with at most `most` dimensions; states are those of a descent."""

    kernel: Kernel
    most: int

    def free_energy(self, run: Run[S], data: GPData) -> float:
        """The free energy with the constant that descents omit: that of pure noise, and units."""
        count = float(data.count.sum())
        return run.free_energy + data.all_noise + count * float(np.log(data.unit))

    def digests(self, data: GPData) -> Sequence[object]:
        return [data.centred, data.mean, data.seen]

    def described(self, found: Fit[GPPosterior], run: Run[S], data: GPData) -> GPFit:
        return extended(found, GPFit, n_samples=data.shape[0])


@dataclass(frozen=True)
class GPModel(LatentModel[GPState]):
    """Variational GP-LVM.

    With `unroll` it starts with `most` dimensions from distances along neighbours, instead of from
    principal components.
    """

    n_inducing: int
    unroll: bool = False

    def start(self, data: GPData, rng: np.random.Generator) -> GPState:
        held = HELD if "squared-exponential" in self.kernel.parts else 0
        first_point = unrolled if self.unroll else start
        point = first_point(data, self.kernel, self.most, self.n_inducing, rng)
        return begin(point, data, held, np.full(data.n_units, HELD_RATIO))

    def step(self, state: GPState, data: GPData) -> tuple[GPState, Info]:
        return step(state, data, self._template(state, data))

    def moves(self, data: GPData) -> Sequence[Move[GPState]]:
        return [Move(partial(self._less, data=data))]

    def _less(self, state: GPState, data: GPData) -> GPState | None:
        if state.held:
            # A large tolerance may end the descent before the ratios are released.
            return freed(state, data, self._template(state, data))
        if state.n_dimensions < 2:
            return None
        point = point_of(state, self._template(state, data))
        fewer = begin_again(without_least(point), data, state)
        lost = fewer.descent.energy - state.descent.energy
        return fewer if lost < MOST_LOST or data.shape[0] <= FEW_ROWS else None

    def _template(self, state: GPState, data: GPData) -> LatentPoint:
        Q = state.n_dimensions
        hyper = first_hyper(self.kernel, np.ones(Q))
        N = data.shape[0]
        M = (state.descent.x.size - 2 * N * Q - hyper.vector.size) // Q
        zeros = np.zeros((N, Q))
        return LatentPoint(Latent(zeros, zeros), np.zeros((M, Q)), hyper)

    def posterior(self, state: GPState, data: GPData) -> GPPosterior:
        point, prior = in_length_scales(point_of(state, self._template(state, data)))
        solved = solve(point.latent, point.Z, point.hyper, data, state.log_ratios)
        noise, count = np.maximum(solved.noise, LEAST_NOISE), len(solved.precise)
        kind = data.group_of if count == data.seen_in_group.size else data.unit_of
        centre, mean_variance = np.zeros((count, len(point.Z))), np.zeros(data.shape[1])
        if data.center:
            # Means of ψ₁ over the rows of each kind of column.
            psi1 = first(point.latent, point.Z, point.hyper)
            sums = psi1.sum(axis=0)[None] if data.seen is None else data.seen.T @ psi1
            means = sums / data.seen_in_group[:, None]
            centre = means if len(means) == count else means[data.group_of]
            mean_variance = noise * data.unit**2 / data.seen_in_group[data.group_of]
        return GPPosterior(
            **_located(point, prior),
            variance=point.latent.variance,
            inverse=solved.inverse,
            precise=solved.precise,
            kind=kind.astype(float),
            weights=solved.weights * data.unit,
            centre=centre,
            offset=data.mean,
            signal=noise * solved.ratios * data.unit**2,
            noise=noise * data.unit**2,
            mean_variance=mean_variance,
        )

    def status(self, state: GPState, data: GPData) -> Status:
        """Advice if the covariance of the inducing points was nearly singular on the way."""
        if state.jitter <= JITTER:
            return Status()
        return Status().but(
            "jitter",
            f"The covariance of the inducing points was nearly singular: {state.jitter:.0e} times "
            "its mean diagonal was added to the diagonal. Use fewer inducing points (n_inducing) "
            "to avoid this.",
        )


# --- point-estimated latent points -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MapState:
    """State of a descent over points, logarithms of the kernel's parameters, and log s."""

    descent: Descent
    n_dimensions: int


@dataclass(frozen=True)
class MapModel(LatentModel[MapState]):
    """Lawrence's GP-LVM with a given number of dimensions."""

    def digests(self, data: GPData) -> Sequence[object]:
        return [data.centred, data.mean]

    @property
    def has_one_start(self) -> bool:
        return True

    def start(self, data: GPData, rng: np.random.Generator) -> MapState:
        scores, share = principal_scores(data, self.most)
        relevance = FIRST_RELEVANCE * np.maximum(share, LEAST_RELEVANCE)
        x = np.concatenate([scores.ravel(), first_hyper(self.kernel, relevance).logs, [HELD_RATIO]])
        Q = scores.shape[1]
        return MapState(begun(partial(self._energy, data=data, Q=Q), x), Q)

    def step(self, state: MapState, data: GPData) -> tuple[MapState, Info]:
        objective = partial(self._energy, data=data, Q=state.n_dimensions)
        descent = descended(objective, state.descent, ITERATIONS)
        X, hyper, ratio = self._parts(descent.x, data, state.n_dimensions)
        noise = exact.evaluate(X, hyper, ratio, data).signal / np.exp(ratio)
        return replace(state, descent=descent), Info(
            descent.energy, state.n_dimensions, float(noise)
        )

    def _parts(self, x: FloatArray, data: GPData, Q: int) -> tuple[FloatArray, KernelHyper, float]:
        N = data.shape[0]
        X, logs, ratio = np.split(x, [N * Q, x.size - 1])
        hyper = first_hyper(self.kernel, np.ones(Q)).with_logs(np.clip(logs, -30, 12))
        bounded = np.clip(ratio[0], exact.LEAST_RATIO, exact.MOST_RATIO)
        return X.reshape(N, Q), hyper, float(bounded)

    def _energy(self, x: FloatArray, data: GPData, Q: int) -> tuple[float, FloatArray]:
        X, hyper, ratio = self._parts(x, data, Q)
        try:
            found = exact.evaluate(X, hyper, ratio, data)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(x)
        slope = np.concatenate([found.X.ravel(), found.hyper * hyper.vector, [found.log_ratio]])
        return found.energy - data.all_noise, slope

    def posterior(self, state: MapState, data: GPData) -> GPPosterior:
        """The posterior with all points as inducing points, where functions are uncertain only
        because of the noise.
        """
        X, hyper, ratio = self._parts(state.descent.x, data, state.n_dimensions)
        found = exact.evaluate(X, hyper, ratio, data)
        shift = X.mean(axis=0) if hyper.w.size and not hyper.v.size else np.zeros(X.shape[1])
        X = X - shift
        at, prior = in_length_scales(LatentPoint(Latent(X, np.full(X.shape, 1e-12)), X, hyper))
        (N, D), s = data.shape, float(np.exp(ratio))
        factor = cho_factor(covariance(at.Z, at.hyper) + np.eye(N) / s, lower=True)
        # Solved for each right-hand side: a product with the inverse would lose their digits.
        u = cho_solve(factor, np.ones(N))
        total = float(u.sum())
        mean = (u @ data.centred) / total if data.center else np.zeros(D)
        signal = found.signal * data.unit**2
        rank_one = np.outer(u, u) / total if data.center else np.zeros((N, N))
        return GPPosterior(
            **_located(at, prior),
            variance=np.zeros(X.shape),
            inverse=cho_solve(factor, np.eye(N)),
            precise=rank_one[None],
            kind=np.zeros(D),
            weights=cho_solve(factor, data.centred - mean) * data.unit,
            centre=np.full((1, N), 1 / total if data.center else 0.0),
            offset=data.mean + mean * data.unit,
            signal=np.full(D, signal),
            noise=np.full(D, signal / s),
            mean_variance=np.zeros(D),
        )


def _located(point: LatentPoint, prior: FloatArray) -> dict[str, FloatArray]:
    """The entries of a posterior for its latent points, its inducing points and its kernel."""
    hyper = point.hyper
    of_kernel = {"w": hyper.w, "v": hyper.v, "b": hyper.b, "e": hyper.e}
    return {"mean": point.latent.mean, "prior": prior, "Z": point.Z} | of_kernel


def in_length_scales(point: LatentPoint) -> tuple[LatentPoint, FloatArray]:
    """The same model with its latent space in units of length scales, most relevant first, and the
    prior variances in these units.
    """
    order = np.argsort(-point.relevance, kind="stable")
    point = point.of_dimensions(order)
    root = np.sqrt(point.hyper.relevance)
    latent = Latent(point.latent.mean * root, point.latent.variance * root**2)
    return LatentPoint(latent, point.Z * root, point.hyper.scaled(1 / root)), root**2
