"""The posterior of a matrix with holes, for all of its columns, from a state of its sweeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.rows import Columns

from .data import HolesTable
from .state import DenseProblem, DenseState
from .step import mean_squares_of_rows


def for_all_columns(state: DenseState, table: HolesTable, problem: DenseProblem) -> HolesPosterior:
    """The posterior of a state, in the units of the data; columns without values have the prior's
    loadings.
    """
    rows, live, unit = table.rows, table.live, table.unit
    p, H, family = live.size, state.rank, problem.factors.family
    root = np.ones(rows.shape[1]) if state.psi is None else np.sqrt(state.psi)
    b = np.zeros((p, H + 1))
    b_cov = np.zeros((p, H + 1, H + 1))
    # Nothing is known of a column without values: the prior, and a mean as uncertain as the data.
    prior_b = state.prior_b if family.integrates_b else np.zeros(H)
    b_cov[~live] = np.diag(np.append(prior_b, 1.0))
    b[live], b_cov[live] = to_numpy(state.b), to_numpy(state.b_cov)
    location, scales = np.zeros(p), np.ones(p)
    location[live] = rows.location
    scales[live] = rows.unit * root / unit
    columns = Columns(b, b_cov, state.prior_a, state.noise_variance, family.integrates_a)
    found = read.from_columns(columns, location=location, scale=scales, unit=unit, like=table.like)
    variance = mean_squares_of_rows(state, rows, integrated=family.integrates_a)
    return replace(found, latent_variance=variance)
