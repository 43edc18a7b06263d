"""T² and Q of new rows: their definitions, their limits, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from bayespca import BayesianPCA, GibbsPCA, monitoring
from bayespca.datasets import low_rank
from bayespca.lowrank.scales import NORMAL
from bayespca.monitoring.law import RowLaw, row_law


def process(rng, p, rank, *, strength=1.0, uneven=False):
    """A generator of clean rows of a process with `rank` components in p columns."""
    loadings, mean = strength * rng.normal(size=(rank, p)), rng.normal(size=p)
    noise = np.exp(0.35 * rng.normal(size=p)) if uneven else np.ones(p)

    def rows(n):
        return mean + (rng.normal(size=(n, rank)) @ loadings + rng.normal(size=(n, p))) * noise

    return rows


@pytest.fixture(scope="module")
def fitted():
    rows = process(np.random.default_rng(0), 12, 3)
    return BayesianPCA().fit(rows(150)), rows(40)


def test_statistics_are_their_definitions(fitted):
    model, X = fitted
    found, law = monitoring.statistics(model, X), row_law(model.fit_, model._degrees())
    Z = X - model.mean_
    Y = model.project(X)
    variances = (law.spread + model.noise_variance_) * (1 + 1 / 150)
    np.testing.assert_allclose(found.t2, (Y**2 / variances).sum(axis=1))
    np.testing.assert_allclose(found.q, (Z**2).sum(axis=1) - (Y**2).sum(axis=1))


def test_contributions_add_up(fitted):
    model, X = fitted
    found = monitoring.statistics(model, X)
    np.testing.assert_allclose(found.t2_contributions.sum(axis=1), found.t2)
    np.testing.assert_allclose(found.q_contributions.sum(axis=1), found.q)


@pytest.mark.parametrize(
    ("n", "p", "rank", "noise"),
    [(60, 20, 0, "auto"), (60, 20, 3, "auto"), (60, 20, 3, "per-feature"), (200, 30, 6, "auto")],
)
def test_five_percent_of_clean_rows_are_flagged(n, p, rank, noise):
    rng, flagged = np.random.default_rng(1), []
    for _ in range(40):
        rows = process(rng, p, rank, uneven=noise == "per-feature")
        model = BayesianPCA(n_components="evb", noise=noise).fit(rows(n))
        found = monitoring.statistics(model, rows(1000))
        flagged.append((found.t2_alarms.mean(), found.q_alarms.mean()))
    t2, q = np.mean(flagged, axis=0)
    assert 0.04 < q < 0.06
    assert t2 == 0 if rank == 0 else 0.04 < t2 < 0.06


def test_rows_with_holes_are_flagged_as_often():
    rng, flagged = np.random.default_rng(2), []
    for _ in range(40):
        rows = process(rng, 20, 2)
        X = rows(500)
        X[rng.random(X.shape) < 0.2] = np.nan
        found = monitoring.statistics(BayesianPCA().fit(rows(100)), X)
        flagged.append((found.t2_alarms.mean(), found.q_alarms.mean()))
    assert np.all(np.abs(np.mean(flagged, axis=0) - 0.05) < 0.01)


def test_limits_of_many_rows_are_those_of_known_variances():
    rows = process(np.random.default_rng(3), 10, 2)
    model = BayesianPCA(noise="isotropic").fit(rows(50_000))
    found = monitoring.statistics(model, rows(1))
    assert found.t2_limit[0] == pytest.approx(chi2.isf(0.05, 2), rel=1e-3)
    expected = model.noise_variance_ * chi2.isf(0.05, 8)
    assert found.q_limit[0] == pytest.approx(expected, rel=1e-3)


def test_a_faulty_sensor_is_named(fitted):
    model, X = fitted
    X = X.copy()
    X[5, 8] += 15.0
    found = [a for a in monitoring.statistics(model, X, alpha=1e-4).alarms() if a.statistic == "Q"]
    assert [(a.row, a.columns[0]) for a in found] == [(5, "feature 8")]
    assert found[0].value > found[0].limit


def test_a_far_row_in_the_model_is_an_alarm_of_t2_alone(fitted):
    model, _ = fitted
    row = model.mean_ + 8 * np.sqrt(model.explained_variance_[0]) * model.components_[0]
    found = monitoring.statistics(model, row[None])
    assert found.t2_alarms[0]
    assert not found.q_alarms[0]


def test_models_of_data_with_holes_and_of_uneven_rows():
    rng = np.random.default_rng(4)
    rows = process(rng, 15, 2)
    X = rows(200)
    X[rng.random(X.shape) < 0.15] = np.nan
    found = monitoring.statistics(BayesianPCA().fit(X), rows(4000))
    assert 0.03 < found.t2_alarms.mean() < 0.07
    assert 0.03 < found.q_alarms.mean() < 0.07
    uneven = rows(400) * np.sqrt(4 / rng.chisquare(4, size=(400, 1)))
    model = BayesianPCA(noise="per-sample").fit(uneven[:200])
    assert monitoring.statistics(model, uneven[200:]).q_alarms.mean() < 0.1
    plain = BayesianPCA(noise="isotropic").fit(uneven[:200])
    assert monitoring.statistics(plain, uneven[200:]).q_alarms.mean() > 0.12


def test_without_components_there_is_q_alone():
    X = np.random.default_rng(5).normal(size=(200, 20))
    model = BayesianPCA().fit(X)
    assert model.n_components_ == 0
    found = monitoring.statistics(model, X)
    assert np.isnan(found.t2).all()
    np.testing.assert_allclose(found.q, ((X - model.mean_) ** 2).sum(axis=1))


def test_rows_with_too_few_cells_are_not_checked(fitted):
    model, X = fitted
    X = X.copy()
    X[3, 3:] = np.nan
    found = monitoring.statistics(model, X)
    assert found.unchecked.tolist() == [3]
    assert not found.is_alarm[3]


def test_bad_input_is_answered_in_a_sentence(fitted):
    model, X = fitted
    with pytest.raises(ValueError, match="11 features, but BayesianPCA is expecting 12"):
        monitoring.statistics(model, X[:, 1:])
    with pytest.raises(ValueError, match="alpha must be above 0 and below 1, got 5"):
        monitoring.statistics(model, X, alpha=5)
    with pytest.raises(TypeError, match="not an object of the type GibbsPCA"):
        monitoring.statistics(GibbsPCA(), X)
    wild = np.random.default_rng(0).standard_t(2, size=(100, 12))
    cells = BayesianPCA(noise="student-cells").fit(wild)
    with pytest.raises(ValueError, match="single cells have noise of their own"):
        monitoring.statistics(cells, wild)


def test_neighbours_with_common_noise_need_whole_rows():
    X = low_rank(80, 12, 1, random_state=0).X
    noise = np.random.default_rng(0).normal(size=(80, 13))
    model = BayesianPCA(noise="autoregressive").fit(X + 3 * (noise[:, 1:] + noise[:, :-1]))
    assert np.isfinite(monitoring.statistics(model, X).q).all()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="rows with holes cannot be checked"):
        monitoring.statistics(model, X)


def test_q_has_the_tails_of_noise_and_of_signal_that_leans_out():
    """Q sums squared noise in p − k directions, and signal that leaks into k of them."""
    rng, p, k, leaking = np.random.default_rng(6), 12, 3, np.array([2.0, 1.5, 1.0])
    law = RowLaw(
        components=np.eye(k, p),
        spread=np.ones(k),
        noise_variance=1.0,
        mean_error=1.0,
        residual_variance=1.0,
        leaking=leaking,
        common=0.0,
        rows=1e9,
        degrees=np.inf,
        column_shape=np.inf,
        tails=NORMAL,
    )
    variances = np.r_[1 + leaking, np.ones(p - 2 * k)]
    q = (rng.normal(size=(200_000, p - k)) ** 2 * variances).sum(axis=1)
    for alpha in (0.1, 0.05):
        assert np.mean(q > law.q_limit(alpha, p)) == pytest.approx(alpha, rel=0.06)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_the_noise_of_residuals_is_not_the_larger_one_of_the_posterior(holes):
    """The posterior's noise counts k(n + p) numbers as spent on k components, k² too many."""
    found = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 20)) + rng.normal(size=(60, 20))
        X[rng.random(X.shape) < holes] = np.nan
        model = BayesianPCA(n_components="evb", noise="isotropic").fit(X)
        law = row_law(model.fit_, model._degrees())
        found.append((law.residual_variance, law.noise_variance))
    residual, noise = np.mean(found, axis=0)
    assert residual == pytest.approx(1.0, abs=0.035)
    assert noise > 1.04
