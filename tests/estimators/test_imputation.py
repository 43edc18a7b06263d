"""Imputing as users see it: pipelines, one call, and a comparison with other imputers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

from bayespca import BayesianPCA, BayesianPCAImputer, cross_validate_entries, impute, load

rng = np.random.default_rng(0)
LOW = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 8))
X = LOW + 0.3 * rng.normal(size=LOW.shape)
HOLES = rng.random(X.shape) < 0.15
Y = np.where(HOLES, np.nan, X)


def test_one_call_is_fit_and_impute():
    filled, std = impute(Y, return_std=True, scale=True)
    expected = BayesianPCA(scale=True).fit(Y).impute(Y, return_std=True)
    np.testing.assert_array_equal(filled, expected[0])
    np.testing.assert_array_equal(std, expected[1])
    assert impute(Y).shape == Y.shape


def test_the_imputer_fills_as_the_model_does():
    imputer = BayesianPCAImputer().fit(Y)
    filled = imputer.transform(Y)
    model = BayesianPCA(scale=True).fit(Y)
    np.testing.assert_allclose(filled, model.impute(Y), atol=1e-10)
    assert imputer.n_components_ >= 2
    new = Y[:3].copy()
    new[0] = np.nan
    assert np.isfinite(imputer.transform(new)).all()


def test_what_iterates_can_be_followed(tmp_path, capsys):
    steps = []
    plain = BayesianPCAImputer().fit(Y)
    kept = BayesianPCAImputer(checkpoint=tmp_path / "kept", verbose=True, random_state=0)
    kept.fit(Y, callback=lambda number, info: steps.append(number))
    assert steps[0] == 1
    assert f"rank {kept.n_components_}" in capsys.readouterr().out
    assert not kept.checkpoint.exists()
    np.testing.assert_array_equal(kept.transform(Y), plain.transform(Y))


def test_it_works_where_there_are_no_holes_at_fit():
    imputer = BayesianPCAImputer().fit(X)
    np.testing.assert_array_equal(imputer.transform(X), X)
    error = (imputer.transform(Y) - X)[HOLES]
    assert np.std(error) < 0.6


def test_it_can_be_saved(tmp_path):
    imputer = BayesianPCAImputer().fit(pd.DataFrame(Y, columns=list("abcdefgh")))
    imputer.save(tmp_path / "imputer.bpca")
    again = load(tmp_path / "imputer.bpca")
    frame = pd.DataFrame(Y[:9], columns=list("abcdefgh"))
    np.testing.assert_array_equal(again.transform(frame), imputer.transform(frame))
    assert again.get_params() == imputer.get_params()


def test_in_a_pipeline():
    target = LOW[:, 0]
    model = make_pipeline(BayesianPCAImputer(), LinearRegression()).fit(Y, target)
    assert model.score(Y, target) > 0.9


def test_frames_keep_their_columns():
    frame = pd.DataFrame(Y, columns=list("abcdefgh"))
    filled = BayesianPCAImputer().set_output(transform="pandas").fit_transform(frame)
    assert list(filled.columns) == list("abcdefgh")
    assert not filled.isna().any().any()


def integers(kind):
    """Whole numbers with holes, as each library represents them."""
    codes = np.round(10 * Y)
    if kind == "pandas":
        return pd.DataFrame(codes).astype("Int64")
    if kind == "polars":
        columns = {
            str(j): [None if np.isnan(v) else int(v) for v in c] for j, c in enumerate(codes.T)
        }
        return pl.DataFrame(columns)
    if kind == "masked":
        whole = np.ma.masked_array(np.where(HOLES, -999, codes).astype(int), mask=HOLES)
        assert whole.dtype.kind == "i"
        return whole
    return codes


@pytest.mark.parametrize("kind", ["pandas", "polars", "masked"])
def test_holes_in_every_dress(kind):
    expected = BayesianPCA().fit(integers("NaN"))
    found = BayesianPCA().fit(integers(kind))
    assert found.engine_ == "holes"
    assert found.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-9)
    filled = found.impute(integers(kind))
    np.testing.assert_allclose(filled, expected.impute(integers("NaN")), atol=1e-8)


def test_comparison_of_imputers():
    scores = cross_validate_entries(
        {"PCA": BayesianPCA(), "imputer": BayesianPCAImputer(scale=False), "mean": SimpleImputer()},
        Y,
        n_folds=3,
    )
    assert scores.rmse["PCA"].shape == (3,)
    np.testing.assert_allclose(scores.rmse["PCA"], scores.rmse["imputer"], rtol=1e-10)
    assert scores.rmse["PCA"].mean() < 0.5 * scores.rmse["mean"].mean()
    assert scores.coverage["PCA"].mean() == pytest.approx(0.95, abs=0.03)
    assert np.isnan(scores.coverage["mean"]).all()
    text = str(scores)
    assert "PCA" in text
    assert len(text.splitlines()) == 4


def test_the_same_cells_for_the_same_seed():
    a, b, c = (cross_validate_entries(SimpleImputer(), Y, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.rmse["SimpleImputer"], b.rmse["SimpleImputer"])
    assert (a.rmse["SimpleImputer"] != c.rmse["SimpleImputer"]).any()


def test_no_row_or_column_is_emptied():
    thin = np.full((6, 3), np.nan)
    thin[:, 0] = np.arange(6.0)
    thin[0] = [1.0, 2.0, 3.0]
    scores = cross_validate_entries(SimpleImputer(), thin, n_folds=2)
    assert np.isfinite(scores.rmse["SimpleImputer"]).any()


@pytest.mark.parametrize("n_folds", [1, 10_000])
def test_folds_that_cannot_be(n_folds):
    with pytest.raises(ValueError, match="n_folds must be between 2 and"):
        cross_validate_entries(SimpleImputer(), Y, n_folds=n_folds)
    with pytest.raises(ValueError, match="expected a matrix"):
        cross_validate_entries(SimpleImputer(), Y[0])
