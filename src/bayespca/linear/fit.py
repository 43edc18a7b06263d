"""PCA of complete data from beginning to end: decompose, solve, keep what the posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, is_sparse, to_namespace, to_numpy
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array
from bayespca.engines import map_reduce
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition, Plan
from bayespca.linear.per_feature import step as per_feature
from bayespca.linear.sweeps import fit as iterative
from bayespca.lowrank.posterior import from_solution
from bayespca.lowrank.records import PCAFit
from bayespca.sources.columns import column_scales, rescaled_columns
from bayespca.sources.records import Partitions
from bayespca.spectrum.records import Advice, Moments, Solution, Spectrum, Status, samples
from bayespca.spectrum.solving import solve

# Weights of singular vectors below this are far below what the iteration has settled to.
TINY = 1e-9
# What a state of the iteration over noise variances is made of.
PER_FEATURE_RECORDS = (per_feature.State, Solution, Moments, Spectrum, Status, Advice)


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `BayesianPCA`."""

    method: str = "evb"
    n_components: int | None = None
    noise_variance: float | str = "auto"
    prior_variance: float | None = None
    center: bool = True
    scale: bool = False
    noise: str = "isotropic"
    solver: str = "auto"
    init: str = "random"
    engine: str = "auto"
    looping: inference.Looping = field(default_factory=inference.Looping)
    random_state: int | np.random.Generator | None = None

    @cached_property
    def plan(self) -> Plan:
        """What to make of a spectrum; the cap on the rank yields to what the shape allows.

        The last answer is kept: an engine and then the fit ask about the same spectrum.
        """

        @lru_cache(maxsize=1)
        def planned(spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
            cap = self.n_components
            return solve(
                spectrum,
                self.method,
                noise_variance=self.noise_variance,
                prior_variance=self.prior_variance,
                max_rank=None if cap is None else min(cap, spectrum.full_rank),
                other_ranks=other_ranks,
            )

        return planned

    @property
    def n_needed(self) -> int:
        """How many singular values are sure to be needed.

        EVB and local-EMAP drop all of the noise; the others keep part of it, or look at all of it.
        """
        if self.solver == "iterative":
            return np.iinfo(np.int64).max
        if self.n_components is not None and self.method != "laplace":
            return self.n_components
        return 0 if self.method in ("evb", "emap") else np.iinfo(np.int64).max


def fit(X: Any, options: Options) -> PCAFit:
    """Fit an array, a sparse matrix, a source of blocks or partitions of a Dask collection."""
    if options.noise == "per-feature":
        return _fit_per_feature(X, options)
    scale = column_scales(X, center=options.center) if options.scale else None
    found = decompose(
        X if scale is None else rescaled_columns(X, scale),
        plan=options.plan,
        center=options.center,
        engine=options.engine,
        n_needed=options.n_needed,
        random_state=options.random_state,
    )
    if options.solver == "iterative" and found.spectrum.sum_of_squares:
        return _iterated(found, options, scale)
    return from_decomposition(found, options, scale)


def from_decomposition(found: Decomposition, options: Options, scale: Array = None) -> PCAFit:
    """The fit of data that have been decomposed already."""
    solution = options.plan(found.spectrum)
    components = fixed_signs(found.right(solution.rank))
    gamma = found.spectrum.singular_values * found.spectrum.scale
    return _finished(found, solution, components, gamma, scale)


def _iterated(found: Decomposition, options: Options, scale: Array) -> PCAFit:
    """The fit by sweeps, which need the singular values alone, and all of them."""
    closed = options.plan(found.spectrum)
    result = iterative.solve(
        found.spectrum,
        options.method,
        closed,
        noise_variance=options.noise_variance,
        prior_variance=options.prior_variance,
        max_rank=options.n_components,
        from_closed=options.init == "closed",
        looping=_marked(options, found.spectrum.singular_values),
    )
    # Most directions have no weight on the weak singular vectors: these need not be computed.
    used = np.flatnonzero(np.abs(result.directions).max(axis=0, initial=0.0) > TINY)
    count = int(used[-1]) + 1 if used.size else 0
    right = found.right(count)
    turn = to_namespace(result.directions[:, :count], right)
    components = fixed_signs(array_namespace(right).matmul(turn, right))
    fitted = _finished(found, result.solution, components, result.gamma, scale)
    unit = found.spectrum.at_unit_scale().scale
    trace = result.run.trace.in_units(unit, free_energy=fitted.free_energy)
    return replace(fitted, trace=trace, converged=result.run.converged)


def _marked(options: Options, *data: np.ndarray) -> inference.Looping:
    """The looping, with a mark that tells the fit from others where one is needed."""
    if options.looping.checkpoint is None:
        return options.looping
    told = replace(options, looping=inference.Looping(), random_state=None)
    return replace(options.looping, mark=inference.fingerprint(repr(told), *data))


def _finished(
    found: Decomposition, solution: Solution, components: Array, gamma: np.ndarray, scale: Array
) -> PCAFit:
    """The fit that a solution leads to."""
    xp = array_namespace(components)
    if scale is None:
        scale = xp.ones(components.shape[1], dtype=components.dtype, device=components.device)
    scale = xp.astype(scale, components.dtype)
    M = found.spectrum.shape[1]
    posterior = from_solution(
        solution,
        components=components,
        gamma=gamma,
        mean=found.mean * xp.astype(scale, found.mean.dtype),
        scale=scale,
        M=M,
    )
    return PCAFit(
        posterior=posterior,
        spectrum=found.spectrum,
        shrunk_singular_values=solution.shrunk_singular_values,
        rank_posterior=solution.rank_posterior,
        threshold=solution.threshold,
        n_samples=found.n_samples,
        free_energy=solution.free_energy + M * float(xp.sum(xp.log(scale))),
        noise_variance=solution.noise_variance,
        engine=found.engine,
        status=found.status + solution.status,
        miss_probability=found.miss_probability,
    )


def _fit_per_feature(X: Any, options: Options) -> PCAFit:
    """Alternate between the closed form with unit noise and the noise of each feature."""
    data, mean, n = _feature_moments(X, center=options.center)
    M = data.M
    closed = replace(options, noise_variance=1.0).plan
    run = _marked(options, mean, data.matrix).run(
        partial(per_feature.step, data=data, solve=closed),
        lambda rng: per_feature.init(data, closed),
        # There is one start, and nothing random in it.
        n_init=1,
    )
    state = run.state
    like = np.empty(0, X.dtype) if is_sparse(X) or isinstance(X, Partitions) else X
    components = fixed_signs(to_namespace(state.components, like))
    posterior = from_solution(
        state.solution,
        components=components,
        gamma=state.spectrum.singular_values,
        mean=to_namespace(mean, like, array_namespace(like).float64),
        scale=to_namespace(np.sqrt(state.psi), like),
        M=M,
    )
    return PCAFit(
        posterior=posterior,
        spectrum=state.spectrum,
        shrunk_singular_values=state.solution.shrunk_singular_values,
        rank_posterior=state.solution.rank_posterior,
        threshold=state.solution.threshold,
        n_samples=n,
        free_energy=float(run.trace.free_energy[-1]),
        noise_variance=np.where(data.squares > 0, state.psi, 0.0),
        engine="dask" if isinstance(X, Partitions) else "gram",
        status=state.solution.status,
        trace=run.trace,
        converged=run.converged,
    )


def _feature_moments(X: Any, *, center: bool) -> tuple[per_feature.Moments, np.ndarray, int]:
    """Second moments of the data, the mean that was removed, and the number of samples."""
    if isinstance(X, Partitions):
        gram, mean, n = map_reduce.scatter(X, center=center)
        M = samples(n, center)
        return per_feature.Moments(np.diag(gram).copy(), gram, None, M), mean, n
    values = X.toarray() if is_sparse(X) else to_numpy(X)
    values = np.asarray(values, dtype=np.float64)
    n = values.shape[0]
    M = samples(n, center)
    mean = values.mean(axis=0) if center else np.zeros(values.shape[1])
    return per_feature.moments(values - mean, M=M), mean, n
