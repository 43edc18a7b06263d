"""Limits from clean rows keep their false-alarm rate for non-normal rows; few rows are refused."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, VariationalPCA, monitoring
from bayespca.monitoring.rows import Calibration


def heavy(rng, p=12):
    """A generator of rows whose scores and noise have long tails."""
    loadings = rng.normal(size=(2, p))

    def rows(n):
        return rng.standard_t(3, size=(n, 2)) @ loadings + rng.standard_t(4, size=(n, p))

    return rows


def test_limits_hold_their_share_where_tails_are_long():
    rng, shares, plain = np.random.default_rng(0), [], []
    for _ in range(12):
        rows = heavy(rng)
        good, new = rows(200), rows(2000)
        model = BayesianPCA(noise="isotropic").fit(good)
        clean = monitoring.calibrate(model, good)
        found = monitoring.statistics(model, new, calibration=clean)
        shares.append((found.t2_alarms.mean(), found.q_alarms.mean()))
        found = monitoring.statistics(model, new)
        plain.append((found.t2_alarms.mean(), found.q_alarms.mean()))
    assert np.mean(plain, axis=0)[1] > 0.09
    assert np.abs(np.mean(shares, axis=0) - 0.05) == pytest.approx(0.0, abs=0.01)


def test_factors_are_order_statistics():
    """The factor is the ⌈(1 − α)(n + 1)⌉-th smallest of n clean rows: a new one is rarely above."""
    clean = Calibration(np.arange(1.0, 20.0), np.arange(101.0, 200.0))
    assert clean.t2_factor(0.05) == 19.0
    assert clean.t2_factor(0.5) == 10.0
    assert clean.q_factor(0.05) == 195.0
    assert clean.q_factor(0.01) == 199.0


def test_normal_rows_have_the_limits_that_they_had():
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(3, 15))
    X = rng.normal(size=(4000, 3)) @ loadings + rng.normal(size=(4000, 15))
    model = BayesianPCA(noise="isotropic").fit(X)
    clean = monitoring.calibrate(model, X)
    assert clean.t2_factor(0.05) == pytest.approx(1.0, abs=0.05)
    assert clean.q_factor(0.05) == pytest.approx(1.0, abs=0.05)
    law, moved = (
        monitoring.statistics(model, X[:5], alpha=0.01, calibration=c) for c in (None, clean)
    )
    assert moved.alpha == 0.01
    assert moved.q_limit == pytest.approx(law.q_limit, rel=0.05)
    assert moved.t2_limit == pytest.approx(law.t2_limit, rel=0.1)
    assert np.array_equal(moved.q, law.q)


def test_rows_with_holes_and_other_models():
    rows = heavy(np.random.default_rng(2))
    good, new = rows(120), rows(300)
    holes = np.random.default_rng(0).random(good.shape) < 0.1
    good[holes] = np.nan
    model = BayesianPCA(noise="isotropic").fit(good)
    found = monitoring.statistics(model, new, calibration=monitoring.calibrate(model, good))
    assert 0.01 < found.q_alarms.mean() < 0.11
    other = VariationalPCA().fit(rows(60))
    assert monitoring.calibrate(other, rows(40)).q.size == 40


def test_without_components_there_is_q_alone():
    X = np.random.default_rng(3).normal(size=(100, 10))
    model = BayesianPCA().fit(X)
    clean = monitoring.calibrate(model, X)
    assert clean.t2.size == 0
    found = monitoring.statistics(model, X, calibration=clean)
    assert np.isnan(found.t2_limit).all()
    assert np.isfinite(found.q_limit).all()


def test_too_few_rows_are_answered_in_a_sentence():
    rows = heavy(np.random.default_rng(4))
    good = rows(60)
    model = BayesianPCA(noise="isotropic").fit(good)
    with pytest.raises(ValueError, match="give 20 or more, there are 12"):
        monitoring.calibrate(model, good[:12])
    clean = monitoring.calibrate(model, good)
    with pytest.raises(ValueError, match="need 99 clean rows or more, but there are 60"):
        monitoring.statistics(model, good, alpha=0.01, calibration=clean)
