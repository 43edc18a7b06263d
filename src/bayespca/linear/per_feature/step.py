"""Noise of its own for each feature: closed-form PCA of rescaled data, in turns with the noise.

With noise variances ψⱼ the data divided by √ψⱼ have unit noise, so given ψ the posterior is that of
the closed form with σ² = 1, and given the posterior the best ψⱼ is the mean expected squared
residual of feature j. Both steps minimise the free energy, to which the change of scale adds
M/2·Σ log ψⱼ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.engines.gram import Eigen
from bayespca.inference.loop import Info
from bayespca.lowrank.feature_noise import best_noise
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES


@dataclass(frozen=True)
class State:
    """Noise variances, and the closed-form solution that they lead to."""

    psi: FloatArray
    solution: Solution
    spectrum: Spectrum
    components: FloatArray


@dataclass(frozen=True)
class Moments:
    """Centred second moments of the data: X itself if it is wide, XᵀX if it is tall."""

    squares: FloatArray
    gram: FloatArray | None
    rows: FloatArray | None
    M: int

    @property
    def p(self) -> int:
        return int(self.squares.size)

    @property
    def matrix(self) -> FloatArray:
        """XᵀX or X, whichever there is."""
        matrix = self.gram if self.rows is None else self.rows
        assert matrix is not None
        return matrix


Solve = Callable[[Spectrum], Solution]


def moments(X: FloatArray, *, M: int) -> Moments:
    """Moments of centred data X (n×p)."""
    if X.shape[0] > X.shape[1]:
        gram = X.T @ X
        return Moments(np.diag(gram).copy(), gram, None, M)
    return Moments(np.einsum("ij,ij->j", X, X), None, X, M)


def init(data: Moments, solve: Solve, noise_share: float = 0.5) -> State:
    """Start with a share of each feature's variance as its noise."""
    return _solved(data, solve, noise_share * data.squares / data.M)


def step(state: State, data: Moments, solve: Solve) -> tuple[State, Info]:
    """Noise given the posterior, then the posterior given the noise."""
    psi = best_noise(
        state.psi,
        data.squares,
        solution=state.solution,
        spectrum=state.spectrum,
        components=state.components,
    )
    new = _solved(data, solve, psi)
    F = new.solution.free_energy + 0.5 * data.M * float(np.log(new.psi).sum())
    return new, Info(F, new.solution.rank, float(new.psi.mean()))


def _solved(data: Moments, solve: Solve, psi: FloatArray) -> State:
    variances = data.squares / data.M
    live = variances > 0
    psi = np.where(live, np.maximum(psi, LEAST_NOISE_OF_FEATURES * variances), 1.0)
    root = np.sqrt(psi)
    gamma, right = _decomposed(data, root)
    spectrum = Spectrum(gamma, (data.p, data.M), float((data.squares / psi).sum()))
    solution = solve(spectrum)
    return State(psi, solution, spectrum, right(solution.rank))


def _decomposed(data: Moments, root: FloatArray) -> tuple[FloatArray, Callable[[int], FloatArray]]:
    """Singular values of the rescaled data, and its right vectors on demand."""
    n_values = min(data.p, data.M)
    if data.gram is not None:
        eigen = Eigen.of(data.gram / root[:, None] / root)
        gamma = np.sqrt(np.maximum(eigen.values[::-1][:n_values], 0))
        return gamma, lambda k: eigen.top(k).T
    assert data.rows is not None
    rows = data.rows / root
    eigen = Eigen.of(rows @ rows.T)
    gamma = np.sqrt(np.maximum(eigen.values[::-1][:n_values], 0))
    return gamma, lambda k: (eigen.top(k) / gamma[:k]).T @ rows
