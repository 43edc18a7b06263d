"""`GibbsPCA`: summaries and diagnostics of its draws, units, seeds, shapes and bad input."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from bayespca import GibbsPCA, load
from bayespca.estimators import RankWarning, _arviz

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

needs_arviz = pytest.mark.skipif(_arviz.load() is None, reason="ArviZ is not installed")

SHORT = {"n_draws": 60, "n_warmup": 60, "n_chains": 2, "random_state": 0}


def icann_example(seed=0):
    """icann1999 Section 5: 100 points in 10 dimensions, standard deviations 5, 4, 3, 2 and 1."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    return rng.normal(size=(100, 10)) * [5, 4, 3, 2, 1, 1, 1, 1, 1, 1] @ turn


X = icann_example()


@pytest.fixture(scope="module")
def model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GibbsPCA(n_draws=300, n_warmup=150, n_chains=2, random_state=0).fit(X)


def flat(model):
    draws = model.draws_
    return [a.reshape(-1, *a.shape[2:]) for a in (draws.W, draws.tau, draws.mu)]


def test_callback_and_verbose(capsys):
    steps = []

    def callback(number, info):
        steps.append((number, info))
        return True

    options = {"n_draws": 4, "n_warmup": 3, "n_chains": 2, "thin": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = GibbsPCA(2, **options).fit(X)
        model = GibbsPCA(2, **options, verbose=True).fit(X, callback=callback)
    np.testing.assert_array_equal(model.draws_.W, plain.draws_.W)
    assert [number for number, _ in steps] == list(range(1, 2 * (3 + 2 * 4) + 1))
    last = steps[-1][1]
    assert last.noise_variance == pytest.approx(1 / model.draws_.tau[-1, -1])
    assert last.free_energy == -model.draws_.log_joint[-1, -1]
    assert last.rank == 2
    said = f"100×10, 2 chains of 4 draws: rank {model.n_components_}"
    assert said in capsys.readouterr().out


def test_what_a_callback_raises_is_not_about_precision():
    def callback(number, info):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        GibbsPCA(2).fit(X, callback=callback)


# --- results -----------------------------------------------------------------------------------


def test_the_example_has_four_components(model):
    assert model.n_components_ == 4
    assert model.rank_posterior_.sum() == pytest.approx(1)
    assert model.rank_posterior_.shape == (10,)
    assert model.rank_posterior_[:4].sum() == 0
    sample = np.linalg.eigh(np.cov(X.T))[1][:, ::-1][:, :4].T
    assert np.linalg.svd(model.components_ @ sample.T, compute_uv=False).min() > 0.99
    assert np.abs(np.sum(model.components_ * sample, axis=1)).min() > 0.95


def test_noise_has_no_components():
    noise = np.random.default_rng(3).normal(size=(150, 6))
    found = GibbsPCA(n_draws=150, n_warmup=100, n_chains=2, random_state=0).fit(noise)
    assert found.n_components_ == 0
    assert found.components_.shape == found.components_std_.shape == (0, 6)
    assert found.transform(noise).shape == (150, 0)
    assert found.inverse_transform(np.empty((2, 0))) == pytest.approx(np.tile(found.mean_, (2, 1)))
    assert found.r_hat_ is None or found.r_hat_["signal_variance"].shape == (0,)


def test_summaries_are_those_of_the_draws(model):
    W, tau, mu = flat(model)
    assert model.noise_variance_ == pytest.approx(np.mean(1 / tau))
    assert model.noise_variance_std_ == pytest.approx(np.std(1 / tau))
    assert model.mean_ == pytest.approx(mu.mean(axis=0))
    assert model.mean_std_ == pytest.approx(mu.std(axis=0))
    products = W @ np.swapaxes(W, 1, 2)
    covariance = products.mean(axis=0) + np.mean(1 / tau) * np.eye(10)
    assert model.get_covariance() == pytest.approx(covariance, rel=1e-9, abs=1e-9)
    values = np.linalg.eigvalsh(products)[:, ::-1][:, :4]
    assert model.signal_variance_ == pytest.approx(values.mean(axis=0), rel=1e-9)
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(4), abs=1e-12)
    variance = np.var(X @ model.components_.T, axis=0, ddof=1)
    assert model.explained_variance_ == pytest.approx(variance, rel=1e-9)
    assert model.explained_variance_ratio_ == pytest.approx(variance / np.trace(np.cov(X.T)))


