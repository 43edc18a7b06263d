"""What repeats itself is set aside: the answer is that of the table without it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from bayespca import BayesianPCA, load, monitoring, rank_stability
from bayespca.datasets import noisy

pytestmark = pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")

NOISES = ("auto", "isotropic", "per-feature", "student-cells", "autoregressive")


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * (1 + np.abs(b).max()))


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).data


@pytest.fixture(scope="module")
def with_total(wine):
    return wine.assign(total=wine.malic_acid + wine.ash)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# --- columns -----------------------------------------------------------------------------------


# A second fit by sweeps, with another number, ends within tol: too far for so close a comparison.
@pytest.mark.parametrize(
    "options",
    [{"noise": noise} for noise in NOISES if noise != "student-cells"]
    + [{"noise": "student-cells", "n_components": "evb"}, {"scale": True}],
)
def test_a_total_changes_nothing_for_the_other_columns(wine, with_total, options):
    alone, model = (BayesianPCA(**options).fit(X) for X in (wine, with_total))
    assert "'total' is the sum of 'malic_acid' and 'ash'" in str(model.status_)
    assert model.n_components_ == alone.n_components_
    assert model.noise_ == alone.noise_
    assert model.free_energy_ == pytest.approx(alone.free_energy_)
    for name in ("components_", "components_std_", "mean_", "feature_noise_variance_"):
        close(getattr(model, name)[..., :13], getattr(alone, name))
    close(model.transform(with_total, return_std=True), alone.transform(wine, return_std=True))
    close(model.score_samples(with_total), alone.score_samples(wine))
    close(model.get_covariance()[:13, :13], alone.get_covariance())
    close(model.sample_noise_variance_.shape, (178,))


@pytest.mark.parametrize("noise", NOISES)
def test_what_is_said_about_a_total_agrees_with_its_parts(with_total, noise):
    model = BayesianPCA(noise=noise).fit(with_total)
    denoised, drawn = model.denoise(with_total), model.sample(20, random_state=0)
    for rows in (denoised, drawn, model.mean_[None, :]):
        close(rows[:, 13], rows[:, 1] + rows[:, 2])
    close(model.inverse_transform(model.transform(with_total)), denoised)
    C, P = model.get_covariance(), model.get_precision()
    close(C[13], C[1] + C[2])
    close(C[13, 13], C[1:3, 1:3].sum())
    # A generalized inverse, which gives each row the distance that its parts have.
    close(C @ P @ C, C)
    close(model.feature_noise_variance_[13], model.feature_noise_variance_[1:3].sum())
    moved = with_total.assign(total=0.0)
    close(model.transform(moved), model.transform(with_total))


def test_loadings_of_unscaled_data_add_up(with_total):
    model = BayesianPCA(noise="isotropic").fit(with_total)
    close(model.components_[:, 13], model.components_[:, 1] + model.components_[:, 2])
    close(model.transform(with_total) @ model.components_ + model.mean_, model.denoise(with_total))


def test_holes_that_the_parts_determine_are_filled_exactly(wine, with_total):
    model, alone = BayesianPCA().fit(with_total.to_numpy()), BayesianPCA().fit(wine.to_numpy())
    X, whole = with_total.to_numpy().copy(), with_total.to_numpy()
    X[3, 1] = X[5, 13] = np.nan
    X[6, [1, 13]] = np.nan
    filled, std = model.impute(X, return_std=True)
    close(filled[[3, 5], [1, 13]], whole[[3, 5], [1, 13]])
    assert not std[[3, 5], [1, 13]].any()
    expected, spread = alone.impute(X[:, :13], return_std=True)
    close([filled[6, 1], std[6, 1]], [expected[6, 1], spread[6, 1]])
    close([filled[6, 13], std[6, 13]], [expected[6, 1] + X[6, 2], spread[6, 1]])
    draws = model.sample_imputations(X, 5, random_state=0)
    close(draws[:, :, 13], draws[:, :, 1] + draws[:, :, 2])
    assert np.ptp(draws[:, 6, 1]) > 0
    close(model.transform(X)[3], model.transform(whole)[3])


def test_copies_of_columns_with_holes(wine, rng, tmp_path):
    X = wine.to_numpy()[:100].copy()
    X[rng.random(X.shape) < 0.05] = np.nan
    table = np.column_stack([X, X[:, 0], 32 + 1.8 * X[:, 3]])
    alone, model = BayesianPCA().fit(X), BayesianPCA().fit(table)
    assert "'feature 14' is a multiple of 'feature 3'" in str(model.status_)
    assert model.n_components_ == alone.n_components_
    close(model.denoise(table)[:, :13], alone.denoise(X))
    close(model.score_samples(table), alone.score_samples(X))
    filled, std = model.impute(table, return_std=True)
    expected, spread = alone.impute(X, return_std=True)
    close(filled, np.column_stack([expected, expected[:, 0], 32 + 1.8 * expected[:, 3]]))
    close(std, np.column_stack([spread, spread[:, 0], 1.8 * spread[:, 3]]))
    C = model.get_covariance()
    close(C[14], 1.8 * C[3])
    close(C @ model.get_precision() @ C, C)
    close(model.sample(5, random_state=0)[:, 13], model.sample(5, random_state=0)[:, 0])
    close(model.components_std_[:, :13], alone.components_std_)
    model.save(tmp_path / "model.bpca")
    close(load(tmp_path / "model.bpca").impute(table), filled)


def test_shares_of_a_whole(rng):
    """Three factors of logarithms in 12 shares must not look like eleven without noise."""
    for _ in range(3):
        logs = 0.6 * rng.normal(size=(200, 3)) @ rng.normal(size=(3, 12))
        parts = np.exp(1 + logs + 0.3 * rng.normal(size=(200, 12)))
        shares = 100 * parts / parts.sum(axis=1, keepdims=True)
        model = BayesianPCA().fit(shares)
        assert "rows sum to 100" in str(model.status_)
        assert 2 <= model.n_components_ <= 5
        assert model.noise_variance_ > 1
        close(model.denoise(shares).sum(axis=1), 100)
        close(model.components_std_.shape, model.components_.shape)
        order = rng.permutation(12)
        assert BayesianPCA().fit(shares[:, order]).n_components_ == model.n_components_


def test_copies_among_many_columns(rng):
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 270)) + rng.normal(size=(200, 270))
    table = np.hstack([X, X[:, rng.choice(270, 30, replace=False)]])
    model, alone = BayesianPCA().fit(table), BayesianPCA().fit(X)
    assert model.n_components_ == alone.n_components_ == 3
    close(model.rank_posterior_[:10], alone.rank_posterior_[:10])
    assert "and 27 more" in str(model.status_)


def test_alarms_and_halves_leave_a_total_out(wine, with_total):
    alone, model = BayesianPCA().fit(wine), BayesianPCA().fit(with_total)
    with_it, without = monitoring.statistics(model, with_total), monitoring.statistics(alone, wine)
    for name in ("t2", "q", "t2_limit", "q_limit"):
        close(getattr(with_it, name), getattr(without, name))
    assert with_it.q_contributions.shape == with_total.shape
    X = noisy("white", 60, 8, 2, random_state=0).X
    same = rank_stability(X, n_halves=10, noise="isotropic")
    more = np.column_stack([X, X[:, 0] + X[:, 1]])
    for table in (more, np.vstack([more, more])):
        found = rank_stability(table, n_halves=10, noise="isotropic")
        assert found.ranks == same.ranks
        close(found.overlaps, same.overlaps)


def test_known_errors_of_columns_are_those_of_the_others(wine, with_total):
    errors = np.linspace(0.1, 1, 14)[None, :]
    model = BayesianPCA().fit(with_total, error_std=errors)
    alone = BayesianPCA().fit(wine, error_std=errors[:, :13])
    assert model.free_energy_ == pytest.approx(alone.free_energy_)


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "rank", "times"),
    [((100, 20), 0, 3), ((20, 8), 2, 10), ((100, 30), 3, 2), ((30, 60), 1, 2)],
)
def test_rows_count_once(shape, rank, times):
    X = noisy("white", *shape, rank, random_state=1).X
    alone, model = BayesianPCA().fit(X), BayesianPCA().fit(np.vstack([X] * times))
    assert f"{shape[0] * (times - 1)} of {shape[0] * times} rows are exact copies" in str(
        model.status_
    )
    assert model.n_components_ == alone.n_components_
    assert model.n_samples_ == shape[0] * times
    assert model.spectrum_.shape == alone.spectrum_.shape
    close(model.rank_posterior_, alone.rank_posterior_)
    close(model.get_covariance(), alone.get_covariance())
    close(
        model.impute(X * np.where(X > 1, np.nan, 1), return_std=True),
        alone.impute(X * np.where(X > 1, np.nan, 1), return_std=True),
    )


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("noise", ["per-sample", "both"])
def test_what_is_said_about_rows_holds_for_their_copies(center, noise):
    X = noisy("white", 80, 10, 2, random_state=0).X
    X[7] += 30 * np.random.default_rng(0).normal(size=10)
    order = np.random.default_rng(1).permutation(160)
    options = {"noise": noise, "center": center}
    alone, model = (BayesianPCA(**options).fit(T) for T in (X, np.vstack([X, X])[order]))
    rows = order % 80
    np.testing.assert_allclose(
        model.sample_noise_variance_, alone.sample_noise_variance_[rows], rtol=1e-4
    )
    np.testing.assert_allclose(
        model.outlier_probability_, alone.outlier_probability_[rows], atol=1e-4
    )
    two = ", ".join(map(str, np.flatnonzero(rows == 7)))
    assert f"2 of 160 rows are outlying ({two}, counting from 0)" in str(model.status_)
    new = np.random.default_rng(2).normal(size=(5, 10))
    close(monitoring.statistics(model, new).q_limit, monitoring.statistics(alone, new).q_limit)


def test_a_row_that_is_a_component_keeps_its_number():
    X = noisy("white", 80, 10, 2, random_state=0).X
    X[7] += 100
    model = BayesianPCA(noise="isotropic").fit(np.vstack([X[:5], X]))
    assert "Row 12 (counting from 0) makes up" in str(model.status_)


def test_weights_tell_copies_apart():
    X = noisy("white", 40, 8, 1, random_state=0).X
    weights = np.repeat([1.0, 3.0], 40)
    model = BayesianPCA().fit(np.vstack([X, X]), sample_weight=weights)
    assert "repeated-rows" not in model.status_


def test_tables_that_repeat_rows_by_chance_keep_them():
    iris, digits = load_iris().data, load_digits().data[:300]
    flags = (np.random.default_rng(0).random((200, 6)) < 0.2).astype(float)
    for X in (iris, digits, flags):
        model = BayesianPCA(noise="isotropic").fit(X)
        assert "repeated-rows" not in model.status_
        assert model.spectrum_.shape[1] == len(X) - 1


def test_repeated_measurements_are_named():
    X = np.repeat(noisy("white", 60, 20, 2, random_state=0).X, 2, axis=0)
    X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    assert "repeated measurements of 60 samples" in str(BayesianPCA().fit(X).status_)
