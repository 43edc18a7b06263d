"""`BinaryPCA` as users see it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayespca import BernoulliMixture, BinaryPCA, GeneralizedPCA, load
from bayespca.discrete import posterior as reading
from bayespca.discrete.data import bits
from bayespca.estimators import ModelFileError
from bayespca.io import archive
from bayespca.sources.data import BinaryCells


def table(n=250, p=30, rank=2, strength=1.5, seed=0):
    rng = np.random.default_rng(seed)
    Z = strength * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=p)
    return (rng.random((n, p)) < 1 / (1 + np.exp(-Z))).astype(float), Z


X, Z = table()
HIDDEN = np.random.default_rng(1).random(X.shape) < 0.2
HOLES = np.where(HIDDEN, np.nan, X)


@pytest.fixture(scope="module")
def model():
    return BinaryPCA().fit(HOLES)


def log_loss(x, p):
    return float(-np.mean(np.where(x == 1, np.log(p), np.log1p(-p))))


def test_the_rank_and_the_attributes(model):
    assert model.n_components_ == 2
    assert model.components_.shape == (2, 30)
    assert model.components_ @ model.components_.T == pytest.approx(np.eye(2), abs=1e-10)
    assert model.free_energy_by_rank_.argmin() == 2
    assert (np.diff(model.explained_variance_) < 0).all()
    assert np.corrcoef(model.mean_, Z.mean(axis=0))[0, 1] > 0.9
    assert model.n_iter_ == len(model.trace_)
    assert (np.diff(model.trace_.free_energy) <= 1e-6).all()


def test_hidden_cells_are_predicted(model):
    filled = model.impute(HOLES)
    assert (filled[~HIDDEN] == X[~HIDDEN]).all()
    ours = log_loss(X[HIDDEN], filled[HIDDEN])
    truth = log_loss(X[HIDDEN], 1 / (1 + np.exp(-Z[HIDDEN])))
    shares = np.broadcast_to(np.nanmean(HOLES, axis=0), X.shape)
    mixture = BernoulliMixture(20, n_init=3, random_state=0).fit(HOLES).impute(HOLES)
    assert truth < ours < truth + 0.06
    assert ours < log_loss(X[HIDDEN], mixture[HIDDEN])
    assert ours < log_loss(X[HIDDEN], shares[HIDDEN]) - 0.1
    values = model.impute(HOLES, kind="value")
    assert (values[HIDDEN] == (filled[HIDDEN] > 0.5)).all()


def test_probabilities_are_calibrated(model):
    p = model.predict_proba(HOLES)[HIDDEN]
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        some = (p >= low) & (p < high)
        error = np.sqrt(0.25 / some.sum())
        assert X[HIDDEN][some].mean() == pytest.approx(p[some].mean(), abs=4 * error)


def test_scores(model):
    T, std = model.transform(HOLES, return_std=True)
    assert T.shape == std.shape == (250, 2)
    truth = (Z - model.mean_) @ model.components_.T
    for h in range(2):
        assert np.corrcoef(T[:, h], truth[:, h])[0, 1] > 0.85
    empty = np.full((1, 30), np.nan)
    none, wide = model.transform(empty, return_std=True)
    assert none == pytest.approx(0, abs=1e-9)
    assert (wide >= std.max(axis=0)).all()
    back = model.inverse_transform(T)
    assert ((back > 0) & (back < 1)).all()
    assert back == pytest.approx(model.predict_proba(HOLES), abs=0.35)


def test_densities(model):
    rows = model.score_samples(HOLES)
    assert rows.shape == (250,)
    assert model.score(HOLES) == pytest.approx(rows.mean())
    assert model.score_samples(np.full((1, 30), np.nan)) == pytest.approx(0, abs=1e-9)
    # The free energy adds the energies of the columns to those of the rows.
    assert -rows.sum() < model.free_energy_
    flipped = np.where(np.isnan(HOLES), np.nan, 1 - HOLES)
    assert model.score(flipped) < model.score(HOLES)


@pytest.mark.parametrize("kind", [bool, np.int8, np.int64, np.float32])
def test_numbers_of_all_kinds(kind):
    expected = BinaryPCA().fit(X)
    model = BinaryPCA().fit(np.asfortranarray(X.astype(kind)))
    assert model.free_energy_ == expected.free_energy_
    wanted = np.float32 if kind is np.float32 else np.float64
    assert model.transform(X.astype(kind)).dtype == wanted
    assert model.components_.dtype == wanted


def test_frames_and_names():
    names = [f"q{j}" for j in range(30)]
    model = BinaryPCA().set_output(transform="pandas").fit(pd.DataFrame(HOLES, columns=names))
    scores = model.transform(pd.DataFrame(HOLES, columns=names))
    assert list(scores.columns) == ["binarypca0", "binarypca1"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(pd.DataFrame(HOLES, columns=names[::-1]))


def test_rows_and_columns_without_values():
    data = HOLES.copy()
    data[7] = np.nan
    data[:, 4] = np.nan
    model = BinaryPCA().fit(data)
    assert "empty-rows" in model.status_
    assert "empty-columns" in model.status_
    filled = model.impute(data)
    assert np.isfinite(filled).all()
    assert filled[:, 4] == pytest.approx(0.5, abs=1e-6)
    assert (model.components_[:, 4] == 0).all()


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((20, 5)),
        np.ones((20, 5)),
        np.eye(6),
        np.array([[0.0, 1.0, 1.0]]),
        np.array([[0.0], [1.0], [1.0]]),
        np.repeat([[0.0, 1.0, np.nan, 1.0]], 30, axis=0),
        (np.random.default_rng(0).random((5, 60)) < 0.5).astype(float),
    ],
    ids=["zeros", "ones", "identity", "a row", "a column", "equal rows", "wide"],
)
def test_small_and_degenerate_tables(data):
    model = BinaryPCA(max_iter=2000).fit(data)
    p = model.predict_proba(data)
    assert ((p > 0) & (p < 1)).all()
    assert np.isfinite(model.score(data))
    assert model.transform(data).shape == (len(data), model.n_components_)


def test_separable_data_have_bounded_logits():
    data = np.repeat(np.eye(2), 50, axis=0)[:, [0, 0, 0, 1, 1, 1]]
    model = BinaryPCA(max_iter=2000).fit(data)
    assert model.n_components_ == 1
    assert (model.impute(data, kind="value") == data).all()
    assert ((model.predict_proba(data) > 0.5) == data).all()


def test_at_most_so_many_components():
    for most in (0, 1):
        model = BinaryPCA(most).fit(X)
        assert model.n_components_ == most
        assert model.transform(X).shape == (250, most)


def test_random_starts():
    closed = BinaryPCA().fit(X)
    drawn = BinaryPCA(5, init="random", n_init=2, random_state=0).fit(X)
    assert drawn.n_components_ == 2
    assert drawn.free_energy_ == pytest.approx(closed.free_energy_, rel=1e-4)


def test_verbose(capsys):
    BinaryPCA(0, verbose=True).fit(X)
    assert "binary: rank 0, free energy" in capsys.readouterr().out


def test_an_early_end_is_told():
    with pytest.warns(ConvergenceWarning, match="the free energy still fell"):
        BinaryPCA(max_iter=2).fit(X)


@pytest.mark.parametrize("n_components", ["auto", 0])
def test_model_files(tmp_path, n_components):
    model = BinaryPCA(n_components).fit(HOLES.astype(np.float32))
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.transform(HOLES) == model.transform(HOLES)).all()
    assert (loaded.impute(HOLES) == model.impute(HOLES)).all()
    assert loaded.free_energy_ == model.free_energy_
    assert loaded.components_.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("fit_.posterior.b", lambda a: a[:, 1:], "different sizes"),
        ("fit_.posterior.b_cov", lambda a: -a, "covariances of a BinaryPosterior are not positive"),
        ("fit_.posterior.b_cov", lambda a: a * np.nan, "not finite"),
        ("fit_.posterior.prior", lambda a: -a, "not positive"),
        ("fit_.posterior.components", lambda a: a[:, 1:], "different sizes"),
        ("fit_.free_energy_by_rank", lambda a: a[:0], "do not reach its number of components"),
    ],
)
def test_files_that_lie(tmp_path, model, name, change, match):
    path = tmp_path / "model"
    model.save(path)
    meta, arrays = archive.read(path)
    archive.write(path, meta, arrays | {name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (3 * X, {}, r"column \d+ holds 3\.0 in row 0 .* binarize=t"),
        (np.full((4, 2), np.nan), {}, "no value at all"),
        (X, {"n_components": -1}, "n_components must be 'auto' or a whole number"),
        (X, {"init": "svd"}, "init must be one of 'closed', 'random'"),
        (X, {"n_init": 3}, "init='closed' has only one"),
        (X, {"max_iter": 0}, "max_iter must be"),
        (X, {"binarize": np.nan}, "binarize must be None or a number"),
    ],
)
def test_mistakes_are_named(data, options, match):
    model = BinaryPCA(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=match):
        model.fit(data)
    assert vars(model) == before
    assert clone(model).get_params() == model.get_params()


def test_digits(load_data):
    """Optical digits binarized at 7, a fifth of them hidden; 600 rows and few sweeps, for speed."""
    data = load_data("optdigits")["X"][:600]
    binary = data > 7
    hidden = np.random.default_rng(0).random(binary.shape) < 0.2
    model = BinaryPCA(binarize=7, tol=1e-5).fit(np.where(hidden, np.nan, data))
    filled = model.impute(np.where(hidden, np.nan, data))
    shares = np.clip(np.where(hidden, 0, binary).sum(axis=0) / (~hidden).sum(axis=0), 0.01, 0.99)
    assert model.n_components_ >= 5
    ours = log_loss(binary[hidden], filled[hidden])
    assert ours < 0.75 * log_loss(binary[hidden], np.broadcast_to(shares, binary.shape)[hidden])


def test_scores_know_that_loadings_are_uncertain(model):
    """With certain loadings, standard deviations are those of r(a); otherwise they are larger."""
    posterior, cells = model.fit_.posterior, bits(BinaryCells(HOLES[:50] == 1, ~HIDDEN[:50]))
    certain = replace(posterior, b_cov=1e-12 * posterior.b_cov)
    _, wide = reading.scores(posterior, cells)
    _, narrow = reading.scores(certain, cells)
    settled = next(reading._by_block(certain, cells))
    M = certain.basis
    own = np.sqrt(np.einsum("kh,nhl,kl->nk", M, settled.rows.matrices, M))
    # Steps stop just short of the optimum, with standard deviations right to three digits.
    assert narrow == pytest.approx(own, rel=1e-3)
    factorised = next(reading._by_block(posterior, cells)).rows.matrices
    assert (wide > np.sqrt(np.einsum("kh,nhl,kl->nk", M, factorised, M))).all()


# --- draws -------------------------------------------------------------------------------------

SHORT = {"method": "gibbs", "n_warmup": 60, "n_draws": 60, "thin": 1, "random_state": 0}


def with_short_chains():
    """Fit with chains so short that they may not have mixed, without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return BinaryPCA(**SHORT).fit(HOLES)


