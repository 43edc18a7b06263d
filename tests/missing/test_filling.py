"""Holes are filled by noise of columns where that has the smaller squared errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bayespca
from bayespca import BayesianPCA, BayesianPCAImputer
from bayespca.datasets import low_rank
from bayespca.lowrank.imputing import error_left_out, impute


def with_holes(X, share=0.1, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def two_groups(seed=0):
    """Rows of two groups: quiet ones with two components, and a few with two more."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 12)) + 0.05 * rng.normal(size=(300, 12))
    X[::8] += 2 * rng.normal(size=(38, 2)) @ rng.normal(size=(2, 12))
    return X


def defined_error(posterior, X):
    """The same for known loadings, one cell after the other."""
    columns = posterior.columns
    k, b = columns.rank, columns.b[:, : columns.rank]
    unit = posterior.unit * posterior.scale
    Z, squares = (X - posterior.mean) / unit, []
    for i, j in np.argwhere(~np.isnan(X)):
        others = ~np.isnan(X[i])
        others[j] = False
        B = b[others]
        precision = B.T @ B + columns.noise_variance * np.diag(1 / columns.prior_a[:k])
        a = np.linalg.solve(precision, B.T @ Z[i, others])
        squares.append(((Z[i, j] - b[j] @ a) * unit[j] / np.nanstd(X[:, j])) ** 2)
    return np.sqrt(np.mean(squares))


@pytest.mark.parametrize("noise", ["isotropic", "per-feature"])
def test_errors_of_cells_left_out_are_those_of_their_predictions(noise):
    X = with_holes(low_rank(40, 8, 2, random_state=1).X)
    posterior = BayesianPCA(noise=noise).fit(X).posterior_
    columns = replace(posterior.columns, b_cov=np.zeros_like(posterior.columns.b_cov))
    known = replace(posterior, columns=columns)
    assert error_left_out(known, X) == pytest.approx(defined_error(known, X), rel=1e-9)


def test_loadings_are_learned_without_the_cell():
    """What is estimated is the error of cells that a fit has not seen."""
    X, said, errors = low_rank(40, 8, 2, random_state=1).X, [], []
    for seed in range(20):
        seen = with_holes(X, 0.05, seed)
        model = BayesianPCA(noise="per-feature").fit(seen)
        said.append(error_left_out(model.posterior_, seen))
        errors.append(((model.impute(seen) - X) / np.nanstd(seen, axis=0))[np.isnan(seen)])
    truth = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    assert np.sqrt(np.mean(np.square(said))) == pytest.approx(truth, rel=0.1)


def test_rows_that_hardly_count_are_filled_by_noise_of_columns():
    X = two_groups()
    seen = with_holes(X)
    holes, model = np.isnan(seen), BayesianPCA().fit(seen)
    by_columns = BayesianPCA(noise="per-feature").fit(seen)
    assert model.noise_ not in ("isotropic", "per-feature")
    filled, std = model.impute(seen, return_std=True)
    own, of_own = impute(replace(model.posterior_, filler=None), seen)
    assert np.square((filled - X)[holes]).mean() < 0.5 * np.square((own - X)[holes]).mean()
    np.testing.assert_allclose(filled, by_columns.impute(seen), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(filled[~holes], X[~holes])
    # Standard deviations are those of the chosen noise, about the filled value.
    assert (std[holes] >= 0.9 * of_own[holes]).all()
    assert 0.9 < np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes])


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


def test_sums_of_columns_with_holes_leave_hardly_any_noise():
    """They are fitted: sweeps get ever closer to columns without noise, and end all the same."""
    seen = with_holes(two_groups())
    more = np.column_stack([seen, seen[:, 0] + seen[:, 1]])
    filled = BayesianPCA().fit(more).impute(more)
    np.testing.assert_allclose(filled[:, -1], filled[:, 0] + filled[:, 1], atol=1e-4)
