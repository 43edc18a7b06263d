"""GPLVM: finding curves, filling cells, placing new rows, and refusing bad data."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import spearmanr

from bayespca import GPLVM, BayesianPCA, load
from bayespca.datasets import low_rank

QUICK = {"n_inducing": 15, "random_state": 0}


def arc(n=150, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 3, size=n)
    curve = np.stack([np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t), t**2 / 5], axis=1)
    return curve + noise * rng.normal(size=curve.shape), t, curve


def circle(n=200, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, size=n)
    return np.stack([np.cos(t), np.sin(t)], axis=1) + noise * rng.normal(size=(n, 2)), t


def swiss_roll(n=400, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    u, h = rng.uniform(1.5 * np.pi, 4.5 * np.pi, size=n), rng.uniform(0, 20, size=n)
    roll = np.stack([u * np.cos(u), h, u * np.sin(u)], axis=1)
    return roll + noise * rng.normal(size=roll.shape), u, h


# --- results -----------------------------------------------------------------------------------


def test_an_arc_has_one_dimension_and_its_order():
    X, t, _ = arc()
    model = GPLVM(**QUICK).fit(X)
    assert model.n_components_ == 1
    assert model.nonlinear_evidence_ > 100
    assert abs(spearmanr(model.embedding_[:, 0], t).statistic) > 0.99
    assert model.noise_variance_ == pytest.approx(0.05**2, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_circle_in_the_plane(seed):
    X, t = circle(seed=seed)
    model = GPLVM(random_state=seed).fit(X)
    assert model.n_components_ == 1
    assert model.nonlinear_evidence_ > 100
    # Neighbours on the circle are neighbours in the latent space, except at one cut.
    places = model.embedding_[np.argsort(t), 0]
    steps = np.abs(np.diff(np.append(places, places[0])))
    assert (steps > 0.2 * np.ptp(places)).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_swiss_roll_is_a_sheet(seed):
    X, u, h = swiss_roll(seed=seed, noise=0.2)
    model = GPLVM(random_state=seed).fit(X)
    assert model.n_components_ == 2
    assert model.nonlinear_evidence_ > 50
    found = [abs(spearmanr(one, other).statistic) for one in model.embedding_.T for other in (u, h)]
    assert max(found[0], found[2]) > 0.9
    assert max(found[1], found[3]) > 0.9


@pytest.mark.parametrize("seed", range(2))
def test_linear_data_prefer_planes(seed):
    X = low_rank(120, 12, 2, random_state=seed).X
    model = GPLVM(**QUICK).fit(X)
    assert model.n_components_ == 2
    assert -30 < model.nonlinear_evidence_ < 0
    assert model.linear_free_energy_ == pytest.approx(
        BayesianPCA(noise="isotropic").fit(X).free_energy_
    )


def test_noise_has_no_curve():
    model = GPLVM(**QUICK).fit(np.random.default_rng(0).normal(size=(80, 6)))
    assert model.nonlinear_evidence_ < 1
    assert model.relevance_.max() < 1e-3


@pytest.mark.slow
def test_oil_flow_falls_into_its_classes(load_data):
    arrays = load_data("oilflow")
    X, y = arrays["X"].astype(float), arrays["y"]
    y = y if y.ndim == 1 else y.argmax(axis=1)
    model = GPLVM(random_state=0).fit(X)
    T = model.embedding_
    squares = ((T[:, None] - T) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    assert int((y[squares.argmin(axis=1)] != y).sum()) <= 2
    assert model.nonlinear_evidence_ > 5000


# --- options -----------------------------------------------------------------------------------


def test_noise_of_features():
    _, t, curve = arc(n=200)
    rng = np.random.default_rng(5)
    X = curve + rng.normal(size=curve.shape) * [0.02, 0.02, 0.3, 0.02, 0.02]
    model = GPLVM(noise="per-feature", **QUICK).fit(X)
    assert abs(spearmanr(model.embedding_[:, 0], t).statistic) > 0.99
    assert np.argmax(model.feature_noise_variance_) == 2
    assert model.feature_noise_variance_[2] == pytest.approx(0.09, rel=0.3)
    same = GPLVM(noise="isotropic", **QUICK).fit(X)
    assert model.free_energy_ < same.free_energy_ - 100


@pytest.mark.parametrize("kernel", ["squared-exponential+linear", "se+bias+white"])
def test_sums_of_kernels_find_the_arc(kernel):
    X, t, _ = arc(n=60)
    model = GPLVM(kernel=kernel, n_inducing=8, random_state=0).fit(X)
    assert abs(spearmanr(model.embedding_[:, 0], t).statistic) > 0.98


def test_units_do_not_matter():
    X, *_ = arc(n=80)
    model, other = GPLVM(**QUICK).fit(X), GPLVM(**QUICK).fit(1e6 * X + 3e5)
    assert model.n_components_ == other.n_components_
    np.testing.assert_allclose(
        other.free_energy_ - 5 * 79 * np.log(1e6), model.free_energy_, atol=1.0
    )
    assert other.noise_variance_ == pytest.approx(1e12 * model.noise_variance_, rel=0.02)


def test_threads_and_callbacks_change_nothing():
    X, *_ = arc(n=60)
    steps = []
    model = GPLVM(**QUICK).fit(X, callback=lambda n, info: steps.append(info.free_energy))
    assert (np.diff(steps) <= 1e-9 * np.abs(steps[:-1])).all()
    np.testing.assert_array_equal(model.embedding_, GPLVM(**QUICK).fit(X).embedding_)


def test_map_keeps_the_number_that_was_asked_for():
    X, t, _ = arc(n=60)
    model = GPLVM(1, "map", max_iter=30).fit(X)
    assert model.n_components_ == 1
    assert abs(spearmanr(model.embedding_[:, 0], t).statistic) > 0.95
    assert model.transform(X[:5]).shape == (5, 1)


# --- holes and new rows ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")
def test_holes_are_filled_better_than_by_planes():
    """In the median of nine tables: in some, a row with only two cells left fits two places."""
    shares = []
    for seed, other in product(range(3), range(1, 4)):
        X, *_ = arc(n=200, seed=seed)
        holes = np.random.default_rng(other).random(X.shape) < 0.2
        H = np.where(holes, np.nan, X)
        filled, std = GPLVM(**QUICK).fit(H).impute(H, return_std=True)
        error = np.sqrt(np.mean((filled - X)[holes] ** 2))
        linear = BayesianPCA(n_components=5, noise="isotropic").fit(H).impute(H)
        shares.append(error / np.sqrt(np.mean((linear - X)[holes] ** 2)))
        assert (std[~holes] == 0).all()
        np.testing.assert_array_equal(filled[~holes], X[~holes])
        inside = np.abs((filled - X) / np.where(holes, std, 1))[holes] < 1.96
        assert 0.88 < inside.mean() <= 1
    assert np.median(shares) < 0.6
    assert max(shares) < 0.8


def test_new_rows_find_their_places():
    X, t, curve = arc(n=250)
    model = GPLVM(**QUICK).fit(X[:150])
    T, std = model.transform(X[150:], return_std=True)
    assert abs(spearmanr(T[:, 0], t[150:]).statistic) > 0.99
    assert (std > 0).all()
    assert np.sqrt(np.mean((model.denoise(X[150:]) - curve[150:]) ** 2)) < 0.05
    # Rows of the fit return to about their old places.
    again = model.transform(X[:150])
    assert np.abs(again - model.embedding_).max() < 0.5 * np.ptp(model.embedding_)
    assert np.median(np.abs(again - model.embedding_)) < 0.02 * np.ptp(model.embedding_)


def test_rows_with_holes_and_without_any_cell():
    X, t, _ = arc(n=200)
    model = GPLVM(**QUICK).fit(X[:150])
    new = X[150:].copy()
    new[:, 1] = np.nan
    assert abs(spearmanr(model.transform(new)[:, 0], t[150:]).statistic) > 0.97
    T, std = model.transform(np.full((2, 5), np.nan), return_std=True)
    np.testing.assert_allclose(T, 0, atol=1e-3)
    np.testing.assert_allclose(std**2, np.tile(model.relevance_, (2, 1)), rtol=1e-3)


def test_densities_are_densities():
    """Densities of two features integrate to 1 on a grid, and fit a circle better than a PCA's."""
    X, _ = circle(n=100, noise=0.15)
    model = GPLVM(**QUICK).fit(X)
    axis = np.linspace(-2.4, 2.4, 25)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    total = np.exp(model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2
    assert total == pytest.approx(1, abs=0.1)
    new, _ = circle(n=100, noise=0.15, seed=7)
    assert model.score(new) > BayesianPCA().fit(X).score(new) + 0.3


def test_samples_look_like_the_data():
    X, *_ = arc(n=150)
    model = GPLVM(**QUICK).fit(X)
    drawn = model.sample(500, random_state=0)
    assert drawn.shape == (500, 5)
    nearest = np.sqrt(((drawn[:, None] - X) ** 2).sum(axis=2).min(axis=1))
    assert np.median(nearest) < 0.5
    np.testing.assert_array_equal(drawn, model.sample(500, random_state=0))


def test_inverse_of_the_embedding_is_the_curve():
    X, _, curve = arc()
    model = GPLVM(**QUICK).fit(X)
    values, std = model.inverse_transform(model.embedding_, return_std=True)
    assert np.sqrt(np.mean((values - curve) ** 2)) < 0.04
    assert (std > 0).all()
    far = model.inverse_transform(np.full((1, 1), 50.0), return_std=True)[1]
    assert (far > 5 * std.max()).all()


def test_float32_stays_float32():
    X, *_ = arc(n=60)
    model = GPLVM(**QUICK).fit(X.astype(np.float32))
    assert model.embedding_.dtype == model.transform(X[:3].astype(np.float32)).dtype == np.float32


# --- files and bad data ------------------------------------------------------------------------


def test_saved_and_loaded(tmp_path):
    X, *_ = arc(n=60)
    model = GPLVM(kernel="se+bias", n_inducing=8, random_state=0).fit(X)
    model.save(tmp_path / "curve.bpca")
    again = load(tmp_path / "curve.bpca")
    np.testing.assert_array_equal(again.transform(X[:4]), model.transform(X[:4]))
    assert again.nonlinear_evidence_ == model.nonlinear_evidence_


def test_constant_columns_take_no_part_and_are_named():
    import pandas as pd

    X, *_ = arc(n=60)
    table = pd.DataFrame(np.column_stack([X, np.full(60, 7.0)]), columns=list("abcdef"))
    model = GPLVM(**QUICK).fit(table)
    assert "'f'" in str(model.status_)
    np.testing.assert_array_equal(model.inverse_transform(model.embedding_)[:, 5], 7.0)
    np.testing.assert_allclose(
        model.transform(table), GPLVM(**QUICK).fit(X).transform(X), atol=0.05
    )
    with pytest.raises(ValueError, match="No column of X varies"):
        GPLVM().fit(np.ones((10, 3)))


def test_duplicate_rows_and_few_rows():
    X, *_ = arc(n=20)
    model = GPLVM(n_inducing=500, random_state=0).fit(np.repeat(X, 3, axis=0))
    assert "60 were used" in str(model.status_)
    assert np.isfinite(model.free_energy_)
    for n in (2, 3, 5):
        few = GPLVM(random_state=0).fit(X[:n])
        assert np.isfinite(few.transform(X[:n])).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kernel": "matern"}, "the unknown part 'matern'"),
        ({"kernel": "bias"}, "does not depend on the latent points"),
        ({"n_components": 0}, "n_components must be 'auto' or a whole number"),
        ({"n_inducing": 0}, "n_inducing must be 'auto' or a whole number"),
        ({"method": "map", "noise": "per-feature"}, "has one noise variance"),
    ],
)
def test_options_that_will_not_do(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        GPLVM(**options).fit(arc(n=30)[0])


def test_map_wants_complete_data():
    X = arc(n=30)[0]
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="method='map' is for complete data"):
        GPLVM(1, "map").fit(X)
