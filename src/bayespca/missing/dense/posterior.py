"""The posterior of a matrix with holes, for all of its columns, from a state of its sweeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.signs import signs_of
from bayespca.arrays.types import FloatArray
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank.cells import CellScales
from bayespca.lowrank.holes import IncompleteRows
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.records import NoiseFound
from bayespca.lowrank.rows import Columns, sums_over_rows
from bayespca.lowrank.scales import (
    NORMAL,
    Scales,
    Tails,
    nats_per_component,
    probability_of_outlier,
)
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES, VANISHING

from .data import HolesTable
from .scales import NoiseScales, in_units
from .state import DenseProblem, DenseState


def for_all_columns(state: DenseState, table: HolesTable, problem: DenseProblem) -> HolesPosterior:
    """Posterior of a state in the units of the data; columns without values keep the prior."""
    state = state.at_unit_scale()
    rows, live, unit = table.rows, table.live, table.unit
    p, H, family = live.size, state.rank, problem.factors.family
    root = 1.0 if state.scales.root is None else state.scales.root
    b = np.zeros((p, H + 1))
    b_cov = np.zeros((p, H + 1, H + 1))
    # A column without values has the prior's loadings and a mean as uncertain as the data.
    prior_b = state.prior_b if family.integrates_b else np.zeros(H)
    b_cov[~live] = np.diag(np.append(prior_b, 1.0))
    b[live], b_cov[live] = to_numpy(state.b), to_numpy(state.b_cov)
    # Signs are fixed so that draws do not depend on how rounding flipped the components.
    signs = np.append(signs_of(b[:, :H].T), 1.0)
    b, b_cov = b * signs, b_cov * signs * signs[:, None]
    location, scales = np.zeros(p), np.ones(p)
    location[live] = rows.location
    scales[live] = rows.unit * root / unit
    if table.constants is not None:
        constant = ~np.isnan(table.constants)
        location[constant], b_cov[constant] = table.constants[constant], 0.0
        scales[constant] = np.sqrt(LEAST_NOISE_WITH_HOLES) * rows.unit.mean() / unit
    columns = Columns(b, b_cov, state.prior_a, state.noise_variance, family.integrates_a)
    found = read.from_columns(columns, location=location, scale=scales, unit=unit, like=table.like)
    variance = mean_squares_of_rows(state, rows, integrated=family.integrates_a)
    of_rows, of_cells = _tails(state.scales.rows), _tails(state.scales.cells)
    return replace(
        found,
        latent_variance=variance,
        tails=of_rows,
        cell_tails=of_cells,
        learned_from=found.learned_from if table.digests is None else table.digests,
    )


def _tails(scales: Scales | CellScales | None) -> Tails:
    return NORMAL if scales is None else Tails(scales.shape, scales.rate)


def mean_noise(state: DenseState, table: HolesTable) -> float:
    """Mean noise variance of a cell of the scaled data, relative to known errors."""
    usual = 1.0 if table.errors is None else table.errors.usual
    return state.noise_variance * state.scales.mean * (table.unit / usual) ** 2


def noise_found(state: DenseState, table: HolesTable, problem: DenseProblem) -> NoiseFound:
    """The noise of rows, columns and cells, in the units of the data."""
    scales, rows, columns = state.scales, state.scales.rows, state.scales.columns
    size = state.noise_variance * scales.mean_of_cells
    of_columns = size * table.rows.unit**2 * (1.0 if columns is None else columns.variance)
    gain = nats_per_component(rows, columns)
    found = NoiseFound(name=problem.noise.name, per_component=gain)
    known = table.errors is not None and table.errors.columns is not None
    if problem.noise.columns or known:
        features = np.zeros(table.live.size)
        mean = scales.mean_of_rows
        if rows is not None and table.errors is not None and table.errors.rows is not None:
            # Known errors of rows are included.
            mean = float(rows.variance.mean())
        features[table.live] = of_columns * mean
        found = replace(found, features=features)
    if rows is not None:
        mean = float(of_columns.mean())
        found = replace(
            found,
            samples=_of_rows(mean * rows.variance, mean * scales.mean_of_rows, table),
            degrees_of_freedom=rows.degrees_of_freedom,
            outliers=_of_rows(probability_of_outlier(rows), 0.0, table),
        )
    cells = state.scales.cells
    if cells is not None and problem.noise.cells:
        outliers = np.zeros((table.n_samples, table.live.size))
        outliers[:, table.live] = _of_rows(cells.probability_of_outlier, 0.0, table)
        found = replace(found, outliers=outliers, degrees_of_freedom=2 * cells.shape)
    return found


def scales_from(found: NoiseFound, table: HolesTable, problem: DenseProblem) -> NoiseScales:
    """Scales of rows and columns that were learned from the variances that `found` reports.

    Variances that count as known would cost no free energy, and no step could leave them.
    """
    data, rows, columns = table.rows, None, None
    if found.features is not None:
        counts = np.maximum(data.column_counts - data.centred, 1)
        variances = found.features[table.live] / data.unit**2
        columns = _learned(variances, counts, table.relative_units, problem)
    if found.samples is not None:
        kept = found.samples if table.kept is None else found.samples[table.kept]
        rows = _learned(kept[data.places], data.row_counts, np.ones(data.shape[0]), problem)
    return NoiseScales(rows, columns, table.relative_units)


def _learned(
    variances: FloatArray, counts: FloatArray, units: FloatArray, problem: DenseProblem
) -> Scales:
    """Scales of sides whose squares have these means."""
    relative = np.maximum(variances / (variances.max() or 1.0), LEAST_NOISE_WITH_HOLES)
    return in_units(problem.estimate, counts * relative, counts, units).at_unit_scale()


def _of_rows(values: FloatArray, others: float, table: HolesTable) -> FloatArray:
    """Values of rows in the order of the data; rows without any cell get `others`."""
    found = np.full((table.n_samples, *values.shape[1:]), others)
    kept = slice(None) if table.kept is None else np.flatnonzero(table.kept)
    places = np.arange(table.n_samples)[kept]
    found[places[table.rows.places]] = values
    return found


def has_mean(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> NDArray[np.bool_]:
    """Whether each component has a mean beyond its spread; other means shrink with every sweep."""
    if problem.prunes or problem.keeps_all:
        return np.ones(state.rank, dtype=np.bool_)
    H, family = state.rank, problem.factors.family
    b, b_cov = to_numpy(state.b)[:, :H], to_numpy(state.b_cov)[:, :H, :H]
    mean_b, spread_b = np.einsum("jh,jh->h", b, b), np.einsum("jhh->h", b_cov)
    mean_a = mean_squares_of_rows(state, data, integrated=False)
    spread_a = np.zeros(H)
    if family.integrates_a:
        spread_a = mean_squares_of_rows(state, data, integrated=True) - mean_a
    large = (mean_b > VANISHING * spread_b) & (mean_a > VANISHING * spread_a)
    return np.asarray(large & (mean_a > 0) & (mean_b > 0))


def mean_squares_of_rows(
    state: DenseState, data: IncompleteRows, *, integrated: bool
) -> FloatArray:
    """Mean of ⟨a²⟩ over the rows, about their mean; without `integrated`, of posterior means."""
    data, columns = state.scales.applied(data), state.columns(integrated=integrated)
    sums = sums_over_rows(data, columns, share=data.share, root=state.scales.root)
    H, everything = state.rank, to_numpy(sums.everything)
    total = everything[H, H]
    mean = everything[:H, H] / total * data.centred
    return np.asarray((np.diag(everything)[:H] - total * mean**2) / data.freedom)
