"""Expected squares of what is left in each cell."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray

from .holes import Holes
from .rows import Columns, updater


def squares_of_cells(
    data: Holes, columns: Columns, *, share: float, root: FloatArray | None
) -> FloatArray:
    """⟨(x − ãᵀb̃)²⟩/σ² of all cells, holes included, with A at its best for the columns: (n, p).

    ãᵀb̃ has the variance tr⟨ããᵀ⟩⟨b̃b̃ᵀ⟩ − (ãᵀb̃)², one product for a block of rows.
    """
    H, s2 = columns.rank, columns.noise_variance
    i, j = np.triu_indices(H + 1)
    second = (columns.second[:, i, j] * np.where(i == j, 1.0, 2.0)).T.copy()
    found, update = np.empty(data.shape), updater(data, columns, share=share, root=root)

    def work(edge: tuple[int, int]) -> None:
        block, rows = update(edge)
        last = np.ones((len(rows.a), 1)) if block.weights is None else block.weights.root[:, None]
        fitted = np.concatenate([rows.a, last], axis=1) @ columns.b.T
        left = data.plain_values[block.rows] * (last if root is None else last / root) - fitted
        square = np.matmul(rows.second.T, second, out=found[block.rows])
        square -= fitted * fitted
        np.maximum(square, 0.0, out=square)
        square += left * left
        square /= s2

    for _ in in_turn(work, data.edges()):
        pass
    return found
