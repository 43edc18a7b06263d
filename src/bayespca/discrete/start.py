"""Where the iteration starts: the closed form of cells that are measured about their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.packing import packed
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.sources.binary import BinaryCells
from bayespca.spectrum.solving import solve

from .normals import Normals
from .step import BinaryProblem, BinaryState, evaluated_all

# Components beyond those that the closed form keeps, and how many it may keep, as a multiple of
# those that it is sure of and some more.
SPARE = 3
TIMES, SOME = 3, 10
# The least prior variance that a component starts with.
LEAST = 1e-3


def start(data: BinaryCells, problem: BinaryProblem) -> BinaryState:
    """Components of (x − x̄)/√(x̄(1 − x̄)), whose noise has variance 1 where z is near its mean."""
    mean, slope = _mean_and_slope(data)
    Y = data.without_holes(data.values - _shares(data)) / np.sqrt(slope)
    right, strength = _components(Y, problem.most)
    return _state(data, (right * strength[:, None] / np.sqrt(slope)).T, mean)


def random_start(
    data: BinaryCells, problem: BinaryProblem, rng: np.random.Generator
) -> BinaryState:
    """All components that there may be, from normal draws."""
    b = rng.normal(size=(data.shape[1], problem.most)) / np.sqrt(max(problem.most, 1))
    return _state(data, b, _mean_and_slope(data)[0])


def with_one_more(state: BinaryState, data: BinaryCells) -> BinaryState:
    """One more component: the strongest of where cells pull their z."""
    H, n = state.rank, data.shape[0]
    given = state.columns.mean
    m = state.rows.mean @ given[:, :H].T + given[:, H]
    pull = state.found.tau - state.found.omega * m
    right, strength = _components(pull / max(float(state.found.omega.mean()), LEAST), 1)
    b = np.insert(given, H, (right * strength[:, None]).sum(axis=0), axis=1)
    size = max(float(strength.sum()) / np.sqrt(data.shape[1]), LEAST)
    prior = np.append(state.prior, size)
    b[:, H] /= np.sqrt(size)
    cov = np.insert(np.insert(state.rows.matrices, H, 0.0, axis=1), H, 0.0, axis=2)
    cov[:, H, H] = size
    rows = Normals(
        np.append(state.rows.mean, np.zeros((n, 1)), axis=1),
        packed(cov),
        state.rows.log_dets + np.log(size),
    )
    columns = _points(b)
    found = evaluated_all(rows, columns, data)
    return replace(
        state, rows=rows, columns=columns, prior=prior, found=found, energy=np.inf, batch=1
    )


def _state(data: BinaryCells, b: FloatArray, mean: FloatArray) -> BinaryState:
    """Loadings as given, and scores as they are before rows are seen."""
    n, H = data.shape[0], b.shape[1]
    # A and B have one size: a of variance s where b has mean square s.
    size = np.maximum(np.sqrt((b**2).mean(axis=0)), LEAST)
    columns = _points(np.concatenate([b / np.sqrt(size), mean[:, None]], axis=1))
    cov = np.broadcast_to(packed(np.diag(size)), (n, H * (H + 1) // 2))
    rows = Normals(np.zeros((n, H)), cov, np.full(n, np.log(size).sum()))
    spread = max(float((mean**2).mean()), 0.1)
    return BinaryState(rows, columns, size, spread, evaluated_all(rows, columns, data))


def _points(b: FloatArray) -> Normals:
    """Loadings without any uncertainty, which the first sweep brings."""
    p, width = b.shape
    return Normals(b, np.zeros((p, width * (width + 1) // 2)), np.full(p, -np.inf))


def _mean_and_slope(data: BinaryCells) -> tuple[FloatArray, FloatArray]:
    """logit and variance of the share of ones in each column."""
    shares = _shares(data)
    return np.log(shares / (1 - shares)), shares * (1 - shares)


def _shares(data: BinaryCells) -> FloatArray:
    """Share of ones in each column, with half a cell of each kind added."""
    counts = len(data.ones) if data.seen is None else data.seen.sum(axis=0)
    return np.asarray((data.ones.sum(axis=0) + 0.5) / (counts + 1.0))


def _components(Y: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Directions to start with, and how far rows spread along them.

    Noise of variance 1 is right where all z are near their means; where they are not, there is
    less, and more components are found. There are some to spare, because those that are not needed
    go, and those that were never there have to be found one after another.
    """
    if not most or not Y.any():
        return np.zeros((0, Y.shape[1])), np.zeros(0)
    found = decompose(Y, plan=solve, center=True, n_needed=1)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    strong = solve(found.spectrum, noise_variance=1.0).rank
    kept = min(solve(found.spectrum).rank, TIMES * strong + SOME) + SPARE
    right = fixed_signs(np.asarray(found.right(min(kept, most, gamma.size))))
    return right, gamma[: len(right)] / np.sqrt(len(Y))
