"""Foundations of the program about intervals: counting coverage, and matching the truth."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from bayespca.cli import reproduction

package = reproduction.experiments().__name__
intervals, simulated = (
    import_module(f"{package}.claims.{name}") for name in ("intervals", "simulated")
)


def test_the_share_of_normal_errors_and_its_margin():
    """Coverage is within its margin in over 97 % of trials, though data sets differ in size."""
    rng = np.random.default_rng(0)
    trials = [
        intervals.coverage([rng.normal(size=size) for size in rng.integers(5, 60, size=40)])
        for _ in range(300)
    ]
    shares, margins = np.array(trials).T
    assert shares.mean() == pytest.approx(0.95, abs=0.002)
    assert np.mean(np.abs(shares - 0.95) <= margins) > 0.97
    assert (margins < 0.05).all()


def test_errors_of_one_data_set_go_together():
    one = np.random.default_rng(1).normal(size=30)
    assert intervals.coverage([np.repeat(e, 50) for e in one])[1] > 0.05


def test_axes_are_matched_whatever_their_order_and_signs():
    W = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 3)))[0].T
    found = SimpleNamespace(components_=-W[[2, 0, 1]], components_std_=np.ones((3, 6)))
    np.testing.assert_allclose(simulated.of_components(found, W), 0, atol=1e-12)


def test_every_standard_deviation_is_among_the_studies():
    """The studies of an estimator cover every quantity that it gives a standard deviation for."""
    first = {study.model: study.errors for study in reversed(simulated.studies())}
    parts = {name: set(errors(0)) for name, errors in first.items() if name != "GibbsPCA"}
    pca = {*simulated.PARTS}
    assert parts["BayesianPCA"] | {simulated.MEASURED, simulated.NOISELESS} == pca
    assert parts["BayesianTucker"] == {simulated.MEASURED}
    cells = pca - {"components", "scores", simulated.NEW_SCORES}
    assert parts["MatrixFactorization"] == cells | {"factors"}
    assert parts["BinaryPCA"] == {"scores"}
    assert parts["BernoulliMixture"] == {"probabilities"}
