"""`VariationalPCA` as users see it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

from bayespca import BayesianPCA, VariationalPCA, load
from bayespca.datasets import low_rank
from bayespca.estimators import RankWarning, summarize

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
    assert model.lower_bound_ == pytest.approx(-model.trace_.free_energy[-1], rel=1e-12)
    T, std = model.transform(X, return_std=True)
    assert T.shape == std.shape == (200, 3)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-10)
    assert model.score(X) == pytest.approx(BayesianPCA().fit(X).score(X), rel=1e-3)


@pytest.mark.parametrize(
    ("factor", "offset"), [(1e-4, 0.0), (1e60, 0.0), (5e4, 3e5), (1.0, 1e4), (1.0, 1e12)]
)
@pytest.mark.parametrize("has_holes", [False, True])
def test_the_default_priors_suit_any_units(factor, offset, has_holes):
    data = with_holes(offset=0.0)[2] if has_holes else X
    plain = VariationalPCA(random_state=0).fit(data)
    other = VariationalPCA(random_state=0).fit(data * factor + offset)
    assert other.n_components_ == plain.n_components_ == 3
    assert other.noise_variance_ == pytest.approx(plain.noise_variance_ * factor**2, rel=2e-4)
    np.testing.assert_allclose((other.mean_ - offset) / factor, plain.mean_, atol=0.01)


def test_hyperparameters_are_in_the_units_of_the_data():
    broad = {"b_alpha": 1e-3, "b_tau": 1e-3, "beta": 1e-3}
    plain = VariationalPCA(random_state=0, tol=1e-12, **broad).fit(X)
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


def test_constant_columns_change_no_score(model):
    wider = np.insert(X, 4, 7.5, axis=1)
    other = VariationalPCA(random_state=0).fit(wider)
    np.testing.assert_allclose(other.transform(wider), model.transform(X), atol=1e-5)


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
    streamed = VariationalPCA(engine="streaming", random_state=0).fit(tmp_path / "x.npy")
    assert streamed.engine_ == "streaming"
    assert streamed.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-9)


def test_verbose(capsys):
    model = VariationalPCA(random_state=0, verbose=True).fit(X)
    told = f"variational, engine {model.engine_}: rank {model.n_components_}, lower bound"
    assert told in capsys.readouterr().out


def test_an_early_stop_is_told():
    with pytest.warns(ConvergenceWarning, match=r"still rose by .* in the last of 3 steps: raise"):
        stopped = VariationalPCA(max_iter=3, random_state=0).fit(X)
    assert not stopped.converged_
    assert np.isfinite(stopped.transform(X)).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_components": 13}, "n_components must be 'auto' or a whole number from 0 to 12"),
        ({"n_components": 1.5}, "whole number"),
        ({"prior": "flat"}, "prior must be one of"),
        ({"beta": 0.0}, "beta must be 'auto' or a positive number"),
        ({"a_tau": -1.0}, "a_tau must be a positive number"),
        ({"max_iter": 0}, "max_iter must be"),
    ],
)
def test_options_that_will_not_do(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        VariationalPCA(**options).fit(X)


def test_bad_data():
    Y = X.copy()
    Y[3, 4] = np.inf
    with pytest.raises(ValueError, match="infinity, first at row 3, column 4"):
        VariationalPCA().fit(Y)
    Y[5, 6] = np.nan
    with pytest.raises(ValueError, match=r"first at row 3, column 4"):
        VariationalPCA().fit(Y)
    with pytest.raises(ValueError, match="NaN, first at column 6"):
        VariationalPCA().fit(scipy.sparse.csr_array(np.where(np.isinf(Y), 0.0, Y)))
    with pytest.raises(ValueError, match="no value at all: its 2400 cells"):
        VariationalPCA().fit(np.full(X.shape, np.nan))


def test_it_shows_itself(model):
    summary = summarize(model)
    assert (summary.rank, summary.exactly, summary.given) == (3, None, False)
    assert summary.how_sure == "found, without a probability"
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


# --- holes -------------------------------------------------------------------------------------


def with_holes(n=200, p=20, rank=3, share=0.2, seed=0, offset=5.0):
    """A low-rank matrix, the same with noise, and the same with noise and holes."""
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + offset
    whole = low + rng.normal(size=(n, p))
    return low, whole, np.where(rng.random((n, p)) < share, np.nan, whole)


@pytest.fixture(scope="module")
def holed():
    _, _, Y = with_holes()
    return VariationalPCA().fit(Y)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_holes_at_fit(share):
    inside = inside_mean = total = 0
    for seed in range(3):
        low, whole, Y = with_holes(share=share, seed=seed)
        model = VariationalPCA().fit(Y)
        assert (model.engine_, model.n_components_) == ("holes", 3)
        assert model.converged_
        filled, std = model.impute(Y, return_std=True)
        mean_std = model.impute(Y, return_std="mean")[1]
        holes = np.isnan(Y)
        np.testing.assert_array_equal(filled[~holes], Y[~holes])
        assert not std[~holes].any()
        inside += (np.abs(filled - whole)[holes] < 1.96 * std[holes]).sum()
        inside_mean += (np.abs(filled - low)[holes] < 1.96 * mean_std[holes]).sum()
        total += holes.sum()
    # With few holes, allow three standard errors of the share.
    assert inside / total == pytest.approx(0.95, abs=max(0.02, 3 * np.sqrt(0.05 / total)))
    assert inside_mean / total == pytest.approx(0.95, abs=0.04)


def test_holes_agree_with_the_other_model_of_the_same_data(holed):
    _, _, Y = with_holes()
    other = BayesianPCA().fit(Y)
    assert holed.noise_variance_ == pytest.approx(other.noise_variance_, rel=0.04)
    np.testing.assert_allclose(holed.mean_, other.mean_, atol=0.02)
    cosines = np.abs(np.sum(holed.components_ * other.components_, axis=1))
    assert (cosines > 0.999).all()
    np.testing.assert_allclose(holed.components_std_, other.components_std_, rtol=0.1)
    np.testing.assert_allclose(holed.explained_variance_, other.explained_variance_, rtol=0.1)
    np.testing.assert_allclose(holed.impute(Y), other.impute(Y), atol=0.3)


def test_one_hole_changes_little(model):
    Y = X.copy()
    Y[0, 0] = np.nan
    other = VariationalPCA().fit(Y)
    assert other.engine_ == "holes"
    assert other.n_components_ == 3
    assert other.weights_.shape == model.weights_.shape
    assert other.noise_variance_ == pytest.approx(model.noise_variance_, rel=2e-3)
    np.testing.assert_allclose(other.mean_, model.mean_, atol=0.02)
    np.testing.assert_allclose(other.components_, model.components_, atol=5e-3)
    np.testing.assert_allclose(other.explained_variance_, model.explained_variance_, rtol=0.01)
    np.testing.assert_allclose(other.alpha_[:3], model.alpha_[:3], rtol=0.01)
    # Without one cell, the bound loses about the log density of that cell.
    assert abs(other.lower_bound_ - model.lower_bound_) < 6


@pytest.mark.parametrize("complete", [False, True])
def test_new_rows_with_holes(complete, holed, model):
    model = model if complete else holed
    p = model.n_features_in_
    rng = np.random.default_rng(1)
    rows = model.sample(30, random_state=0)
    holes = rng.random(rows.shape) < 0.3
    Y = np.where(holes, np.nan, rows)
    T, std = model.transform(Y, return_std=True)
    assert (std > model.transform(rows, return_std=True)[1] * 0.999).all()
    assert np.std(T - model.transform(rows)) < 0.6 * np.std(T)
    filled, spread = model.impute(Y, return_std=True)
    assert (np.abs(filled - rows)[holes] < 4.5 * spread[holes]).all()
    np.testing.assert_allclose(model.denoise(Y)[holes], filled[holes])
    draws = model.sample_imputations(Y, 400, random_state=0)
    np.testing.assert_array_equal(draws[7][~holes], rows[~holes])
    error = (draws.mean(axis=0) - filled)[holes] / spread[holes]
    assert np.abs(error).max() < 5 / np.sqrt(400)
    cov, mean = model.get_covariance(), model.mean_
    for row, density in zip(Y[:5], model.score_samples(Y[:5]), strict=True):
        seen = ~np.isnan(row)
        marginal = multivariate_normal(mean[seen], cov[np.ix_(seen, seen)])
        assert density == pytest.approx(marginal.logpdf(row[seen]), rel=1e-8)
    nothing = np.full((1, p), np.nan)
    np.testing.assert_allclose(model.transform(nothing), 0, atol=1e-12)
    np.testing.assert_allclose(model.impute(nothing)[0], mean)


def test_empty_rows_and_columns_are_told():
    _, _, Y = with_holes()
    Y[7] = np.nan
    Y[:, 5] = np.nan
    with pytest.warns(RankWarning) as told:
        model = VariationalPCA().fit(Y)
    said = [str(item.message) for item in told]
    assert said[0].startswith("1 row (7, counting from 0) has no values")
    assert said[1].startswith("1 column (5, counting from 0) has no values")
    assert "empty-rows" in model.status_
    assert model.n_components_ == 3
    assert model.n_samples_ == 200
    np.testing.assert_array_equal(model.components_[:, 5], 0)
    np.testing.assert_allclose(model.transform(Y)[7], 0, atol=1e-12)
    filled, std = model.impute(Y, return_std=True)
    assert np.isfinite(filled).all()
    # Only the prior of μ, of variance 1/β, says anything about an empty column.
    assert std[:, 5].min() ** 2 > 1000


@pytest.mark.parametrize("options", [{"prior": "unit"}, {"center": False}, {"beta": 10.0}])
def test_other_models_with_holes(options):
    low, _, Y = with_holes(offset=0.0)
    model = VariationalPCA(5, **options).fit(Y)
    assert model.n_components_ >= 3
    assert model.weights_.shape == (20, 5)
    if "prior" in options:
        np.testing.assert_array_equal(model.alpha_, 1.0)
    if "center" in options:
        np.testing.assert_array_equal(model.mean_, 0.0)
    holes = np.isnan(Y)
    assert np.std((model.impute(Y) - low)[holes]) < 0.4 * np.std(low[holes])


def test_rank_zero_and_no_columns_with_holes():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(100, 8))
    noise[rng.random(noise.shape) < 0.2] = np.nan
    for n_components in ("auto", 0):
        model = VariationalPCA(n_components).fit(noise)
        assert model.n_components_ == 0
        assert model.transform(noise).shape == (100, 0)
        assert model.noise_variance_ == pytest.approx(np.nanvar(noise), rel=0.05)


def test_scale_with_holes():
    """With priors this broad, the units of the data do not matter."""
    _, _, Y = with_holes()
    broad = {"b_alpha": 1e-12, "b_tau": 1e-12, "beta": 1e-18}
    a = VariationalPCA(**broad, tol=1e-11).fit(Y)
    b = VariationalPCA(**broad, tol=1e-11).fit(Y * 1e5)
    assert a.n_components_ == b.n_components_ == 3
    assert b.noise_variance_ == pytest.approx(1e10 * a.noise_variance_, rel=1e-5)
    np.testing.assert_allclose(b.components_, a.components_, atol=1e-5)


def test_frames_and_float32_with_holes():
    _, _, Y = with_holes(80, 6, 2)
    frame = pd.DataFrame(Y, columns=list("abcdef"))
    model = VariationalPCA().fit(frame)
    assert list(model.feature_names_in_) == list("abcdef")
    masked = VariationalPCA().fit(np.ma.masked_invalid(Y))
    assert masked.lower_bound_ == model.lower_bound_
    short = VariationalPCA().fit(Y.astype(np.float32))
    assert short.impute(Y.astype(np.float32)).dtype == np.float32
    assert short.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-4)


def test_several_starts_with_holes():
    _, _, Y = with_holes(60, 8, 2)
    counts = []
    model = VariationalPCA(n_init=3, random_state=0).fit(
        Y, callback=lambda number, info: counts.append(number)
    )
    assert counts.count(1) == 3
    assert model.lower_bound_ >= VariationalPCA().fit(Y).lower_bound_


def test_engines_are_for_complete_data():
    _, _, Y = with_holes(30, 5)
    with pytest.raises(ValueError, match="holes for engine='auto'; engine='gram' is for complete"):
        VariationalPCA(engine="gram").fit(Y)
    model = VariationalPCA(engine="gram").fit(np.nan_to_num(Y))
    assert np.isfinite(model.transform(Y)).all()


def test_a_fit_with_holes_is_taken_up_again(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    _, _, Y = with_holes(share=0.5)
    whole = VariationalPCA().fit(Y)
    kept, steps = VariationalPCA(checkpoint=tmp_path / "fit.ckpt"), []

    def broken(number, info):
        steps.append(number)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.fit(Y, callback=broken)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        VariationalPCA(checkpoint=tmp_path / "fit.ckpt", beta=1.0).fit(Y)
    kept.fit(Y, callback=lambda number, info: steps.append(number))
    assert steps[4] == 4
    assert kept.lower_bound_ == whole.lower_bound_
    np.testing.assert_array_equal(kept.weights_, whole.weights_)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{}, {"prior": "unit", "center": False, "n_components": 4}])
def test_a_model_with_holes_is_saved(options, tmp_path):
    _, _, Y = with_holes(60, 8, 2)
    model = VariationalPCA(**options).fit(Y)
    model.save(tmp_path / "m.bpca")
    again = load(tmp_path / "m.bpca")
    assert again.engine_ == "holes"
    np.testing.assert_array_equal(again.weights_, model.weights_)
    for method in ("transform", "impute", "score_samples", "denoise"):
        np.testing.assert_array_equal(getattr(again, method)(Y), getattr(model, method)(Y))


def test_it_shows_itself_with_holes(holed):
    assert summarize(holed).engine == "holes"
    assert "There are three dimensions" in holed._repr_html_inner()


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    p=st.integers(1, 8),
    share=st.floats(0.05, 0.95),
    power=st.integers(-3, 3),
    odd=st.sampled_from(["", "constant column", "whole numbers", "equal rows", "zeros"]),
    options=st.sampled_from([{}, {"prior": "unit"}, {"center": False}, {"n_components": 1}]),
)
def test_tiny_tables(seed, n, p, share, power, odd, options, tmp_path_factory):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, p)) * 10.0**power + rng.integers(-100, 100)
    if odd == "constant column":
        Y[:, 0] = 3.0
    elif odd == "whole numbers":
        Y = np.round(Y)
    elif odd == "equal rows":
        Y[:] = Y[0]
    elif odd == "zeros":
        Y[:] = 0.0
    holes = rng.random(Y.shape) < share
    holes[0, 0] = False
    whole, Y = Y, np.where(holes, np.nan, Y)
    model = VariationalPCA(max_iter=100, **options).fit(Y)
    filled, std = model.impute(Y, return_std=True)
    scores, spread = model.transform(Y, return_std=True)
    for array in (filled, std, scores, spread, model.sample_imputations(Y, 1)):
        assert np.isfinite(array).all()
    np.testing.assert_array_equal(filled[~holes], whole[~holes])
    path = tmp_path_factory.mktemp("models") / "m.bpca"
    model.save(path)
    assert load(path).lower_bound_ == model.lower_bound_
