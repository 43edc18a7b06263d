"""Bishop's variational PCA of data with holes from beginning to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.types import FloatArray
from bayespca.lowrank import variational as hierarchy
from bayespca.lowrank.holes import Holes
from bayespca.lowrank.observing import observed
from bayespca.lowrank.records import VariationalFit, spectrum_as_if_complete
from bayespca.lowrank.variational import Hyper, posterior_of_weights
from bayespca.sources.constant import extremes, is_constant
from bayespca.sources.seen import seen
from bayespca.spectrum.records import Spectrum, Status

from . import step as hierarchical
from .step import State


def fit(
    X: FloatArray,
    hyper: Hyper,
    looping: inference.Looping,
    *,
    n_components: int | None = None,
    dtype: str = "float64",
) -> VariationalFit:
    """Fit a matrix of floats with NaN in its holes; the posterior has the given dtype.

    Rows and columns without any value take no part: the prior answers for them. Columns that do not
    vary are no features, as for complete data.
    """
    X = np.asarray(X, dtype=np.float64)
    known = seen(X)
    features = Features(known.columns, known.columns & _constant(X, center=hyper.has_mean))
    inside = X[:, features.live]
    data = observed(inside[~np.isnan(inside).all(axis=1)], center=hyper.has_mean, scale=False)
    unit, (N, d) = float(data.unit[0]), data.shape
    q = max(min(d, N) - 1, 0) if n_components is None else n_components
    if looping.checkpoint is not None:
        looping = replace(looping, mark=inference.fingerprint(X, hyper, q))
    run = looping.run(
        partial(hierarchical.step, data=data, hyper=hyper.in_units(unit)),
        _starts(data, hyper.in_units(unit), q),
    )
    return _finished(run, data, features, hyper, X, known.status, dtype)


@dataclass(frozen=True, eq=False)
class Features:
    """Which columns have values, and for which of them all values are the same: (p,)."""

    seen: NDArray[np.bool_]
    constant: NDArray[np.bool_]

    @property
    def live(self) -> NDArray[np.bool_]:
        """Which columns take part; where none varies, all that have values."""
        varies = self.seen & ~self.constant
        return varies if varies.any() else self.seen


def _constant(X: FloatArray, *, center: bool) -> NDArray[np.bool_]:
    """Columns of at least two values that are all the same, or all 0 if the data are not centred.

    Counted as features they would tell that there is no noise; a single value tells nothing.
    """
    several = (~np.isnan(X)).sum(axis=0) > 1
    return np.asarray(is_constant(*extremes(X), center=center) & several)


def _starts(data: Holes, hyper: Hyper, q: int) -> Callable[[np.random.Generator], State]:
    """The closed form first, then normal draws."""
    closed = iter([hierarchical.start(data, hyper, q)])

    def begin(rng: np.random.Generator) -> State:
        return next(closed, None) or hierarchical.random_start(data, hyper, q, rng)

    return begin


def _finished(
    run: inference.Run[State],
    data: Holes,
    features: Features,
    hyper: Hyper,
    X: FloatArray,
    status: Status,
    dtype: str,
) -> VariationalFit:
    state, unit, counts = run.state, float(data.unit[0]), hierarchical.counts_of(data)
    inner = hyper.in_units(unit)
    on = hierarchical.is_on(state)
    order = np.lexsort((-np.linalg.norm(state.W, axis=0), ~on))
    kept = order[: int(np.count_nonzero(on))]
    b_alpha = np.append(state.b_alpha[order], np.full(state.off.count, state.off.b_alpha))
    alpha = hierarchy.relevance(b_alpha, counts, inner) / unit**2
    noise = unit**2 / hierarchy.precision(state.b_tau, counts, inner)
    n, p = X.shape
    live, empty, k = features.live, ~features.seen, kept.size
    weights = np.zeros((p, alpha.size))
    weights[live, : order.size] = state.W[:, order] * unit
    # Nothing is known of a column without values; the loadings of one that does not vary are 0.
    cov = np.zeros((p, k, k))
    cov[live] = state.W_cov[:, kept[:, None], kept] * unit**2
    cov[empty] = np.diag(1 / alpha[:k])
    mean, mean_variance = _of_mean(state, data, features, hyper, X, noise)
    free_energy = run.free_energy + counts.cells * float(np.log(unit))
    posterior = posterior_of_weights(
        weights[:, :k],
        cov,
        mean=mean,
        mean_variance=mean_variance,
        noise_variance=noise,
        dtype=dtype,
    )
    return VariationalFit(
        posterior=posterior,
        weights=weights,
        alpha=alpha,
        noise_variance=noise,
        spectrum=_seen_if_complete(weights[:, :k], (counts.d, n - hyper.has_mean), noise),
        n_samples=n,
        engine="holes",
        free_energy=free_energy,
        trace=run.trace.in_units(unit, free_energy=free_energy),
        converged=run.converged,
        status=status,
    )


def _of_mean(
    state: State,
    data: Holes,
    features: Features,
    hyper: Hyper,
    X: FloatArray,
    noise_variance: float,
) -> tuple[FloatArray, FloatArray]:
    """Q(μ) of all columns: of those that take no part, as their values leave it."""
    p, live, unit = X.shape[1], features.live, float(data.unit[0])
    if not hyper.has_mean:
        return np.zeros(p), np.zeros(p)
    counts = np.count_nonzero(~np.isnan(X), axis=0)
    mean = np.where(features.constant, np.where(np.isnan(X), -np.inf, X).max(axis=0), 0.0)
    variance = 1 / (hyper.beta + counts / noise_variance)
    mean[live] = data.location + state.mu * unit
    variance[live] = state.mu_variance * unit**2
    return mean, variance


def _seen_if_complete(
    weights: FloatArray, shape: tuple[int, int], noise_variance: float
) -> Spectrum:
    """The singular values of components, as a complete matrix would have shown them."""
    d, M = (max(size, weights.shape[1], 1) for size in shape)
    gamma = np.sqrt(M * (np.linalg.svd(weights, compute_uv=False) ** 2 + noise_variance))
    return spectrum_as_if_complete(gamma, (d, M), noise_variance)