def test_aligned_draws(model):
    axes, loadings = model.aligned_components(), model.aligned_loadings()
    assert axes.shape == (2, 300, 4, 10)
    assert loadings.shape == (2, 300, 10, 4)
    assert np.einsum("cskd,kd->csk", axes, model.components_).min() > 0
    products = axes @ np.swapaxes(axes, 2, 3)
    assert products == pytest.approx(np.broadcast_to(np.eye(4), products.shape), abs=1e-8)
    rms = np.sqrt(np.mean((axes - model.components_) ** 2, axis=(0, 1)))
    assert model.components_std_ == pytest.approx(rms)
    mean = loadings.mean(axis=(0, 1)) / np.sqrt(model.signal_variance_)
    assert np.sum(mean.T * model.components_, axis=1) == pytest.approx(np.ones(4), abs=0.05)


# --- rows --------------------------------------------------------------------------------------


def test_scores_are_those_of_all_draws(model):
    """Mean and variance of R(Wx + μ − mean), written out draw by draw."""
    R, means, variances = model.components_, [], []
    for W, tau, mu in zip(*flat(model), strict=True):
        gain = W.T @ np.linalg.inv(W @ W.T + np.eye(10) / tau)
        means.append((mu - model.mean_ + (X[:7] - mu) @ gain.T @ W.T) @ R.T)
        variances.append(np.diag(R @ W @ (np.eye(9) - gain @ W) @ W.T @ R.T))
    scores, std = model.transform(X[:7], return_std=True)
    assert scores == pytest.approx(np.mean(means, axis=0), rel=1e-8, abs=1e-8)
    total = np.var(means, axis=0) + np.mean(variances, axis=0)
    assert std == pytest.approx(np.sqrt(total), rel=1e-6)
    assert model.transform(X[:7]) == pytest.approx(scores, rel=1e-12)
    assert model.inverse_transform(scores) == pytest.approx(scores @ R + model.mean_)


def test_density_is_the_mean_over_draws(model):
    each = [
        stats.multivariate_normal.logpdf(X[:5], mu, W @ W.T + np.eye(10) / tau)
        for W, tau, mu in zip(*flat(model), strict=True)
    ]
    expected = logsumexp(each, axis=0) - np.log(len(each))
    assert model.score_samples(X[:5]) == pytest.approx(expected, rel=1e-9)
    assert model.score(X[:5]) == pytest.approx(expected.mean())


def test_new_rows_have_the_covariance(model):
    rows = model.sample(20_000, random_state=1)
    assert rows.shape == (20_000, 10)
    scale = np.sqrt(np.diag(model.get_covariance()))
    off = (np.cov(rows.T) - model.get_covariance()) / np.outer(scale, scale)
    assert np.abs(off).max() < 0.06
    assert np.abs((rows.mean(axis=0) - model.mean_) / scale).max() < 0.04
    assert (model.sample(5, random_state=1) == model.sample(5, random_state=1)).all()


# --- units, seeds, shapes ----------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-60, 2.0**-10, 1e6, 1e60])
def test_the_prior_is_in_the_units_of_the_data(factor):
    square = factor * factor
    prior = {"b_alpha": 1e-3 * square, "b_tau": 1e-3 * square, "beta": 1e-3 / square}
    ours = GibbsPCA(**SHORT, **prior).fit(X * factor).draws_
    theirs = GibbsPCA(**SHORT, b_alpha=1e-3, b_tau=1e-3, beta=1e-3).fit(X).draws_
    # Chains magnify rounding errors; the first draws have hardly any.
    assert ours.tau[:, 0] * square == pytest.approx(theirs.tau[:, 0], rel=1e-3)
    if factor == 2.0**-10:
        assert (ours.W / factor == theirs.W).all()
        assert (ours.mu / factor == theirs.mu).all()


