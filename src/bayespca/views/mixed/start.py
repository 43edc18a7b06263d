"""Starting points of sweeps over views with likelihoods, and factors found in their residuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray, Index
from bayespca.discrete.data import EVERY, KnownTable, TableCells
from bayespca.discrete.fit import general_model
from bayespca.discrete.start import bounded, mean_omega, sharp, strongest
from bayespca.discrete.start import start as joint_start
from bayespca.sources.seen import seen_in

from .data import MixedViews
from .state import UNIT, MixedState

# The least prior variance of a factor's loadings at the start.
LEAST = 1e-3


def start(table: MixedViews, most: int) -> MixedState:
    """Start with all factors in all views, from the closed form of the cells around their means."""
    cells = table.cells
    problem = general_model(KnownTable(cells, seen_in(cells.seen, cells.shape)), n_components=most)
    found = joint_start(cells, problem)
    H, root = found.rank, np.sqrt(found.prior)
    columns = found.columns.changed(np.diag(np.append(root, 1.0)))
    state = MixedState(
        rows=found.rows.changed(np.diag(1 / root)),
        columns=tuple(
            columns[js] if js.size else columns[js].only(np.array([H])) for js in table.columns
        ),
        prior=np.ones((table.n_views, H)) * (table.sizes > 0)[:, None],
        spread=np.full(table.n_views, UNIT),
        found=found.found,
        parameters=found.parameters,
    )
    return state.with_best_priors(table)


def with_one_more(state: MixedState, table: MixedViews) -> MixedState:
    """Add a factor in all views or in one, wherever the slopes of log p show the strongest one.

    Slopes over √ω have variance 1 if there is no factor. The place is the one where the largest
    singular value most exceeds that of such noise.
    """
    places = [table.columns[v] for v in table.taking_part]
    places += [np.arange(table.view.size)] if len(places) > 1 else []
    slope = np.sqrt(mean_omega(state.found, table.cells))
    b, H = state.all_columns(table).mean, state.rank
    m = state.rows.mean @ b[:, :H].T + b[:, H]
    pulls = (state.found.tau - state.found.omega * m) / slope
    found = [_strongest(pulls[:, js], _part(table.cells, js)) for js in places]
    n, excess = len(pulls), []
    for js, (_, strength) in zip(places, found, strict=True):
        excess.append(strength * np.sqrt(n) / (np.sqrt(n) + np.sqrt(js.size)))
    best = int(np.argmax(excess))
    js, (right, strength) = places[best], found[best]
    new = bounded((right * strength / slope[js])[:, None], _part(table.cells, js))[:, 0]
    return _with_factor(state, table, js, new)


def _part(cells: TableCells, js: Index) -> TableCells:
    mask = np.zeros(cells.shape[1], dtype=np.bool_)
    mask[js] = True
    return cells.part(EVERY, mask)


def _strongest(pulls: FloatArray, cells: TableCells) -> tuple[FloatArray, float]:
    """The direction along which pulls spread most, and their standard deviation along it."""
    right, strength = strongest(lambda rows: pulls[rows], cells, 1)
    if not len(right):
        return np.zeros(pulls.shape[1]), 0.0
    return right[0], float(strength[0])


def _with_factor(state: MixedState, table: MixedViews, js: Index, new: FloatArray) -> MixedState:
    """Add a factor with given loadings in the columns `js`, those of its views."""
    n, H = state.rows.mean.shape
    b = np.zeros(table.view.size)
    b[js] = new
    prior = np.zeros((table.n_views, 1))
    omega, columns = state.found.omega.sum(axis=0), list(state.columns)
    for v in np.unique(table.view[js]):
        mine, place = table.columns[v], state.on(v).size
        own = sharp(b[mine, None], omega[mine], np.ones(1))
        columns[v] = columns[v].with_another(place, own.mean[:, 0], own.cov[:, 0])
        prior[v] = max(float((b[mine] ** 2).mean()), LEAST)
    more = replace(
        state,
        rows=state.rows.with_another(H, np.zeros(n), np.ones(n)),
        columns=tuple(columns),
        prior=np.append(state.prior, prior, axis=1),
        calm=False,
    )
    return replace(more.evaluated(table), energy=np.inf)
