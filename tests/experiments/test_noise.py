"""Foundations of the programs about noise: their peers, and the scoring of held-out cells."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayespca import BayesianPCA
from bayespca.cli import reproduction
from bayespca.datasets import noisy

package = reproduction.experiments().__name__
heldout, peers, predicting, ranks = (
    import_module(f"{package}.noise.{name}") for name in ("heldout", "peers", "predicting", "ranks")
)


def test_knowing_rank_and_noise_leaves_less_than_the_noise():
    made = noisy("both", 200, 60, 3, random_state=0)
    freedom = 3 * (200 + 60 - 3) / (200 * 60)
    assert ranks._error(made, peers.informed(made)) == pytest.approx(np.sqrt(freedom), rel=0.15)


def predicting_zero(*, noise, freedom=np.inf, low=0.0):
    """A model that predicts 0 with variance 1 for all cells; `low` is the variance of the mean."""

    def impute(X, return_std=False):
        std = np.sqrt(low if return_std == "mean" else 1.0)
        return (np.zeros(X.shape), np.full(X.shape, std)) if return_std else np.zeros(X.shape)

    known = {"degrees_of_freedom_": freedom, "noise_": noise, "n_components_": 0, "n_iter_": 1}
    return SimpleNamespace(impute=impute, **known)


def removed(draws):
    """Cells in columns of unit variance, half of them hidden."""
    hidden = np.random.default_rng(1).random(draws.shape) < 0.5
    return heldout.Cells("draws", draws / draws.std(axis=0), hidden)


def test_held_out_cells_of_a_known_distribution_are_scored_as_they_should_be():
    """Standard normal cells, predicted as such."""
    cells = removed(np.random.default_rng(0).normal(size=(2000, 10)))
    score = heldout.scored(cells, predicting_zero(noise="isotropic"))
    assert score.log_density == pytest.approx(-0.5 * np.log(2 * np.pi * np.e), abs=0.02)
    assert score.coverage == pytest.approx(0.95, abs=0.006)
    assert score.error == pytest.approx(1.0, abs=0.02)


def test_cells_with_tails_are_scored_as_they_should_be():
    """The cells are Student's t with 8 degrees of freedom, scaled to a variance of 1."""
    draws = np.random.default_rng(0).standard_t(8, size=(4000, 10))
    score = heldout.scored(removed(draws), predicting_zero(noise="student-cells", freedom=8.0))
    expected = stats.t(8, scale=np.sqrt(6 / 8))
    assert score.log_density == pytest.approx(-float(expected.entropy()), abs=0.02)
    assert score.coverage == pytest.approx(0.95, abs=0.006)


@pytest.mark.parametrize("shape", [1.0, 2.5, 8.0])
def test_a_scale_that_is_averaged_over(shape):
    """A random scale alone gives Student's t; with a fixed variance it must match quadrature."""
    errors, ones = np.array([0.0, 0.5, -3.0, 10.0]), np.ones(4)
    alone = predicting.NormalAndT(0 * ones, 0.7 * ones, shape)
    expected = predicting.StudentT(0.7 * ones, shape * ones)
    np.testing.assert_allclose(alone.log_density(errors), expected.log_density(errors), rtol=1e-6)
    edge = stats.t(2 * shape, scale=np.sqrt(0.7)).ppf(0.975)
    at = np.array([0.999, 1.001, -0.999, -1.001]) * edge
    assert alone.inside(at).tolist() == expected.inside(at).tolist() == [1, 0, 1, 0]
    beside = predicting.NormalAndT(0.3 * ones, 0.7 * ones, shape).log_density(errors)
    np.testing.assert_allclose(np.exp(beside), [density(e, 0.3, 0.7, shape) for e in errors])


def density(error, fixed, variance, shape):
    def integrand(log_precision):
        tau = np.exp(log_precision)
        root = np.sqrt(fixed + variance / tau)
        return stats.norm.pdf(error, scale=root) * tau * stats.gamma.pdf(tau, shape, 0, 1 / shape)

    return quad(integrand, -30, 5, epsabs=1e-14, epsrel=1e-10, limit=500)[0]


def test_exact_predictions_of_whole_numbers_are_as_good_as_their_rounding():
    Y = np.tile(np.arange(10.0), 20)[:, None]
    cells = heldout.Cells("whole", Y, np.ones(Y.shape, dtype=bool))
    exact = predicting_zero(noise="isotropic")
    exact.impute = lambda X, return_std=False: (Y, 0 * Y) if return_std else Y
    density = stats.norm.logpdf(0, scale=np.sqrt(0.99 / 12)) + np.log(Y.std())
    assert heldout.scored(cells, exact).log_density == pytest.approx(density, rel=1e-9)


def test_rows_tell_their_noise_and_cells_do_not():
    hidden = np.array([[True, False, False], [False] * 3])
    cells = heldout.Cells("x", np.arange(6.0).reshape(2, 3), hidden)
    for noise, expected in (("per-sample", 6.0), ("student-cells", 4.0)):
        found = heldout._predicted(
            cells, predicting_zero(noise=noise, freedom=4.0, low=0.5), np.ones(1)
        )
        assert 2 * np.ravel(found.shape) == pytest.approx([expected])
        # The variance of a t distribution is its squared scale times ν/(ν − 2).
        low = getattr(found, "fixed", 0.0)
        assert low + found.variance * expected / (expected - 2) == pytest.approx([1.0])


@pytest.mark.parametrize("scale", [False, True])
def test_isotropic_noise_is_that_of_the_estimator(scale):
    X = noisy("columns", 100, 30, 3, random_state=0).X
    model = BayesianPCA(noise="isotropic", scale=scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ranks.isotropic(X, scale=scale) == model.fit(X).n_components_


def test_numbers_on_a_grid_of_thirds_are_known_no_better_than_that():
    """Few values repeat, and single precision blurs the grid; numbers off a grid may be exact."""
    rng = np.random.default_rng(0)
    thirds = (rng.integers(0, 3000, size=500) / 3).astype(np.float32)
    cells = heldout.Cells("x", np.column_stack([thirds, rng.normal(size=500)]), np.zeros(1))
    resolution = np.sqrt(cells.resolution) * cells.units
    assert resolution[0] == pytest.approx(1 / 3 / np.sqrt(12), rel=1e-3)
    assert resolution[1] < 1e-4


def test_squared_errors_are_told_by_the_noise_of_rows():
    rng = np.random.default_rng(0)
    Y, hidden = rng.normal(size=(60, 5)), rng.random((60, 5)) < 0.3
    Y[:6] *= 30
    cells = heldout.Cells("x", Y, hidden)
    scores = {
        noise: heldout.scored(cells, BayesianPCA(noise=noise).fit(cells.seen))
        for noise in ("both", "per-feature")
    }
    found = dict(auto=scores["both"], **scores)
    (row,) = heldout.by_rows("x", found)
    of = np.nonzero(hidden)[0]
    errors = scores["both"].errors
    expected = [f"{np.sqrt(np.mean(errors[part] ** 2)):.3f}" for part in (of >= 6, of < 6)]
    assert list(row[:3]) == ["x", *expected]
    assert row[-2:] == ("–", "–")
    assert not list(heldout.by_rows("x", {"auto": scores["per-feature"]}))
