"""Defects of other packages that this one must not have."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, evbmf, rank_report
from bayespca.datasets import low_rank


@pytest.mark.parametrize("engine", ["auto", "dense", "gram", "randomized", "streaming"])
def test_float32_with_an_offset(engine):
    """For N(300, 0.1²), 20000×50, the top variance is 0.011, not 8.98."""
    rng = np.random.default_rng(0)
    X = (300 + 0.1 * rng.normal(size=(20_000, 50))).astype(np.float32)
    model = BayesianPCA("ml", n_components=1, engine=engine, random_state=0)
    model.fit(iter([X]) if engine == "streaming" else X)
    assert model.explained_variance_[0] == pytest.approx(0.011, rel=0.05)
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.01)


@pytest.mark.parametrize("factor", [1e-8, 1e-9, 1e-150, 1e150])
@pytest.mark.parametrize("method", ["evb", "laplace"])
def test_the_rank_does_not_depend_on_the_unit(method, factor):
    X = low_rank(200, 20, 5, random_state=0).X
    assert BayesianPCA(method).fit(X).n_components_ == 5
    assert BayesianPCA(method).fit(X * factor).n_components_ == 5


@pytest.mark.parametrize(
    ("method", "options"),
    [("evb", {"n_components": "evb"}), ("laplace", {})],
    ids=["evb", "laplace"],
)
def test_pure_noise_has_no_components(method, options):
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(300, 30))
        assert BayesianPCA(method, **options).fit(X).n_components_ == 0


def test_laplace_with_fewer_samples_than_features():
    assert BayesianPCA("laplace").fit(low_rank(60, 200, 4, random_state=0).X).n_components_ == 4


def test_noise_of_wide_data_counts_all_features():
    """Unit noise of 30×100 with 5 components has a noise variance of 0.71, not 2.70."""
    X = np.random.default_rng(0).normal(size=(30, 100))
    model = BayesianPCA("ml", n_components=5).fit(X)
    assert model.noise_variance_ == pytest.approx(0.71, abs=0.05)


def test_scoring_new_rows_after_fitting_five():
    rng = np.random.default_rng(0)
    model = BayesianPCA().fit(rng.normal(size=(5, 100)))
    new = rng.normal(size=(50, 100))
    assert -300 < model.score(new) < -100, "unit Gaussians in 100 dimensions: about −142"


class TestEVBMF:
    def test_a_small_cap(self):
        Y = low_rank(100, 120, 4, random_state=0).X
        assert evbmf(Y, H=10)[1].shape == (4, 4)

    @pytest.mark.parametrize("factor", [1e-3, 1e3])
    def test_noise_scales_with_the_data(self, factor):
        Y = low_rank(40, 120, 4, random_state=0).X
        expected = evbmf(Y)[3]["sigma2"] * factor**2
        assert evbmf(Y * factor)[3]["sigma2"] == pytest.approx(expected, rel=1e-10)

    def test_no_full_basis_of_the_long_side(self):
        import tracemalloc

        Y = low_rank(200, 6000, 5, random_state=0).X
        evbmf(Y)
        tracemalloc.start()
        evbmf(Y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 * Y.nbytes

    def test_tall_is_wide_transposed(self):
        Y = low_rank(40, 120, 4, random_state=0).X
        assert evbmf(Y.T)[3]["F"] == pytest.approx(evbmf(Y)[3]["F"])


def test_an_offset_is_not_a_component():
    X = low_rank(200, 20, 3, random_state=0).X + 100
    assert BayesianPCA().fit(X).n_components_ == 3


def test_known_noise_on_matrices_that_are_not_square():
    X = low_rank(1000, 100, 5, random_state=0).X
    assert rank_report(X).gavish_donoho == 5


@pytest.mark.parametrize("shape", [(60, 400), (400, 60)])
def test_noise_is_unbiased_whichever_side_is_longer(shape):
    """More volumes than voxels must not inflate σ."""
    found = [
        BayesianPCA().fit(low_rank(*shape, 3, random_state=s).X).noise_variance_ for s in range(10)
    ]
    assert np.mean(found) == pytest.approx(1.0, rel=0.03)


def test_constructor_parameters_are_left_alone():
    model = BayesianPCA(n_components=4, noise_variance="auto")
    before = model.get_params()
    model.fit(low_rank(50, 6, 2, random_state=0).X)
    assert model.get_params() == before


# --- holes -------------------------------------------------------------------------------------


def with_holes(share, seed=0, n=400, p=10):
    """Data with two components and noise of variance 0.49, without and with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) * 2 + 0.7 * rng.normal(size=(n, p))
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


@pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning")  # rows without any cell
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("options", [{}, {"method": "ml", "n_components": 2}])
def test_holes_do_not_raise_the_noise(options, share):
    """The noise is 0.49 at every share of holes; pca-magic finds 1.07, 2.07 and 3.48."""
    found = [BayesianPCA(**options).fit(with_holes(share, s)[1]).noise_variance_ for s in range(4)]
    assert np.mean(found) == pytest.approx(0.49, rel=0.05)


def test_each_pattern_of_holes_has_its_own_covariance():
    """Tools that share one covariance among all rows give the same spread to every row."""
    _, Y = with_holes(0.3)
    Y[0], Y[1] = with_holes(0.0)[0][:2]
    Y[1, 2:] = np.nan
    model = BayesianPCA("ml", n_components=2).fit(Y)
    _, std = model.transform(Y[:2], return_std=True)
    assert (std[1] > 1.3 * std[0]).all()


def test_the_answer_with_holes_does_not_depend_on_the_start():
    _, Y = with_holes(0.3)
    options = {"n_components": 2, "solver": "iterative", "tol": 1e-13, "max_iter": 5000}
    found = [BayesianPCA("ml", random_state=seed, **options).fit(Y) for seed in range(3)]
    for model in found[1:]:
        assert model.free_energy_ == pytest.approx(found[0].free_energy_, rel=1e-9)
        np.testing.assert_allclose(model.impute(Y), found[0].impute(Y), atol=1e-3)


def test_the_two_spreads_of_a_filled_cell_have_names_of_their_own():
    """Without noise, as in vbpca-py's `variance_`, intervals cover half as much as they should."""
    X, Y = with_holes(0.3)
    model = BayesianPCA().fit(Y)
    holes = np.isnan(Y)
    covered = {}
    for kind in (True, "mean"):
        filled, std = model.impute(Y, return_std=kind)
        covered[kind] = np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes])
    assert covered[True] == pytest.approx(0.95, abs=0.015)
    assert covered["mean"] < 0.8


def test_constant_columns_among_holes():
    """R's pcaMethods and missMDA stumble over them."""
    _, Y = with_holes(0.2)
    Y[:, 3] = np.where(np.isnan(Y[:, 3]), np.nan, 7.0)
    model = BayesianPCA().fit(Y)
    assert model.n_components_ == 2
    np.testing.assert_allclose(model.impute(Y)[:, 3], 7.0, atol=1e-6)
