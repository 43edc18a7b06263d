"""PCAMixture as users see it: one cluster is BayesianPCA, simulated clusters are found, and odd
data end in a usable fit or a clear message.
"""

from __future__ import annotations

import doctest
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from bayespca import BayesianPCA, PCAMixture, load
from bayespca.datasets import low_rank
from bayespca.estimators import RankWarning, mixture
from bayespca.estimators._base import ESTIMATORS

# Means are about 2√2 apart, while clusters reach ±2 along their components and ±0.5 elsewhere: one
# or two rows in a hundred are nearer to another cluster.
SEPARATION = 2.0


def simulated(seed, n=150, p=10, ranks=(1, 2, 5), separation=SEPARATION):
    """Rows and labels of clusters of these ranks, with scores of deviation 2 and noise of 0.5."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(len(ranks), p))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    parts = []
    for mean, rank in zip(means, ranks, strict=True):
        W = np.linalg.qr(rng.normal(size=(p, p)))[0][:rank]
        parts.append(2 * rng.normal(size=(n, rank)) @ W + mean)
    X = np.vstack(parts)
    return X + 0.5 * rng.normal(size=X.shape), np.repeat(np.arange(len(ranks)), n)


@pytest.fixture(scope="module")
def fitted():
    X, y = simulated(0)
    return PCAMixture(3, random_state=0).fit(X), X, y


# --- one cluster -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "change"),
    [
        ((200, 10), lambda X: X),
        ((20, 60), lambda X: X),
        ((200, 10), lambda X: X * 1e-100),
        ((200, 10), lambda X: X + 1e6),
        ((200, 10), lambda X: np.insert(X, 3, 7.0, axis=1)),
        ((200, 10), lambda X: X * [1e5, 1e5, 1, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("method", ["evb", "ml"])
def test_one_cluster_is_bayesian_pca(shape, change, method):
    X = change(low_rank(*shape, 3, mean=2.0, random_state=0).X)
    rank = 3 if method == "ml" else "auto"
    ours = PCAMixture(1, method, ranks=rank).fit(X)
    theirs = BayesianPCA(method, n_components=rank, noise="isotropic").fit(X)
    k = theirs.n_components_
    assert ours.ranks_.tolist() == [k]
    assert ours.weights_ == pytest.approx([1.0])
    assert ours.noise_variances_ == pytest.approx([theirs.noise_variance_], rel=1e-6)
    assert ours.means_[0] == pytest.approx(theirs.mean_, rel=1e-9)
    assert ours.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-9)
    assert np.abs(ours.components_[0] - theirs.components_).max() < 1e-6
    assert ours.score_samples(X) == pytest.approx(theirs.score_samples(X), rel=1e-6)
    size = np.abs(theirs.transform(X)).max()
    assert ours.transform(X) == pytest.approx(theirs.transform(X), abs=1e-6 * size)
    assert ours.denoise(X) == pytest.approx(theirs.denoise(X), rel=1e-5, abs=1e-6 * size)
    assert ours.predict(X).tolist() == [0] * len(X)


def test_one_cluster_with_noise_of_each_feature():
    X = low_rank(150, 8, 2, random_state=1).X * np.arange(1, 9)
    ours = PCAMixture(1, noise="per-feature", tol=1e-10).fit(X)

    def scaled(psi):
        """The closed form for data divided by their noise standard deviations."""
        return BayesianPCA(noise="isotropic", noise_variance=1.0).fit(X / np.sqrt(psi))

    def energy(psi):
        return scaled(psi).free_energy_ + 149 / 2 * np.log(psi).sum()

    psi = ours.noise_variances_[0]
    theirs = scaled(psi)
    assert ours.ranks_.tolist() == [theirs.n_components_]
    assert ours.free_energy_ == pytest.approx(energy(psi), rel=1e-12)
    density = theirs.score_samples(X / np.sqrt(psi)) - 0.5 * np.log(psi).sum()
    assert ours.score_samples(X) == pytest.approx(density, rel=1e-9)
    for j in range(8):
        for factor in (0.99, 1.01):
            assert energy(psi * np.where(np.arange(8) == j, factor, 1.0)) > energy(psi)


def test_one_cluster_with_noise_of_each_feature_is_factor_analysis():
    X = low_rank(150, 8, 2, random_state=1).X * np.arange(1, 9)
    options = {"noise": "per-feature", "tol": 1e-14, "max_iter": 5000}
    ours = PCAMixture(1, method="ml", ranks=2, **options).fit(X)
    theirs = BayesianPCA("ml", n_components=2, **options).fit(X)
    assert ours.noise_variances_[0] == pytest.approx(theirs.feature_noise_variance_, rel=1e-5)


# --- clusters are found ------------------------------------------------------------------------


@pytest.mark.slow
def test_ranks_are_found():
    """Ranks must be right for all five seeds; the benchmark tests a hundred."""
    for seed in range(5):
        X, y = simulated(seed)
        model = PCAMixture(3, random_state=0).fit(X)
        assert sorted(model.ranks_.tolist()) == [1, 2, 5]
        assert adjusted_rand_score(y, model.predict(X)) > 0.9
        assert (np.diff(model.trace_.free_energy) <= 0).all()


@pytest.mark.slow
def test_the_number_of_clusters_is_found():
    for seed in range(2):
        model = PCAMixture(random_state=0).fit(simulated(seed)[0])
        assert sorted(model.ranks_.tolist()) == [1, 2, 5]


def test_pure_noise_is_one_cluster_without_components():
    X = np.random.default_rng(0).normal(size=(200, 5))
    model = PCAMixture(random_state=0).fit(X)
    assert model.ranks_.tolist() == [0]
    assert model.transform(X).shape == (200, 0)


def test_holes_hardly_change_what_is_found(fitted):
    complete, X, y = fitted
    holes = np.random.default_rng(1).random(X.shape) < 0.1
    Y = np.where(holes, np.nan, X)
    model = PCAMixture(3, random_state=0).fit(Y)
    assert sorted(model.ranks_.tolist()) == [1, 2, 5]
    assert adjusted_rand_score(y, model.predict(Y)) > 0.85
    filled = model.impute(Y)
    assert (filled[~holes] == X[~holes]).all()
    error = np.sqrt(np.mean((filled - X)[holes] ** 2))
    assert error < 0.8 * np.sqrt(np.mean((X - X.mean(axis=0))[holes] ** 2))
    # A row of holes does not change the densities of complete rows.
    assert complete.score_samples(X[:5]) == pytest.approx(
        complete.score_samples(np.vstack([X[:5], np.full(10, np.nan)]))[:5], rel=1e-9
    )


def test_given_ranks_by_maximum_likelihood():
    X, y = simulated(3, separation=6.0)
    model = PCAMixture(3, "ml", ranks=2, random_state=0).fit(X)
    assert model.ranks_.tolist() == [2, 2, 2]
    assert adjusted_rand_score(y, model.predict(X)) > 0.9
    several = PCAMixture(3, "ml", ranks=(1, 2, 5), n_init=8, random_state=0).fit(X)
    assert sorted(several.ranks_.tolist()) == [1, 2, 5]
    assert several.free_energy_ < model.free_energy_


def test_oilflow_is_taken_apart(load_data):
    data = load_data("oilflow")
    X, y = data["X"].astype(float), data["y"]
    y = y.argmax(axis=1) if y.ndim > 1 else y
    model = PCAMixture(3, random_state=0).fit(X)
    theirs = GaussianMixture(3, n_init=3, random_state=0).fit_predict(X)
    ours = adjusted_rand_score(y, model.predict(X))
    assert ours > 0.95 > adjusted_rand_score(y, theirs)


# --- attributes and methods --------------------------------------------------------------------


def test_attributes_and_outputs(fitted):
    model, X, _ = fitted
    K, p = 3, 10
    assert (np.diff(model.weights_) <= 0).all()
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.means_.shape == (K, p)
    assert model.noise_variances_ == pytest.approx([0.25] * K, rel=0.15)
    assert [c.shape for c in model.components_] == [(rank, p) for rank in model.ranks_]
    assert model.lower_bound_ == -model.free_energy_ == -model.trace_.free_energy[-1]
    assert model.converged_
    assert model.n_iter_ == len(model.trace_)
    assert model.get_feature_names_out().tolist() == [f"pcamixture{i}" for i in range(5)]
    proba = model.predict_proba(X)
    assert proba.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert (model.predict(X) == proba.argmax(axis=1)).all()
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())


def test_local_scores(fitted):
    model, X, _ = fitted
    T, labels = model.transform(X), model.predict(X)
    assert T.shape == (len(X), 5)
    for k, rank in enumerate(model.ranks_):
        inside = labels == k
        own = model.transform(X, cluster=k)
        assert own.shape == (len(X), rank)
        assert T[inside, :rank] == pytest.approx(own[inside], rel=1e-12, abs=1e-12)
        assert not T[inside, rank:].any()
    with pytest.raises(ValueError, match="cluster must be one of 0, 1, 2; got 3"):
        model.transform(X, cluster=3)


def test_densities_integrate_to_one():
    """The integral is over a grid that covers the data and their surroundings."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) @ [[3, 0], [0, 0.3]] + 6])
    model = PCAMixture(2, random_state=0).fit(X)
    axis = np.linspace(-15, 25, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert np.exp(model.score_samples(grid)).sum() * 0.01 == pytest.approx(1.0, abs=1e-3)
    # If a coordinate is missing, the density is the marginal of the other.
    line = np.stack([axis, np.full_like(axis, np.nan)], axis=1)
    assert np.exp(model.score_samples(line)).sum() * 0.1 == pytest.approx(1.0, abs=1e-3)


def test_samples_look_like_the_data(fitted):
    model, X, _ = fitted
    Y, labels = model.sample(20_000, random_state=0)
    assert Y.shape == (20_000, 10)
    assert (np.diff(labels) >= 0).all()
    assert np.bincount(labels) / 20_000 == pytest.approx(model.weights_, abs=0.02)
    assert Y.mean(axis=0) == pytest.approx(X.mean(axis=0), abs=0.1)
    assert np.cov(Y.T) == pytest.approx(np.cov(X.T), abs=0.15)
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        model.sample(0)


def test_weights_of_rows_count_rows():
    X, _ = simulated(1, n=40, separation=8.0)
    weights = np.where(np.arange(len(X)) % 2, 2.0, 1.0)
    often = np.repeat(X, weights.astype(int), axis=0)
    options = {"init": "k-means", "n_init": 3, "tol": 1e-10, "random_state": 0}
    ours = PCAMixture(3, **options).fit(X, sample_weight=weights)
    theirs = PCAMixture(3, **options).fit(often)
    assert ours.free_energy_ == pytest.approx(theirs.free_energy_, rel=1e-8)
    assert ours.score_samples(X) == pytest.approx(theirs.score_samples(X), rel=1e-6)


def test_float32_stays_float32(fitted):
    _, X, _ = fitted
    model = PCAMixture(3, random_state=0).fit(X.astype(np.float32))
    outputs = (model.means_, model.weights_, model.noise_variances_, *model.components_)
    narrow = X.astype(np.float32)
    outputs += (model.transform(narrow), model.predict_proba(narrow), model.score_samples(narrow))
    outputs += (model.sample(2)[0], model.denoise(narrow), model.impute(narrow))
    assert {a.dtype for a in outputs} == {np.dtype(np.float32)}
    assert sorted(model.ranks_.tolist()) == [1, 2, 5]


@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_scale_of_the_data(fitted, factor):
    model, X, _ = fitted
    scaled = PCAMixture(3, random_state=0).fit(X * factor)
    assert scaled.ranks_.tolist() == model.ranks_.tolist()
    assert scaled.noise_variances_ / factor / factor == pytest.approx(
        model.noise_variances_, rel=1e-6
    )
    assert scaled.predict_proba(X * factor) == pytest.approx(model.predict_proba(X), abs=1e-6)


@pytest.mark.parametrize("noise", ["isotropic", "per-feature"])
def test_densities_are_in_the_units_of_the_data_also_if_a_column_is_constant(noise):
    X = np.column_stack([simulated(0)[0], np.full(450, 7.0)])
    models = [PCAMixture(2, noise=noise, random_state=0).fit(X * f) for f in (1.0, 1000.0)]
    first, other = (model.score(X * f) for model, f in zip(models, (1.0, 1000.0), strict=True))
    assert other == pytest.approx(first - X.shape[1] * np.log(1000.0), abs=1e-6)


def test_names_of_features(fitted):
    _, X, _ = fitted
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(10)])
    model = PCAMixture(2, random_state=0, tol=1e-3).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == list(model.get_feature_names_out())


