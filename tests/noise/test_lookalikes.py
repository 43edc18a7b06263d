"""Tables drawn like given data: their covariance, rows, values and number of components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kurtosis
from sklearn.datasets import load_iris

from bayespca import inference
from bayespca.datasets import noisy
from bayespca.lowrank.noise_models import NOISES
from bayespca.noise.asked import Asked
from bayespca.noise.complete import Complete
from bayespca.noise.lookalikes import likeness
from bayespca.spectrum import recoverable_strength
from bayespca.spectrum.forms import ClosedForm


def like(X, noise, k, *, center=True):
    task = Complete(X, ClosedForm(), inference.Looping(), Asked(noise=noise, center=center))
    fit = task.with_rank(task.fit(NOISES[noise]), k)
    return likeness(X, fit, center=center), fit


def expected_covariance(drawn, fit):
    """Signal and noise of each pair of columns, averaged over rows; written out."""
    p = drawn.mean.size
    inner = np.eye(p)
    for v, w in zip(drawn.strengths, drawn.components, strict=True):
        inner += v * np.outer(w, w)
    phi = sum(fit.posterior.partials)
    L = np.eye(p) - phi * np.eye(p, k=-1)
    L[0, 0] = np.sqrt(1 - phi**2)
    inner = np.linalg.inv(L) @ inner @ np.linalg.inv(L).T
    return np.outer(drawn.scale, drawn.scale) * inner * np.mean(drawn.level**2)


@pytest.mark.parametrize(
    ("kind", "noise"),
    [
        ("white", "isotropic"),
        ("columns", "per-feature"),
        ("both", "both"),
        ("ar", "autoregressive"),
    ],
)
def test_tables_have_the_covariance_of_the_fit(kind, noise):
    X = noisy(kind, 150, 8, 2, random_state=0).X
    drawn, fit = like(X, noise, 2)
    rng = np.random.default_rng(0)
    tables = np.array([drawn.table(drawn.strengths, rng) for _ in range(1500)])
    errors = (tables - drawn.mean).reshape(-1, 8)
    expected = expected_covariance(drawn, fit)
    size = np.sqrt(expected.diagonal())
    # A correlation of 1500·150 rows has a standard error of 0.002, and more if rows differ.
    found = errors.T @ errors / len(errors) / np.outer(size, size)
    assert found == pytest.approx(expected / np.outer(size, size), abs=0.02)
    if noise == "both":
        of_rows = ((tables - drawn.mean) ** 2 / size**2).mean(axis=(0, 2))
        level = drawn.level[:, 0] ** 2
        assert of_rows == pytest.approx(level / level.mean(), rel=0.25)
        assert np.ptp(np.log(level)) > 1


def test_strengths_are_those_of_the_population():
    """In the sample, components are stronger: 1.2 and 3.13 instead of 1 and 3."""
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(200, 2)))[0].T
    X = (rng.normal(size=(2000, 2)) * np.sqrt([3.0, 1.0])) @ W + rng.normal(size=(2000, 200))
    drawn, fit = like(X, "isotropic", 2)
    assert drawn.strengths == pytest.approx([3.0, 1.0], rel=0.12)
    assert drawn.shape == fit.spectrum.shape == (200, 1999)
    cut = recoverable_strength(200, 1999)
    assert drawn.number(np.array([3.0, 1.01 * cut, 0.99 * cut])) == 2


def test_strengths_vary_as_those_of_samples():
    """log(1 + v) of a component that is found again and again has the standard error of draws."""
    rng = np.random.default_rng(1)
    W = np.linalg.qr(rng.normal(size=(20, 1)))[0].T
    found = []
    for _ in range(200):
        X = rng.normal(size=(100, 1)) * 3 @ W + rng.normal(size=(100, 20))
        found.append(np.log1p(like(X, "isotropic", 1)[0].strengths[0]))
    drawn = like(X, "isotropic", 1)[0]
    drawn = [np.log1p(drawn.likely_strengths(rng)[0]) for _ in range(2000)]
    assert np.std(drawn) == pytest.approx(np.std(found), rel=0.25)


@pytest.mark.parametrize("center", [True, False])
def test_scores_are_uncorrelated_and_of_variance_one(center):
    X = noisy("both", 80, 10, 3, random_state=1).X + 2.0
    drawn, _ = like(X, "both", 3, center=center)
    assert drawn.scores.T @ drawn.scores / 80 == pytest.approx(np.eye(3))
    assert (np.abs(drawn.scores.mean(axis=0)).max() < 1e-12) == center
    assert (drawn.residuals**2).mean(axis=0) == pytest.approx(np.ones(10))


def test_groups_and_heavy_tails_remain():
    rng = np.random.default_rng(2)
    groups = np.where(rng.random((300, 1)) < 0.5, -4.0, 4.0)
    noise = rng.standard_t(3, (300, 10))
    drawn, _ = like(groups * np.ones(10) + noise, "per-feature", 1)
    X = drawn.table(drawn.strengths, rng)
    T = (X - X.mean(axis=0)).mean(axis=1)
    assert (np.abs(T) > 2).mean() > 0.97
    left = X - X.mean(axis=1, keepdims=True)
    assert kurtosis(left.ravel()) > 2


def test_rounded_numbers_stay_on_their_grid():
    X = load_iris().data
    drawn, _ = like(X, "per-feature", 1)
    table = drawn.table(drawn.strengths, np.random.default_rng(0))
    assert 10 * table == pytest.approx(np.rint(10 * table), abs=1e-6)
    assert table.std(axis=0) == pytest.approx(X.std(axis=0), rel=0.2)


def test_columns_that_do_not_vary_stay_constant():
    X = np.c_[noisy("columns", 60, 6, 1, random_state=0).X, np.full(60, 7.0)]
    drawn, _ = like(X, "per-feature", 1)
    assert (drawn.table(drawn.strengths, np.random.default_rng(0))[:, 6] == 7).all()
