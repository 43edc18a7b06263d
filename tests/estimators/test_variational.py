"""`VariationalPCA` as users meet it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayespca import BayesianPCA, VariationalPCA
from bayespca.datasets import low_rank
from bayespca.estimators import summarize

X = low_rank(200, 12, 3, random_state=0).X + 5.0


@pytest.fixture(scope="module")
def model():
    return VariationalPCA(random_state=0).fit(X)


def test_it_finds_what_the_closed_form_finds(model):
    closed = BayesianPCA().fit(X)
    assert model.n_components_ == closed.n_components_ == 3
    assert model.noise_variance_ == pytest.approx(closed.noise_variance_, rel=0.02)
    np.testing.assert_allclose(model.mean_, closed.mean_, atol=1e-3)
    cosines = np.abs(np.sum(model.components_ * closed.components_, axis=1))
    assert (cosines > 0.9999).all()
    np.testing.assert_allclose(model.components_std_, closed.components_std_, rtol=0.05)
    np.testing.assert_allclose(model.explained_variance_, closed.explained_variance_, rtol=0.03)
    np.testing.assert_allclose(model.denoise(X), closed.denoise(X), atol=0.05)


def test_shapes_and_attributes(model):
    assert model.weights_.shape == (12, 11)
    assert model.alpha_.shape == (11,)
    assert model.alpha_[:3].max() < model.alpha_[3:].min()
    assert model.lower_bound_ == -model.free_energy_
    assert model.lower_bound_ == pytest.approx(_units() - model.trace_.free_energy[-1], rel=1e-9)
    T, std = model.transform(X, return_std=True)
    assert T.shape == std.shape == (200, 3)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)
    assert model.score(X) == pytest.approx(BayesianPCA().fit(X).score(X), rel=1e-3)


def _units():
    """What dividing by the size of the centred data takes from the bound."""
    centred = X - X.mean(axis=0)
    unit = np.sqrt((centred**2).sum() / (199 * 12))
    return -(200 * 12) * np.log(unit)


def test_hyperparameters_are_in_the_units_of_the_data():
    plain = VariationalPCA(random_state=0, tol=1e-12).fit(X)
    c = 1e3
    other = VariationalPCA(
        random_state=0, tol=1e-12, b_alpha=1e-3 * c**2, b_tau=1e-3 * c**2, beta=1e-3 / c**2
    ).fit(X * c)
    assert other.lower_bound_ == pytest.approx(plain.lower_bound_ - X.size * np.log(c), rel=1e-9)
    assert other.noise_variance_ == pytest.approx(plain.noise_variance_ * c**2, rel=1e-6)
    np.testing.assert_allclose(other.alpha_[:3] * c**2, plain.alpha_[:3], rtol=1e-5)


def test_the_lectures_model():
    centred = X - X.mean(axis=0)
    model = VariationalPCA(3, prior="unit", center=False, random_state=0).fit(centred)
    assert model.n_components_ == 3
    np.testing.assert_array_equal(model.alpha_, 1.0)
    np.testing.assert_array_equal(model.mean_, 0.0)


def test_more_features_than_samples():
    wide = low_rank(20, 60, 2, random_state=0).X
    model = VariationalPCA(random_state=0).fit(wide)
    assert model.n_components_ == BayesianPCA().fit(wide).n_components_ == 2
    assert model.weights_.shape == (60, 19)


def test_constant_columns_are_no_features(model):
    wider = np.insert(X, 4, 7.5, axis=1)
    other = VariationalPCA(random_state=0).fit(wider)
    assert other.n_components_ == 3
    assert other.mean_[4] == 7.5
    np.testing.assert_allclose(other.components_[:, 4], 0)
    assert other.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-6)


def test_a_row_with_holes_can_be_filled_by_its_posterior(model):
    filled, std = model.general_posterior(), None
    assert filled is model.posterior_
    Y = X[:5].copy()
    Y[0, 2] = np.nan
    from bayespca.missing import posterior as read

    values, std = read.impute(model.posterior_, Y)
    assert abs(values[0, 2] - X[0, 2]) < 4 * std[0, 2]


def test_frames_float32_and_rank_zero():
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    named = VariationalPCA(random_state=0).fit(frame)
    assert list(named.feature_names_in_) == list(frame.columns)
    short = VariationalPCA(random_state=0).fit(X.astype(np.float32))
    assert short.transform(X.astype(np.float32)).dtype == np.float32
    noise = np.random.default_rng(0).normal(size=(100, 8))
    nothing = VariationalPCA(random_state=0).fit(noise)
    assert nothing.n_components_ == 0
    assert nothing.transform(noise).shape == (100, 0)
    nothing = VariationalPCA(0).fit(noise)
    assert nothing.noise_variance_ == pytest.approx(noise.var(), rel=0.02)


def test_files_are_read_in_blocks(tmp_path, model):
    np.save(tmp_path / "x.npy", X)
    streamed = VariationalPCA(random_state=0).fit(tmp_path / "x.npy")
    assert streamed.engine_ == "streaming"
    assert streamed.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-9)


def test_an_early_stop_is_told():
    with pytest.warns(ConvergenceWarning, match=r"still rose by .* in the last of 3 steps: raise"):
        stopped = VariationalPCA(max_iter=3, random_state=0).fit(X)
    assert not stopped.converged_
    assert np.isfinite(stopped.transform(X)).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_components": 13}, "n_components must be None or a whole number from 0 to 12"),
        ({"n_components": 1.5}, "whole number"),
        ({"prior": "flat"}, "prior must be one of"),
        ({"beta": 0.0}, "beta must be a positive number"),
        ({"a_tau": -1.0}, "a_tau must be a positive number"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_options_that_will_not_do(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        VariationalPCA(**options).fit(X)


def test_bad_data():
    Y = X.copy()
    Y[3, 4] = np.nan
    with pytest.raises(ValueError, match="NaN, first at row 3, column 4"):
        VariationalPCA().fit(Y)


def test_it_shows_itself(model):
    summary = summarize(model)
    assert (summary.rank, summary.probability, summary.told) == (3, None, False)
    assert json.dumps(summary.as_dict())
    assert "There are three dimensions" in model._repr_html_inner()


def test_report_and_displays(model):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("plotly", reason="plotly is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib import pyplot

    from bayespca import displays, report

    page = report.render(model, scores=model.transform(X))
    assert "There are three dimensions in these data." in page
    for display in ("ScreeDisplay", "HintonDisplay", "FreeEnergyDisplay"):
        assert getattr(displays, display).from_estimator(model).ax_ is not None
    with pytest.raises(ValueError, match="VariationalPCA gives no probabilities of ranks"):
        displays.RankPosteriorDisplay.from_estimator(model)
    pyplot.close("all")
