"""Checks of a PCA's assumptions on the data that it was fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.types import Array, FloatArray
from bayespca.checks.columns import MOST as MOST_COLUMNS
from bayespca.checks.columns import dependent_columns
from bayespca.checks.holes import holes_by_value
from bayespca.checks.rows import dominating_row, ordered_rows
from bayespca.checks.values import COUNTS, of_values
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.noise_models import BOTH
from bayespca.lowrank.others import by_others
from bayespca.lowrank.posterior import Posterior, left_of_some
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Data, Where
from bayespca.spectrum.records import Advice

from ._reading import functions
from .wording import names_of

# Checks read the first rows: as many as have CELLS cells, but at least FEWEST. The comparison of p
# columns needs 2p + FOR_COLUMNS.
CELLS, FEWEST, FOR_COLUMNS = 100_000, 40, 50
# Of very many columns, checks read about OF_MANY, in stretches of STRETCH, provided that this is at
# least FEW times the number of components.
OF_MANY, STRETCH, FEW = 500, 50, 10
# The scores of all rows are checked only up to this many cells.
MANY_CELLS = 500_000
# A column may follow from others if the smallest singular value over the largest is below this.
NEXT_TO_NOTHING = 1e-6
ONE_ROW = (
    "There is a single sample, and components are what samples differ in: give at least two. Rows "
    "are samples, so transpose the table if it has them as columns."
)


def checked(data: Data, fit: PCAFit) -> PCAFit:
    """The fit with advice from the checks of its data, which are for dense data in memory."""
    if data.where is not Where.DENSE:
        return fit
    advice = tuple(_advice(data, fit))
    status = replace(fit.status, advice=(*fit.status.advice, *advice))
    return replace(fit, status=status) if advice else fit


def _advice(data: Data, fit: PCAFit) -> Iterator[Advice]:
    n, p = data.values.shape
    if n == 1:
        yield Advice("one-row", ONE_ROW)
        return
    # Not every array library allows slices that end beyond the array.
    some = data.values[: min(max(CELLS // p, FEWEST), n), :]
    rows = on_host(some)
    found = [_of_values(rows, fit), _of_columns(data, fit, len(rows))]
    if fit.noise_variance > 0:
        found += [_of_holes(rows, data, fit), _of_order(some, fit), _of_one_row(data, fit)]
    yield from (one for one in found if one is not None)


def _of_values(rows: FloatArray, fit: PCAFit) -> Advice | None:
    found = of_values(rows)
    # A noise model of rows and columns accounts for counts.
    counts = found is not None and found.code == COUNTS
    return None if counts and fit.noise.name == BOTH.name else found


def _of_columns(data: Data, fit: PCAFit, n_rows: int) -> Advice | None:
    if not _may_depend(fit):
        return None
    n, p = data.values.shape
    rows = on_host(data.values[: min(max(n_rows, 2 * p + FOR_COLUMNS), n), :])
    return dependent_columns(rows[~np.isnan(rows).any(axis=1)], _names(data))


def _of_holes(rows: FloatArray, data: Data, fit: PCAFit) -> Advice | None:
    missing = np.isnan(rows)
    if not isinstance(fit.posterior, HolesPosterior) or not missing.any():
        return None
    predicted = by_others(fit.posterior, rows)
    return holes_by_value(predicted, missing.astype(np.float64), _names(data))


def _of_order(rows: Array, fit: PCAFit) -> Advice | None:
    some, plain = _some_columns(*rows.shape), fit.posterior
    if some.size < rows.shape[1] and isinstance(plain, Posterior) and _tell(some, plain):
        return ordered_rows(left_of_some(plain, on_host(rows), some))
    read, posterior = functions(fit.posterior)
    fitted = on_host(read.reconstruct(posterior, read.scores(posterior, rows)))
    left = (on_host(rows) - fitted) / on_host(posterior.scale)
    return ordered_rows(np.where(np.isnan(left), 0.0, left))


def _some_columns(n: int, p: int) -> NDArray[np.intp]:
    """All columns, or some stretches if there are very many."""
    if p < 2 * max(CELLS // n, OF_MANY):
        return np.arange(p)
    step = p // OF_MANY
    return np.add.outer(np.arange(0, p - STRETCH, step * STRETCH), np.arange(STRETCH)).ravel()


def _tell(columns: NDArray[np.intp], posterior: Posterior) -> bool:
    """Whether these columns are enough to compute the residuals of a row."""
    return not posterior.correlation and FEW * len(posterior.components) <= columns.size


def _of_one_row(data: Data, fit: PCAFit) -> Advice | None:
    # Other advice covers noise that differs between rows.
    if math.prod(data.values.shape) > MANY_CELLS or fit.noise.samples is not None:
        return None
    read, posterior = functions(fit.posterior)
    return dominating_row(on_host(read.scores(posterior, data.values)))


def _names(data: Data) -> list[str]:
    return names_of(data.features.names, data.features.count)


def _may_depend(fit: PCAFit) -> bool:
    """Whether a column may follow from others: a singular value vanishes, or an unseen one may."""
    gamma = fit.spectrum.singular_values
    if fit.n_features > MOST_COLUMNS or not gamma.size:
        return False
    tall = fit.n_samples > fit.n_features
    vanishes = gamma[-1] <= NEXT_TO_NOTHING * gamma[0]
    return bool(vanishes or not (tall and fit.spectrum.is_complete))
