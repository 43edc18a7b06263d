"""States of a Tucker factorization as vectors, for acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST, change_of_root, logarithm, turn_to
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_TENSORS, LEAST_PRIOR

from .data import TuckerCells
from .holes import moved
from .modes import outer, times
from .noise import divided
from .state import TuckerProblem, TuckerState, with_core
from .step import equations_of


@dataclass(frozen=True, eq=False)
class _Mode:
    """Ã = A·diag(c), for a core of unit prior variance, and the logarithm of the mean covariance of
    its rows, of shape (0, 0) for point estimates.
    """

    rows: FloatArray
    spread: FloatArray

    def turned(self, Q: FloatArray) -> _Mode:
        return _Mode(self.rows @ Q, Q.T @ self.spread @ Q if self.spread.size else self.spread)


@dataclass(frozen=True, eq=False)
class _Parts:
    """All modes, the core over ∏c, log σ², the logarithms of slices' precisions, the shift."""

    modes: tuple[_Mode, ...]
    core: FloatArray
    rest: tuple[FloatArray, ...]

    @property
    def arrays(self) -> list[FloatArray]:
        ofmodes = [array for mode in self.modes for array in (mode.rows, mode.spread)]
        return [*ofmodes, self.core, *self.rest]

    @property
    def vector(self) -> FloatArray:
        return np.concatenate([array.ravel() for array in self.arrays])

    def at(self, vector: Vector) -> _Parts:
        """Parts of the same shapes, read from another vector."""
        arrays = self.arrays
        pieces = np.split(vector, np.cumsum([array.size for array in arrays])[:-1])
        shaped = [x.reshape(array.shape) for x, array in zip(pieces, arrays, strict=True)]
        N = len(self.modes)
        modes = tuple(_Mode(*shaped[2 * n : 2 * n + 2]) for n in range(N))
        return _Parts(modes, shaped[2 * N], tuple(shaped[2 * N + 1 :]))

    def turned_to(self, other: _Parts) -> _Parts:
        """The parts with components rotated towards those of others."""
        turns = [turn_to(a.rows, b.rows) for a, b in zip(self.modes, other.modes, strict=True)]
        modes = tuple(mode.turned(Q) for mode, Q in zip(self.modes, turns, strict=True))
        return replace(self, modes=modes, core=times(self.core, [Q.T for Q in turns]))


@dataclass(frozen=True, eq=False)
class TuckerChart:
    """Vectors of factors, core, mean and logarithms of variances.

    `at` solves for the core again, since its covariance follows from the rest.
    """

    data: TuckerCells
    problem: TuckerProblem

    def point(self, state: TuckerState, like: Vector | None) -> StatePoint:
        parts = _parts(state, self.problem)
        if like is not None and like.size == parts.vector.size:
            parts = parts.turned_to(parts.at(like))
        return StatePoint(parts.vector, self._errors(state, parts))

    def at(self, state: TuckerState, vector: Vector) -> TuckerState:
        here = _parts(state, self.problem)
        goal = here.at(vector).turned_to(here)
        priors = self._priors(state, here, goal)
        roots = [np.sqrt(prior) for prior in priors]
        rows = []
        for n, (a, b) in enumerate(zip(here.modes, goal.modes, strict=True)):
            cov = state.rows[n].cov
            if b.spread.size:
                change = change_of_root(a.spread, b.spread)
                change = change * np.sqrt(state.priors[n]) / roots[n][:, None]
                cov = change @ cov @ change.T
            rows.append(replace(state.rows[n], mean=b.rows / roots[n], cov=cov))
        noise, *others, shift = goal.rest
        new = replace(
            state,
            rows=tuple(rows),
            core=replace(state.core, mean=goal.core * outer(roots)),
            priors=priors,
            shift=shift,
        )
        if noise.size:
            log = float(np.clip(noise[0], here.rest[0][0] - FURTHEST, here.rest[0][0] + FURTHEST))
            new = replace(new, noise_variance=max(float(np.exp(log)), LEAST_NOISE_OF_TENSORS))
        scales = tuple(
            one.with_precision(np.exp(logs - logs.mean()))
            for one, logs in zip(state.scales, others, strict=True)
        )
        new = replace(new, scales=scales)
        data = divided(self.data, scales)
        _, data = moved(new, data)
        return with_core(new, equations_of(new, data), self.problem)

    def _errors(self, state: TuckerState, parts: _Parts) -> FloatArray:
        s2, seconds = state.noise_variance, [mode.rows.T @ mode.rows for mode in parts.modes]
        found: list[FloatArray] = []
        for n, mode in enumerate(parts.modes):
            second = times(parts.core, seconds, skip=n) * parts.core
            axes = tuple(m for m in range(second.ndim) if m != n)
            along = np.sqrt(s2 / (s2 + second.sum(axis=axes)))
            found.append(np.broadcast_to(along, mode.rows.shape).ravel())
            found.append(np.full(mode.spread.size, np.sqrt(2 / len(mode.rows))))
        sizes = outer([np.diag(second) for second in seconds])
        found.append(np.sqrt(s2 / (s2 + sizes)).ravel())
        noise, *others, shift = parts.rest
        found.append(np.full(noise.size, np.sqrt(2 / self.data.n_cells)))
        for n, logs in enumerate(others):
            found.append(np.sqrt(2 / np.maximum(self.data.cells_along[n], 1))[: logs.size])
        found.append(np.full(shift.size, np.sqrt(s2 / self.data.shape[0])))
        return np.concatenate(found)

    def _priors(self, state: TuckerState, here: _Parts, goal: _Parts) -> tuple[FloatArray, ...]:
        """Priors at `goal`: learned ones grow with the norms of the components."""
        if not self.problem.prior.is_learned:
            return state.priors
        found = []
        for prior, a, b in zip(state.priors, here.modes, goal.modes, strict=True):
            before, after = (a.rows**2).sum(axis=0), (b.rows**2).sum(axis=0)
            growth = np.divide(after, before, out=np.ones_like(before), where=before > 0)
            found.append(np.maximum(prior * np.sqrt(growth), LEAST_PRIOR))
        return tuple(found)


def _parts(state: TuckerState, problem: TuckerProblem) -> _Parts:
    roots = [np.sqrt(prior) for prior in state.priors]
    modes = []
    for rows, root in zip(state.rows, roots, strict=True):
        mean = rows.cov.mean(axis=0) * root * root[:, None]
        has_spread = mean.size and (np.diag(mean) > 0).all()
        modes.append(_Mode(rows.mean * root, logarithm(mean) if has_spread else np.empty((0, 0))))
    noise = np.log([state.noise_variance] if problem.fixed_noise is None else np.empty(0))
    scales = [np.log(one.precision) for one in state.scales]
    return _Parts(tuple(modes), state.core.mean / outer(roots), (noise, *scales, state.shift))
