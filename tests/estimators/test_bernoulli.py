"""`BernoulliMixture` as users see it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from bayespca import BernoulliMixture, load
from bayespca.estimators import ModelFileError
from bayespca.io import archive
from bayespca.mixtures.bernoulli.posterior import BernoulliClusters, responsibilities
from bayespca.sources.data import BinaryCells


def clusters(n=300, p=12, K=3, seed=0):
    rng = np.random.default_rng(seed)
    means, z = rng.beta(0.3, 0.3, size=(K, p)), rng.integers(K, size=n)
    return (rng.random((n, p)) < means[z]).astype(float), z, means


X, LABELS, MEANS = clusters()
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)


@pytest.mark.parametrize("method", ["ml", "vb"])
@pytest.mark.parametrize("data", [X, HOLES], ids=["complete", "holes"])
def test_clusters_are_found(method, data):
    model = BernoulliMixture(3, method=method, n_init=3, random_state=0).fit(data)
    truth = BernoulliClusters(np.full(3, 1 / 3), MEANS, 0 * MEANS)
    by_truth = responsibilities(truth, BinaryCells(data == 1, ~np.isnan(data))).argmax(axis=1)
    assert adjusted_rand_score(by_truth, model.predict(data)) > 0.9
    gaps = np.abs(model.means_[:, None] - MEANS).mean(axis=2)
    assert gaps.min(axis=0).max() < 0.06
    assert model.weights_.sum() == pytest.approx(1)
    assert model.converged_
    assert model.lower_bound_ == -model.free_energy_
    assert (np.diff(model.trace_.free_energy) <= 1e-6).all()
    assert model.score(data) == pytest.approx(model.score_samples(data).mean())


def test_the_free_energy_of_em_is_the_likelihood():
    model = BernoulliMixture(3, method="ml", tol=1e-12, random_state=0).fit(HOLES)
    assert model.free_energy_ == pytest.approx(-model.score_samples(HOLES).sum(), rel=1e-8)
    n_parameters = 3 * X.shape[1] + 2
    assert model.aic(HOLES) == pytest.approx(2 * model.free_energy_ + 2 * n_parameters, rel=1e-8)
    penalty = n_parameters * np.log(len(X))
    assert model.bic(HOLES) == pytest.approx(2 * model.free_energy_ + penalty, rel=1e-8)


def test_verbose(capsys):
    BernoulliMixture(1, random_state=0, verbose=True).fit(X)
    assert "vb: 1 cluster, free energy" in capsys.readouterr().out


def test_criteria_of_maximum_likelihood_are_for_em():
    model = BernoulliMixture(2, random_state=0).fit(X)
    assert not hasattr(model, "bic")
    with pytest.raises(AttributeError, match="no attribute 'aic'") as caught:
        model.aic(X)
    assert "only method='ml' finds" in str(caught.value.__cause__)


def test_empty_clusters_go_away():
    model = BernoulliMixture(12, n_init=3, random_state=0).fit(X)
    assert model.n_components_ == 3
    assert model.means_.shape == model.means_std_.shape == (3, X.shape[1])
    assert model.predict_proba(X).shape == (len(X), 3)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
def test_numbers_of_all_kinds(kind):
    expected = BernoulliMixture(3, random_state=0).fit(X)
    model = BernoulliMixture(3, random_state=0).fit(np.asfortranarray(X.astype(kind)))
    assert model.free_energy_ == expected.free_energy_
    assert (model.predict(X.astype(kind)) == expected.predict(X)).all()


def test_frames_masked_arrays_and_missing_values():
    expected = BernoulliMixture(3, random_state=0).fit(HOLES)
    frame = pd.DataFrame(HOLES, columns=[f"f{j}" for j in range(X.shape[1])])
    masked = np.ma.masked_invalid(HOLES)
    nullable = frame.astype("Int64")
    for data in (frame, masked, nullable, frame.astype("boolean")):
        assert BernoulliMixture(3, random_state=0).fit(data).free_energy_ == expected.free_energy_


def test_a_threshold_makes_data_binary():
    by_hand = BernoulliMixture(2, random_state=0).fit(X)
    model = BernoulliMixture(2, binarize=7, random_state=0).fit(16 * X)
    assert model.free_energy_ == by_hand.free_energy_


def test_weights_are_counts():
    times = np.random.default_rng(0).integers(0, 4, size=len(X))
    options = {"n_components": 3, "means_init": MEANS, "tol": 1e-10}
    weighted = BernoulliMixture(**options).fit(X, sample_weight=times)
    repeated = BernoulliMixture(**options).fit(np.repeat(X, times, axis=0))
    assert weighted.free_energy_ == pytest.approx(repeated.free_energy_, rel=1e-12)
    assert weighted.means_ == pytest.approx(repeated.means_, rel=1e-9)


def test_rows_and_columns_without_values():
    data = HOLES.copy()
    data[7] = np.nan
    data[:, 2] = np.nan
    for method in ("ml", "vb"):
        model = BernoulliMixture(2, method=method, random_state=0).fit(data)
        assert model.means_[:, 2] == pytest.approx(0.5)
        assert model.predict_proba(data)[7] == pytest.approx(model.weights_)
        assert model.score_samples(data)[7] == pytest.approx(0, abs=1e-12)
        assert "empty-rows" in model.status_
        assert "empty-columns" in model.status_
        assert np.isfinite(model.score(X))


def test_holes_are_filled():
    model = BernoulliMixture(3, n_init=3, random_state=0).fit(HOLES)
    filled, values = model.impute(HOLES), model.impute(HOLES, kind="value")
    hidden = np.isnan(HOLES)
    assert (filled[~hidden] == X[~hidden]).all()
    assert ((filled[hidden] > 0) & (filled[hidden] < 1)).all()
    assert (values[hidden] == (filled[hidden] > 0.5)).all()
    assert np.mean(values[hidden] == X[hidden]) > 0.85
    assert model.impute(HOLES.astype(np.float32)).dtype == np.float32


def test_samples_are_of_the_model():
    model = BernoulliMixture(3, n_init=3, random_state=0).fit(X)
    rows, labels = model.sample(20_000, random_state=0)
    assert set(np.unique(rows)) == {0, 1}
    assert np.bincount(labels) / 20_000 == pytest.approx(model.weights_, abs=0.02)
    assert rows.mean(axis=0) == pytest.approx(model.weights_ @ model.means_, abs=0.02)


def test_seeds_and_restarts():
    one = BernoulliMixture(3, random_state=5, init="random").fit(X)
    again = BernoulliMixture(3, random_state=5, init="random").fit(X)
    more = BernoulliMixture(3, random_state=5, init="random", n_init=8).fit(X)
    assert one.free_energy_ == again.free_energy_
    assert more.free_energy_ <= one.free_energy_


def test_an_early_end_is_told():
    with pytest.warns(ConvergenceWarning, match="the free energy still fell"):
        BernoulliMixture(3, max_iter=2, random_state=0).fit(X)


@pytest.mark.parametrize("options", [{}, {"method": "ml"}, {"means_init": MEANS}])
def test_model_files(tmp_path, options):
    model = BernoulliMixture(3, random_state=0, **options).fit(HOLES)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.predict_proba(HOLES) == model.predict_proba(HOLES)).all()
    assert (loaded.sample(5)[0] == model.sample(5)[0]).all()
    assert loaded.free_energy_ == model.free_energy_


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("fit_.posterior.weights", lambda a: -a, "not probabilities"),
        ("fit_.posterior.weights", lambda a: a[1:], "different sizes"),
        ("fit_.posterior.means", lambda a: a + 1, "not probabilities"),
        ("fit_.posterior.means", lambda a: a * np.nan, "not probabilities"),
        ("fit_.posterior.means_std", lambda a: a[:, 1:], "different sizes"),
    ],
)
def test_files_that_lie(tmp_path, name, change, match):
    path = tmp_path / "model"
    BernoulliMixture(3, random_state=0).fit(X).save(path)
    meta, arrays = archive.read(path)
    archive.write(path, meta, arrays | {name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=match):
        load(path)


def with_cell(row, column, value):
    data = X.copy()
    data[row, column] = value
    return data


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        (with_cell(4, 3, 2.0), {}, r"column 3 holds 2\.0 in row 4 \(counting from 0\)"),
        (with_cell(4, 3, 0.5), {}, r"holds 0\.5 .* binarize=t"),
        (with_cell(4, 3, np.inf), {}, "infinity"),
        (X.astype(int) * 3, {}, "holds 3 in row"),
        (np.full((4, 2), np.nan), {}, "no value at all: its 8 cells are NaN"),
        (X[:5], {"n_components": 6}, r"n_components=6 is more than .*n_samples=5\): give at most"),
        (X, {"n_components": 0}, "n_components must be a whole number of at least 1, got 0"),
        (X, {"method": "gibbs"}, "method must be one of 'vb', 'ml'"),
        (X, {"init": "kmeans"}, "init must be one of"),
        (X, {"method": "ml", "ones_prior": 1.0}, "ones_prior is a prior, which method='ml'"),
        (X, {"zeros_prior": -1.0}, "zeros_prior must be 'auto' or a positive number"),
        (X, {"weights_init": [0.5, 0.6]}, "weights_init must be 2 positive numbers"),
        (X, {"means_init": MEANS}, r"means_init must be probabilities from 0 to 1 of shape \(2, 1"),
        (X, {"binarize": "half"}, "binarize must be None or a number"),
        (X, {"tol": -1}, "tol must be"),
    ],
)
def test_mistakes_are_named(data, options, match):
    with pytest.raises(ValueError, match=match):
        BernoulliMixture(**{"n_components": 2, **options}).fit(data)


def test_the_name_of_a_wrong_column_is_told():
    frame = pd.DataFrame({"smokes": [0, 1, 0], "age": [0, 1, 44]})
    with pytest.raises(ValueError, match=r"column 1 \('age'\) holds 44 in row 2"):
        BernoulliMixture().fit(frame)


@pytest.mark.parametrize("weights", [np.zeros(300), -np.ones(300), np.ones(3)])
def test_weights_that_will_not_do(weights):
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        BernoulliMixture().fit(X, sample_weight=weights)


def test_a_failed_fit_leaves_the_model_alone():
    model = BernoulliMixture(2, random_state=0).fit(X)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="holds 2"):
        model.fit(X[:, :5] * 2)
    assert vars(model) == before


def test_probabilities_of_clusters_that_overlap_are_less_certain():
    """Standard deviations must agree with those of posterior draws by Gibbs sampling."""
    rng = np.random.default_rng(3)
    p = np.array([[0.75] * 6, [0.3] * 6])
    rows = (rng.random((400, 6)) < p[rng.integers(2, size=400)]).astype(float)
    model = BernoulliMixture(2, n_init=3, random_state=0).fit(rows)
    sizes = model.weights_ * len(rows)
    means, given = model.means_, np.sqrt(model.means_ * (1 - model.means_) / sizes[:, None])
    drawn = _drawn_means(rows, means, model.weights_, rng)
    exact = drawn.std(axis=0)
    assert (exact > 1.1 * given).mean() > 0.8
    assert model.means_std_ == pytest.approx(exact, rel=0.1)


def _drawn_means(rows, p, weights, rng, n=4000):
    """Gibbs draws of p under uniform priors, in alternation with the clusters of the rows."""
    found = []
    for _ in range(n):
        log_joint = rows @ np.log(p).T + (1 - rows) @ np.log1p(-p).T + np.log(weights)
        first = 1 / (1 + np.exp(log_joint[:, 1] - log_joint[:, 0]))
        z = (rng.random(len(rows)) > first).astype(int)
        sizes = np.bincount(z, minlength=2)
        ones = np.array([rows[z == k].sum(axis=0) for k in range(2)])
        p = rng.beta(1 + ones, 1 + sizes[:, None] - ones)
        weights = rng.dirichlet(1 + sizes)
        found.append(p)
    return np.array(found[n // 10 :])


@pytest.mark.parametrize("method", ["vb", "ml"])
@pytest.mark.parametrize("seed", range(4))
def test_the_largest_cluster_is_first(method, seed):
    rng = np.random.default_rng(seed)
    patterns = np.array([[0.9] * 6 + [0.1] * 6, [0.1] * 6 + [0.9] * 6, [0.9, 0.1] * 6])
    labels = rng.permutation(np.repeat([0, 1, 2], [20, 120, 60]))
    X = (rng.random((200, 12)) < patterns[labels]).astype(float)
    model = BernoulliMixture(3, method=method, n_init=5, random_state=seed).fit(X)
    assert (np.diff(model.weights_) <= 0).all()
    np.testing.assert_allclose(model.weights_, [0.6, 0.3, 0.1], atol=0.05)
    np.testing.assert_allclose(model.means_, patterns[[1, 2, 0]], atol=0.35)
    np.testing.assert_array_equal(np.bincount(model.predict(X)).argsort()[::-1], [0, 1, 2])


def test_clusters_that_were_given_keep_their_order():
    patterns = np.array([[0.9] * 4, [0.1] * 4])
    X = np.repeat([[1.0] * 4, [0.0] * 4], [10, 50], axis=0)
    model = BernoulliMixture(2, means_init=patterns).fit(X)
    assert model.means_[0].mean() > model.means_[1].mean()
    assert model.weights_[0] < model.weights_[1]
