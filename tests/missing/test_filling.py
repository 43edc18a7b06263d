"""Holes of a row are filled by the components of quiet rows, or by those of all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import bayespca
from bayespca import BayesianPCA, BayesianPCAImputer
from bayespca.datasets import low_rank
from bayespca.lowrank import holes_posterior
from bayespca.lowrank.imputing import (
    errors_left_out,
    impute,
    log_odds_of_filler,
    sample_imputation,
    share_of_filler,
)


def with_holes(X, share=0.1, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def two_groups(seed=0):
    """Rows of two groups: quiet ones with two components, and a few with two more."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 12)) + 0.05 * rng.normal(size=(300, 12))
    X[::8] += 2 * rng.normal(size=(38, 2)) @ rng.normal(size=(2, 12))
    return X


def size(errors):
    return np.sqrt(np.nanmean(np.square(errors)))


def defined_errors(posterior, X):
    """The same for known loadings, one cell after the other."""
    columns = posterior.columns
    k, b = columns.rank, columns.b[:, : columns.rank]
    unit = posterior.unit * posterior.scale
    Z, errors = (X - posterior.mean) / unit, np.full(X.shape, np.nan)
    for i, j in np.argwhere(~np.isnan(X)):
        others = ~np.isnan(X[i])
        others[j] = False
        B = b[others]
        precision = B.T @ B + columns.noise_variance * np.diag(1 / columns.prior_a[:k])
        a = np.linalg.solve(precision, B.T @ Z[i, others])
        errors[i, j] = (Z[i, j] - b[j] @ a) * unit[j]
    return errors


@pytest.mark.parametrize("noise", ["isotropic", "per-feature"])
def test_errors_of_cells_left_out_are_those_of_their_predictions(noise):
    X = with_holes(low_rank(40, 8, 2, random_state=1).X)
    posterior = BayesianPCA(noise=noise).fit(X).posterior_
    columns = replace(posterior.columns, b_cov=np.zeros_like(posterior.columns.b_cov))
    known = replace(posterior, columns=columns)
    np.testing.assert_allclose(errors_left_out(known, X), defined_errors(known, X), rtol=1e-9)


def test_loadings_are_learned_without_the_cell():
    """What is estimated is the error of cells that a fit has not seen."""
    X, said, errors = low_rank(40, 8, 2, random_state=1).X, [], []
    for seed in range(20):
        seen = with_holes(X, 0.05, seed)
        model = BayesianPCA(noise="per-feature").fit(seen)
        said.append(errors_left_out(model.posterior_, seen))
        errors.append(np.where(np.isnan(seen), model.impute(seen) - X, np.nan))
    assert size(said) == pytest.approx(size(errors), rel=0.1)


def test_the_log_odds_are_those_of_normal_errors_of_unknown_scale():
    """∫N(e; 0, s²I) ds²/s² for each of the two, by quadrature."""
    seen = with_holes(two_groups())[:20]
    posterior = BayesianPCA().fit(with_holes(two_groups())).posterior_
    unit = np.sqrt(np.diag(holes_posterior.covariance(posterior.filler)))
    logs = np.linspace(-15, 15, 40_001)

    def log_evidence(one):
        found = []
        for errors in errors_left_out(one, seen) / unit:
            e = errors[~np.isnan(errors)]
            found.append(logsumexp(-0.5 * (e @ e) * np.exp(-logs) - 0.5 * e.size * logs))
        return np.array(found)

    expected = log_evidence(replace(posterior, filler=None)), log_evidence(posterior.filler)
    odds = log_odds_of_filler(posterior, posterior.filler, seen)
    np.testing.assert_allclose(odds, expected[1] - expected[0], rtol=1e-6, atol=1e-6)


def test_the_share_is_the_most_likely_one():
    rng = np.random.default_rng(0)
    log_odds = np.where(rng.random(500) < 0.3, 1.0, -1.0) * rng.exponential(4, 500)
    shares = np.linspace(0.001, 0.999, 999)[:, None]
    likelihoods = np.log(1 - shares + shares * np.exp(log_odds)).sum(axis=1)
    best = float(shares[likelihoods.argmax(), 0])
    assert share_of_filler(log_odds) == pytest.approx(best, abs=2e-3)


