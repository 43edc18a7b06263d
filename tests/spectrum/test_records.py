"""Small formulas of spectra, closed forms and what is beside them, each written out another way."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import METHODS, Spectrum, posterior_of_rank, solve
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.left_out import left_out
from bayespca.spectrum.records import holding, n_with_room
from bayespca.spectrum.spectra import Spectra, closed_forms

GAMMA = np.array([9.0, 6.0, 2.0, 1.5, 1.0])
SEEN = Spectrum(GAMMA, (5, 20))


# --- spectra -----------------------------------------------------------------------------------


def test_rounded_entries_hide_singular_values_of_their_size():
    """Errors of at most e in L×M entries have a norm of at most about e(√L + √M)."""
    shown = SEEN.of_rounded(0.1)
    assert shown.rounding == pytest.approx(0.1 * (np.sqrt(5) + np.sqrt(20)))
    assert shown.without_rounding().singular_values.tolist() == [9.0, 6.0, 2.0, 1.5, 1.0]
    assert SEEN.of_rounded(0.2).without_rounding().singular_values.tolist() == [9, 6, 2, 1.5, 0]
    nothing = Spectrum(np.zeros(3), (3, 4))
    assert nothing.of_rounded(0.1) is nothing
    assert SEEN.of_rounded(1e-300) is SEEN


@pytest.mark.parametrize("residual", [-1.0, 200.0])
def test_a_residual_that_the_constructor_could_not_have_made_is_refused(residual):
    other = Spectrum(GAMMA[:3], (5, 20), 124.0)
    other.check()
    object.__setattr__(other, "residual", residual)
    with pytest.raises(ValueError, match="residual of a Spectrum"):
        other.check()


def test_room_for_what_is_left():
    """Values that are not known are no larger than the last one that is."""
    squares = np.array([50.0, 20.0, 4.0, 1.0])

    def fits(k, total, n_values):
        left = total - squares[: k + 1].sum()
        return left <= (n_values - 1 - k) * squares[k] * (1 + 1e-9)

    for total, n_values in [(75.0, 4), (100.0, 6), (79.0, 8), (200.0, 5)]:
        every = [fits(k, total, n_values) for k in range(4)]
        first = every.index(False) if False in every else 4
        assert n_with_room(squares, total, n_values) == first


@pytest.mark.parametrize("share", [0.1, 0.5, 0.65, 0.95, 1.0])
def test_how_many_hold_a_share(share):
    squares = GAMMA**2
    first = next(k for k in range(1, 6) if squares[:k].sum() >= share * squares.sum() - 1e-12)
    assert holding(GAMMA, share) == first
    assert holding(np.empty(0), share) == 0


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_share_of_the_squares_is_a_rank(share):
    form = ClosedForm(METHODS["ml"], share=share)
    squares = GAMMA**2
    first = next(k for k in range(1, 6) if squares[:k].sum() > share * squares.sum())
    assert form.n_needed == EVERYTHING
    assert form(SEEN).rank == first


def test_noise_at_0_db_counts_columns_that_do_not_vary():
    form = ClosedForm(METHODS["evb"], noise_variance="0db", n_features=8)
    assert form(SEEN).noise_variance == pytest.approx((GAMMA**2).sum() / (2 * 8 * 20))
    assert not form.sets_rows_aside
    assert ClosedForm(METHODS["evb"]).sets_rows_aside


def test_so_many_components_at_a_given_noise():
    """The weakest of them would be dropped, were it not asked for; a fifth has no solution."""
    ranks = [
        solve(SEEN, noise_variance=0.05, exactly=k, other_ranks=False).rank for k in range(1, 6)
    ]
    assert ranks[:2] == [1, 2]
    assert ranks == sorted(ranks)
    chosen = solve(SEEN, noise_variance=0.05)
    assert chosen.rank <= ranks[-1] <= 5


def test_variances_of_scores_and_loadings_are_those_of_the_moments():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 60)) + 3 * np.outer(rng.normal(size=8), rng.normal(size=60))
    gamma = np.linalg.svd(X, compute_uv=False)
    one = np.ones(1)
    spectra = Spectra(8, 60 * one, gamma[None] ** 2, np.array([8]), 0 * one)
    form = closed_forms(spectra, one).of(0)
    found, solved = form.moments, solve(Spectrum(gamma, (8, 60)), noise_variance=1.0).moments
    assert form.gamma.size == 1
    np.testing.assert_allclose(form.score_variance, found.mean_b**2 * found.variance_a)
    np.testing.assert_allclose(form.loading_variance, found.variance_b / found.mean_b**2)
    np.testing.assert_allclose(found.mean_a * found.mean_b, (solved.mean_a * solved.mean_b)[:1])


# --- numbers that differ -----------------------------------------------------------------------


def test_nothing_is_left_out_where_there_is_no_noise():
    ranks = posterior_of_rank(SEEN)
    assert left_out(SEEN, ranks, 1, 0.0).shape == (0, 2)
    assert left_out(SEEN, ranks, 1, 1e-300).shape == (0, 2)
