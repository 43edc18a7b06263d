"""Tall data on Dask whose rows have noise of their own: rows on the workers, their variances here.

Columns that vary are kept on the workers, in blocks of whole rows. A round is two passes over them:
in the first, blocks get the precisions of their rows and return sums of the weighted rows; in the
second, they get the components and return four numbers for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import row_blocks
from bayespca.arrays.types import FloatArray
from bayespca.engines.map_reduce import fan_in
from bayespca.sources.cluster import computed, kept
from bayespca.sources.records import Delayed, Partitions
from bayespca.sources.tasks import added, first_of_blocks, mapped, mapped_parts, reduced

from .cells import CellTable, mean_of, step_of_sample
from .data import NoisyTable, Solve, TableWithGram, Whitened, Whitening, forms_of_rows
from .decomposition import gram_and_total, whitened_by_gram


@dataclass(frozen=True, eq=False)
class DistantTable(TableWithGram):
    """Rows on workers: `blocks` of the columns that vary, with `lengths` rows."""

    blocks: tuple[Delayed, ...]
    lengths: tuple[int, ...]

    @property
    def sample(self) -> CellTable | None:
        """Some of the rows, at equal distances, brought here; None where rows are too few."""
        step = step_of_sample(self.n_samples, self.p)
        if step is None:
            return None
        values = self.every_nth(step).astype(np.float64, copy=False)
        own = {field.name: getattr(self, field.name) for field in fields(NoisyTable)}
        own |= {"n_samples": len(values), "mean": mean_of(values) if self.centred else self.mean}
        return CellTable(**own, values=values)

    def every_nth(self, step: int) -> NDArray[Any]:
        """Every `step`-th row, brought here."""
        offsets = list(accumulate(self.lengths, initial=0))[:-1]
        starts = first_of_blocks(offsets, step)
        return np.concatenate(
            computed(*mapped_parts(_every_nth, self.blocks, starts, broadcast=(step,)))
        )

    def row_squares(self, precision: FloatArray) -> FloatArray:
        return self._of_rows(_row_squares, self.mean, precision)

    def column_squares(self, precision: FloatArray) -> FloatArray:
        return self._total(_column_squares, precision, self.mean)

    def projections(
        self, whitening: Whitening, W: FloatArray, location: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        root = np.sqrt(whitening.columns.precision)
        found = self._of_rows(_projections, self.mean + location, root, W.T, weights)
        return found[:, 0], found[:, 1:]

    def whitened(self, whitening: Whitening, solve: Solve) -> Whitened:
        rows, columns = whitening.rows, np.sqrt(whitening.columns.precision)
        root = np.ones(self.n_samples) if rows is None else np.sqrt(rows.precision)
        sums = self._total(gram_and_total, root, self.mean, columns)
        return whitened_by_gram(self, whitening, solve, sums, "dask")

    def _of_rows(self, function: Callable[..., FloatArray], *given: object) -> FloatArray:
        """Results of a function for each row."""
        return np.concatenate(computed(*mapped_parts(function, self.blocks, broadcast=given)))

    def _total(self, sums: Callable[..., Any], of_rows: FloatArray, *given: object) -> Any:
        """Sums of a function over rows; each block gets its part of `of_rows`."""
        own = np.split(of_rows, np.cumsum(self.lengths)[:-1])
        parts = mapped_parts(sums, self.blocks, own, broadcast=given)
        return computed(reduced(parts, added, fan_in=fan_in(self.p)))[0]


def kept_blocks(
    X: Partitions, live: NDArray[np.intp], unit: float
) -> tuple[tuple[Delayed, ...], tuple[int, ...]]:
    """Blocks of some columns over a unit, kept on the workers, and their numbers of rows."""
    some = None if live.size == X.n_features else live
    blocks = tuple(kept(mapped(X, _some_columns, some, unit)))
    return blocks, X.lengths or tuple(computed(*mapped_parts(len, blocks)))


# --- tasks of the workers ----------------------------------------------------------------------


def _some_columns(block: NDArray[Any], live: NDArray[np.intp] | None, unit: float) -> NDArray[Any]:
    inside = block if live is None else block[:, live]
    return inside if unit == 1.0 else inside / unit


def _every_nth(block: NDArray[Any], start: int, step: int) -> NDArray[Any]:
    return block[start::step].copy()


def _parts(block: NDArray[Any]) -> Sequence[slice]:
    return row_blocks(block) if len(block) else []


def _row_squares(block: NDArray[Any], mean: FloatArray, precision: FloatArray) -> FloatArray:
    found = np.empty(len(block))
    for part in _parts(block):
        found[part] = (block[part] - mean) ** 2 @ precision
    return found


def _column_squares(block: NDArray[Any], precision: FloatArray, mean: FloatArray) -> FloatArray:
    found = np.zeros(mean.size)
    for part in _parts(block):
        found += precision[part] @ (block[part] - mean) ** 2
    return found


def _projections(
    block: NDArray[Any], mean: FloatArray, root: FloatArray, W: FloatArray, weights: FloatArray
) -> FloatArray:
    """‖zᵢ‖² and weighted squares of scores, side by side."""
    found = np.empty((len(block), 1 + weights.shape[1]))
    for part in _parts(block):
        found[part, 0], found[part, 1:] = forms_of_rows((block[part] - mean) * root, W, weights)
    return found
