"""Checks of a PCA's assumptions on the data that it was fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.checks.holes import holes_by_value
from bayespca.checks.rows import dominating_row, ordered_rows, sorted_rows
from bayespca.checks.values import COUNTS, of_values
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import by_others
from bayespca.lowrank.noise_models import BOTH
from bayespca.lowrank.posterior import Posterior, left_of_some
from bayespca.lowrank.records import PCAFit
from bayespca.noise.advice import named_rows
from bayespca.sources.data import Data, Where
from bayespca.spectrum.records import Advice

from ._posterior import functions
from .wording import names_of

# Checks read the first rows: as many as have CELLS cells, but at least FEWEST.
CELLS, FEWEST = 100_000, 40
# Of very many columns, checks read about OF_MANY, in stretches of STRETCH, provided that this is at
# least FEW times the number of components.
OF_MANY, STRETCH, FEW = 500, 50, 10
# The scores of all rows are checked only up to this many cells.
MANY_CELLS = 500_000
ONE_ROW = (
    "There is a single sample, and components are what samples differ in: give at least two. Rows "
    "are samples, so transpose the table if it has them as columns."
)


def checked(data: Data, fit: PCAFit, rows: Index | None = None) -> PCAFit:
    """The fit with advice from the checks of its data, which are for dense data in memory.

    Where copies of rows were left out of the data, `rows` are the numbers that theirs stand for.
    """
    if data.where is not Where.DENSE:
        return fit
    advice = tuple(_advice(data, fit, rows))
    status = replace(fit.status, advice=(*fit.status.advice, *advice))
    return replace(fit, status=status) if advice else fit


def _advice(data: Data, fit: PCAFit, rows: Index | None) -> Iterator[Advice]:
    n, p = data.values.shape
    numbers = np.arange(n) if rows is None else np.unique(rows)
    if n == 1:
        yield Advice("one-row", ONE_ROW)
        return
    # Not every array library allows slices that end beyond the array.
    some = data.values[: min(max(CELLS // p, FEWEST), n), :]
    host = on_host(some)
    on_values = of_values(host)
    # A noise model of rows and columns accounts for counts.
    if on_values is not None and not (on_values.code == COUNTS and fit.noise.name == BOTH.name):
        yield on_values
    if fit.noise_variance <= 0 or fit.noise.series:
        return
    found: list[Advice | None] = []
    missing = np.isnan(host)
    if isinstance(fit.posterior, HolesPosterior) and missing.any():
        predicted = by_others(fit.posterior, host)
        names = names_of(data.features.names, data.features.count)
        found.append(holes_by_value(predicted, missing.astype(np.float64), names))
    found += _of_rows(some, data, fit, numbers)
    yield from (one for one in found if one is not None)


def _of_rows(some: Array, data: Data, fit: PCAFit, numbers: Index) -> Iterator[Advice | None]:
    """Advice on residuals and scores of rows."""
    left = _residuals(some, fit)
    in_order = ordered_rows(left)
    yield in_order
    read, posterior = functions(fit.posterior)
    if in_order is None:
        yield sorted_rows(on_host(read.scores(posterior, some)), data.features.count)
    if math.prod(data.values.shape) <= MANY_CELLS:
        scores = on_host(read.scores(posterior, data.values))
        yield dominating_row(scores, named_rows(fit), numbers)


def _residuals(rows: Array, fit: PCAFit) -> FloatArray:
    """Residuals over their scale, 0 in holes; of some columns if there are very many."""
    some, plain = _some_columns(*rows.shape), fit.posterior
    few = FEW * plain.components.shape[0] <= some.size < rows.shape[1]
    if few and isinstance(plain, Posterior) and not plain.partials:
        return left_of_some(plain, on_host(rows), some)
    read, posterior = functions(fit.posterior)
    fitted = on_host(read.reconstruct(posterior, read.scores(posterior, rows)))
    left = (on_host(rows) - fitted) / on_host(posterior.scale)
    return np.where(np.isnan(left), 0.0, left)


def _some_columns(n: int, p: int) -> NDArray[np.intp]:
    """All columns, or some stretches if there are very many."""
    if p < 2 * max(CELLS // n, OF_MANY):
        return np.arange(p)
    step = p // OF_MANY
    return np.add.outer(np.arange(0, p - STRETCH, step * STRETCH), np.arange(STRETCH)).ravel()