def test_each_row_is_filled_by_the_components_that_hold_for_it():
    X = two_groups()
    seen = with_holes(X)
    holes, model = np.isnan(seen), BayesianPCA().fit(seen)
    assert model.noise_ not in ("isotropic", "per-feature")
    filled, std = model.impute(seen, return_std=True)
    own, _ = impute(replace(model.posterior_, filler=None), seen)
    by_columns = BayesianPCA(noise="per-feature").fit(seen).impute(seen)
    errors = [np.square(one - X) for one in (filled, own, by_columns)]
    loud = holes & (np.arange(300) % 8 == 0)[:, None]
    # Rows with components of their own are filled by these, quiet ones by the fit.
    assert errors[0][loud].mean() < 0.5 * errors[1][loud].mean()
    quiet = holes & ~loud
    assert errors[0][quiet].mean() < 1.05 * min(errors[1][quiet].mean(), errors[2][quiet].mean())
    np.testing.assert_array_equal(filled[~holes], X[~holes])
    assert 0.9 < np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes])


def test_draws_spread_as_the_standard_deviations_say():
    seen = with_holes(two_groups())[:40]
    posterior = BayesianPCA().fit(with_holes(two_groups())).posterior_
    # A half, so that rows are drawn from either.
    posterior = replace(posterior, share_of_filler=0.5)
    rng, holes = np.random.default_rng(0), np.isnan(seen)
    draws = np.stack([sample_imputation(posterior, seen, rng) for _ in range(4000)])[:, holes]
    mean, std = (one[holes] for one in impute(posterior, seen))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1 * std.max())
    ratio = draws.std(axis=0) / std
    assert 0.9 < np.median(ratio) < 1.1


def test_rows_of_equal_noise_are_filled_by_the_fit():
    model = BayesianPCA().fit(with_holes(low_rank(100, 12, 3, random_state=0).X))
    assert model.posterior_.filler is None


def test_imputers_and_files_fill_alike(tmp_path):
    seen = with_holes(two_groups())
    model = BayesianPCA(scale=True).fit(seen)
    assert model.posterior_.filler is not None
    filled = model.impute(seen)
    np.testing.assert_allclose(BayesianPCAImputer().fit_transform(seen), filled, rtol=1e-9)
    model.save(tmp_path / "a.bpca")
    np.testing.assert_array_equal(bayespca.load(tmp_path / "a.bpca").impute(seen), filled)


def test_columns_that_follow_from_others_are_filled_alike():
    """Where there are holes, these are multiples of others."""
    seen = with_holes(two_groups())
    more = np.column_stack([seen, 3 - 2 * seen[:, 0]])
    model, alone = BayesianPCA().fit(more), BayesianPCA().fit(seen)
    assert model.posterior_.filler is not None
    filled = model.impute(more)
    np.testing.assert_allclose(filled[:, -1], 3 - 2 * filled[:, 0], rtol=1e-9)
    np.testing.assert_allclose(filled[:, :-1], alone.impute(seen), rtol=1e-6)


def test_sums_of_columns_with_holes_are_sums_when_filled():
    seen = with_holes(two_groups())
    more = np.column_stack([seen, seen[:, 0] + seen[:, 1]])
    filled = BayesianPCA().fit(more).impute(more)
    np.testing.assert_allclose(filled[:, -1], filled[:, 0] + filled[:, 1], rtol=1e-9, atol=1e-9)


def test_rows_with_several_holes_keep_their_total():
    """What the others leave of the total is shared by the holes: smaller errors, narrower draws."""
    X = np.exp(two_groups() / 2)
    X = 100 * X / X.sum(axis=1, keepdims=True)
    seen = with_holes(X)
    model, several = BayesianPCA().fit(seen), np.isnan(seen).sum(axis=1) > 1
    filled, std = model.impute(seen, return_std=True)
    np.testing.assert_allclose(filled.sum(axis=1), 100, rtol=1e-9)
    for draw in model.sample_imputations(seen, 2, random_state=0):
        np.testing.assert_allclose(draw.sum(axis=1), 100, rtol=1e-9)
    holes = np.isnan(seen) & several[:, None]
    inside = np.abs(filled - X)[holes] < 1.96 * std[holes]
    assert 0.9 < inside.mean() < 0.99
    free = BayesianPCA("ml", n_components=model.n_components_).fit(seen).impute(seen)
    assert np.square(filled - X)[holes].mean() < np.square(free - X)[holes].mean()


def test_one_empty_cell_does_not_hide_that_rows_have_one_total():
    X = np.exp(two_groups() / 10)
    X = 100 * X / X.sum(axis=1, keepdims=True)
    seen = X.copy()
    seen[3, 4] = np.nan
    whole, holed = BayesianPCA().fit(X), BayesianPCA().fit(seen)
    assert holed.n_components_ == whole.n_components_
    assert "sum to 100" in str(holed.status_)
    assert holed.impute(seen)[3, 4] == pytest.approx(X[3, 4], rel=1e-9)
