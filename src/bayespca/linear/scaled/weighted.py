"""Tall data, whitened by the Gram matrix of their weighted rows, wherever these live."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import row_blocks
from bayespca.arrays.types import FloatArray, Floats

from .data import NoisyTable, Solve, Whitened, eigen_of, spectrum_of_squares
from .whitening import Whitening


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
