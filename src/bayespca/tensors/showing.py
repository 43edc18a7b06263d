"""Components to add or keep, judged by the closed form of a matrix.

Projected on orthonormal bases of the other modes, the residual of a tensor is a matrix for each
mode with white noise: EVB's threshold decides whether it shows another component of that mode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.places import at
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.closed_form import evb_threshold, learned_edge
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_TENSORS

from .data import TuckerCells
from .modes import size_without, times, unfolded
from .pruning import strengths
from .state import TuckerState

# Multiple of EVB's threshold above which a component is certainly needed.
SURELY = 4.0


class Shown(NamedTuple):
    """Vectors missing from a mode, (M, k), and the number of them that EVB would keep."""

    vectors: FloatArray
    kept: int


def shown(state: TuckerState, left: Array, data: TuckerCells, n: int) -> Shown:
    """Vectors of mode n in the residual `left` with a strength above the edge of noise, strongest
    first. Below the edge there is not even a local minimum with the component.
    """
    bases = [np.linalg.qr(rows.mean)[0] for rows in state.rows]
    along = [at(left, Q.T) for Q in bases]
    X = to_numpy(unfolded(times(left, along, skip=n), n))
    X = X - bases[n] @ (bases[n].T @ X)
    L, M = X.shape[0] - bases[n].shape[1], X.shape[1]
    if not (L and M):
        return Shown(X[:, :0], 0)
    U, gamma, _ = np.linalg.svd(X, full_matrices=False)
    x = strength(gamma[:L] ** 2, state, data)
    above = int(np.count_nonzero(x > learned_edge(L, M, L, M)))
    return Shown(U[:, :above], int(np.count_nonzero(x > evb_threshold(L, M))))


def strength(squares: FloatArray, state: TuckerState, data: TuckerCells) -> FloatArray:
    """Observed strength x of components with these squares in the residual.

    The noise is estimated without each component, which in small tensors makes up much of it.
    """
    of_cells = squares / data.share
    rest = data.n_cells * state.noise_variance - of_cells
    least = LEAST_NOISE_OF_TENSORS * data.n_cells
    return np.asarray(of_cells / np.maximum(rest, least) * data.n_cells)


def is_needed(state: TuckerState, data: TuckerCells, n: int, which: int) -> bool:
    """Whether a component of mode n is so strong that a fit without it need not be tried."""
    x = strengths(state, n)[which] * data.share / state.noise_variance
    others = size_without(state.ranks, n)
    return bool(x > SURELY * evb_threshold(data.sizes[n], others))
