"""Readings of a posterior with holes agree with written-out Gaussians and with simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from bayespca import BayesianPCA, VariationalPCA
from bayespca.datasets import low_rank
from bayespca.estimators import RankWarning
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank import imputing
from bayespca.lowrank import posterior as linear
from bayespca.lowrank.from_complete import from_directions, general
from bayespca.lowrank.rows import Columns
from bayespca.spectrum import recoverable_strength


def simulated(n=300, p=20, rank=3, share=0.3, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=p)
    X = low + noise * rng.normal(size=(n, p))
    return low, X, np.where(rng.random((n, p)) < share, np.nan, X)


@pytest.mark.parametrize("method", ["evb", "vb", "pb-a", "ml"])
def test_complete_rows_have_the_scores_of_complete_data(method):
    options = {"n_components": 3} if method == "ml" else {}
    options |= {"prior_variance": 4.0} if method in ("vb", "pb-a") else {}
    X = low_rank(200, 15, 3, random_state=0).X
    X[:, 4] = 2.5  # a constant column
    model = BayesianPCA(method, **options).fit(X)
    wide = general(model.posterior_)
    expected = linear.scores(model.posterior_, X)
    np.testing.assert_allclose(read.scores(wide, X), expected, atol=1e-10)


def test_complete_rows_have_the_density_of_complete_data():
    X = low_rank(200, 15, 3, random_state=0).X
    model = BayesianPCA().fit(X)
    np.testing.assert_allclose(
        read.log_density(general(model.posterior_), X),
        linear.log_density(model.posterior_, X),
        rtol=1e-10,
    )


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("complete", [False, True])
def test_density_of_rows_with_holes_is_the_marginal(scale, complete):
    _, X, Y = simulated()
    model = BayesianPCA(scale=scale).fit(X if complete else Y)
    cov, mean = model.get_covariance(), model.mean_
    found = model.score_samples(Y[:20])
    for row, density in zip(Y[:20], found, strict=True):
        seen = ~np.isnan(row)
        marginal = multivariate_normal(mean[seen], cov[np.ix_(seen, seen)])
        assert density == pytest.approx(marginal.logpdf(row[seen]), rel=1e-8)
    np.testing.assert_allclose(model.get_precision() @ cov, np.eye(20), atol=1e-8)


def test_scores_given_directions_are_the_conditional_mean():
    """With many rows loadings are nearly known, and scores are a Gaussian conditional mean."""
    _, X, Y = simulated(n=4000)
    model = BayesianPCA().fit(X)
    post = general(model.posterior_)
    B, d = post.columns.b[:, :3] * post.unit, post.columns.prior_a
    row = Y[0]
    seen = ~np.isnan(row)
    C = B[seen] @ np.diag(d) @ B[seen].T + model.noise_variance_ * np.eye(seen.sum())
    expected = np.diag(d) @ B[seen].T @ np.linalg.solve(C, row[seen] - model.mean_[seen])
    np.testing.assert_allclose(model.transform(Y[:1])[0], expected * post.unit, rtol=0.01)


@pytest.mark.parametrize(("n", "p", "share"), [(300, 20, 0.3), (100, 60, 0.5), (1000, 30, 0.1)])
def test_intervals_of_filled_cells_cover_what_they_promise(n, p, share):
    inside, inside_mean, total = 0, 0, 0
    for seed in range(4):
        low, X, Y = simulated(n, p, 3, share, seed)
        model = BayesianPCA().fit(Y)
        filled, std = model.impute(Y, return_std=True)
        _, mean_std = model.impute(Y, return_std="mean")
        holes = np.isnan(Y)
        np.testing.assert_array_equal(filled[~holes], Y[~holes])
        assert not std[~holes].any()
        inside += (np.abs(filled - X)[holes] < 1.96 * std[holes]).sum()
        inside_mean += (np.abs(filled - low)[holes] < 1.96 * mean_std[holes]).sum()
        total += holes.sum()
    assert inside / total == pytest.approx(0.95, abs=0.015)
    assert inside_mean / total == pytest.approx(0.95, abs=0.04)


def test_draws_have_the_mean_and_spread_of_the_filled_cells():
    _, _, Y = simulated(60, 12)
    model = BayesianPCA(random_state=0).fit(Y)
    filled, std = model.impute(Y, return_std=True)
    draws = model.sample_imputations(Y, 2000)
    holes = np.isnan(Y)
    assert draws.shape == (2000, 60, 12)
    np.testing.assert_array_equal(draws[5][~holes], Y[~holes])
    error = (draws.mean(axis=0) - filled)[holes] / std[holes]
    assert np.abs(error).max() < 5 / np.sqrt(2000)
    np.testing.assert_allclose(draws.std(axis=0)[holes], std[holes], rtol=0.12)


def test_projections_are_least_squares():
    """Includes rows whose cells barely separate two directions or are fewer than directions."""
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    W[:6, 1] = W[:6, 0] + 1e-5 * W[:6, 1]
    W = W.T.copy()
    posterior = from_directions(
        mean=np.ones(12),
        scale=np.full(12, 2.0),
        components=W,
        ridge=np.ones(3),
        loading_variance=np.zeros((12, 3)),
        latent_variance=np.ones(3),
        noise_variance=1.0,
    )
    Y = rng.normal(size=(60, 12))
    Y[:20, 6:] = np.nan
    for i in range(20, 60):
        Y[i, rng.permutation(12)[: 8 if i < 30 else 10]] = np.nan
    Y[59] = np.nan
    found = read.project(posterior, Y)
    for row, coordinates in zip(Y, found, strict=True):
        seen = ~np.isnan(row)
        expected = np.linalg.pinv(W[:, seen].T) @ ((row[seen] - 1) / 2)
        size = np.abs(expected).max(initial=1e-300)
        np.testing.assert_allclose(coordinates, expected, atol=1e-10 * size)


def test_holes_are_filled_better_than_by_means():
    _, X, Y = simulated(300, 20, 3, 0.3)
    holes = np.isnan(Y)
    filled = BayesianPCA().fit(Y).impute(Y)
    means = np.where(holes, np.nanmean(Y, axis=0), Y)
    assert np.std((filled - X)[holes]) < 0.65 * np.std((means - X)[holes])


def test_new_rows_with_any_pattern():
    _, X, Y = simulated()
    model = BayesianPCA().fit(Y)
    alone = np.full((2, 20), np.nan)
    alone[0, 3] = X[0, 3]
    T, std = model.transform(alone, return_std=True)
    np.testing.assert_allclose(T[1], 0, atol=1e-12)
    assert (std[1] > std[0]).all()
    filled, spread = imputing.impute(model.posterior_, alone)
    np.testing.assert_allclose(filled[1], model.mean_, rtol=1e-10)
    # The prior of A matches the scores of the rows only once the fit has converged.
    np.testing.assert_allclose(spread[1] ** 2, np.diag(model.get_covariance()), rtol=1e-4)
    # The uncertainty of directions and noise makes intervals a little wider.
    wider = model.impute(alone[1:], return_std=True)[1] / spread[1]
    assert ((wider > 1) & (wider < 1.005)).all()


@pytest.mark.parametrize("seen", [0.6, 1.0])
@pytest.mark.parametrize(("k", "p"), [(1, 8), (3, 30)])
def test_scores_are_as_far_off_as_they_say_where_loadings_are_uncertain(k, p, seen):
    """Squared errors of new rows' scores, along the estimated axes, match their variances."""
    rng = np.random.default_rng(10 * k + p)
    b, size, s2 = rng.normal(size=(p, k)), 0.15, 0.3
    b_cov = np.zeros((p, k + 1, k + 1))
    b_cov[:, range(k), range(k)] = size**2
    columns = Columns(np.column_stack([b, np.zeros(p)]), b_cov, np.full(k, 4.0), s2)
    posterior = read.from_columns(columns, location=np.zeros(p), scale=np.ones(p), unit=1.0)
    ratios, W = [], posterior.components
    for _ in range(60):
        true = b + size * rng.normal(size=b.shape)
        # Errors of loadings lie partly along the loadings; that part belongs to the true scores.
        signal = 2 * rng.normal(size=(200, k)) @ true.T
        X = signal + np.sqrt(s2) * rng.normal(size=signal.shape)
        X[rng.random(X.shape) >= seen] = np.nan
        T, std = read.scores_and_std(replace(posterior, learned_from=np.zeros(1, int)), X)
        ratios.append(((T - signal @ W.T) ** 2).mean() / (std**2).mean())
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.06)


