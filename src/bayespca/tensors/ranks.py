"""Ranks to start with: from each unfolding by EVB's closed form, then by truncations of the core.

With orthonormal vectors a core of H₁×H₂×… leaves R = ‖Y‖² − ‖G‖², so that σ² = R/(n − free
parameters). At the coordinates where the free energy is lowest, an entry of a factor costs
½log(1 + Sₕ/Mₙσ²), with Sₕ the squares of its slice of the core, and an entry of the core costs

    ½(log(1 + c/σ²) + ⟨g²⟩/c − 1),   c = ∏ₙcₙ,   cₙ = the mean of ⟨g²⟩/∏_{m≠n}cₘ over its slice.

The vectors are those of the unfoldings, not the best ones, which makes small cores look better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_TENSORS, LOG_2PI

from .data import TuckerCells
from .modes import outer, unfolded
from .state import replaced

Ranks = tuple[int, ...]

# Rounds of the search for the priors of a core.
ROUNDS = 4
# Least share of the squares that a slice of the core is given; products over modes stay in range.
LEAST_SHARE = 1e-30


@dataclass(frozen=True, eq=False)
class Unfolding:
    """Singular values of an unfolding, their closed form, and the left vectors (M, k)."""

    spectrum: Spectrum
    solution: Solution
    left: FloatArray


def unfoldings(
    T: Array,
    *,
    method: str = "evb",
    noise_variance: float | str = "auto",
    spare: int = 0,
    needed: tuple[int | None, ...] = (),
) -> tuple[Unfolding, ...]:
    """The closed form of every unfolding.

    Each has `needed` vectors, or `spare` more than the closed form keeps.
    """
    form = ClosedForm(METHODS[method], noise_variance=noise_variance)
    out = []
    for n, count in enumerate(needed or (None,) * T.ndim):
        X = unfolded(T, n)
        plan = replace(form, n_features=int(X.shape[0]))
        # Transposed, because engines return right vectors.
        found = decompose(
            X.T,
            plan=plan,
            center=False,
            n_needed=count or spare,
            random_state=0,
            dead_rows=form.sets_rows_aside,
        )
        solution = plan(found.spectrum)
        known = found.spectrum.singular_values.size
        kept = min(solution.rank + spare if count is None else count, known)
        out.append(Unfolding(found.spectrum, solution, to_numpy(found.right(kept)).T))
    return tuple(out)


# --- truncated cores -----------------------------------------------------------------------------


def worthwhile(core: FloatArray, data: TuckerCells, free: tuple[int, ...]) -> Ranks:
    """The ranks with the lowest free energy on the path of dropping one vector after another.

    `core` is that of all vectors, strongest first; modes that are not `free` keep theirs.
    """
    squares = core * core
    now: Ranks = core.shape
    best, lowest = now, _energy(squares, data)
    while True:
        smaller = [replaced(now, n, now[n] - 1) for n in free if now[n] > 1]
        if not smaller:
            return best
        energies = [_energy(squares[tuple(slice(H) for H in ranks)], data) for ranks in smaller]
        now, energy = smaller[int(np.argmin(energies))], min(energies)
        if energy < lowest:
            best, lowest = now, energy


def _energy(squares: FloatArray, data: TuckerCells) -> float:
    """The free energy of a core from its squares, up to a constant shared by all cores."""
    total, n, ranks = float(squares.sum()), data.n_cells, squares.shape
    entries = sum(M * H - H * H for M, H in zip(data.sizes, ranks, strict=True)) + squares.size
    if entries >= n or not total:
        return math.inf
    s2 = max((data.squares - total) / (n - entries), LEAST_NOISE_OF_TENSORS)
    energy = 0.5 * (n * (LOG_2PI + math.log(s2)) + (data.squares - total) / s2 + entries)
    for axis, M in enumerate(data.sizes):
        energy += 0.5 * M * float(np.log1p(_sums(squares, axis) / (M * s2)).sum())
    # A slice of exact zeros would have the prior variance 0, and 0/0 below.
    shares = (_sums(squares, axis) / squares.sum() for axis in range(squares.ndim))
    priors = [np.maximum(share, LEAST_SHARE) for share in shares]
    priors[0] = priors[0] * squares.sum()
    for _ in range(ROUNDS):
        for axis in range(squares.ndim):
            c = outer(priors)
            ratio = _sums((squares + _variance(c, s2)) / c, axis) * len(priors[axis])
            priors[axis] = priors[axis] * ratio / squares.size
    c = outer(priors)
    core = np.log1p(c / s2) + (squares + _variance(c, s2)) / c - 1
    return energy + 0.5 * float(core.sum())


def _variance(c: FloatArray, s2: float) -> FloatArray:
    """Posterior variance of an entry of the core."""
    return np.asarray(s2 * c / (s2 + c))


def _sums(T: FloatArray, axis: int) -> FloatArray:
    """Sum of each slice along a mode."""
    return np.asarray(T.sum(axis=tuple(m for m in range(T.ndim) if m != axis)))
