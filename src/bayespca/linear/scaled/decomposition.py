"""Whitened data, decomposed and solved: from a Gram matrix, by products, or near a basis.

**Near a basis.** Components are refined from those of data that were whitened a little differently.
With whitened data Z and a basis Q near their components, one pass over the rows gives P = ZᵀZQ, and
P(QᵀP)⁻¹Pᵀ is at most ZᵀZ: its eigenvectors are nearer to the components than Q was, its eigenvalues
too small if anything (Nyström's approximation). Free energies are then too high if anything, and
what the basis has missed stays missed, until the data are decomposed in full again. A pass takes a
tenth of the time of a decomposition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from bayespca.arrays.namespaces import row_blocks
from bayespca.arrays.parallel import by_shares
from bayespca.arrays.types import FloatArray, Floats
from bayespca.engines.decomposing import by_products
from bayespca.engines.operators import scaled_operator
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.records import Solution, Spectrum, n_with_room

from .data import (
    Near,
    NoisyTable,
    RowForms,
    Solve,
    Whitened,
    Whitening,
    centred_blocks,
    eigen_of,
    spectrum_of_squares,
)

# Extra directions beside the components, in which others may show up.
BESIDE = 10
# Loss in nats per cell beyond which scores in the old basis are too rough.
MOST_LOST = 2e-10
# Ridge against rounding errors in a Gram matrix that is factorised, relative to its trace.
ROUNDING = 1e-13

# --- closed forms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class InRounds:
    """A closed form for data whose mean, if `less`, was removed before an engine saw them.

    It keeps the last answer, and does not compute free energies of other ranks.
    """

    solve: Solve
    less: bool

    def plan(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
        """The solution, for an engine."""
        return self.of(spectrum)[1]

    @cached_property
    def of(self) -> Callable[[Spectrum], tuple[Spectrum, Solution]]:
        """A function that returns the spectrum, with one row less if `less`, and its solution."""

        @lru_cache(maxsize=1)
        def of(spectrum: Spectrum) -> tuple[Spectrum, Solution]:
            own = one_row_less(spectrum) if self.less else spectrum
            return own, self.solve(own, other_ranks=False)

        return of


def one_row_less(spectrum: Spectrum) -> Spectrum:
    """The spectrum of rows of which one follows from the others.

    The last values of an unfinished search are too small. They may leave room for the rest of the
    squares with one more row, but not without it: such values are dropped.
    """
    L, M = spectrum.shape
    if M <= 1:
        return spectrum
    n_values = int(min(L, M - 1))
    values = spectrum.singular_values[:n_values]
    values = values[: n_with_room(values**2, spectrum.sum_of_squares, n_values)]
    return Spectrum(
        values, (L, M - 1), spectrum.sum_of_squares, spectrum.scale, spectrum.resolution
    )


# --- the Gram matrix of weighted rows ----------------------------------------------------------


def gram_and_total(
    X: Floats, rows: FloatArray, shift: FloatArray, columns: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """ZᵀZ and Zᵀ·rows of z_ij = (x_ij − shiftⱼ)·columnsⱼ·rowsᵢ, in float64."""
    p = X.shape[1]
    gram, total = np.zeros((p, p)), np.zeros(p)
    parts = row_blocks(X) if len(X) else []
    room, product = np.empty((parts[0].stop if parts else 0, p)), np.empty((p, p))
    for part in parts:
        z = np.subtract(X[part], shift, out=room[: len(X[part])])
        z *= rows[part, None]
        total += rows[part] @ z
        gram += np.matmul(z.T, z, out=product)
    gram *= columns
    gram *= columns[:, None]
    return gram, total * columns


def whitened_by_gram(
    table: NoisyTable,
    whitening: Whitening,
    solve: Solve,
    sums: tuple[FloatArray, FloatArray],
    engine: str,
) -> Whitened:
    """The whitened data, from `gram_and_total` of all rows."""
    rows, (product, total) = whitening.rows, sums
    w = np.ones(table.n_samples) if rows is None else rows.precision
    columns = np.sqrt(whitening.columns.precision)
    location = np.zeros(table.p)
    if table.centred:
        product = product - np.outer(total, total) / w.sum()
        location = total / w.sum() / columns
    product[np.diag_indices(table.p)] += w.sum() * table.rounding * columns**2
    values, top = eigen_of(product)
    spectrum = spectrum_of_squares(values, (table.p, table.M), float(np.trace(product)))
    solution = solve(spectrum, other_ranks=False)
    W = top(solution.rank)
    return Whitened.unfiltered(
        spectrum,
        solution,
        W,
        squares=np.diag(product).copy(),
        cross=product @ W.T,
        location=location,
        engine=engine,
    )


# --- products with large data ------------------------------------------------------------------


def whitened_by_products(
    values: FloatArray,
    data: NoisyTable,
    whitening: Whitening,
    solve: Solve,
    sums: tuple[FloatArray, FloatArray],
) -> Whitened | None:
    """The whitened data, decomposed and solved; None if products alone cannot do it.

    `sums` are Σw(x − mean) and Σw(x − mean)² of each column.
    """
    total, squares = sums
    rows, precision = whitening.rows, whitening.columns.precision
    w = np.ones(data.n_samples) if rows is None else rows.precision
    location = total / w.sum() if data.centred else np.zeros(data.p)
    squares = precision * (squares - w.sum() * location**2)
    operator = scaled_operator(
        values, data.mean + location, np.sqrt(precision), np.sqrt(w), float(squares.sum())
    )
    answer = InRounds(solve, less=data.centred)
    found = by_products(operator, plan=answer.plan) if operator is not None else None
    if found is None:
        return None
    spectrum, solution = answer.of(found.spectrum)
    W = np.ascontiguousarray(found.right(solution.rank), dtype=np.float64)
    gamma = spectrum.singular_values[: len(W)] * spectrum.scale
    return Whitened.unfiltered(
        spectrum,
        solution,
        W,
        squares=squares,
        cross=W.T * gamma**2,
        location=location,
        engine=found.engine,
    )


# --- components refined from nearby ones -------------------------------------------------------


def near_to(found: Whitened, columns: Scales) -> Near:
    """The starting point after a round with this noise of columns."""
    W, k = found.basis, found.solution.rank
    if W is None or len(W) <= k + BESIDE // 2:
        beside = np.random.default_rng(0).standard_normal((BESIDE, found.components.shape[1]))
        W = np.concatenate([found.components, beside])
    return Near(W * np.sqrt(columns.variance), found.location)


class Sums(NamedTuple):
    """Sums over rows, with x less the mean so far, weights w, and Q in units of the columns.

    They are √wᵢ·xᵢᵀQ of each row, Σw·x·(xᵀQ), Σw·x, Σw·x², and Σⱼx²·precisionⱼ of each row.
    """

    scores: FloatArray
    products: FloatArray
    total: FloatArray
    squares: FloatArray
    row_squares: FloatArray


def refined(
    values: FloatArray,
    data: NoisyTable,
    whitening: Whitening,
    solve: Solve,
    near: Near,
) -> Whitened:
    """The whitened data, solved with components that are refined from nearby ones.

    Rows keep their scores in the basis if it is near enough to the components for their residuals;
    otherwise they are scored again.
    """
    rows, precision = whitening.rows, whitening.columns.precision
    w = np.ones(data.n_samples) if rows is None else rows.precision
    root = np.sqrt(precision)
    Q = np.linalg.qr((near.directions * root).T)[0]
    location = np.zeros(data.p) if rows is None else near.location
    mean, across = data.mean + location, root[:, None] * Q

    def work(share: slice) -> Sums:
        own = None if rows is None else precision
        return _sums(values[share], mean, w[share], own, across)

    shares = list(by_shares(work, len(values)))
    sums = Sums(
        np.concatenate([one.scores for one in shares]),
        np.sum([one.products for one in shares], axis=0),
        np.sum([one.total for one in shares], axis=0),
        np.sum([one.squares for one in shares], axis=0),
        np.concatenate([one.row_squares for one in shares]),
    )
    squares = precision * (data.squares if rows is None else sums.squares)
    P, shift = root[:, None] * sums.products, np.zeros(data.p)
    if data.centred and rows is not None:
        total = root * sums.total
        P -= np.outer(total, total @ Q / w.sum())
        squares = squares - total**2 / w.sum()
        shift = sums.total / w.sum()
    own = w.sum() * data.rounding * precision
    squares, P = squares + own, P + own[:, None] * Q
    gamma, components, turn = _nearer(Q, P)
    spectrum = _spectrum(gamma, (data.p, data.M), float(squares.sum()))
    solution = solve(spectrum, other_ranks=False)
    k = solution.rank
    W = np.ascontiguousarray(components[:, :k].T)
    found = Whitened.unfiltered(
        spectrum,
        solution,
        W,
        squares=squares,
        cross=W.T * gamma[:k] ** 2,
        location=location + shift,
        engine="gram",
        basis=np.ascontiguousarray(components.T),
    )
    if rows is None:
        return found
    moved = data.n_samples * float(shift**2 @ precision)
    if _lost(found, Q, moved) > MOST_LOST * data.n_samples * data.p:
        return data.scored(found, whitening)
    # Squares and scores share a location, which is close to the new one.
    forms = (sums.scores @ (turn[:, :k] * gamma[:k])) ** 2 @ found.weights_of_scores
    return replace(found, rows=RowForms(w * sums.row_squares, *forms.T))


def _lost(found: Whitened, Q: FloatArray, moved: float) -> float:
    """Approximate loss in nats if rows have the scores of a basis, not of the components, and the
    old location; `moved` is the change of their squares that the new one would make.
    """
    W, s2 = found.components, found.solution.noise_variance
    outside = W - (W @ Q) @ Q.T
    turned = float(found.gamma**2 @ (outside**2).sum(axis=1))
    return (turned + moved) / (W.shape[1] * s2) if s2 else 0.0


def _nearer(Q: FloatArray, P: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Singular values γ, right vectors as columns, and a matrix that turns ZQ into left vectors."""
    H = Q.T @ P
    H = 0.5 * (H + H.T)
    # Directions without data have zero products: the ridge keeps H positive definite.
    H[np.diag_indices(len(H))] += ROUNDING * float(np.trace(H)) + np.finfo(np.float64).tiny
    L = np.linalg.cholesky(H)
    B = solve_triangular(L, P.T, lower=True)
    left, gamma, right = np.linalg.svd(B, full_matrices=False)
    return gamma, right.T, solve_triangular(L, left, lower=True, trans="T")


