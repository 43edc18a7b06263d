"""Bishop's variational PCA: the bound is the defined one, never falls, and ends at a maximum."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespca import VariationalPCA, inference
from bayespca.linear.variational import step as variational
from bayespca.linear.variational.step import Scatter, start
from bayespca.lowrank.variational import Hyper
from oracles.variational import bound

HYPERS = {
    "broad": Hyper(),
    "strong": Hyper(a_alpha=2.0, b_alpha=3.0, a_tau=1.5, b_tau=0.7, beta=0.3),
    "unit": Hyper(alpha=1.0, has_mean=False),
    "unit, with mean": Hyper(alpha=1.0),
}


def icann(seed, N=100):
    """icann1999 Section 5: standard deviations 5, 4, 3, 2 and six times 1, in random directions."""
    rng = np.random.default_rng(seed)
    spread = np.r_[5, 4, 3, 2, np.ones(6)]
    return rng.normal(size=(N, 10)) * spread @ np.linalg.qr(rng.normal(size=(10, 10)))[0].T


def statistics(T, hyper):
    """Scatter and mean of the samples along their principal directions, and these directions."""
    N, d = T.shape
    mean = T.mean(axis=0) if hyper.has_mean else np.zeros(d)
    _, gamma, basis = np.linalg.svd(T - mean, full_matrices=True)
    scatter = np.zeros(d)
    scatter[: gamma.size] = gamma**2
    return Scatter(N, d, scatter, basis @ mean), basis


def written_out(T, state, latent, data, hyper, basis):
    """The arguments of the oracle: all moments in the coordinates of the data."""
    tau = variational.precision(state, data, hyper)
    W = basis.T @ state.W
    mu = basis.T @ state.mu
    return {
        "cov_x": latent.cov,
        "W": W,
        "W_cov": state.W_cov,
        "b_alpha": state.b_alpha,
        "b_tau": state.b_tau,
        "mu": mu,
        "mu_variance": 1 / (hyper.beta + data.N * tau) if hyper.has_mean else 0.0,
    }


@pytest.mark.parametrize("name", HYPERS)
def test_the_bound_is_the_defined_one(name):
    hyper = HYPERS[name]
    T = np.random.default_rng(0).normal(size=(7, 4)) + np.arange(4) * hyper.has_mean
    data, basis = statistics(T, hyper)
    state = start(data, hyper, 2, np.random.default_rng(1))
    for _ in range(2):
        state, _ = variational.step(state, data, hyper)
    tau = variational.precision(state, data, hyper)
    updated, latent = variational.update_latent(state, data, hyper)
    given_moments = written_out(T, updated, latent, data, hyper, basis)
    m_x = tau * (T - given_moments["mu"]) @ given_moments["W"] @ latent.cov
    if hyper.has_mean:
        np.testing.assert_allclose(m_x.mean(axis=0), latent.mean, atol=1e-10)
    expected = bound(T, m_x, hyper=hyper, **given_moments)
    assert variational.bound(updated, latent, data, hyper) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("name", HYPERS)
def test_derivatives_vanish_at_the_end(name):
    """Central differences of the defined bound, in every moment of Q."""
    hyper = HYPERS[name]
    rng = np.random.default_rng(0)
    T = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(9, 4))
    data, basis = statistics(T, hyper)
    state = start(data, hyper, 2, rng)
    run = inference.run(
        partial(variational.step, data=data, hyper=hyper), state, max_iter=20_000, tol=0.0
    )
    state, latent = variational.update_latent(run.state, data, hyper)
    moments = written_out(T, state, latent, data, hyper, basis)
    tau = variational.precision(state, data, hyper)
    moments["m_x"] = tau * (T - moments["mu"]) @ moments["W"] @ latent.cov
    if not hyper.has_mean:
        moments.pop("mu")
    fixed = {} if hyper.has_mean else {"mu": np.zeros(4)}
    if not hyper.has_mean:
        fixed["mu_variance"] = moments.pop("mu_variance")
    if hyper.alpha is not None:
        fixed["b_alpha"] = moments.pop("b_alpha")

    def value(**changes):
        return bound(T, hyper=hyper, **{**moments, **fixed, **changes})

    for key, moment in moments.items():
        for _ in range(3):
            direction = rng.normal(size=np.shape(moment)) * np.maximum(np.abs(moment), 1e-3)
            if key.endswith("cov") or key == "cov_x":
                direction = moment @ (direction + direction.T) @ moment * 0.5 / np.max(moment)
            h = 1e-5
            up, down = (value(**{key: moment + s * h * direction}) for s in (1, -1))
            slope, curve = (up - down) / (2 * h), (up - 2 * value() + down) / h**2
            assert curve < 1e-2
            # The step to the maximum along this direction, relative to the moment itself.
            assert abs(slope) < 2e-4 * max(abs(curve), 1.0)


@given(
    seed=st.integers(0, 10_000),
    N=st.integers(2, 15),
    d=st.integers(1, 8),
    q=st.integers(0, 6),
    name=st.sampled_from(list(HYPERS)),
    settle=st.booleans(),
    offset=st.sampled_from([0.0, 3.0, 100.0]),
)
def test_the_bound_never_falls(seed, N, d, q, name, settle, offset):
    """A fall is a warning, and warnings are errors here."""
    hyper = HYPERS[name]
    rng = np.random.default_rng(seed)
    T = rng.normal(size=(N, d)) * rng.uniform(0.1, 3, d) + offset
    data, _ = statistics(T, hyper)
    state = start(data, hyper, min(q, d), rng)
    step = partial(variational.step, data=data, hyper=hyper, settle=settle)
    assert inference.run(step, state, max_iter=25, tol=1e-14).n_iter > 0


def test_the_bound_is_below_the_evidence():
    """One dimension, one sample, no weights: the evidence is an integral over τ alone."""
    from scipy import integrate, stats

    hyper = Hyper(a_tau=2.0, b_tau=1.0, has_mean=False)
    t = 0.7
    evidence = integrate.quad(
        lambda tau: stats.gamma(2.0).pdf(tau) * stats.norm(0, tau**-0.5).pdf(t), 0, np.inf
    )[0]
    data = Scatter(1, 1, np.array([t * t]), np.zeros(1))
    state = start(data, hyper, 0, np.random.default_rng(0))
    run = inference.run(
        partial(variational.step, data=data, hyper=hyper), state, max_iter=50, tol=1e-14
    )
    # With nothing but τ unknown Q is exact, and so is the bound.
    assert -run.free_energy == pytest.approx(np.log(evidence), rel=1e-6)


def lecture(seed, N=200):
    """The lecture's seven dimensions: three clusters in two of them, noise in the others."""
    rng = np.random.default_rng(seed)
    T = rng.normal(size=(N, 7))
    centres = np.array([[-3, 2], [3, 2], [0, -4]])
    T[:, :2] = centres[rng.integers(0, 3, N)] + 0.7 * T[:, :2]
    return T - T.mean(axis=0)


