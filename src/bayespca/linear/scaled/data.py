"""Complete data as the updates of their noise see them: whitened, decomposed, summed up.

Tall data whose rows have equal noise are all in their Gram matrix; others are whitened cell by cell
and given to an engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import (
    array_namespace,
    is_numpy_array,
    row_blocks,
    to_namespace,
    to_numpy,
)
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines import gram
from bayespca.engines.decomposing import decompose
from bayespca.lowrank.filtering import filtered, filtered_gram, transposed, unfiltered
from bayespca.spectrum.records import Solution, Spectrum, samples

from .whitening import Whitening


class Solve(Protocol):
    """A closed form."""

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution: ...


@dataclass(frozen=True, eq=False)
class Whitened:
    """Whitened data Z, decomposed and solved, and sums over the data V before the filter.

    Attributes
    ----------
    spectrum, solution
        Of Z.
    components
        Right singular vectors of Z that are kept: (k, p).
    loadings
        L⁻¹w of these: directions in V; (k, p).
    squares, beside
        Σᵢv_ij², and Σᵢv_ij·v_i,j+1.
    cross
        VᵀZw of each component; (p, k).
    row_squares
        ‖zᵢ‖²; None where rows are equal.
    scores
        zᵢᵀw of each component; (n, k), None where rows are equal.
    location
        μ less the plain mean of the columns.
    engine
        The one that ran.
    """

    spectrum: Spectrum
    solution: Solution
    components: FloatArray
    loadings: FloatArray
    squares: FloatArray
    beside: FloatArray
    cross: FloatArray
    row_squares: FloatArray | None
    scores: FloatArray | None
    location: FloatArray
    engine: str


@dataclass(frozen=True, eq=False)
class NoisyTable(ABC):
    """Those columns of data that vary: of the others nothing is to be found.

    Attributes
    ----------
    mean
        Plain means of the columns, or zeros if not `centred`.
    n_samples, centred
        Rows, and whether a mean is part of the model.
    like
        An array of the library, type and place of the data.
    live, mean_of_row
        Which columns of the data these are, and the means of all.
    units
        What columns were divided by.
    """

    mean: FloatArray
    n_samples: int
    centred: bool
    like: Array
    live: NDArray[np.intp]
    mean_of_row: FloatArray
    units: FloatArray

    def spread_out(self, values: FloatArray, fill: float) -> FloatArray:
        """What belongs to the columns that vary, with a number for the others."""
        found = np.full((*values.shape[:-1], self.mean_of_row.size), fill)
        found[..., self.live] = values
        return found

    def mean_of_all(self, location: FloatArray) -> FloatArray:
        """The mean, at a distance from the plain one, of all columns."""
        found = self.mean_of_row.copy()
        found[self.live] = (self.mean + location) * self.units
        return found

    @property
    @abstractmethod
    def matrix(self) -> FloatArray:
        """What tells these data from others."""

    @property
    @abstractmethod
    def squares(self) -> FloatArray:
        """Σ(x − mean)² of each column."""

    @abstractmethod
    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        """The data without what makes their noise unequal."""

    @abstractmethod
    def row_squares(self, precision: FloatArray) -> FloatArray:
        """Σⱼ(x_ij − meanⱼ)²·precisionⱼ of each row."""

    @abstractmethod
    def column_squares(self, precision: FloatArray) -> FloatArray:
        """Σᵢ(x_ij − meanⱼ)²·precisionᵢ of each column."""

    @property
    def M(self) -> int:
        return samples(self.n_samples, self.centred)

    @property
    def p(self) -> int:
        return int(self.mean.size)


@dataclass(frozen=True, eq=False)
class GramTable(NoisyTable):
    """XᵀX of centred data, whose rows have equal noise."""

    gram: FloatArray
    engine: str = "gram"

    @property
    def matrix(self) -> FloatArray:
        return self.gram

    @property
    def squares(self) -> FloatArray:
        return np.diag(self.gram)

    def row_squares(self, precision: FloatArray) -> FloatArray:
        raise TypeError("a Gram matrix knows nothing of its rows")

    def column_squares(self, precision: FloatArray) -> FloatArray:
        raise TypeError("a Gram matrix knows nothing of its rows")

    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        root, phi = np.sqrt(whitening.columns.precision), whitening.phi
        V = self.gram * root[:, None] * root
        Z = filtered_gram(V, phi)
        eigen = gram.Eigen.of(Z)
        values = np.maximum(eigen.values[::-1][: min(self.p, self.M)], 0.0)
        total = max(float(np.trace(Z)), float(values.sum()))
        spectrum = Spectrum(np.sqrt(values), (self.p, self.M), total)
        solution = solve(spectrum, other_ranks=False)
        W = np.ascontiguousarray(eigen.top(solution.rank).T)
        return Whitened(
            spectrum,
            solution,
            components=W,
            loadings=unfiltered(W, phi),
            squares=np.diag(V).copy(),
            beside=np.diag(V, 1).copy(),
            cross=V @ transposed(W, phi).T,
            row_squares=None,
            scores=None,
            location=np.zeros(self.p),
            engine=self.engine,
        )


@dataclass(frozen=True, eq=False)
class CellTable(NoisyTable):
    """The data themselves, in memory or on a device."""

    values: Array
    engine: str = "auto"

    @property
    def matrix(self) -> FloatArray:
        return to_numpy(self.values)

    @cached_property
    def squares(self) -> FloatArray:
        return self.column_squares(np.ones(self.n_samples))

    def column_squares(self, precision: FloatArray) -> FloatArray:
        xp, weights = array_namespace(self.values), to_namespace(precision, self.values)

        def work(rows: slice) -> FloatArray:
            block = self._centred(rows, np.zeros(self.p))
            return to_numpy(xp.matmul(weights[rows], block * block))

        return np.asarray(sum(in_blocks(self.values, work)), dtype=np.float64)

    def row_squares(self, precision: FloatArray) -> FloatArray:
        xp, weights = array_namespace(self.values), to_namespace(precision, self.values)

        def work(rows: slice) -> FloatArray:
            block = self._centred(rows, np.zeros(self.p))
            return to_numpy(xp.matmul(block * block, weights))

        return np.concatenate(list(in_blocks(self.values, work))).astype(np.float64)

    def _centred(self, rows: slice, location: FloatArray) -> Array:
        return self.values[rows, :] - to_namespace(self.mean + location, self.values)

    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        location = self._location(whitening)
        V = self._scaled(whitening, location)
        Z = filtered(V, whitening.phi)
        plan = OneRowLess(solve) if self.centred else solve
        found = decompose(Z, plan=plan, center=False, engine=self.engine)
        spectrum = one_row_less(found.spectrum) if self.centred else found.spectrum
        solution = solve(spectrum, other_ranks=False)
        W = found.right(solution.rank)
        sums = _sums(V, Z, W, whitening)
        components = np.asarray(to_numpy(W), dtype=np.float64)
        return Whitened(
            spectrum,
            solution,
            components=components,
            loadings=unfiltered(components, whitening.phi),
            location=location,
            engine=found.engine,
            **sums,
        )

    def _location(self, whitening: Whitening) -> FloatArray:
        """Mean of the rows weighted by their precision, less the plain mean."""
        if whitening.rows is None or not self.centred:
            return np.zeros(self.p)
        xp, w = array_namespace(self.values), whitening.rows.precision
        weights = to_namespace(w / w.sum() - 1 / w.size, self.values)

        def work(rows: slice) -> FloatArray:
            return to_numpy(xp.matmul(weights[rows], self._centred(rows, np.zeros(self.p))))

        return np.asarray(sum(in_blocks(self.values, work)), dtype=np.float64)

    def _scaled(self, whitening: Whitening, location: FloatArray) -> Array:
        """V: a block at a time, so that each number is touched once while it is in the cache."""
        xp = array_namespace(self.values)
        V = xp.empty_like(self.values)
        root = to_namespace(np.sqrt(whitening.columns.precision), self.values)
        rows = whitening.rows
        of_rows = None if rows is None else to_namespace(np.sqrt(rows.precision), self.values)

        def work(part: slice) -> None:
            block = self._centred(part, location)
            block *= root
            if of_rows is not None:
                block *= of_rows[part, None]
            V[part, :] = block

        for _ in in_blocks(self.values, work):
            pass
        return V


def _sums(V: Array, Z: Array, W: Array, whitening: Whitening) -> dict[str, Any]:
    """Sums over rows and over columns of whitened data, in one pass over blocks of rows."""
    xp, phi = array_namespace(V), whitening.phi
    k, p = W.shape
    of_rows = whitening.rows is not None

    def work(rows: slice) -> tuple[Any, ...]:
        v, z = V[rows, :], Z[rows, :]
        t = xp.matmul(z, W.T)
        return (
            xp.sum(v * v, axis=0),
            xp.sum(v[:, 1:] * v[:, :-1], axis=0) if phi else None,
            xp.matmul(v.T, t),
            xp.sum(z * z, axis=1) if of_rows else None,
            t if of_rows else None,
        )

    squares, beside, cross = np.zeros(p), np.zeros(max(p - 1, 0)), np.zeros((p, k))
    row_squares, scores = [], []
    for c, b, x, r, t in in_blocks(V, work):
        squares += to_numpy(c)
        cross += to_numpy(x)
        if phi:
            beside += to_numpy(b)
        if of_rows:
            row_squares.append(to_numpy(r))
            scores.append(to_numpy(t))
    return {
        "squares": squares,
        "beside": beside,
        "cross": cross,
        "row_squares": np.concatenate(row_squares).astype(np.float64) if of_rows else None,
        "scores": np.concatenate(scores).astype(np.float64) if of_rows else None,
    }


def in_blocks(X: Array, work: Any) -> Any:
    """What is found for each block of rows, in their order: by threads where X is NumPy's."""
    parts = row_blocks(X)
    return in_turn(work, parts) if is_numpy_array(X) else map(work, parts)


@dataclass(frozen=True)
class OneRowLess:
    """A closed form for data whose mean was removed before an engine saw them."""

    solve: Solve

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
        return self.solve(one_row_less(spectrum), other_ranks=other_ranks)


def one_row_less(spectrum: Spectrum) -> Spectrum:
    """The spectrum of rows of which one follows from the others."""
    L, M = spectrum.shape
    if M <= 1:
        return spectrum
    values = spectrum.singular_values[: int(min(L, M - 1))]
    return Spectrum(
        values, (L, M - 1), spectrum.sum_of_squares, spectrum.scale, spectrum.resolution
    )
