"""Large data, whitened and solved by products with them alone, without a whitened copy."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import by_products
from bayespca.engines.operators import scaled_operator

from .data import NoisyTable, Solve, Whitened
from .solving import InRounds
from .whitening import Whitening


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