@pytest.fixture(scope="module")
def sampled():
    return with_short_chains()


def test_draws_predict_hidden_cells(model, sampled):
    hidden = np.isnan(HOLES)
    assert sampled.n_components_ == model.n_components_
    assert (sampled.components_ == model.components_).all()
    chains, draws, p, width = sampled.draws_.b.shape
    assert (chains, draws, p, width) == (2, 60, HOLES.shape[1], model.n_components_ + 10 + 1)
    ours, before = (
        log_loss(X[hidden], one.predict_proba(HOLES)[hidden]) for one in (sampled, model)
    )
    assert ours < before + 0.01
    assert ours < 0.9 * log_loss(X[hidden], np.full(hidden.sum(), X.mean()))
    assert set(sampled.r_hat_) == set(sampled.ess_) == {"log_likelihood", "variance"}
    assert model.draws_ is model.r_hat_ is None


def test_scores_of_draws_are_near_those_of_the_variational_posterior(model, sampled):
    T, std = sampled.transform(HOLES, return_std=True)
    before, spread = model.transform(HOLES, return_std=True)
    apart = (T - before) / spread
    assert np.sqrt((apart**2).mean()) < 0.5
    assert std.mean() == pytest.approx(spread.mean(), rel=0.25)


def test_draws_are_those_of_their_seed(tmp_path, sampled):
    few = HOLES[:20]
    again = with_short_chains()
    assert (again.draws_.b == sampled.draws_.b).all()
    assert (again.impute(few) == sampled.impute(few)).all()
    sampled.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.impute(few) == sampled.impute(few)).all()
    assert loaded.r_hat_ == sampled.r_hat_


