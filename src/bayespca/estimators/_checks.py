"""The checks of what a PCA takes for granted, on the data that it was fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import on_host
from bayespca.checks.columns import MOST as MOST_COLUMNS
from bayespca.checks.columns import dependent_columns
from bayespca.checks.rows import dominating_row, ordered_rows
from bayespca.checks.values import COUNTS, of_values
from bayespca.lowrank.noise_models import BOTH
from bayespca.lowrank.records import PCAFit
from bayespca.sources.data import Data, Where
from bayespca.spectrum.records import Advice

from ._reading import functions
from .wording import names_of

# Cells of the first rows that are looked at, the fewest rows, and what columns need to be compared.
CELLS, FEWEST, FOR_COLUMNS = 100_000, 40, 50
# Up to so many cells scores of all rows are looked at.
MANY_CELLS = 500_000
# Smallest singular value over the largest if a column may follow from others.
NEXT_TO_NOTHING = 1e-6


def checked(data: Data, fit: PCAFit) -> PCAFit:
    """A fit with what the checks of its data have to say; for dense data in memory."""
    if data.where is not Where.DENSE:
        return fit
    advice = tuple(_advice(data, fit))
    status = replace(fit.status, advice=(*fit.status.advice, *advice))
    return replace(fit, status=status) if advice else fit


def _advice(data: Data, fit: PCAFit) -> Iterator[Advice]:
    X = data.values
    n, p = X.shape
    # Not every library has slices that end beyond an array.
    rows = on_host(X[: min(max(CELLS // p, FEWEST), n), :])
    found = of_values(rows)
    # With noise of rows and columns, counts are accounted for.
    if found is not None and not (found.code == COUNTS and fit.noise.name == BOTH.name):
        yield found
    if _may_depend(fit):
        names = names_of(data.features.names, data.features.count)
        more = on_host(X[: min(max(len(rows), 2 * p + FOR_COLUMNS), n), :])
        complete = more[~np.isnan(more).any(axis=1)]
        if (found := dependent_columns(complete, names)) is not None:
            yield found
    if not fit.noise_variance > 0:
        return
    read, posterior = functions(fit.posterior)
    scores = read.scores(posterior, X[: len(rows), :])
    left = rows - on_host(read.reconstruct(posterior, scores))
    left = np.where(np.isnan(left), 0.0, left) / on_host(posterior.scale)
    if (found := ordered_rows(left)) is not None:
        yield found
    # Rows with noise of their own are spoken of elsewhere.
    small = math.prod(X.shape) <= MANY_CELLS and fit.noise.samples is None
    found = dominating_row(on_host(read.scores(posterior, X))) if small else None
    if found is not None:
        yield found


def _may_depend(fit: PCAFit) -> bool:
    """Whether a column may follow from others: something nearly vanishes, or may do so."""
    gamma = fit.spectrum.singular_values
    if fit.n_features > MOST_COLUMNS or not gamma.size:
        return False
    tall = fit.n_samples > fit.n_features
    vanishes = gamma[-1] <= NEXT_TO_NOTHING * gamma[0]
    return bool(vanishes or not (tall and fit.spectrum.is_complete))
