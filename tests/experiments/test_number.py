"""Foundations of the program about numbers of components: its data, its rules, what is counted."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from bayespca.cli import reproduction

package = reproduction.experiments().__name__
number, real, structures = (
    import_module(f"{package}.claims.{name}") for name in ("number", "real", "structures")
)


@pytest.mark.parametrize("kind", structures.KINDS)
def test_a_seed_draws_the_same_data_of_each_kind(kind):
    X, rank = structures.sample(kind, 3)
    np.testing.assert_array_equal(X, structures.sample(kind, 3)[0])
    assert np.isfinite(X).all()
    assert (X != structures.sample(kind, 4)[0]).any()
    assert rank in (0, 1, 2, 3, 4)


def table_of_two_factors(n=4000):
    """Loadings along two axes with variances 9 and 4, noise of variance 1, other units."""
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.standard_normal((6, 2)))[0].T * np.array([[3.0], [2.0]])
    units = np.array([1, 1, 10, 1, 0.1, 1])
    return (rng.standard_normal((n, 2)) @ W + rng.standard_normal((n, 6))) * units + 5


@pytest.mark.parametrize("rows", structures.ROWS)
def test_a_table_drawn_again_has_the_mean_and_covariance_of_the_table(rows):
    table = table_of_two_factors()
    X, rank = structures.Factors.of(table, 2).drawn(rows, 0)
    assert rank == 2
    std = table.std(axis=0)
    np.testing.assert_allclose(X.mean(axis=0) / std, table.mean(axis=0) / std, atol=0.06)
    covariances = [np.cov((one / std).T) for one in (X, table)]
    np.testing.assert_allclose(*covariances, atol=0.1)
    assert np.abs(covariances[1] - np.eye(6)).max() > 0.3


def test_strengths_are_variances_over_the_detection_limit():
    factors = structures.Factors.of(table_of_two_factors(), 2)
    limit = np.sqrt(6 / 4000)
    np.testing.assert_allclose(factors.strengths * limit, [9, 4], rtol=0.1)


def test_residuals_are_permuted_in_each_column_and_rows_have_heavy_tails():
    factors = structures.Factors.of(table_of_two_factors(500), 2)
    X, rng = factors.drawn("residuals", 1)[0], np.random.default_rng((1, 2))
    scores = factors.scores[rng.integers(500, size=500)]
    left = ((X - factors.mean) / factors.std - scores @ factors.loadings) / np.sqrt(factors.noise)
    np.testing.assert_allclose(np.sort(left, axis=0), np.sort(factors.residuals, axis=0))
    assert (np.abs(left - factors.residuals) > 1e-6).any(axis=0).all()


def test_parallel_analysis_finds_strong_components_in_any_units_and_none_in_noise():
    table = table_of_two_factors(300)
    assert number.parallel_analysis(table, 0) == 2
    assert number.parallel_analysis(np.column_stack([table, np.ones(300)]), 0) == 2
    noise = [np.random.default_rng(seed).standard_normal((300, 6)) for seed in range(20)]
    assert sum(number.parallel_analysis(X, 0) == 0 for X in noise) >= 17


def test_a_bound_keeps_components_that_are_there_with_its_probability():
    probabilities = np.array([0.05, 0.2, 0.35, 0.4])
    kept = {0.96: 0, 0.95: 1, 0.9: 1, 0.75: 2, 0.5: 2, 0.4: 3}
    assert {bound: number.at_least(probabilities, bound) for bound in kept} == kept


def test_probabilities_of_the_number_kept_are_of_data_sets_that_have_any():
    rules = dict.fromkeys(number.RULES, np.array([1, 2, 4]))
    posteriors = (np.array([0.1, 0.7, 0.2]), None, np.array([0.5, 0.5]))
    one = number.Numbers(np.array([1, 2, 1]), rules, posteriors)
    assert one.right(number.DEFAULT) == pytest.approx(2 / 3)
    assert one.determined.tolist() == [True, False, True]
    exactly, at_least = one.kept()
    np.testing.assert_allclose(exactly, [0.7, 0.0])
    np.testing.assert_allclose(at_least, [0.9, 0.0])
    both = number.Numbers.joined([one, one])
    assert both.announced.truth.tolist() == [1, 1, 1, 1]
    assert both.truth.size == len(both.posteriors) == 6


def announcement(kept, exactly, words):
    return real.Announcement(
        *("x", (9, 3), kept, 0.9, exactly, 3, words, "isotropic", 0.1), evb=kept
    )


def computed(said, changed):
    run = SimpleNamespace(printed={"least": 0.5})
    return [(line.computed, line.verdict) for line in real.lines(run, said, changed)]


def test_what_is_announced_with_little_probability_or_changes_unannounced_is_named():
    sure = announcement(3, 0.95, "with a probability of 95 %")
    several = announcement(3, 0.4, "from 2 to 4 with a probability of 93 %")
    fewer = announcement(2, 0.1, "at least so many with a probability of 99 %, most probably 3")
    none = announcement(3, None, "stand out; more cannot be told apart from deviations")
    unsure = announcement(4, 0.1, "at least so many with a probability of 9 %, most probably 3")
    fine = [real.Stability(sure, (3, 3)), *(real.Stability(one, (2, 3)) for one in (several, none))]
    assert computed([sure, several, fewer, none], fine) == [("none", "holds")] * 2
    assert computed([sure, unsure], []) == [("x", "differs"), ("none", "holds")]
    assert computed([], [real.Stability(sure, (3, 2))])[1] == ("x", "differs")


def test_one_cell_less_leaves_a_clear_number_alone():
    table = table_of_two_factors(100)
    assert real.without_cells(table, 3) == (2, 2, 2)
