"""Designs of other groups: what their formulas say of ranks, strengths and noise, and the rules."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from numpy.linalg import svdvals
from scipy.linalg import toeplitz

from bayespca.cli import reproduction

package = reproduction.experiments().__name__
coloured, designs, panels, questionnaires, rules, white = (
    import_module(f"{package}.rankbench.{name}")
    for name in ("coloured", "designs", "panels", "questionnaires", "rules", "white")
)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_low_rank_has_unit_scores_and_loadings_and_a_quarter_of_noise():
    made = designs.low_rank(rng(), 400, 300, 5)
    assert np.linalg.matrix_rank(made.signal) == made.rank == 5
    assert made.signal.var() == pytest.approx(5, rel=0.1)
    assert made.noise.var() == pytest.approx(0.25, rel=0.02)
    # Rank 10 is less than ten columns.
    assert len(white.shapes(quick=False)) == 49 + 49 + 42


@pytest.mark.parametrize("pattern", white.PATTERNS)
def test_holes_are_fifteen_per_cent_where_the_pattern_has_them(pattern):
    X = rng().standard_normal((200, 100))
    Y = designs.without_cells(X, pattern, rng(1))
    hidden = np.isnan(Y)
    np.testing.assert_array_equal(Y[~hidden], X[~hidden])
    share = 0 if pattern == "complete" else 0.15
    assert hidden.mean() == pytest.approx(share, abs=0.01)
    if pattern == "censored":
        np.testing.assert_array_equal(np.nanmin(Y, axis=0), np.sort(X, axis=0)[30])
    if pattern == "block":
        rows, columns = np.flatnonzero(hidden.any(axis=1)), np.flatnonzero(hidden.any(axis=0))
        assert hidden.sum() == rows.size * columns.size
        assert {*np.diff(rows), *np.diff(columns)} == {1}


def test_factors_have_their_strengths_in_noise_whose_edge_is_known():
    """Without signal the largest singular value tends to 1 + √(p/n)."""
    made = designs.factors(rng(), (6.0, 10.0, 70.0))
    np.testing.assert_allclose(
        svdvals(made.signal)[:4], [*(np.sqrt(0.6) * np.array([70, 10, 6])), 0], rtol=0.05, atol=1e-9
    )
    assert made.rank == 3
    assert np.linalg.norm(made.noise, 2) == pytest.approx(1 + np.sqrt(0.6), rel=0.02)


def test_rows_are_autoregressive_and_signals_have_their_values():
    made = designs.alike_along_rows(rng(), coloured.TEN, 600, 0.4)
    expected = [*(1 + 0.15 * np.arange(10))[::-1], 0]
    np.testing.assert_allclose(svdvals(made.signal)[:11], expected, atol=1e-9)
    for step in range(4):
        products = made.noise[:, step:] * made.noise[:, : 600 - step]
        assert products.mean() * 600 == pytest.approx(0.4**step, abs=0.01)


@pytest.mark.parametrize("draw", [designs.unequal_cells, designs.bad_lines])
def test_twenty_components_ten_of_them_weak(draw):
    made = draw(rng(), 200, 400)
    expected = np.repeat(np.sqrt([1000 * 400, 3 * 400, 0]), [10, 10, 1])
    np.testing.assert_allclose(svdvals(made.signal)[:21], expected, atol=1e-9)
    assert made.rank == 20


def test_variances_of_unequal_noise():
    assert designs.unequal_cells(rng(), 400, 800).noise.var() == pytest.approx(1, rel=0.1)
    squares = designs.bad_lines(rng(), 400, 800).noise ** 2
    parts = squares[:-5, :-5], squares[-5:, :-5], squares[:-5, -5:], squares[-5:, -5:]
    np.testing.assert_allclose([part.mean() for part in parts], [1, 10, 100, 1000], rtol=0.5)


def test_noise_that_is_alike_both_ways():
    """E tr ZZᵀ = tr A²·tr B²/n, E tr (ZZᵀ)² = tr A⁴·(tr B²/n)² + (tr A²/n)²·tr B⁴, where means of
    eigenvalues are 1; six singular values stand out of those of Z.
    """
    n = 400
    rows, columns = designs.spectra(n)
    assert rows.max() / rows.min() == pytest.approx(10 / (1 + 9 / n))
    assert columns.max() / columns.min() == pytest.approx(10.5 / 0.3)
    made = designs.alike_both_ways(rng(), n)
    gamma = svdvals(made.noise)
    assert (gamma**2).sum() == pytest.approx(n, rel=0.02)
    assert (gamma**4).sum() == pytest.approx((rows**2).sum() + (columns**2).sum(), rel=0.05)
    assert (svdvals(made.X) > gamma[0]).sum() == made.rank == 6
    np.testing.assert_allclose(svdvals(made.signal)[:12], np.repeat([4, 2.2, 1.4, 0.4], 3))


@pytest.mark.parametrize("kind", panels.KINDS)
def test_errors_of_panels_have_the_covariance_of_the_process(kind):
    """Of series the product of neighbours' weights, of times ρ to the power of their distance."""
    rho, beta = panels.KINDS[kind]
    made = designs.panel(rng(), rho, beta, n=8_000)
    weights = toeplitz([1.0] + [beta] * 10 + [0.0] * 89)
    covariance = weights @ weights.T / (1 + 20 * beta**2)
    np.testing.assert_allclose(made.noise.T @ made.noise / 8_000, covariance, atol=0.1)
    for step in (1, 2):
        after = np.mean(made.noise[step:] * made.noise[:-step]) / made.noise.var()
        assert after == pytest.approx(rho**step, abs=0.05)
    assert np.linalg.matrix_rank(made.signal) == made.rank == 3
    assert made.signal.var() == pytest.approx(3, rel=0.3)


