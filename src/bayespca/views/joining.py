"""Factors added to views that lack them, and the probability of each factor in each view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.lowrank.rows import RowSums

from .data import ViewsTable
from .pattern import Estimates, costs_of_places
from .state import ViewsState
from .step import loadings_of_view


def with_best_pair(state: ViewsState, table: ViewsTable) -> ViewsState | None:
    """Add a factor to the view where it gains most; None if no gain exceeds its cost."""
    best, place = 0.0, None
    costs = costs_of_places(state.active, table.sizes)
    for v, h, found in absent(state, table):
        gain = found.best_gain - float(costs[v, h])
        if gain > best:
            best, place = gain, (v, h, found)
    if place is None:
        return None
    v, h, found = place
    prior, b = state.prior.copy(), state.b.copy()
    prior[v, h] = c2 = found.best_prior
    b[table.columns[v], h] = found.y * c2 / (c2 + found.v)
    return replace(state, prior=prior, b=b, energy=np.inf, calm=False)


def probabilities(state: ViewsState, table: ViewsTable) -> FloatArray:
    """Probability that each factor is in each view: (V, H)."""
    sums, n = state.sums(table), table.rows.shape[0]
    out = np.zeros(state.prior.shape)
    for v, h in np.ndindex(*out.shape):
        if table.sizes[v]:
            limit = float(state.noise[v] / np.sqrt(table.sizes[v] * n))
            out[v, h] = estimates(state, table, sums, v, h).probability(limit)
    return out


def absent(state: ViewsState, table: ViewsTable) -> Iterator[tuple[int, int, Estimates]]:
    """Views, factors absent from them, and estimates of the loadings they would have there."""
    sums = state.sums(table)
    for v, h in np.argwhere(~state.active & (table.sizes > 0)[:, None]).tolist():
        yield v, h, estimates(state, table, sums, v, h)


def estimates(state: ViewsState, table: ViewsTable, sums: RowSums, v: int, h: int) -> Estimates:
    """Estimates of the loadings of a factor in a view, given the other factors in it."""
    prior = state.prior.copy()
    prior[v, h] = prior[v, h] or state.noise[v]
    state = replace(state, prior=prior)
    found = loadings_of_view(state, table, sums, v, state.active[v])
    place = int(np.count_nonzero(state.active[v, :h]))
    return found.estimates(place, float(prior[v, h]))
