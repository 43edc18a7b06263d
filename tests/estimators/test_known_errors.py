"""Known measurement errors, and sample weights."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA

RNG = np.random.default_rng(0)
N, P, RANK = 300, 20, 3
LOW_RANK = RNG.normal(size=(N, RANK)) @ (0.6 * RNG.normal(size=(RANK, P)))
ROWS = np.exp(0.8 * RNG.normal(size=(N, 1)))
COLUMNS = np.exp(0.8 * RNG.normal(size=(1, P)))
NOISE = RNG.normal(size=(N, P))


def error(model, X):
    return np.sqrt(((model.denoise(X) - LOW_RANK) ** 2).mean())


@pytest.mark.parametrize("std", [ROWS, COLUMNS, ROWS * COLUMNS], ids=["rows", "columns", "both"])
def test_known_errors_find_the_rank_and_the_signal(std):
    X = LOW_RANK + std * NOISE
    model = BayesianPCA().fit(X, error_std=std)
    plain = BayesianPCA(noise="isotropic").fit(X)
    assert model.n_components_ == RANK
    assert error(model, X) < 0.7 * error(plain, X)
    assert model.noise_variance_ == pytest.approx(1.0, rel=0.05)
    assert model.free_energy_ < plain.free_energy_


@pytest.mark.parametrize("share", [0.0, 0.1], ids=["complete", "holes"])
@pytest.mark.parametrize("noise", ["isotropic", "per-sample", "per-feature"])
@pytest.mark.parametrize("std", [ROWS, COLUMNS, ROWS * COLUMNS], ids=["rows", "columns", "both"])
def test_noise_of_rows_and_columns_is_in_units_of_the_data(std, noise, share):
    """They are means of the cells' variances, whether errors are known by row, column or cell."""
    X = LOW_RANK + std * NOISE
    X[np.random.default_rng(1).random(X.shape) < share] = np.nan
    model = BayesianPCA(noise=noise).fit(X, error_std=std)
    cells = np.broadcast_to(std**2, X.shape)
    rows, columns = model.sample_noise_variance_, model.feature_noise_variance_
    assert rows.mean() == pytest.approx(columns.mean(), rel=1e-6)
    assert np.median(rows / cells.mean(axis=1)) == pytest.approx(1.0, abs=0.1)
    assert np.median(columns / cells.mean(axis=0)) == pytest.approx(1.0, abs=0.1)


def test_noise_of_rows_is_in_units_of_the_data_when_columns_are_scaled():
    X = LOW_RANK + NOISE
    model = BayesianPCA(noise="isotropic", scale=True).fit(X)
    assert model.sample_noise_variance_ == pytest.approx(model.feature_noise_variance_.mean())


def test_equal_errors_change_nothing():
    X = LOW_RANK + NOISE
    plain = BayesianPCA(noise="isotropic").fit(X)
    for given in ({"error_std": np.full((N, 1), 3.0)}, {"sample_weight": np.full(N, 7.0)}):
        model = BayesianPCA().fit(X, **given)
        assert model.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-10)
        assert model.components_ == pytest.approx(plain.components_, abs=1e-7)
    model = BayesianPCA().fit(X, error_std=np.full((1, P), 3.0))
    assert model.free_energy_ == pytest.approx(plain.free_energy_, rel=1e-10)
    assert model.noise_variance_ == pytest.approx(plain.noise_variance_ / 9, rel=1e-8)


def test_weights_are_inverse_variances():
    X = LOW_RANK + ROWS * NOISE
    errors = BayesianPCA().fit(X, error_std=ROWS)
    weights = BayesianPCA().fit(X, sample_weight=ROWS[:, 0] ** -2.0)
    assert weights.free_energy_ == pytest.approx(errors.free_energy_, rel=1e-10)
    assert weights.mean_ == pytest.approx(errors.mean_, abs=1e-8)


def test_the_mean_is_weighted():
    X = 5.0 + ROWS * NOISE
    mean = BayesianPCA().fit(X, error_std=ROWS).mean_
    weights = ROWS**-2.0
    assert mean == pytest.approx((weights * X).sum(axis=0) / weights.sum(), abs=1e-8)


def test_noise_of_features_beside_known_errors_of_rows():
    X = LOW_RANK + ROWS * COLUMNS * NOISE
    model = BayesianPCA(noise="per-feature").fit(X, error_std=ROWS)
    assert model.n_components_ == RANK
    assert np.corrcoef(np.log(model.feature_noise_variance_), np.log(COLUMNS[0] ** 2))[0, 1] > 0.99


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"error_std": -np.ones((1, P))}, "it is -1 in column 0"),
        ({"error_std": np.zeros((N, P))}, "it is 0 in row 0, column 0"),
        ({"error_std": np.full((N, 1), np.nan)}, "it is nan in row 0"),
        ({"error_std": np.ones((3, P))}, r"\(300, 20\), \(300, 1\) or \(1, 20\).*got \(3, 20\)"),
        ({"sample_weight": np.zeros(N)}, "it is zero for row 0.*leave out rows"),
        ({"sample_weight": -np.ones(N)}, "it is -1 for row 0"),
        ({"sample_weight": np.ones(3)}, r"the shape \(300,\), got \(3,\)"),
    ],
)
def test_bad_errors_are_named(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        BayesianPCA().fit(LOW_RANK + NOISE, **given)


def test_rows_that_say_nothing():
    std = np.ones((N, P))
    std[4] = np.inf
    with pytest.raises(ValueError, match="infinite for all of row 4"):
        BayesianPCA().fit(LOW_RANK + NOISE, error_std=std)


def test_as_many_rows_as_columns_need_two_axes():
    X = (LOW_RANK + NOISE)[:P]
    with pytest.raises(ValueError, match=r"\(n, 1\) or \(1, p\)"):
        BayesianPCA().fit(X, error_std=np.ones(P))


def test_methods_that_cannot():
    with pytest.raises(ValueError, match=r"method='evb', 'vb' and 'ml'.*got method='laplace'"):
        BayesianPCA("laplace").fit(LOW_RANK + NOISE, sample_weight=np.arange(1, N + 1))


@pytest.mark.parametrize("has_holes", [False, True])
@pytest.mark.parametrize("std", [3 * COLUMNS, 2 * ROWS * COLUMNS], ids=["columns", "both"])
def test_noise_of_features_is_that_of_their_cells(std, has_holes):
    """If noise is half the known errors, a feature's noise is the mean variance of its cells."""
    X = LOW_RANK + 0.5 * std * NOISE
    if has_holes:
        X[RNG.random(X.shape) < 0.05] = np.nan
    model = BayesianPCA().fit(X, error_std=std)
    variances = 0.25 * np.broadcast_to(std**2, X.shape)
    assert model.noise_variance_ == pytest.approx(0.25, rel=0.05)
    assert model.feature_noise_variance_ == pytest.approx(variances.mean(axis=0), rel=0.05)
