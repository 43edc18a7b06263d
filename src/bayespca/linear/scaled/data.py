"""Complete data as updates of their noise need them: whitened, decomposed, summed up.

For tall data whose rows have equal noise the Gram matrix is sufficient; others are whitened cell by
cell and given to an engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Array, FloatArray, Floats
from bayespca.engines import gram
from bayespca.lowrank.filtering import filtered_gram, transposed, unfiltered
from bayespca.lowrank.scales import Scales, given
from bayespca.spectrum.records import Solution, Spectrum, samples
from bayespca.spectrum.tolerances import RESOLUTION_OF_SQUARES

# Data with no more cells are small.
FEW_CELLS = 1000
# Bytes of a block of rows, which is read several times while it is in the cache, and its fewest
# rows.
BLOCK, FEWEST = 1 << 18, 64


@dataclass(frozen=True, eq=False)
class Whitening:
    """v_ij = (x_ij − μⱼ)/√(uᵢvⱼ), filtered along the features (`lowrank.filtering`).

    `rows` is None where all are equal.
    """

    columns: Scales
    rows: Scales | None = None
    partials: tuple[float, ...] = ()


class Solve(Protocol):
    """A closed form."""

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution: ...


@dataclass(frozen=True, eq=False)
class Whitened:
    """Whitened data Z, decomposed and solved, and sums over the data V before the filter.

    Attributes
    ----------
    spectrum, solution
        The spectrum of Z, and its solution.
    components
        Right singular vectors of Z that are kept: (k, p).
    loadings
        L⁻¹w of these: directions in V; (k, p).
    squares, beside
        Σᵢv_ij²; and Σᵢv_ij·v_i,j+d for distances d up to the order of the noise, 0 where there is
        no feature j + d: (q, p).
    cross
        VᵀZw of each component; (p, k).
    rows
        Sums for each row; None where rows are equal, and until they are needed
        (`NoisyTable.scored`).
    location
        μ less the plain mean of the columns.
    engine
        The engine that ran.
    basis
        Directions to start from when the noise changes a little: (b, p). None after a
        decomposition; with a basis components were refined (`decomposition.refined`), and some may
        be missing.
    """

    spectrum: Spectrum
    solution: Solution
    components: FloatArray
    loadings: FloatArray
    squares: FloatArray
    beside: FloatArray
    cross: FloatArray
    rows: RowForms | None
    location: FloatArray
    engine: str
    basis: FloatArray | None = None

    @classmethod
    def unfiltered(
        cls, spectrum: Spectrum, solution: Solution, W: FloatArray, **sums: Any
    ) -> Whitened:
        """Whitened data without a filter, for noise that is not correlated: Z is V."""
        apart = np.zeros((0, W.shape[1]))
        return cls(spectrum, solution, components=W, loadings=W, beside=apart, rows=None, **sums)

    @property
    def gamma(self) -> FloatArray:
        """Singular values of the components."""
        return self.spectrum.singular_values[: len(self.components)] * self.spectrum.scale

    @property
    def kept(self) -> FloatArray:
        """Shrinkage of the components, γ̂/γ."""
        return self.solution.shrunk_singular_values / self.gamma

    @property
    def weights_of_scores(self) -> FloatArray:
        """Factors of squared scores in `explained`, `uncertain` and `leverage` of rows: (k, 3)."""
        k, moments, s2 = self.solution.rank, self.solution.moments, self.solution.noise_variance
        gamma, kept, p = self.gamma, self.kept, self.components.shape[1]
        spread = p * moments.variance_b[:k] / s2 if s2 else np.zeros(k)
        size = (moments.mean_a[:k] / gamma) ** 2
        uncertain = size * (spread + inverse(moments.prior_variance_a)[:k])
        return np.stack([kept * (2 - kept), uncertain, kept / gamma**2], axis=1)


class Near(NamedTuple):
    """A starting point for when the noise changes a little: directions of data, and a location."""

    directions: FloatArray
    location: FloatArray


@dataclass(frozen=True, eq=False)
class NoisyTable(ABC):
    """The columns of data that vary; the others hold no information.

    Attributes
    ----------
    mean
        Plain means of the columns, or zeros if not `centred`.
    n_samples, centred
        Number of rows, and whether a mean is part of the model.
    like
        An array with the library, dtype and device of the data.
    live, mean_of_row
        Indices of these columns in the data, and the means of all columns.
    units, unit
        Divisors of columns, and the part of them that is not due to scale=True: for data whose
        squares would overflow or vanish.
    known
        Relative noise variances of the rows, where they are known; None where all are 1.
    rounding
        Variance of each column due to the rounding of its numbers (`sources.rounding`). It is added
        to their squares, as if they had been known to all digits.
    """

    mean: FloatArray
    n_samples: int
    centred: bool
    like: Array
    live: NDArray[np.intp]
    mean_of_row: FloatArray
    units: FloatArray
    known: FloatArray | None
    rounding: FloatArray
    unit: float

    def spread_out(self, values: FloatArray, fill: float) -> FloatArray:
        """Values of the columns that vary, with a fill number for the others."""
        found = np.full((*values.shape[:-1], self.mean_of_row.size), fill)
        found[..., self.live] = values
        return found

    @property
    @abstractmethod
    def matrix(self) -> FloatArray:
        """An array that identifies these data."""

    @property
    @abstractmethod
    def squares(self) -> FloatArray:
        """Σ(x − mean)² of each column."""

    @abstractmethod
    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        """The whitened data, decomposed and solved."""

    def scored(self, found: Whitened, whitening: Whitening) -> Whitened:
        """Add the sums for each row, if rows differ: one pass over them, unless already made."""
        if whitening.rows is None or found.rows is not None:
            return found
        W, weights = found.components, found.weights_of_scores
        squares, forms = self.projections(whitening, W, found.location, weights)
        w = whitening.rows.precision
        return replace(found, rows=RowForms(squares * w, *(forms.T * w)))

    def can_refine(self, whitening: Whitening, size: int) -> bool:
        """Whether refining `size` directions takes much less time than a decomposition."""
        return False

    def refined(self, whitening: Whitening, solve: Solve, near: Near) -> Whitened:
        """As `whitened`, but with components refined from nearby ones."""
        raise TypeError("these data cannot be refined")

    @property
    def sample(self) -> NoisyTable | None:
        """Some of the rows to start from; None where there are too few."""
        return None

    def projections(
        self, whitening: Whitening, W: FloatArray, location: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """‖zᵢ‖² and Σₕ(zᵢᵀwₕ)²·weightsₕ of rows, not weighted by their noise: (n,), (n, m)."""
        raise TypeError("a Gram matrix does not contain its rows")

    def row_squares(self, precision: FloatArray) -> FloatArray:
        """Σⱼ(x_ij − meanⱼ)²·precisionⱼ of each row."""
        raise TypeError("a Gram matrix does not contain its rows")

    def column_squares(self, precision: FloatArray) -> FloatArray:
        """Σᵢ(x_ij − meanⱼ)²·precisionᵢ of each column."""
        raise TypeError("a Gram matrix does not contain its rows")

    @property
    def is_small(self) -> bool:
        """Whether cells are so few that the search for their noise must not be hurried."""
        return self.n_samples * self.p <= FEW_CELLS

    @property
    def known_rows(self) -> Scales | None:
        """Scales of the rows from their known noise variances; None if these are not known."""
        return None if self.known is None else given(self.known).at_unit_scale()

    @property
    def M(self) -> int:
        return samples(self.n_samples, self.centred)

    @property
    def p(self) -> int:
        return int(self.mean.size)


@dataclass(frozen=True, eq=False)
class TableWithGram(NoisyTable):
    """A table with Σ(x − mean)(x − mean)ᵀ over all rows, equally weighted."""

    gram: FloatArray

    @property
    def matrix(self) -> FloatArray:
        return self.gram

    @property
    def squares(self) -> FloatArray:
        return np.diag(self.gram)


@dataclass(frozen=True, eq=False)
class GramTable(TableWithGram):
    """XᵀX of centred data, whose rows have equal noise."""

    engine: str = "gram"

    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        root, partials = np.sqrt(whitening.columns.precision), whitening.partials
        V = self.gram * root[:, None] * root
        V[np.diag_indices(self.p)] += self.n_samples * self.rounding * root**2
        Z = filtered_gram(V, partials)
        values, top = eigen_of(Z)
        spectrum = spectrum_of_squares(values, (self.p, self.M), float(np.trace(Z)))
        solution = solve(spectrum, other_ranks=False)
        W = top(solution.rank)
        return Whitened(
            spectrum,
            solution,
            components=W,
            loadings=unfiltered(W, partials),
            squares=np.diag(V).copy(),
            beside=diagonals_beside(V, len(partials)),
            cross=V @ transposed(W, partials).T,
            rows=None,
            location=np.zeros(self.p),
            engine=self.engine,
        )


def diagonals_beside(product: FloatArray, order: int) -> FloatArray:
    """Diagonals above the main one, filled up with zeros: (order, p)."""
    found = np.zeros((order, len(product)))
    for d, diagonal in enumerate(found, 1):
        diagonal[:-d] = np.diag(product, d)
    return found


def eigen_of(product: FloatArray) -> tuple[FloatArray, Callable[[int], FloatArray]]:
    """Eigenvalues of a Gram matrix, largest first, and its top eigenvectors as rows, on demand."""
    eigen = gram.Eigen.of(product)
    return eigen.values[::-1], lambda k: np.ascontiguousarray(eigen.top(k).T)


def spectrum_of_squares(values: FloatArray, shape: tuple[int, int], total: float) -> Spectrum:
    """The spectrum whose squares are eigenvalues of a Gram matrix with this trace."""
    squares = np.maximum(values[: min(shape)], 0.0)
    total = max(total, float(squares.sum()))
    return Spectrum(np.sqrt(squares), shape, total, resolution=RESOLUTION_OF_SQUARES)


# --- sums over rows ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowForms:
    """Sums for each of the whitened rows zᵢ with scores tᵢₕ = zᵢᵀwₕ: (n,) each.

    Attributes
    ----------
    squares
        ‖zᵢ‖².
    explained
        Part of them that components explain: Σₕtᵢₕ²·s(2 − s), with shrinkage s.
    uncertain
        Contribution of uncertain loadings and of the prior of the scores, at the means of the
        scores and in units of the noise:
        Σₕaᵢₕ²·(p·var(b)/σ² + 1/cₐ²).
    leverage
        Share of their noise that components explain: Σₕtᵢₕ²·s/γ².
    """

    squares: FloatArray
    explained: FloatArray
    uncertain: FloatArray
    leverage: FloatArray


def forms_of_rows(z: Floats, W: Floats, weights: FloatArray) -> tuple[Floats, FloatArray]:
    """‖zᵢ‖² and Σₕ(zᵢᵀwₕ)²·weightsₕ, with w in the columns of W."""
    return np.einsum("ij,ij->i", z, z), (z @ W) ** 2 @ weights


def forms_of_centred(
    X: FloatArray, mean: FloatArray, precision: FloatArray, W: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`forms_of_rows` of rows less their mean, times the roots of the columns' precisions."""
    squares, scores = np.empty(len(X)), np.empty((len(X), W.shape[1]))
    across = np.sqrt(precision)[:, None] * W
    for part, x in centred_blocks(X, mean):
        np.matmul(x, across, out=scores[part])
        np.matmul(np.multiply(x, x, out=x), precision, out=squares[part])
    scores *= scores
    return squares, scores @ weights


def sums_of_centred(
    X: FloatArray, mean: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σw·x and Σw·x² of rows less their mean, for each column."""
    total, squares = np.zeros(mean.size), np.zeros(mean.size)
    for part, x in centred_blocks(X, mean):
        total += w[part] @ x
        squares += w[part] @ np.multiply(x, x, out=x)
    return total, squares


def centred_blocks(X: FloatArray, mean: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of rows less their mean; each overwrites the one before."""
    n, p = X.shape
    size = max(FEWEST, BLOCK // (8 * p))
    room = np.empty((size, p))
    for i in range(0, n, size):
        part = slice(i, min(i + size, n))
        yield part, np.subtract(X[part], mean, out=room[: part.stop - i])


def inverse(variances: FloatArray) -> FloatArray:
    """1/c², 0 where there is no proper prior."""
    proper = np.isfinite(variances) & (variances > 0)
    return np.where(proper, 1 / np.where(proper, variances, 1.0), 0.0)