@pytest.mark.parametrize(("factor", "offset"), [(1e-4, 0.0), (1e60, 0.0), (5e4, 3e5)])
def test_the_default_prior_suits_any_units(factor, offset):
    ours = GibbsPCA(**SHORT).fit(X * factor + offset).draws_
    theirs = GibbsPCA(**SHORT).fit(X).draws_
    assert ours.tau[:, 0] * factor**2 == pytest.approx(theirs.tau[:, 0], rel=0.01)


def test_the_same_seed_gives_the_same_draws():
    first, again = (GibbsPCA(**SHORT).fit(X).draws_ for _ in range(2))
    assert (first.W == again.W).all()
    assert not np.isclose(first.tau[0], first.tau[1]).any()
    other = GibbsPCA(**{**SHORT, "random_state": 1}).fit(X).draws_
    assert not np.isclose(first.tau, other.tau).any()
    # A chain does not depend on the number of chains.
    more = GibbsPCA(**{**SHORT, "n_chains": 3}).fit(X).draws_
    assert (more.W[:2] == first.W).all()


def test_thinning_keeps_every_other_draw():
    all_of_them = GibbsPCA(**SHORT).fit(X).draws_
    thinned = GibbsPCA(**{**SHORT, "thin": 2, "n_draws": 30}).fit(X).draws_
    assert (thinned.tau == all_of_them.tau[:, 1::2]).all()


@pytest.mark.parametrize("seed", [3, np.random.RandomState(3), np.random.default_rng(3), None])
def test_seeds_of_any_kind(seed):
    GibbsPCA(n_draws=5, n_warmup=5, n_chains=2, random_state=seed).fit(X)


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (30, 1), (6, 20)])
@pytest.mark.parametrize("n_components", ["auto", 0, 2, 50])
def test_small_shapes(shape, n_components):
    data = np.random.default_rng(0).normal(size=shape)
    found = GibbsPCA(n_components, n_draws=10, n_warmup=10, n_chains=2, random_state=0).fit(data)
    assert found.transform(data).shape == (shape[0], found.n_components_)
    assert np.isfinite(found.score(data))
    q = found.draws_.W.shape[-1]
    assert q == (min(shape) - 1 if n_components == "auto" else min(n_components, shape[1]))


def test_data_that_do_not_vary():
    found = GibbsPCA(**SHORT).fit(np.full((30, 4), 2.0))
    assert found.n_components_ == 0
    assert found.mean_ == pytest.approx(np.full(4, 2.0), abs=0.01)


def test_wide_data():
    rng = np.random.default_rng(0)
    data = 2 * rng.normal(size=(25, 2)) @ rng.normal(size=(2, 80)) + rng.normal(size=(25, 80))
    found = GibbsPCA(n_draws=60, n_warmup=100, n_chains=2, random_state=0).fit(data)
    assert found.n_components_ == 2
    assert found.draws_.W.shape == (2, 60, 80, 24)


def test_types_names_and_files(tmp_path):
    frame = pd.DataFrame(X.astype(np.float32), columns=[f"f{i}" for i in range(10)])
    found = GibbsPCA(**SHORT).set_output(transform="pandas").fit(frame)
    scores = found.transform(frame)
    assert list(scores.columns) == [f"gibbspca{i}" for i in range(found.n_components_)]
    assert (scores.dtypes == np.float32).all()
    assert found.components_.dtype == found.sample(2).dtype == np.float32
    assert found.draws_.W.dtype == np.float64
    same = GibbsPCA(**SHORT).fit(sparse.csr_array(X))
    assert (same.draws_.tau == GibbsPCA(**SHORT).fit(X).draws_.tau).all()
    found.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.transform(frame), scores)
    for field in dataclasses.fields(found.draws_):
        assert (getattr(loaded.draws_, field.name) == getattr(found.draws_, field.name)).all()
    assert repr(loaded.r_hat_) == repr(found.r_hat_)
    GibbsPCA(**SHORT).save(tmp_path / "unfitted")
    assert load(tmp_path / "unfitted").get_params() == GibbsPCA(**SHORT).get_params()


