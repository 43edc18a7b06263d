"""Bishop's variational PCA from beginning to end: decompose, iterate, back to the features."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.lowrank.variational import Fit, Hyper
from bayespca.spectrum.records import Status
from bayespca.spectrum.solving import solve

from . import step as hierarchical
from .step import Data, State


def fit(
    X: Any, hyper: Hyper, *, n_components: int | None, looping: inference.Looping, engine: str
) -> Fit:
    """Fit an array, a sparse matrix or a source of blocks."""
    everything = np.iinfo(np.int64).max
    found = decompose(X, plan=solve, center=hyper.has_mean, engine=engine, n_needed=everything)
    unit = float(np.sqrt(found.spectrum.sum_of_squares / np.prod(found.spectrum.shape)))
    unit = unit * found.spectrum.scale or 1.0
    data, basis = _statistics(found, unit)
    inner = hyper.in_units(unit)
    q = min(data.d - 1, max(data.N - 1, 0)) if n_components is None else n_components
    if looping.checkpoint is not None:
        mark = inference.fingerprint(data.scatter, data.mean, data.N, hyper, q)
        looping = replace(looping, mark=mark)
    run = looping.run(
        partial(hierarchical.step, data=data, hyper=inner),
        lambda rng: hierarchical.start(data, inner, q, rng),
    )
    return _finished(found, run, data, inner, basis, unit)


def _statistics(found: Decomposition, unit: float) -> tuple[Data, FloatArray]:
    """Sums over samples, and the directions that they are in as rows.

    Columns that do not vary are no features.
    """
    spectrum = found.spectrum
    gamma = spectrum.singular_values * (spectrum.scale / unit)
    right = to_numpy(found.right(gamma.size)).astype(np.float64)
    live = np.any(right != 0, axis=0)
    mean = np.where(live, to_numpy(found.mean).astype(np.float64), 0.0) / unit
    along = right @ mean
    rest = mean - along @ right
    size = float(np.linalg.norm(rest))
    if size > 1e-12 * float(np.linalg.norm(mean)):
        right = np.concatenate([right, rest[None, :] / size])
        along = np.append(along, size)
    return Data(found.n_samples, spectrum.shape[0], gamma**2, along), right


def _finished(
    found: Decomposition,
    run: inference.Run[State],
    data: Data,
    hyper: Hyper,
    basis: FloatArray,
    unit: float,
) -> Fit:
    state = run.state
    on = hierarchical.is_on(state, data)
    order = np.lexsort((-np.linalg.norm(state.W, axis=0), ~on))
    kept = order[: int(np.count_nonzero(on))]
    mean = to_numpy(found.mean).astype(np.float64)
    if hyper.has_mean:
        # Along the basis as found; constant columns, which are not in it, as they are.
        mean = mean + (state.mu - data.mean) @ basis * unit
    tau = hierarchical.precision(state, data, hyper)
    # Constant columns are no features, and their loadings are known to be 0.
    live = np.any(basis != 0, axis=0)[:, None, None]
    free_energy = run.free_energy + data.N * data.d * float(np.log(unit))
    return Fit(
        weights=basis.T @ state.W[:, kept] * unit,
        weights_cov=live * state.W_cov[np.ix_(kept, kept)] * unit**2,
        weights_everything=basis.T @ state.W[:, order] * unit,
        relevance=hierarchical.relevance(state, data, hyper)[order] / unit**2,
        mean=mean,
        mean_variance=np.full(mean.size, hierarchical.mean_variance(state, data, hyper) * unit**2),
        noise_variance=unit**2 / tau,
        spectrum=found.spectrum,
        n_samples=found.n_samples,
        engine=found.engine,
        free_energy=free_energy,
        trace=run.trace.in_units(unit, free_energy=free_energy),
        converged=run.converged,
        status=Status(),
    )