def _spectrum(gamma: FloatArray, shape: tuple[int, int], total: float) -> Spectrum:
    """The spectrum of as many singular values as leave room below for the remaining squares."""
    squares = gamma**2
    rest = total - np.cumsum(squares)
    room = (min(shape) - 1 - np.arange(gamma.size)) * squares
    few = int(np.argmin(np.append(rest <= room, False)))
    return Spectrum(gamma[:few], shape, max(total, float(squares[:few].sum())))


def _sums(
    X: FloatArray, mean: FloatArray, w: FloatArray, precision: FloatArray | None, Q: FloatArray
) -> Sums:
    """Sums over some rows; squares only where rows have precisions of their own."""
    (n, p), b, root = X.shape, Q.shape[1], np.sqrt(w)
    scores, squares, row_squares = np.empty((n, b)), np.zeros(p), np.zeros(n)
    # BLAS multiplies rows by X faster than Xᵀ by columns; the last row is for Σw·x.
    sums, room = np.zeros((b + 1, p)), np.empty((b + 1, p))
    for part, x in centred_blocks(X, mean):
        s = np.matmul(x, Q, out=scores[part])
        s *= root[part, None]
        sums += np.matmul(np.vstack([s.T * root[part], w[part]]), x, out=room)
        if precision is not None:
            x2 = np.multiply(x, x, out=x)
            np.matmul(x2, precision, out=row_squares[part])
            squares += w[part] @ x2
    return Sums(scores, sums[:b].T, sums[b], squares, row_squares)
