"""The bound against its definition, against the evidence on a grid, and against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bayespca import GPLVM, BayesianPCA
from bayespca.datasets import low_rank
from bayespca.nonlinear import bound, exact, kernels
from bayespca.nonlinear.data import prepared
from bayespca.nonlinear.kernels import Latent
from nonlinear.test_statistics import KERNELS, differences, parameters, problem
from oracles import gplvm as oracle


def table(N=4, D=3, holes=0, seed=3):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(N, D))
    Y.flat[rng.choice(N * D, holes, replace=False)] = np.nan
    return Y


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "linear"])
@pytest.mark.parametrize("holes", [0, 4])
def test_the_bound_is_its_definition(name, holes):
    latent, Z, hyper = problem(name, M=2 if "linear" in name else 3)
    Y = table(holes=holes)
    data = prepared(Y, np.nan_to_num(Y), center=False, per_feature=False)
    found = bound.evaluate(latent, Z, hyper, data, np.array([1.3]), held=True)
    noise, signal = float(found.noise[0]), float(found.noise[0] * np.exp(1.3))
    expected = oracle.free_energy(
        Y / data.unit, latent.mean, latent.variance, Z, parameters(hyper), signal, noise,
        jitter=found.jitter,
    )  # fmt: skip
    np.testing.assert_allclose(found.energy, expected, rtol=1e-8)


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_noise_and_ratios_are_the_best(center, per_feature):
    latent, Z, hyper = problem("squared-exponential", N=30)
    Y = table(30, 4, holes=15)
    Y = 0.3 * Y + np.sin(latent.mean @ [[1, 2, 0, -1], [0, 1, 2, 1]])
    latent = Latent(latent.mean, 0.1 * latent.variance)
    data = prepared(Y, np.nan_to_num(Y), center=center, per_feature=per_feature)
    start = np.zeros(data.n_units)
    found = bound.evaluate(latent, Z, hyper, data, start, held=False)
    for shift in (-0.01, 0.01):
        for unit in range(data.n_units):
            other = found.log_ratios.copy()
            other[unit] += shift
            assert bound.energy_at(latent, Z, hyper, data, other, True) > found.energy


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("holes", [0, 12])
@pytest.mark.parametrize("name", ["squared-exponential", "squared-exponential+linear+bias+white"])
def test_gradients(name, holes, center, per_feature):
    latent, Z, hyper = problem(name, N=12)
    Y = table(12, 4, holes=holes)
    data = prepared(Y, np.nan_to_num(Y), center=center, per_feature=per_feature)
    ratios = np.full(data.n_units, 1.5)

    def energy(mean, variance, Z, logs):
        return bound.energy_at(Latent(mean, variance), Z, hyper.with_logs(logs), data, ratios, True)

    found = bound.evaluate(latent, Z, hyper, data, ratios, held=True).gradients
    where = [latent.mean, latent.variance, Z, hyper.logs]
    slopes = [found.mean, found.variance, found.Z, found.hyper * hyper.vector]
    for i, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, differences(energy, where, i), rtol=1e-4, atol=1e-5)


def test_the_bound_is_below_the_evidence():
    """Two rows and one dimension: the evidence at the same parameters, on a grid."""
    y = np.array([1.2, -0.7])
    hyper = kernels.first_hyper(kernels.SQUARED_EXPONENTIAL, np.array([0.8]))
    data = prepared(y[:, None], y[:, None], center=False, per_feature=False)
    Z = np.array([[-1.5], [-0.3], [0.6], [1.8]])

    def evaluated(x):
        latent = Latent(x[:2, None], np.exp(x[2:, None]))
        return bound.evaluate(latent, Z, hyper, data, np.array([1.0]), held=True)

    best = minimize(lambda x: evaluated(x).energy, [0.6, -0.6, -0.4, -0.4]).x
    found = evaluated(best)
    noise = float(found.noise[0])
    log_evidence = oracle.log_evidence(y / data.unit, parameters(hyper), noise * np.exp(1.0), noise)
    # x and −x fit equally well, and a normal posterior covers one of them: log 2 = 0.69.
    assert 0 < found.energy + log_evidence < 0.75


@pytest.mark.parametrize("seed", range(3))
def test_the_linear_kernel_is_empirical_vb(seed):
    """With as many inducing points as dimensions nothing is lost: A and B are x and the slopes."""
    X = low_rank(60, 12, 3, random_state=seed).X
    model = GPLVM(kernel="linear", center=False, tol=1e-12, max_iter=300).fit(X)
    linear = BayesianPCA(noise="isotropic", center=False).fit(X)
    assert model.n_components_ == linear.n_components_ == 3
    np.testing.assert_allclose(model.free_energy_, linear.free_energy_, rtol=1e-8)
    np.testing.assert_allclose(model.noise_variance_, linear.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(model.denoise(X), linear.denoise(X), atol=1e-4 * np.abs(X).max())


def test_with_a_mean_the_linear_kernel_pays_for_one_row_more():
    """All n rows have posteriors but the mean uses up one: the divergence of a row is lost."""
    X = low_rank(60, 12, 3, random_state=0).X + 5.0
    model = GPLVM(kernel="linear", tol=1e-12, max_iter=300).fit(X)
    linear = BayesianPCA(noise="isotropic").fit(X)
    assert 0 < model.free_energy_ - linear.free_energy_ < 4.0


@pytest.mark.parametrize("center", [False, True])
def test_map_with_the_linear_kernel_is_dual_ppca(center):
    """Loadings integrated out, scores point-estimated: PPCA of the transposed matrix."""
    X = low_rank(40, 9, 2, random_state=1).X
    Y = X - X.mean(axis=0) if center else X
    n, D, q = len(X) - center, X.shape[1], 2
    _, gamma, right = np.linalg.svd(Y, full_matrices=False)
    lam = gamma**2 / D
    noise = lam[q:].sum() / (n - q)
    expected = 0.5 * n * D * (np.log(2 * np.pi) + 1) + 0.5 * D * (
        np.log(lam[:q]).sum() + (n - q) * np.log(noise)
    )
    model = GPLVM(q, "map", kernel="linear", center=center, tol=1e-14, max_iter=500).fit(X)
    np.testing.assert_allclose(model.free_energy_, expected, rtol=1e-8)
    np.testing.assert_allclose(model.noise_variance_, noise, rtol=1e-8)
    slopes = model.inverse_transform(np.eye(q)) - model.inverse_transform(np.zeros((q, q)))
    basis = np.linalg.qr(slopes.T)[0]
    np.testing.assert_allclose(right[:q] @ basis @ basis.T, right[:q], atol=1e-8)


@pytest.mark.parametrize("center", [False, True])
def test_gradients_of_points(center):
    latent, _, hyper = problem("squared-exponential+linear+bias", N=12)
    Y = table(12, 4)
    data = prepared(Y, Y, center=center, per_feature=False)

    def energy(X, logs, ratio):
        return exact.evaluate(X, hyper.with_logs(logs), float(ratio[0]), data).energy

    found = exact.evaluate(latent.mean, hyper, 1.2, data)
    where = [latent.mean, hyper.logs, np.array([1.2])]
    slopes = [found.X, found.hyper * hyper.vector, np.array([found.log_ratio])]
    for i, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, differences(energy, where, i), rtol=1e-5, atol=1e-6)


def test_map_predicts_as_a_gaussian_process():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(-2, 2, 40))
    X = np.stack([t, np.sin(2 * t), np.cos(t)], axis=1) + 0.05 * rng.normal(size=(40, 3))
    model = GPLVM(1, "map", max_iter=20).fit(X)
    found = model.posterior_
    s = found.signal[0] / found.noise[0]
    C = kernels.covariance(found.mean, found.hyper) + np.eye(40) / s
    new = np.array([[0.3], [-1.1]])
    k = kernels.between(new, found.mean, found.hyper)
    ones = np.ones(40)
    Ci1 = np.linalg.solve(C, ones)
    mean = Ci1 @ X / Ci1.sum()
    expected = mean + k @ np.linalg.solve(C, X - mean)
    left = 1 - k @ Ci1
    spread = 1 - np.einsum("ni,in->n", k, np.linalg.solve(C, k.T)) + left**2 / Ci1.sum()
    values, std = model.inverse_transform(new, return_std=True)
    np.testing.assert_allclose(values, expected, atol=1e-9)
    np.testing.assert_allclose(std**2, np.outer(spread, found.signal), rtol=1e-7)


@pytest.mark.parametrize(("below", "jitter"), [(0.0, 1e-6), (3e-5, 1e-4), (5e-3, 1e-2)])
def test_as_much_is_added_to_the_diagonal_as_a_cholesky_factor_needs(below, jitter):
    """`below` is how far the smallest eigenvalue is under zero; the mean diagonal is 1.1."""
    U, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    K = (U * [3.0, 1.0, 0.5, -below]) @ U.T
    K *= 4 / np.trace(K)
    L, added = bound.factored(K)
    assert added == pytest.approx(jitter)
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(4), atol=1e-12)


def test_a_covariance_that_is_none_is_refused():
    with pytest.raises(bound.NotPositiveError, match="no Cholesky factor"):
        bound.factored(np.diag([1.0, -0.5]))
