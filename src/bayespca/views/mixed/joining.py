"""Factors added to views that lack them, and the probability of each factor in each view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.discrete.data import EVERY
from bayespca.discrete.normals import Normals
from bayespca.spectrum.tolerances import TINY

from ..pattern import Estimates, costs_of_places
from .data import MixedViews
from .state import MixedState
from .step import columns_given, estimates_of


class PlaceInView(NamedTuple):
    """A factor h in a view v: the columns with it, its entry in them, and its estimates."""

    v: int
    h: int
    columns: Normals
    entry: int
    estimates: Estimates


def with_best_pair(state: MixedState, table: MixedViews) -> MixedState | None:
    """Add a factor to the view where it seems to gain most; None if no gain exceeds its cost."""
    costs = costs_of_places(state.active, table.sizes)
    absent = ~state.active & (table.sizes > 0)[:, None]
    gains = [
        (place.estimates.best_gain - float(costs[place.v, place.h]), n, place)
        for n, place in enumerate(places(state, table, absent))
    ]
    if not gains or max(gains)[0] <= 0:
        return None
    best = max(gains)[2]
    prior = state.prior.copy()
    prior[best.v, best.h] = best.estimates.best_prior
    joined = replace(state, prior=prior)
    columns = _columns_with(joined, table, best.v, prior[best.v])
    every = (*state.columns[: best.v], columns, *state.columns[best.v + 1 :])
    joined = replace(joined, columns=every, calm=False).evaluated(table)
    return replace(joined, energy=np.inf)


def probabilities(state: MixedState, table: MixedViews) -> FloatArray:
    """Probability that each factor is in each view: (V, H)."""
    out, n = np.zeros(state.prior.shape), len(state.rows.mean)
    there = np.ones_like(state.active) & (table.sizes > 0)[:, None]
    for v, h, _, _, estimates in places(state, table, there):
        limit = noise_of(state, table, v) / np.sqrt(table.sizes[v] * n)
        out[v, h] = estimates.probability(float(limit))
    return out


def noise_of(state: MixedState, table: MixedViews, v: int) -> float:
    """The variance with which cells of a view measure z: one over the mean ω."""
    js = table.columns[v]
    omega = state.found.omega[:, js].sum() / max(table.counts[js].sum(), 1.0)
    return float(1 / max(omega, TINY))


def places(state: MixedState, table: MixedViews, which: np.ndarray) -> Iterator[PlaceInView]:
    """Loadings that factors have, or would have, in views, given the other factors there."""
    for v, h in np.argwhere(which).tolist():
        prior = state.prior[v].copy()
        prior[h] = prior[h] or noise_of(state, table, v)
        columns = _columns_with(state, table, v, prior)
        entry = int(np.count_nonzero(prior[:h]))
        yield PlaceInView(v, h, columns, entry, estimates_of(columns, entry, prior[h]))


def _columns_with(state: MixedState, table: MixedViews, v: int, prior: FloatArray) -> Normals:
    """Columns of a view with the factors of positive prior variance, given the current sites."""
    found = state.found.at((EVERY, table.columns[v]))
    own = np.append(prior[prior > 0], state.spread[v])
    return columns_given(state.rows.only(np.flatnonzero(prior)), found, own)
