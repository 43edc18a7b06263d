"""Sufficient statistics of complete data for Bishop's model, along the scatter's eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, Input
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.lowrank.variational import Counts
from bayespca.spectrum.forms import EVERYTHING
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import ROUNDING_OF_DEVIATIONS


@dataclass(frozen=True, eq=False)
class Scatter:
    """Sums over samples, in the directions in which the scatter matrix is diagonal.

    `scatter` are its K eigenvalues, for the data less `mean`, or for the data themselves where the
    model has no μ; `mean` has K entries, and one more for its part outside these directions if it
    has one.
    """

    N: int
    d: int
    scatter: FloatArray
    mean: FloatArray

    @property
    def counts(self) -> Counts:
        return Counts(self.N, self.d, self.N * self.d)

    @property
    def padded(self) -> FloatArray:
        return np.append(self.scatter, np.zeros(self.mean.size - self.scatter.size))


@dataclass(frozen=True, eq=False)
class VariationalData(Scatter):
    """A `Scatter` in units of `unit`, with the decomposition that it comes from.

    `basis` has the directions as rows.
    """

    found: Decomposition
    basis: FloatArray
    unit: float

    @property
    def mean_of_columns(self) -> FloatArray:
        """Root mean square of the mean in the units of the data: only its size matters."""
        size = float(np.linalg.norm(self.mean)) / np.sqrt(self.d)
        return np.full(1, size * self.unit)

    @property
    def live(self) -> NDArray[np.bool_]:
        """Mask of the columns that vary; constant ones are not features."""
        return np.asarray(np.any(self.basis != 0, axis=0))


def closed_noise(data: VariationalData) -> float:
    """The noise variance of the closed form."""
    return solve(data.found.spectrum, other_ranks=False).noise_variance


def variational_data(X: Input, *, center: bool, engine: str = "auto") -> VariationalData:
    """Decompose an array, a sparse matrix or a source of blocks."""
    found = decompose(X, plan=solve, center=center, engine=engine, n_needed=EVERYTHING)
    spectrum = found.spectrum
    unit = float(np.sqrt(spectrum.sum_of_squares / np.prod(spectrum.shape)))
    unit = unit * spectrum.scale or 1.0
    gamma = spectrum.singular_values * (spectrum.scale / unit)
    right = to_numpy(found.right(gamma.size)).astype(np.float64)
    live = np.any(right != 0, axis=0)
    mean = np.where(live, to_numpy(found.mean).astype(np.float64), 0.0) / unit
    basis, along = _with_mean(right, mean)
    return VariationalData(
        found.n_samples, spectrum.shape[0], gamma**2, along, found=found, basis=basis, unit=unit
    )


def _with_mean(right: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Directions that include the mean, with one more where needed, and the mean along them."""
    along = right @ mean
    rest = mean - along @ right
    size = float(np.linalg.norm(rest))
    if size > ROUNDING_OF_DEVIATIONS * float(np.linalg.norm(mean)):
        return np.concatenate([right, rest[None, :] / size]), np.append(along, size)
    return right, along