def test_draws_of_small_tables_and_of_rows_without_values():
    few = X[:40, :6].astype(float)
    few[3], few[:, 2] = np.nan, np.nan
    for n_components in ("auto", 0, 3):
        options = SHORT | {"n_warmup": 5, "n_draws": 5, "n_chains": 1}
        found = BinaryPCA(n_components, **options).fit(few)
        assert found.draws_.b.shape[3] - 1 == {"auto": 6, 0: 0, 3: 3}[n_components]
        assert np.isfinite(found.impute(few)).all()
        assert np.isfinite(found.transform(few)).all()


def test_chains_that_have_not_mixed():
    with pytest.warns(ConvergenceWarning, match="have not mixed: R-hat of the"):
        BinaryPCA(**SHORT | {"n_warmup": 0, "n_draws": 20}).fit(HOLES)


@pytest.mark.parametrize("option", ["n_draws", "n_warmup", "n_chains", "thin"])
def test_options_of_draws_are_refused_where_there_are_none(option):
    X = np.eye(6)
    with pytest.raises(ValueError, match=f"{option}=7 needs method='gibbs'"):
        BinaryPCA(**{option: 7}).fit(X)
    with pytest.raises(ValueError, match=f"{option}=7 needs method='gibbs'"):
        GeneralizedPCA(**{option: 7}).fit(X)
