"""Holes with a noise variance for each feature."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, inference
from bayespca.lowrank import imputing
from bayespca.lowrank.noise_models import BOTH, ISOTROPIC, PER_FEATURE, PER_SAMPLE
from bayespca.missing.dense.fit import fit
from bayespca.spectrum.forms import ClosedForm

from .sweeping import defined_energy, swept

PSI = np.geomspace(0.05, 20, 25)


def unequal(n=300, share=0.2, seed=0):
    """Three components, and noise that differs between features by a factor of 400."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ (2 * rng.normal(size=(3, 25)))
    X += rng.normal(size=(n, 25)) * np.sqrt(PSI)
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


def settled(n=40):
    _, Y = unequal(n)
    return swept(Y[:, ::4], noise=PER_FEATURE, max_iter=400, tol=1e-13)


def test_the_free_energy_is_the_defined_one():
    """This holds at convergence, where rows no longer change."""
    run, model, data = settled()
    assert run.free_energy == pytest.approx(defined_energy(run.state, data, model), rel=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_rank_that_one_noise_variance_misses(seed):
    X, Y = unequal(seed=seed)
    model = BayesianPCA(noise="per-feature").fit(Y)
    assert model.n_components_ == 3
    assert BayesianPCA(noise="isotropic").fit(Y).n_components_ > 6
    error = np.log(model.feature_noise_variance_ / PSI)
    # Three standard errors of a variance from 240 cells; components blur the quietest features.
    assert np.median(np.abs(error)) < 3 * np.sqrt(2 / 240)
    filled, std = model.impute(Y, return_std=True)
    holes = np.isnan(Y)
    assert np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes]) == pytest.approx(0.95, abs=0.02)


def test_near_complete_data_agree_with_complete_ones():
    X, _ = unequal()
    Y = X.copy()
    Y[0, 0] = np.nan
    looping = inference.Looping(tol=1e-10)
    holes, whole = (fit(data, ClosedForm(), looping, noise=PER_FEATURE) for data in (Y, X))
    assert holes.n_components == whole.n_components == 3
    np.testing.assert_allclose(holes.noise.features, whole.noise.features, rtol=0.01)
    assert holes.free_energy == pytest.approx(whole.free_energy, abs=5.0)
    np.testing.assert_allclose(holes.posterior.mean, whole.posterior.mean, atol=0.02)


def test_units_of_features_hardly_matter():
    """Units change only the shared prior of the noise variances, which matters if cells are few."""
    _, Y = unequal()
    units = np.geomspace(1e-3, 1e3, 25)
    plain, other = (BayesianPCA(noise="per-feature").fit(data) for data in (Y, Y * units))
    assert other.n_components_ == plain.n_components_
    np.testing.assert_allclose(
        other.feature_noise_variance_, plain.feature_noise_variance_ * units**2, rtol=0.05
    )
    np.testing.assert_allclose(other.impute(Y * units) / units, plain.impute(Y), atol=0.05)


def test_a_model_can_be_saved(tmp_path):
    _, Y = unequal(100)
    model = BayesianPCA(noise="per-feature").fit(Y)
    model.save(tmp_path / "m.bpca")
    from bayespca import load

    np.testing.assert_array_equal(load(tmp_path / "m.bpca").impute(Y), model.impute(Y))


def test_metabolites(load_data):
    """The noise model that the free energy prefers fills holes better than other PCA tools.

    The truth is known. The best of the other tools, at its best rank, has an error of 0.148.
    """
    data = load_data("metabolite")
    holes, looping = np.isnan(data["X"]), inference.Looping()
    models = (ISOTROPIC, PER_FEATURE, PER_SAMPLE, BOTH)
    fits = [fit(data["X"], ClosedForm(), looping, noise=noise) for noise in models]
    best = min(fits, key=lambda found: found.free_energy)
    assert best is fits[-1]
    filled, _ = imputing.impute(best.posterior, data["X"])
    assert np.sqrt(np.mean((filled - data["X_complete"])[holes] ** 2)) < 0.137
