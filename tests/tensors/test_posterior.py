"""Cells and slices read from a posterior, against sums written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayespca import inference
from bayespca.tensors import posterior as read
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from oracles import tucker as oracle
from tensors.simulated import artificial, core_covariance, with_holes


@pytest.fixture(params=[0.0, 0.4], ids=["complete", "holes"])
def fitted(request):
    T, _ = artificial(3, (6, 5, 7), (2, 2, 2), snr=5.0)
    T = with_holes(T, request.param)
    data = tucker_cells(T, center=False)
    return T, inference.fit(tucker_model(data), data, inference.Looping()).posterior


def as_moments(posterior):
    covs = [
        np.broadcast_to(rows.cov, (len(rows.mean), rows.rank, rows.rank))
        for rows in posterior.factors
    ]
    return oracle.Moments(
        [rows.mean for rows in posterior.factors],
        covs,
        posterior.core.mean,
        core_covariance(posterior.core),
        [],
        posterior.noise_variance,
    )


def test_cells_and_their_variances(fitted):
    _, posterior = fitted
    moments = as_moments(posterior)
    first = posterior.factors[0]
    np.testing.assert_allclose(read.cells(posterior, first), oracle.low_rank(moments), atol=1e-12)
    found = read.variances(posterior, first)
    for cell in itertools.product((0, 3), (1, 4), (0, 6)):
        assert found[cell] == pytest.approx(oracle.variance(moments, cell), rel=1e-8)


def test_slices_of_the_fit_have_its_rows(fitted):
    T, posterior = fitted
    found = read.scores(posterior, T)
    np.testing.assert_allclose(found.mean, posterior.factors[0].mean, atol=1e-3)


def test_rows_of_slices_are_ridge_regressions(fitted):
    """⟨xxᵀ⟩ and ⟨x⟩y, summed over the observed cells one by one."""
    T, posterior = fitted
    moments = as_moments(posterior)
    found = read.scores(posterior, T[:2])
    for i in range(2):
        precision, cross = posterior.precision.copy(), np.zeros(posterior.ranks[0])
        for cell in itertools.product(range(5), range(7)):
            if np.isnan(T[(i, *cell)]):
                continue
            x, X = _regressor(moments, cell)
            precision += X / posterior.noise_variance
            cross += x * T[(i, *cell)] / posterior.noise_variance
        np.testing.assert_allclose(found.mean[i], np.linalg.solve(precision, cross), rtol=1e-8)
        np.testing.assert_allclose(found.cov[i], np.linalg.inv(precision), rtol=1e-8, atol=1e-14)


def _regressor(moments, cell):
    """⟨x⟩ and ⟨xxᵀ⟩ of x = G₍₁₎(a₂ ⊗ a₃)."""
    a = np.kron(moments.means[1][cell[0]], moments.means[2][cell[1]])
    S = np.ones((1, 1))
    for n, i in zip((1, 2), cell, strict=True):
        S = np.kron(S, np.outer(moments.means[n][i], moments.means[n][i]) + moments.covs[n][i])
    H = moments.core.shape[0]
    G = moments.core.reshape(H, -1)
    K = G.shape[1]
    cov = moments.core_cov.reshape(H, K, H, K)
    return G @ a, G @ S @ G.T + np.einsum("akbl,kl->ab", cov, S)


def test_core_and_factors_have_the_form_of_the_higher_order_svd(fitted):
    _, posterior = fitted
    for n, rows in enumerate(posterior.factors):
        np.testing.assert_allclose(rows.mean.T @ rows.mean, np.eye(rows.rank), atol=1e-12)
        slices = np.moveaxis(posterior.core.mean, n, 0).reshape(rows.rank, -1)
        gram = slices @ slices.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9 * gram.max())
        assert (np.diff(np.diag(gram)) <= 0).all()