def test_draws_spread_as_intervals_where_little_is_known():
    """Few cells determine the noise, and loadings are uncertain."""
    rng = np.random.default_rng(3)
    X = 2 * rng.normal(size=(30, 2)) @ rng.normal(size=(2, 10)) + rng.normal(size=(30, 10))
    X[rng.random(X.shape) < 0.35] = np.nan
    model = BayesianPCA(noise="isotropic").fit(X)
    assert model.n_components_ == 2
    _, std = model.impute(X, return_std=True)
    draws = model.sample_imputations(X, 1500, random_state=0)
    holes = np.isnan(X)
    ratio = draws.var(axis=0)[holes] / std[holes] ** 2
    assert ratio.mean() == pytest.approx(1.0, abs=0.04)
    plain = imputing.impute(model.posterior_, X)[1][holes] ** 2 / std[holes] ** 2
    assert plain.mean() < 0.98


@pytest.mark.parametrize(("k", "p"), [(1, 8), (3, 30)])
def test_cells_are_as_far_off_as_they_say_where_loadings_are_uncertain(k, p):
    """Variances include the uncertain loadings of the cells that determine the scores.

    Without them, errors would be 1.2 to 1.3 times the variances.
    """
    rng = np.random.default_rng(k)
    b, size = rng.normal(size=(p, k)), 0.15
    b_cov = np.zeros((p, k + 1, k + 1))
    b_cov[:, range(k), range(k)] = size**2
    columns = Columns(np.column_stack([b, np.zeros(p)]), b_cov, np.full(k, 4.0), 0.3)
    posterior = read.from_columns(columns, location=np.zeros(p), scale=np.ones(p), unit=1.0)
    errors, variances = [], []
    for _ in range(30):
        true = b + size * rng.normal(size=b.shape)
        signal = 2 * rng.normal(size=(400, k)) @ true.T
        X = signal + np.sqrt(0.3) * rng.normal(size=signal.shape)
        X[rng.random(X.shape) < 0.4] = np.nan
        filled, std = imputing.impute(posterior, X, noise=False)
        holes = np.isnan(X)
        errors.append(((filled - signal)[holes] ** 2).mean())
        variances.append((std[holes] ** 2).mean())
    assert np.mean(errors) == pytest.approx(np.mean(variances), rel=0.1)


