"""Accelerated sweeps of Bishop's model end where plain ones do, in half of the steps."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import VariationalPCA
from bayespca.linear.variational.fit import VariationalModel


@pytest.mark.parametrize("unit", [1.0, 1e-10, 1e10])
def test_a_spectrum_that_falls_slowly(unit, monkeypatch):
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    X = rng.normal(size=(60, 20)) * np.exp(-np.arange(20) / 6) @ turn
    X = unit * (X + 0.05 * rng.normal(size=X.shape))
    # Priors in these units would differ.
    asked = {"a_alpha": 1e-3, "b_alpha": 1e-3 * unit**2, "a_tau": 1e-3, "b_tau": 1e-3 * unit**2}
    quick = VariationalPCA(random_state=0, beta=1e-3 / unit**2, **asked).fit(X)
    monkeypatch.setattr(VariationalModel, "chart", lambda model, data: None)
    plain = VariationalPCA(random_state=0, beta=1e-3 / unit**2, tol=1e-12, **asked).fit(X)
    assert quick.converged_
    assert quick.n_components_ == plain.n_components_
    assert quick.fit_.free_energy <= plain.fit_.free_energy + 1e-7 * abs(plain.fit_.free_energy)
    assert 2 * quick.n_iter_ <= plain.n_iter_
