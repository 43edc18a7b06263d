"""Starting points: the closed form of each unfolding, or normal draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.tolerances import START_NOISE

from . import holes
from .components import shown, strength
from .data import TuckerCells
from .modes import times, unfolded
from .ranks import unfoldings, worthwhile
from .records import LARGEST_CORE, KroneckerCore, TuckerRows
from .state import TuckerProblem, TuckerState, replaced, with_core
from .step import equations_of

Ranks = tuple[int, ...]

# Components to start with beyond those that an unfolding shows: once the other modes are small,
# weaker ones show. Those that are not needed are dropped later.
SPARE = 3
# Holes are filled, and the core's covariance is not formed, for cores above this size if more than
# this share of the cells is observed: little is lost then.
LARGE_CORE = 512
MOSTLY_THERE = 0.7
# Steps in which a new component is not judged: it looks useless until it has settled.
YOUNG = 6
# Sweeps of the search for a rank-one tensor.
ROUNDS = 10


@dataclass(frozen=True, eq=False)
class Guess:
    """The start that the unfoldings suggest: vectors of each mode, and the noise variance.

    `fills` says whether holes are filled, `is_capped` whether components were left out to keep the
    core small.
    """

    bases: tuple[FloatArray, ...]
    noise_variance: float
    fills: bool = False
    is_capped: bool = False

    @property
    def ranks(self) -> Ranks:
        return tuple(U.shape[1] for U in self.bases)


def guess(data: TuckerCells, asked: tuple[int | None, ...]) -> Guess:
    """The start with the given ranks; a free rank is what its unfolding shows, plus `SPARE`."""
    if data.seen is None:
        found = unfoldings(data.values, spare=SPARE, needed=asked)
        noise = min(unfolding.solution.noise_variance for unfolding in found)
        lefts = tuple(one.left for one in found)
        open_modes = tuple(n for n, rank in enumerate(asked) if rank is None)
        if not open_modes or not math.prod(U.shape[1] for U in lefts):
            return Guess(lefts, noise)
        # Along free modes, vectors that hardly any core would keep are dropped.
        core = to_numpy(times(data.values, [U.T for U in lefts]))
        pairs = zip(lefts, worthwhile(core, data, open_modes), strict=True)
        return Guess(tuple(U[:, : H + SPARE] for U, H in pairs), noise)
    bases, counts = zip(*(_unbiased(data, n) for n in range(len(data.shape))), strict=True)
    ranks = [
        min(count + SPARE, size) if fixed is None else fixed
        for count, size, fixed in zip(counts, data.shape, asked, strict=True)
    ]
    fills = math.prod(ranks) > LARGE_CORE and data.share > MOSTLY_THERE
    # If the core needs a covariance, the largest free rank is reduced.
    free, shown = [n for n, fixed in enumerate(asked) if fixed is None], list(ranks)
    while not fills and free and math.prod(ranks) > LARGEST_CORE:
        ranks[max(free, key=lambda n: ranks[n])] -= 1
    # Given ranks are not reduced: if they are too large, holes are filled in any case.
    fills = fills or math.prod(ranks) > LARGEST_CORE
    vectors = tuple(U[:, :rank] for U, rank in zip(bases, ranks, strict=True))
    # Zeros in holes look like noise: too much of it would hide weak components.
    return Guess(vectors, START_NOISE, fills, is_capped=ranks != shown)


def random(
    data: TuckerCells, problem: TuckerProblem, ranks: Ranks, noise: float, rng: np.random.Generator
) -> TuckerState:
    """The state with factors from normal draws, and their core."""
    draws = [rng.normal(size=(size, rank)) for size, rank in zip(data.shape, ranks, strict=True)]
    return from_bases(data, problem, [np.linalg.qr(draw)[0] for draw in draws], noise)


def _unbiased(data: TuckerCells, n: int) -> tuple[FloatArray, int]:
    """Eigenvectors of T₍ₙ₎T₍ₙ₎ᵀ corrected for holes, strongest first, and how many stand out.

    Off the diagonal two cells have to be observed, on it one. Noise and holes add as much negative
    as positive, so the least eigenvalue shows how large the largest can be by chance.
    """
    X = unfolded(data.values, n)
    gram = to_numpy(array_namespace(X).matmul(X, X.T)).copy()
    gram[np.diag_indices_from(gram)] *= data.share
    values, vectors = np.linalg.eigh(gram)
    middle = np.median(values)
    above = int(np.count_nonzero(values - middle > middle - values[0]))
    return np.asarray(vectors[:, ::-1]), above


def from_bases(
    data: TuckerCells, problem: TuckerProblem, bases: Sequence[FloatArray], noise: float
) -> TuckerState:
    """The state with factors of unit size along vectors, and their core under a wide prior."""
    shape = tuple(U.shape[1] for U in bases)
    rows = tuple(
        TuckerRows(U * math.sqrt(M), np.zeros((1 if data.is_whole else M, H, H)), float(size))
        for U, M, H, size in zip(bases, data.shape, shape, data.sizes, strict=True)
    )
    priors = tuple(np.ones(H) for H in shape)
    state = TuckerState(rows, _no_core(shape), priors, noise, shift=np.zeros(data.shape[1:]))
    return with_core(state, equations_of(state, data), problem)


def _no_core(shape: Ranks) -> KroneckerCore:
    return KroneckerCore(np.zeros(shape), tuple(np.eye(H) for H in shape), np.zeros(shape))


def with_shown(state: TuckerState, data: TuckerCells, problem: TuckerProblem) -> TuckerState | None:
    """The state with the components of each mode that the closed form of the residual shows.

    If none is above EVB's threshold, one of each mode that is above the edge of noise; None if
    there is none either.
    """
    state, here = holes.moved(state, data)
    left = holes.residual(state, here)
    found = {n: shown(state, left, here, n) for n in problem.free_modes}
    above = any(one.kept for one in found.values())
    columns = {
        n: one.vectors[:, : min(one.kept, SPARE) if above else 1] for n, one in found.items()
    }
    return _with_columns(state, here, problem, columns)


def with_one_more(
    state: TuckerState, data: TuckerCells, problem: TuckerProblem
) -> TuckerState | None:
    """The state with one more component in every free mode: the rank-one tensor nearest to the
    residual.

    Modes that do not need theirs lose it again. None if noise could be as large: its largest
    rank-one tensor is no larger than σ·Σ√Mₙ.
    """
    state, here = holes.moved(state, data)
    left = holes.residual(state, here)
    vectors = _rank_one(left)
    size = float(to_numpy(times(left, [v[None, :] for v in vectors])).squeeze())
    edge = sum(math.sqrt(M) for M in data.sizes) ** 2
    if strength(np.asarray(size**2), state, here) < edge:
        return None
    columns = {n: vectors[n][:, None] for n in problem.free_modes}
    return _with_columns(state, here, problem, columns)


def _with_columns(
    state: TuckerState,
    data: TuckerCells,
    problem: TuckerProblem,
    columns: dict[int, FloatArray],
) -> TuckerState | None:
    """The state with more columns of some factors, as far as sizes allow; None if none is added."""
    before, mean = state.ranks, state.core.mean
    for n, vectors in columns.items():
        for vector in vectors.T[: data.shape[n] - state.ranks[n]]:
            entries = math.prod(state.ranks) // state.ranks[n] * (state.ranks[n] + 1)
            if not data.is_whole and entries > LARGEST_CORE:
                continue
            # As large and as uncertain as the average column.
            rows = state.rows[n]
            size = np.sqrt(np.mean(rows.mean**2) * vector.size)
            cov = np.pad(rows.cov, ((0, 0), (0, 1), (0, 1)))
            cov[:, -1, -1] = np.trace(rows.cov, axis1=1, axis2=2) / rows.rank
            wider = np.column_stack([rows.mean, size * vector])
            state = state.with_rows(n, replace(rows, mean=wider, cov=cov))
            prior = np.append(state.priors[n], state.priors[n].mean())
            state = replace(state, priors=replaced(state.priors, n, prior))
            mean = np.pad(mean, [(0, int(m == n)) for m in range(mean.ndim)])
    if state.ranks == before:
        return None
    core = replace(_no_core(state.ranks), mean=mean)
    state = replace(state, core=core, energy=np.inf, young=YOUNG)
    return with_core(state, equations_of(state, data), problem)


def _rank_one(T: Array) -> list[FloatArray]:
    """Unit vectors of the rank-one tensor nearest to T, from the first vector of each unfolding."""
    xp = array_namespace(T)
    vectors = []
    for n in range(T.ndim):
        X = unfolded(T, n)
        vectors.append(np.linalg.eigh(to_numpy(xp.matmul(X, X.T)))[1][:, -1])
    for _ in range(ROUNDS):
        for n in range(T.ndim):
            along = to_numpy(times(T, [v[None, :] for v in vectors], skip=n)).ravel()
            vectors[n] = along / (np.linalg.norm(along) or 1.0)
    return vectors
