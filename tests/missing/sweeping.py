"""Matrices with holes and their fits, for tests of sweeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayespca import inference
from bayespca.inference.fitting import settle
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.lowrank.rows import latent
from bayespca.missing.dense.data import holes_table
from bayespca.missing.dense.fit import dense_model
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS
from oracles.holes import free_energy


def with_holes(n, p, rank, share, *, noise=1.0, seed=0):
    """Data, and the same with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + 3 * rng.normal(size=p)
    X += noise * rng.normal(size=(n, p))
    return X, np.where(rng.random((n, p)) < share, np.nan, X)


def asked(Y, method="evb", *, center=True, scale=False, noise=ISOTROPIC, **options):
    """The dense model for these options, and the table of its data."""
    table = holes_table(Y, center=center, scale=scale, noise=noise)
    form = ClosedForm(METHODS[method], **options)
    return dense_model(table, form, noise=noise), table


def swept(Y, *, max_iter=3000, tol=1e-14, **options):
    """A finished run, its model and its rows, all at unit scale."""
    looping = inference.Looping(max_iter=max_iter, tol=tol)
    settled = settle(*asked(Y, **options), looping)
    return settled.run, settled.model, settled.data.rows


def defined_energy(state, data, model, *, a=None, a_cov=None):
    """The oracle's free energy of a state, at its own rows or at given ones."""
    family = model.factors.family
    X = np.where(data.mask, data.values, np.nan)
    if a is None:
        a, a_cov = rows_of(state, data, model)
    moments = (a, a_cov, state.b, state.b_cov, state.prior_a, state.prior_b)
    scales = {"rows": state.scales.rows, "columns": state.scales.columns}
    energy = free_energy(X, *moments, state.noise_variance, family, data.centred, **scales)
    return energy + state.n_gone * model.factors.gone_energy


def rows_of(state, data, model):
    """Mean and covariance of each row, as the next sweep will compute them."""
    scaled = state.scales.applied(data)
    if state.scales.root is not None:
        scaled = replace(scaled, values=data.values / state.scales.root)
    columns = state.columns(integrated=model.factors.family.integrates_a)
    a, cov = latent(scaled, columns)
    return a, cov[data.pattern]