def test_scale_and_offset_do_not_matter():
    _, _, Y = simulated()
    plain = BayesianPCA().fit(Y)
    other = BayesianPCA().fit(Y * 1e6 + 1e4)
    assert other.n_components_ == plain.n_components_ == 3
    assert other.noise_variance_ == pytest.approx(plain.noise_variance_ * 1e12, rel=1e-6)
    n_seen = (~np.isnan(Y)).sum() - Y.shape[1]
    change = other.free_energy_ - plain.free_energy_
    assert change == pytest.approx(n_seen * np.log(1e6), rel=1e-6)


def test_near_complete_data_agree_with_the_closed_form():
    _, X, _ = simulated(400, 25, 3)
    Y = X.copy()
    Y[0, 0] = np.nan
    holes, closed = (BayesianPCA(n_components="evb").fit(table) for table in (Y, X))
    assert holes.n_components_ == closed.n_components_ == 3
    assert holes.engine_ == "holes"
    assert holes.noise_variance_ == pytest.approx(closed.noise_variance_, rel=2e-3)
    np.testing.assert_allclose(holes.mean_, closed.mean_, atol=5e-3)
    cosines = np.abs(np.sum(holes.components_ * closed.components_, axis=1))
    assert (cosines > 0.9999).all()
    np.testing.assert_allclose(holes.components_std_, closed.components_std_, rtol=0.05)
    np.testing.assert_allclose(holes.explained_variance_, closed.explained_variance_, rtol=0.02)