def test_correlations_of_a_questionnaire():
    """Those of items of one factor are products of loadings; minor factors add their products."""
    C = questionnaires.correlation(condition("low", minor=False), rng())
    np.testing.assert_array_equal(C.diagonal(), 1)
    assert C.min() >= 0
    assert 0.25 <= np.sort(C, axis=1)[:, -2].max() <= 0.49
    # Guttman's bound: factors of hardly correlated items have eigenvalues above 1.
    assert (np.linalg.eigvalsh(C) > 1).sum() == 4
    high = questionnaires.correlation(condition("high", minor=False), rng())
    assert high.min() >= 0.3 * 0.25
    # 0.1/4 times a sum of 12 products of two uniform numbers of variance 1/3.
    last = {
        minor: np.var(
            [questionnaires.correlation(condition("low", minor), rng(s))[0, -1] for s in range(400)]
        )
        for minor in (False, True)
    }
    assert last[True] - last[False] == pytest.approx((0.1 / 4) ** 2 * 12 / 9, rel=0.4)


def condition(correlations, minor):
    return questionnaires.Condition("continuous", 300, 4, "strong", correlations, minor)


def test_answers_are_counted_by_their_limits():
    X = np.array([[-2.0, -0.5], [0.5, 1.7]])
    assert questionnaires.answers(X, (-1.5, 0.0, 1.5)).tolist() == [[0, 1], [2, 3]]
    conditions = list(questionnaires.conditions(quick=False))
    assert len(conditions) == 3 * 5 * (3 * 8 + 4)
    X = questionnaires.drawn(conditions[-1], 0)
    assert X.shape[0] == 900
    assert np.unique(X).tolist() == [0, 1]


def test_ratios_of_eigenvalues_and_of_growths():
    mu = np.array([8.0, 6.0, 5.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.0])
    with_none = np.append(mu.sum() / np.log(mu.size), mu)
    assert rules.ratio_of_eigenvalues(with_none) == 3
    growth = [np.log(1 + mu[k - 1] / mu[k:].sum()) for k in range(1, 10)]
    assert rules.ratio_of_growth(with_none) == np.argmax(np.divide(growth[:-1], growth[1:])) + 1
    noise = np.linspace(1, 0.5, 40)
    none = np.append(noise.sum() / np.log(40), noise)
    assert rules.ratio_of_eigenvalues(none) == rules.ratio_of_growth(none) == 0


def test_a_factor_is_found_from_the_strength_above_which_none_is_missed():
    def of(*right):
        return [rules.Found(1, {"default": int(one)}, "isotropic", announced=True) for one in right]

    results = {1.0: of(True, True), 2.0: of(True, False), 3.0: of(True, True), 4.0: of(True, True)}
    assert white.found_from(results) == 3.0
    assert white.found_from({1.0: of(False)}) == np.inf