@pytest.mark.parametrize(("example", "q"), [(icann, 9), (lecture, 6)])
def test_settling_saves_sweeps(example, q):
    counts, hyper = {True: [], False: []}, Hyper()
    for seed in range(5):
        T = example(seed)
        data, _ = statistics(T, hyper)
        for settle, found in counts.items():
            state = start(data, hyper, q, np.random.default_rng(seed))
            step = partial(variational.step, data=data, hyper=hyper, settle=settle)
            found.append(inference.run(step, state, max_iter=20_000, tol=1e-8).n_iter)
    assert 3 * np.mean(counts[True]) < np.mean(counts[False])


@pytest.mark.slow
def test_icann_keeps_four_columns():
    """Section 5, q = d − 1 = 9: all columns of maximum likelihood are nonzero, VB keeps four."""
    kept = [VariationalPCA(random_state=seed).fit(icann(seed)).n_components_ for seed in range(100)]
    assert sum(k == 4 for k in kept) >= 95
    eigenvalues = np.linalg.eigvalsh(np.cov(icann(0).T, bias=True))[::-1]
    ml = np.sqrt(eigenvalues[:9] - eigenvalues[9])  # lengths of W's columns, Eq. 6 with q = 9
    assert np.count_nonzero(ml > 0.1) == 9


def test_samples_of_the_posterior_have_the_same_columns_off():
    model = VariationalPCA(random_state=0).fit(icann(0))
    lengths = np.linalg.norm(model.weights_, axis=0)
    assert lengths[:4].min() > 1
    assert lengths[4:].max() < 0.05


def test_start_values_do_not_matter_much():
    T = icann(3)
    bounds = [VariationalPCA(random_state=s, tol=1e-10).fit(T).lower_bound_ for s in range(8)]
    assert np.ptp(bounds) < 1e-3 * abs(bounds[0])


def test_state_is_a_frozen_record():
    data, _ = statistics(icann(0), Hyper())
    state = start(data, Hyper(), 9, np.random.default_rng(0))
    copies = replace(state, W=state.W.copy())
    variational.step(state, data, Hyper())
    np.testing.assert_array_equal(state.W, copies.W)


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_data_without_noise(noise):
    """With noise as small as rounding errors, the fit ends without a warning."""
    rng = np.random.default_rng(0)
    T = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 8)) + noise * rng.normal(size=(40, 8))
    model = VariationalPCA(b_alpha=1e-10, b_tau=1e-12, random_state=0).fit(T)
    assert model.n_components_ == 2
    assert model.noise_variance_ < 1e-11
