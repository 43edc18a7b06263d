"""Results of a fit to several views: factors in order, and a posterior of all columns."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.signs import signs_of
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.observing import new_rows
from bayespca.lowrank.rows import Columns, latent
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .data import ViewsTable
from .state import ViewsState


def in_order(state: ViewsState, table: ViewsTable) -> ViewsState:
    """The state with its factors ordered by the mean share of the views that they explain."""
    return state.only(np.argsort(-explained(state, table).sum(axis=0), kind="stable"))


def explained(state: ViewsState, table: ViewsTable) -> FloatArray:
    """Share of the variance of each view that each factor explains: (V, H)."""
    counts = np.maximum(table.rows.column_counts - 1, 1)
    total = table.by_view(table.rows.squares / counts)
    squares = [(state.b[js, :-1] ** 2).sum(axis=0) for js in table.columns]
    return np.stack(squares) / np.where(total > 0, total, 1.0)[:, None]


def noise(state: ViewsState, table: ViewsTable) -> FloatArray:
    """Noise variance of each view in the units of the data, the mean over its columns: (V,)."""
    squares = table.by_view(table.rows.unit**2) / np.maximum(table.sizes, 1)
    return np.asarray(state.noise * squares)


def posterior(state: ViewsState, table: ViewsTable) -> HolesPosterior:
    """The posterior of all columns, in coordinates in which the scores are the factors.

    A column without values has loadings from the prior and a mean as uncertain as the data; a
    column that does not vary keeps its value.
    """
    p, H, live, view = table.live.size, state.rank, table.live, table.view_of_all
    columns = state.columns(table)
    b, b_cov = np.zeros((p, H + 1)), np.zeros((p, H + 1, H + 1))
    prior = state.prior / state.noise[:, None]
    b_cov[:, range(H), range(H)] = prior[view]
    b_cov[:, H, H] = 1 / state.noise[view]
    b[live], b_cov[live] = columns.b, columns.b_cov
    signs = np.append(signs_of(b[:, :H].T), 1.0)
    # Adding 0 turns −0 into 0.
    b, b_cov = b * signs + 0.0, b_cov * signs * signs[:, None]
    rows, mean, unit = table.rows, np.zeros(p), np.ones(p)
    # A column without values is like a typical column of its view.
    for v, js in enumerate(table.columns):
        if js.size:
            unit[view == v] = np.exp(np.log(rows.unit[js]).mean())
    mean[live], unit[live] = rows.location, rows.unit
    scale = unit * np.sqrt(state.noise)[view]
    constant = ~np.isnan(table.constants)
    mean[constant], b_cov[constant] = table.constants[constant], 0.0
    scale[constant] *= np.sqrt(LEAST_NOISE_WITH_HOLES)
    mean += b[:, H] * scale
    b[:, H] = 0.0
    return HolesPosterior(
        Columns(b, b_cov, np.ones(H), 1.0),
        mean,
        scale,
        1.0,
        b[:, :H].T.copy(),
        np.eye(H),
        np.ones(H),
    )


def correlations(found: HolesPosterior) -> FloatArray:
    """Correlation of each feature with each factor, b/√(Σb² + σ²): (k, p)."""
    b, noise = found.columns.b[:, :-1], found.columns.noise_variance
    return np.asarray(b / np.sqrt((b**2).sum(axis=1) + noise)[:, None]).T


def latent_std(found: HolesPosterior, X: FloatArray) -> FloatArray:
    """Posterior standard deviations of the scores of rows: (n, k)."""
    data = new_rows(X, location=found.mean, unit=found.scale)
    _, cov = latent(data, found.columns)
    spread = np.sqrt(np.einsum("mhh->mh", np.asarray(cov)))[data.pattern]
    return np.asarray(data.in_order(spread))
