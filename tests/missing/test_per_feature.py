"""Holes with a noise variance for each feature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA

from .sweeping import defined_energy, rows_of, swept

PSI = np.geomspace(0.05, 20, 25)


def unequal(n=300, share=0.2, seed=0):
    """Three components, and noise that differs between features by a factor of 400."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ (2 * rng.normal(size=(3, 25)))
    X += rng.normal(size=(n, 25)) * np.sqrt(PSI)
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


def in_units_of(psi, state):
    """The state in which only the noise variances differ: what is in their units follows."""
    ratio = state.psi / psi
    b, b_cov = state.b * np.sqrt(ratio)[:, None], state.b_cov * ratio[:, None, None]
    return replace(state, b=b, b_cov=b_cov, psi=psi)


def settled(n=40):
    _, Y = unequal(n)
    return swept(Y[:, ::4], per_feature=True, max_iter=400, tol=1e-13)


def test_the_free_energy_is_the_defined_one():
    """At the end, where rows no longer change."""
    run, model, data = settled()
    assert run.free_energy == pytest.approx(defined_energy(run.state, data, model), rel=1e-7)


def test_noise_variances_are_at_a_minimum():
    run, model, data = settled()
    state = run.state
    a, a_cov = rows_of(state, data, model)
    base = defined_energy(state, data, model, a=a, a_cov=a_cov)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1):
        for _ in range(10):
            psi = state.psi * np.exp(size * rng.normal(size=state.psi.size))
            moved = in_units_of(psi, state)
            assert defined_energy(moved, data, model, a=a, a_cov=a_cov) > base


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_rank_that_one_noise_variance_misses(seed):
    X, Y = unequal(seed=seed)
    model = BayesianPCA(noise="per-feature").fit(Y)
    assert model.n_components_ == 3
    assert BayesianPCA().fit(Y).n_components_ > 6
    error = np.log(model.noise_variance_ / PSI)
    # Of a variance from 240 cells, in about all features; the quietest share it with components.
    assert np.median(np.abs(error)) < 3 * np.sqrt(2 / 240)
    filled, std = model.impute(Y, return_std=True)
    holes = np.isnan(Y)
    assert np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes]) == pytest.approx(0.95, abs=0.02)


def test_near_complete_data_agree_with_complete_ones():
    X, _ = unequal()
    Y = X.copy()
    Y[0, 0] = np.nan
    holes, whole = (BayesianPCA(noise="per-feature", tol=1e-10).fit(data) for data in (Y, X))
    assert holes.n_components_ == whole.n_components_ == 3
    np.testing.assert_allclose(holes.noise_variance_, whole.noise_variance_, rtol=0.01)
    assert holes.free_energy_ == pytest.approx(whole.free_energy_, abs=5.0)
    np.testing.assert_allclose(holes.mean_, whole.mean_, atol=0.02)
    np.testing.assert_allclose(holes.score_samples(X), whole.score_samples(X), atol=0.3)


def test_units_of_features_do_not_matter():
    _, Y = unequal()
    units = np.geomspace(1e-3, 1e3, 25)
    plain, other = (BayesianPCA(noise="per-feature").fit(data) for data in (Y, Y * units))
    assert other.n_components_ == plain.n_components_
    np.testing.assert_allclose(other.noise_variance_, plain.noise_variance_ * units**2, rtol=1e-6)
    np.testing.assert_allclose(other.impute(Y * units) / units, plain.impute(Y), rtol=1e-5)


def test_a_model_can_be_saved(tmp_path):
    _, Y = unequal(100)
    model = BayesianPCA(noise="per-feature").fit(Y)
    model.save(tmp_path / "m.bpca")
    from bayespca import load

    np.testing.assert_array_equal(load(tmp_path / "m.bpca").impute(Y), model.impute(Y))


def test_metabolites(load_data):
    """The truth is known: as good as the best of other PCA tools at their best rank, 0.148."""
    data = load_data("metabolite")
    holes = np.isnan(data["X"])
    filled = BayesianPCA(noise="per-feature").fit(data["X"]).impute(data["X"])
    assert np.sqrt(np.mean((filled - data["X_complete"])[holes] ** 2)) < 0.148