# --- diagnostics and messages ------------------------------------------------------------------


@needs_arviz
def test_diagnostics_are_those_of_arviz(model):
    arviz = _arviz.load()
    noise = 1 / model.draws_.tau
    assert model.r_hat_["noise_variance"] == pytest.approx(float(arviz.rhat(noise)))
    assert model.ess_["noise_variance"] == pytest.approx(float(arviz.ess(noise)))
    assert model.r_hat_.keys() == model.ess_.keys()
    assert model.ess_["signal_variance"].shape == (4,)
    assert min(np.min(value) for value in model.ess_.values()) > 20


@needs_arviz
def test_draws_for_arviz(model):
    posterior = model.to_arviz()["posterior"]
    assert dict(posterior.sizes) == {"chain": 2, "draw": 300, "feature": 10, "component": 4}
    assert posterior["components"].dims == ("chain", "draw", "component", "feature")
    assert (posterior["mean"].values == model.draws_.mu).all()


def test_without_arviz(monkeypatch):
    monkeypatch.setattr(_arviz, "load", lambda: None)
    found = GibbsPCA(**SHORT).fit(X)
    assert found.r_hat_ is None
    assert found.ess_ is None
    with pytest.raises(ImportError, match=r"bayespca\[bayes\]"):
        found.to_arviz()


@needs_arviz
@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_chains_that_have_not_mixed_are_told():
    with pytest.warns(ConvergenceWarning) as found:
        GibbsPCA(n_draws=8, n_warmup=0, n_chains=2, random_state=0).fit(X)
    texts = [str(warning.message) for warning in found]
    assert any("R-hat of " in text and "n_warmup" in text for text in texts)
    assert any("effective sample size" in text and "less than 200" in text for text in texts)


@needs_arviz
def test_one_chain_has_no_r_hat():
    found = GibbsPCA(**{**SHORT, "n_chains": 1}).fit(X)
    assert np.isnan(found.r_hat_["noise_variance"])
    assert found.ess_["noise_variance"] > 1


@pytest.mark.parametrize(
    ("data", "match"),
    [(X + 1000, "prior standard deviations away from 0"), (X * 1e-3, "lower b_tau and b_alpha")],
)
def test_a_prior_that_is_not_broad_is_told(data, match):
    with pytest.warns(RankWarning, match=match):
        GibbsPCA(**SHORT, b_alpha=1e-3, b_tau=1e-3, beta=1e-3).fit(data)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_draws": 0}, "n_draws must be a whole number of at least 1, got 0"),
        ({"n_chains": 1.5}, "n_chains must be a whole number"),
        ({"n_warmup": -1}, "n_warmup must be"),
        ({"thin": True}, "thin must be"),
        ({"n_components": -1}, "n_components must be 'auto' or a whole number of at least 0"),
        ({"n_components": "all"}, "n_components must be"),
        ({"b_tau": 0.0}, "b_tau must be 'auto' or a positive number"),
        ({"beta": "x"}, "beta must be 'auto' or a positive number"),
        ({"n_draws": 10**13}, "would need .* GB"),
    ],
)
def test_options_that_will_not_do(options, match):
    with pytest.raises(ValueError, match=match):
        GibbsPCA(**{**SHORT, **options}).fit(X)


def test_data_that_will_not_do(model):
    holes = X.copy()
    holes[3, 4] = np.nan
    found = GibbsPCA(**SHORT)
    with pytest.raises(ValueError, match="NaN, first at row 3, column 4"):
        found.fit(holes)
    with pytest.raises(ValueError, match="leave the range of floating-point numbers"):
        found.fit(X * 1e200)
    with pytest.raises(NotFittedError):
        found.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.transform(holes)
    with pytest.raises(ValueError, match="one for each component"):
        model.inverse_transform(X)
