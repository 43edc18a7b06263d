"""Columns and rows that repeat others, taken out of the data before a fit and put back after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import on_host, to_namespace, to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray, Index
from bayespca.checks.columns import dependent_columns
from bayespca.checks.copies import copied_rows, of_averages, of_copies, replicates
from bayespca.lowrank.combined import expanded
from bayespca.lowrank.noise_models import OUTLYING_ROWS
from bayespca.lowrank.records import PCAFit
from bayespca.noise.advice import naming_outliers
from bayespca.noise.errors import KnownErrors
from bayespca.sources.data import Data, Features, Where
from bayespca.sources.redundant import NONE, Combinations, combinations
from bayespca.spectrum.records import Advice

from .wording import names_of


@dataclass(frozen=True, eq=False)
class Reduced:
    """Data without columns that follow from others, with each sample once.

    Attributes
    ----------
    data, errors
        What to fit.
    combined
        Columns that follow from others.
    rows
        For each row of the original data, the row to fit in its place; None where all are fitted.
    averaged
        Whether rows are means of repeated measurements.
    keeps
        Whether the columns that follow from others are fitted, too.
    """

    data: Data
    errors: KnownErrors | None
    combined: Combinations = NONE
    rows: Index | None = None
    averaged: bool = False
    keeps: bool = False


def reduced(
    data: Data, errors: KnownErrors | None, *, keeps: bool, averages: bool = True
) -> Reduced:
    """The part of data in memory that says something of its own; all of them if it `keeps` them.

    Known errors of single cells may make a cell worth more than its copy: then all are kept, too.
    A known noise is that of single measurements, which it does not average.
    """
    if data.where is not Where.DENSE or (errors is not None and errors.cells is not None):
        return Reduced(data, errors)
    combined = combinations(data.values)
    if keeps:
        return Reduced(data, errors, combined, keeps=True)
    if combined:
        if data.holes:
            values = to_namespace(combined.solved(on_host(data.values)), data.values)
            data = _with_values(data, values, data.features)
        data, errors = _without(data, errors, combined.others(data.features.count))
    # Rows of different weights are not copies.
    weighted = errors is not None and errors.rows is not None
    rows = None if weighted else copied_rows(data.values)
    if rows is not None:
        data = _with_values(data, taken(data.values, np.unique(rows)), data.features)
    first = replicates(data.values) if averages and errors is None else None
    if first is None:
        return Reduced(data, errors, combined, rows)
    data = _with_values(data, means_of_rows(data.values, first), data.features)
    if rows is not None:
        distinct = np.unique(rows)
        first = distinct[first[np.searchsorted(distinct, rows)]]
    return Reduced(data, errors, combined, first, averaged=True)


def means_of_rows(X: Array, first: Index) -> Array:
    """Means over the rows with one first row, of the cells that are there; in order of these."""
    host = on_host(X)
    samples, group = np.unique(first, return_inverse=True)
    there = ~np.isnan(host)
    sums, counts = (np.zeros((samples.size, host.shape[1])) for _ in range(2))
    np.add.at(sums, group, np.where(there, host, 0.0))
    np.add.at(counts, group, there)
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return to_namespace(means, X, X.dtype)


def _without(
    data: Data, errors: KnownErrors | None, others: Index
) -> tuple[Data, KnownErrors | None]:
    """The data with the other columns alone, and their errors."""
    names = data.features.names
    features = Features(others.size, None if names is None else names[others])
    if errors is not None and errors.columns is not None:
        errors = replace(errors, columns=errors.columns[others])
    return _with_values(data, taken(data.values, others, axis=1), features), errors


def _with_values(data: Data, values: Array, features: Features) -> Data:
    holes = int(np.isnan(to_numpy(values)).sum()) if data.holes else data.holes
    return replace(data, values=values, features=features, holes=holes)


def completed(fit: PCAFit, known: Reduced, features: Features) -> PCAFit:
    """A fit of the reduced data, as one of all rows and columns."""
    if known.combined:
        fit = _saying(fit, _of_columns(known, features))
    if known.combined and not known.keeps:
        fit = _of_all_columns(fit, known.combined)
    if known.rows is None:
        return fit
    # What the fit says about rows is repeated for their copies.
    rows, advice = known.rows, of_averages if known.averaged else of_copies
    noise, status = fit.noise, fit.status
    place = np.searchsorted(np.unique(rows), rows)
    if noise.samples is not None:
        noise = replace(noise, samples=noise.samples[place])
    if noise.outliers is not None:
        noise = replace(noise, outliers=noise.outliers[place])
        # These rows had other numbers.
        advice_left = tuple(one for one in status.advice if one.code != OUTLYING_ROWS)
        status = replace(status, advice=advice_left)
    fit = replace(fit, noise=noise, status=status, n_samples=rows.size, first_rows=rows)
    return _saying(naming_outliers(fit), advice(rows))


def _of_columns(known: Reduced, features: Features) -> Advice:
    names = names_of(features.names, features.count)
    return dependent_columns(known.combined, names, kept=known.keeps)


def _saying(fit: PCAFit, advice: Advice) -> PCAFit:
    return replace(fit, status=fit.status.but(advice.code, advice.text))


def _of_all_columns(fit: PCAFit, combined: Combinations) -> PCAFit:
    """The fit with all columns: those that follow from others have no noise of their own."""
    p, noise = fit.n_features + combined.columns.size, fit.noise
    others = combined.others(p)

    def spread_out(values: FloatArray) -> FloatArray:
        found = np.zeros((*values.shape[:-1], p))
        found[..., others] = values
        return found

    if noise.features is not None:
        noise = replace(noise, features=spread_out(noise.features))
    if noise.outliers is not None and noise.outliers.ndim == 2:
        noise = replace(noise, outliers=spread_out(noise.outliers))
    return replace(fit, posterior=expanded(fit.posterior, combined), noise=noise)
