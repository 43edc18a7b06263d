"""Accelerated sweeps over complete data end where plain ones do, in half the steps."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, VariationalPCA
from bayespca.linear.sweeps.fit import SweepModel
from bayespca.linear.variational.fit import VariationalModel


@pytest.mark.parametrize("unit", [1.0, 1e-10, 1e10])
def test_a_spectrum_that_falls_slowly(unit, monkeypatch):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    X = rng.normal(size=(60, 20)) * np.exp(-np.arange(20) / 6) @ turn
    X = unit * (X + 0.05 * rng.normal(size=X.shape))
    # Priors have units, so they are scaled with the data.
    asked = {"a_alpha": 1e-3, "b_alpha": 1e-3 * unit**2, "a_tau": 1e-3, "b_tau": 1e-3 * unit**2}
    quick = VariationalPCA(random_state=0, beta=1e-3 / unit**2, **asked).fit(X)
    monkeypatch.setattr(VariationalModel, "chart", lambda model, data: None)
    plain = VariationalPCA(random_state=0, beta=1e-3 / unit**2, tol=1e-12, **asked).fit(X)
    assert quick.converged_
    assert quick.n_components_ == plain.n_components_
    assert quick.fit_.free_energy <= plain.fit_.free_energy + 1e-7 * abs(plain.fit_.free_energy)
    assert 2 * quick.n_iter_ <= plain.n_iter_


def near_its_threshold(seed):
    """Data in which EPB keeps one or two noise components and drops the others slowly."""
    rng = np.random.default_rng(seed)
    return 2 * rng.normal(size=(500, 5)) @ rng.normal(size=(5, 400)) + rng.normal(size=(500, 400))


@pytest.mark.parametrize("seed", range(3))
def test_epb_ends_at_its_rank(seed):
    X = near_its_threshold(seed)
    closed = BayesianPCA("epb", noise="isotropic").fit(X)
    swept = BayesianPCA("epb", solver="iterative", noise="isotropic", random_state=0).fit(X)
    assert swept.converged_
    assert swept.n_components_ == closed.n_components_
    assert swept.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-7)


@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
@pytest.mark.parametrize("unit", [1.0, 1e-100, 1e100])
def test_given_noise(method, unit):
    """A spectrum that falls slowly, most of it above the noise."""
    rng = np.random.default_rng(1)
    X = unit * rng.normal(size=(200, 30)) * np.exp(-np.arange(30) / 8)
    asked = {"noise": "isotropic", "noise_variance": 0.01 * unit**2}
    closed = BayesianPCA(method, **asked).fit(X)
    swept = BayesianPCA(method, solver="iterative", random_state=0, **asked).fit(X)
    assert swept.n_components_ == closed.n_components_
    assert swept.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-7)


def test_maximum_likelihood_takes_half_of_the_sweeps(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 40)) * np.exp(-np.arange(40) / 15)
    asked = {"n_components": 4, "solver": "iterative", "random_state": 0}
    quick = BayesianPCA("ml", **asked).fit(X)
    monkeypatch.setattr(SweepModel, "chart", lambda model, data: None)
    plain = BayesianPCA("ml", tol=1e-12, **asked).fit(X)
    assert quick.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-7)
    assert 2 * quick.n_iter_ <= plain.n_iter_
