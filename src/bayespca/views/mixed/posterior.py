"""Results of a fit to views with likelihoods: factors in order, a posterior of all columns."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.signs import signs_of
from bayespca.arrays.types import FloatArray
from bayespca.discrete.data import row_blocks
from bayespca.discrete.likelihoods.normal import LEAST_NOISE, NORMAL
from bayespca.discrete.posterior import TablePosterior, spread_of_columns
from bayespca.discrete.start import mean_omega

from .data import MixedViews
from .state import MixedState


def in_order(state: MixedState, table: MixedViews) -> MixedState:
    """The state with its factors ordered by the mean share of the views that they explain."""
    return state.in_order(np.argsort(-explained(state, table).sum(axis=0), kind="stable"))


def explained(state: MixedState, table: MixedViews) -> FloatArray:
    """Share of the variance of each view that each factor explains: (V, H).

    The variance of a column is that of its z plus 1/ω, the variance with which a cell measures z,
    both in units of 1/ω: Σⱼωⱼbⱼₕ²/Σⱼ(1 + ωⱼΣₖbⱼₖ²).
    """
    b = state.all_columns(table).mean[:, :-1]
    squares = mean_omega(state.found, table.cells)[:, None] * b**2
    total = 1 + squares.sum(axis=1)
    out = np.zeros((table.n_views, state.rank))
    for v, js in enumerate(table.columns):
        if js.size:
            out[v] = squares[js].sum(axis=0) / total[js].sum()
    return out


def noise(state: MixedState, table: MixedViews) -> FloatArray:
    """Noise variance of each view in the units of the data, the mean over its numeric columns, NaN
    if it has none: (V,).
    """
    out = np.full(table.n_views, np.nan)
    for (group, some), parameters in zip(table.cells.with_columns(), state.parameters, strict=True):
        if group.likelihood is NORMAL:
            variances = np.exp(parameters[:, 0]) * table.scale[some] ** 2
            for v in np.unique(table.view[some]):
                out[v] = variances[table.view[some] == v].mean()
    return out


def omega(state: MixedState, table: MixedViews) -> FloatArray:
    """Mean precision with which cells measure z in all columns of the matrix; 0 if left out."""
    out = np.zeros(table.live.size)
    out[table.live] = mean_omega(state.found, table.cells)
    return out


def posterior(state: MixedState, table: MixedViews) -> TablePosterior:
    """The posterior of all columns, in coordinates in which the scores are the factors.

    Numbers that do not vary keep their value.
    """
    q, H, live = table.live.size, state.rank, table.live
    columns = state.all_columns(table)
    b, b_cov, spread = (np.zeros((q, H + 1, *more)) for more in ((), (H + 1,), (H + 1,)))
    b[live], b_cov[live], spread[live] = columns.mean, columns.matrices, _spread(state, table)
    # Of numbers that do not vary, the noise is the least.
    parameters, first = [], 0
    for width, some in zip(table.widths, state.parameters, strict=True):
        parameters.append(np.full((width, some.shape[1]), np.log(LEAST_NOISE)))
        parameters[-1][live[first : first + width]] = some
        first += width
    signs = np.append(signs_of(b[:, :H].T), 1.0)
    both = signs * signs[:, None]
    # Adding 0 turns −0 into 0.
    b = b * signs + 0.0
    return TablePosterior(
        b=b,
        b_cov=b_cov * both + 0.0,
        prior=np.ones(H),
        components=b[:, :H].T.copy(),
        basis=np.eye(H),
        latent_variance=state.rows.squares.mean(axis=0),
        b_spread=spread * both + 0.0,
        parameters=tuple(parameters),
    )


def _spread(state: MixedState, table: MixedViews) -> FloatArray:
    """Covariances of (B, μ) with the scores integrated out, view by view."""
    H, cells = state.rank, table.cells
    out = np.zeros((table.view.size, H + 1, H + 1))
    for v in table.taking_part:
        js, wide, rows = table.columns[v], state.wide(v), state.rows.only(state.on(v))
        blocks = ((rows[block], state.found.at((block, js)).omega) for block in row_blocks(cells))
        found = spread_of_columns(state.columns[v], blocks, state.prior_of(v))
        out[np.ix_(js, wide, wide)] = found
    return out