def test_the_rank_has_a_probability():
    _, _, Y = simulated()
    model = BayesianPCA().fit(Y)
    assert model.rank_posterior_.sum() == pytest.approx(1.0)
    # Three are strong; a fourth next to the detection limit cannot be excluded.
    assert model.rank_posterior_[:3].sum() < 1e-6
    assert model.rank_posterior_[3:5].sum() > 0.8
    assert model.free_energy_by_rank_[3] == 0


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_probability_of_a_rank_is_calibrated_with_holes(share):
    """Strengths are log-uniform from 0.5 to 20 times the limit √(p/n)/(share of cells seen).

    Counted are those that can be recovered, which takes more than this limit. Where sweeps cannot
    keep the most probable number, none is announced.
    """
    announced, right = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, p = ((60, 20), (100, 40))[seed % 2]
        t = np.exp(rng.uniform(np.log(0.5), np.log(20), rng.integers(5)))
        W = np.linalg.qr(rng.standard_normal((p, p)))[0][: t.size]
        size = np.sqrt(t * np.sqrt(p / n) / (1 - share))
        X = (rng.standard_normal((n, t.size)) * size) @ W + rng.standard_normal((n, p))
        X[rng.random((n, p)) < share] = np.nan
        found = BayesianPCA(noise="isotropic").fit(X).rank_posterior_
        if found is None:
            continue
        announced.append(found.max())
        least = recoverable_strength(p, n - 1) / np.sqrt(p / n)
        right.append(found.argmax() == (t > least).sum())
    assert len(announced) >= 55
    error = np.sqrt(np.mean(announced) * (1 - np.mean(announced)) / 60)
    assert np.mean(right) == pytest.approx(np.mean(announced), abs=2.5 * error)


def test_empty_rows_and_columns_are_told_and_have_the_priors_answer():
    _, _, Y = simulated()
    Y[7] = np.nan
    Y[:, 5] = np.nan
    with pytest.warns(RankWarning) as told:
        model = BayesianPCA().fit(Y)
    said = [str(item.message) for item in told]
    assert said[0].startswith("1 row (7, counting from 0) has no values")
    assert said[1].startswith("1 column (5, counting from 0) has no values")
    np.testing.assert_allclose(model.components_[:, 5], 0)
    np.testing.assert_allclose(model.transform(Y)[7], 0, atol=1e-12)
    filled, std = model.impute(Y, return_std=True)
    assert np.isfinite(filled).all()
    # In every row with values, the cell of the empty column is the most uncertain.
    rows = np.delete(std, 7, axis=0)
    assert (rows[:, 5] > np.delete(rows, 5, axis=1).max(axis=1)).all()


@pytest.mark.parametrize("estimator", [BayesianPCA(), VariationalPCA()], ids=str)
def test_a_column_with_one_value_is_told_and_has_it_for_a_mean(estimator):
    _, _, Y = simulated()
    value = Y[4, 3] = 1.25
    Y[np.arange(len(Y)) != 4, 3] = np.nan
    with pytest.warns(RankWarning, match=r"1 column \(3, counting from 0\) with a single value"):
        model = estimator.fit(Y)
    filled, std = model.impute(Y, return_std=True)
    np.testing.assert_allclose(filled[:, 3], value, atol=0.05)
    others = np.delete(std, 3, axis=1)
    assert np.delete(std[:, 3], 4).min() > np.median(others[others > 0])


def test_data_frames_keep_their_names_and_float32_its_type():
    _, _, Y = simulated(100, 5, 2)
    frame = pd.DataFrame(Y, columns=list("abcde"))
    model = BayesianPCA().fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    short = BayesianPCA().fit(Y.astype(np.float32))
    assert short.transform(Y.astype(np.float32)).dtype == np.float32
    assert short.impute(Y.astype(np.float32)).dtype == np.float32
    assert short.n_components_ == model.n_components_


def test_no_component_at_all():
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((100, 10)) < 0.2, np.nan, rng.normal(size=(100, 10)))
    model = BayesianPCA().fit(Y)
    assert model.n_components_ == 0
    assert model.transform(Y).shape == (100, 0)
    holes, means = np.isnan(Y), np.tile(model.mean_, (100, 1))
    np.testing.assert_allclose(model.impute(Y)[holes], means[holes])


def test_what_has_no_meaning_with_holes_is_refused():
    _, _, Y = simulated(50, 6)
    with pytest.raises(ValueError, match="no closed form for holes"):
        BayesianPCA(solver="closed").fit(Y)
    with pytest.raises(ValueError, match=r"laplace.* is for complete data"):
        BayesianPCA("laplace").fit(Y)
    with pytest.raises(ValueError, match="give prior_variance or n_components"):
        BayesianPCA("map").fit(Y)


def test_infinity_is_no_hole():
    _, _, Y = simulated(50, 6)
    Y[3, 2] = np.inf
    with pytest.raises(ValueError, match=r"infinity|NaN"):
        BayesianPCA().fit(Y)


def test_a_cap_holds(load_data):
    Y = load_data("metabolite")["X"]
    model = BayesianPCA(n_components=2).fit(Y)
    assert model.n_components_ <= 2
