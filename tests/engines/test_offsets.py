"""Sparse data with large means: the squares of the means must not cost digits of the rest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from bayespca import BayesianPCA
from bayespca.datasets import low_rank


@pytest.mark.parametrize("shape", [(100, 30), (30, 100), (1060, 1010)])
@pytest.mark.parametrize(("offset", "dtype"), [(1e8, "f8"), (1e9, "f8"), (1e5, "f4")])
def test_a_mean_does_not_change_the_noise(shape, offset, dtype):
    X = low_rank(*shape, 3, random_state=0).X
    X[:, ::7] *= np.random.default_rng(0).random(X[:, ::7].shape) < 0.3
    moved = sp.csr_array((X + offset * (np.arange(shape[1]) % 7 > 0)).astype(dtype))
    options = {"n_components": 3, "noise": "isotropic"}
    plain, other = (BayesianPCA(**options).fit(Z) for Z in (sp.csr_array(X), moved))
    assert other.n_components_ == plain.n_components_ == 3
    assert_allclose(other.noise_variance_, plain.noise_variance_, rtol=1e-3)
    assert_allclose(other.mean_, moved.toarray().astype("f8").mean(axis=0), rtol=1e-6, atol=1e-6)


UNITS = {
    "tiny": 1e-150,
    "huge": 1e150,
    "one column without squares": np.where(np.arange(30) == 4, 1e-180, 1.0),
    "columns without squares": 10.0 ** np.linspace(-250, 100, 30),
}


@pytest.mark.parametrize("units", UNITS)
def test_scaled_columns_in_any_units(units):
    X = low_rank(100, 30, 3, random_state=0).X
    plain = BayesianPCA(scale=True).fit(X)
    other = BayesianPCA(scale=True).fit(sp.csr_array(X * UNITS[units]))
    assert other.n_components_ == plain.n_components_
    assert_allclose(other.noise_variance_, plain.noise_variance_, rtol=1e-6)