def test_the_callback_sees_each_sweep_and_may_end_them(fitted):
    _, X, _ = fitted
    seen = []

    def callback(number, info):
        seen.append(info.free_energy)
        return number == 2

    with pytest.warns(UserWarning, match="raise max_iter or tol"):
        PCAMixture(2, init="k-means", tol=0, random_state=0).fit(X, callback=callback)
    assert len(seen) == 2


def test_a_fit_goes_on_where_it_was_broken_off(fitted, tmp_path):
    _, X, _ = fitted

    def interrupt(number, info):
        if number == 3:
            raise KeyboardInterrupt

    options = {"init": "k-means", "random_state": 0, "tol": 1e-9}
    whole = PCAMixture(3, **options).fit(X)
    kept = PCAMixture(3, **options, checkpoint=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        kept.fit(X, callback=interrupt)
    assert kept.fit(X).free_energy_ == whole.free_energy_


def test_verbose(fitted, capsys):
    _, X, _ = fitted
    PCAMixture(1, verbose=True).fit(X)
    assert "1 cluster of rank " in capsys.readouterr().out


def test_the_example_in_the_docstring():
    assert doctest.testmod(mixture).failed == 0


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        PCAMixture(3, random_state=0),
        PCAMixture(2, noise="per-feature", random_state=0),
        PCAMixture(2, "ml", ranks=[1, 2], random_state=0),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_model_files(fitted, tmp_path, model, dtype):
    _, X, _ = fitted
    X = X.astype(dtype)
    path = tmp_path / "model.bayespca"
    model = clone(model).fit(X)
    model.save(path)
    loaded = load(path)
    assert vars(loaded).keys() == vars(model).keys()
    assert loaded.get_params() == model.get_params()
    for name in ("weights_", "means_", "ranks_", "noise_variances_"):
        ours, theirs = getattr(loaded, name), getattr(model, name)
        assert ours.dtype == theirs.dtype
        assert (ours == theirs).all()
    X[::3, 2] = np.nan
    assert (loaded.score_samples(X) == model.score_samples(X)).all()
    assert (loaded.transform(X) == model.transform(X)).all()


def test_files_that_do_not_agree(fitted, tmp_path):
    model, _, _ = fitted
    broken = clone(model)
    vars(broken).update(vars(model))
    posterior = replace(model.posterior_, weights=model.weights_[1:])
    broken.fit_ = replace(model.fit_, posterior=posterior)
    with pytest.raises(ValueError, match="clusters of a MixturePosterior are of different sizes"):
        broken.save(tmp_path / "model.bayespca")
    assert ESTIMATORS["PCAMixture"] is PCAMixture


# --- odd data ----------------------------------------------------------------------------------

ODD = {
    "a point many times": lambda rng: np.vstack([rng.normal(size=(60, 4)), np.zeros((20, 4))]),
    "rows many times": lambda rng: np.repeat(rng.normal(size=(12, 4)), 5, axis=0),
    "few whole numbers": lambda rng: rng.integers(0, 3, size=(80, 5)).astype(float),
    "one value": lambda rng: np.full((20, 3), 7.0),
    "exact planes": lambda rng: np.vstack(
        [rng.normal(size=(40, q)) @ rng.normal(size=(q, 6)) + 9 * q for q in (1, 2)]
    ),
    "an outlier": lambda rng: np.vstack([rng.normal(size=(60, 4)), np.full((1, 4), 1e4)]),
    "an offset": lambda rng: rng.normal(size=(60, 4)) + 1e9,
    "wide": lambda rng: rng.normal(size=(20, 200)),
    "one feature": lambda rng: rng.normal(size=(50, 1)),
    "many holes": lambda rng: np.where(rng.random((60, 4)) < 0.5, np.nan, rng.normal(size=(60, 4))),
    "rows of holes": lambda rng: np.vstack([rng.normal(size=(60, 4)), np.full((3, 4), np.nan)]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize(
    "model",
    [
        PCAMixture(max_components=4),
        PCAMixture(4),
        PCAMixture(4, noise="per-feature"),
        PCAMixture(3, "ml", ranks=2),
        PCAMixture(8, "ml", ranks=4, init="k-means"),
    ],
    ids=["auto", "evb", "per-feature", "ml", "ml, full rank"],
)
def test_odd_data_are_survived(name, model):
    X = ODD[name](np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        model = clone(model).set_params(random_state=0, tol=1e-4).fit(X)
    assert (np.diff(model.trace_.free_energy) <= 1e-9 * abs(model.free_energy_)).all()
    finite = (model.transform(X), model.score_samples(X), model.impute(X), model.means_)
    assert all(np.isfinite(a).all() for a in finite)
    assert (model.noise_variances_ > 0).all()
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_rows_without_values_have_the_weights(fitted):
    model, X, _ = fitted
    nothing = np.full((1, 10), np.nan)
    assert model.predict_proba(nothing)[0] == pytest.approx(model.weights_)
    assert model.score_samples(nothing) == pytest.approx([0.0], abs=1e-12)
    same = PCAMixture(3, random_state=0).fit(np.vstack([X, nothing, nothing]))
    assert same.free_energy_ == pytest.approx(model.free_energy_, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_components": 500}, "n_components=500 clusters need at least as many rows"),
        ({"n_components": 0}, "n_components must be 'auto' or a whole number of at least 1"),
        ({"n_components": "many"}, "n_components must be 'auto' or a whole number"),
        ({"max_components": 2.5}, "max_components must be a whole number of at least 1"),
        ({"method": "vb"}, "method must be one of 'evb', 'ml'; got 'vb'"),
        ({"method": "ml"}, "method='ml' needs the rank of the clusters"),
        ({"ranks": -1}, "ranks must be 'auto', a whole number of at least 0"),
        ({"ranks": (1, 2), "n_components": 3}, "ranks has 2 entries.*n_components is 3"),
        ({"ranks": (1, 2)}, "ranks has 2 entries.*n_components is 'auto'"),
        ({"noise": "none"}, "noise must be one of"),
        ({"init": "random"}, "init must be one of"),
        (
            {"weight_concentration_prior": 0},
            "weight_concentration_prior must be 'auto' or a positive number",
        ),
        (
            {"method": "ml", "ranks": 1, "weight_concentration_prior": 1.0},
            "weight_concentration_prior is a prior of the weights",
        ),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"n_init": 0}, "n_init must be a whole number of at least 1"),
        ({"tol": -1.0}, "tol must be a number of at least 0"),
    ],
)
def test_options_that_will_not_do(fitted, options, match):
    _, X, _ = fitted
    with pytest.raises(ValueError, match=match):
        PCAMixture(**options).fit(X)


def test_data_that_will_not_do(fitted):
    _, X, _ = fitted
    with pytest.raises(ValueError, match="no value at all"):
        PCAMixture(1).fit(np.full((5, 2), np.nan))
    with pytest.raises(ValueError, match="no value in column 1"):
        PCAMixture(1).fit(np.insert(X, 1, np.nan, axis=1))
    with pytest.raises(ValueError, match="infinity"):
        PCAMixture(1).fit(np.where(X > 1, np.inf, X))
    with pytest.raises(ValueError, match="at least one"):
        PCAMixture(1).fit(X, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="Negative values"):
        PCAMixture(1).fit(X, sample_weight=-np.ones(len(X)))


def test_all_clusters_needed_is_told(fitted):
    _, X, _ = fitted
    with pytest.warns(RankWarning, match="All 2 clusters are needed, and more might be"):
        PCAMixture(max_components=2, random_state=0).fit(X)


# --- noise that the evidence chooses -----------------------------------------------------------


def with_uneven_noise(seed):
    """Simulated clusters whose features have very different noise."""
    X, y = simulated(seed, n=100)
    rng = np.random.default_rng(seed)
    return X + rng.normal(size=X.shape) * np.geomspace(0.1, 3, X.shape[1]), y


def test_equal_noise_is_left_equal(fitted):
    equal, X, _ = fitted
    model = PCAMixture(3, noise="auto", random_state=0).fit(X)
    assert model.noise_ == "isotropic"
    assert model.noise_variances_.shape == (3,)
    assert model.free_energy_ == equal.free_energy_
    assert model.noise_evidence_["isotropic"] == 0
    assert model.noise_evidence_["per-feature"] < 0
    assert equal.noise_ == "isotropic"
    assert equal.noise_evidence_ == {}


def test_noise_of_features_is_found_where_it_is():
    X, _ = with_uneven_noise(0)
    found = PCAMixture(3, noise="auto", random_state=0).fit(X)
    own = PCAMixture(3, noise="per-feature", random_state=0).fit(X)
    equal = PCAMixture(3, noise="isotropic", random_state=0).fit(X)
    assert found.noise_ == own.noise_ == "per-feature"
    assert found.noise_variances_.shape == (3, 10)
    assert found.free_energy_ == own.free_energy_
    price = 0.5 * 9 * np.log(own.fit_.counts).sum()
    gain = equal.free_energy_ - own.free_energy_ - price
    assert found.noise_evidence_ == {"isotropic": 0.0, "per-feature": pytest.approx(gain, rel=1e-6)}


def test_only_evb_chooses_the_noise():
    X, _ = with_uneven_noise(0)
    model = PCAMixture(3, "ml", ranks=2, noise="auto", random_state=0).fit(X)
    assert model.noise_ == "isotropic"
    assert model.noise_evidence_ == {}


def test_what_was_chosen_is_in_the_file(tmp_path):
    X, _ = with_uneven_noise(0)
    model = PCAMixture(2, noise="auto", random_state=0, tol=1e-4).fit(X)
    model.save(tmp_path / "model.bpca")
    again = load(tmp_path / "model.bpca")
    assert again.noise_ == model.noise_ == "per-feature"
    assert again.noise_evidence_ == model.noise_evidence_
