"""Defects that other packages have on complete data, and that we must not have."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, evbmf, rank_report
from bayespca.datasets import low_rank


@pytest.mark.parametrize("engine", ["auto", "dense", "gram", "randomized", "streaming"])
def test_float32_with_an_offset(engine):
    """N(300, 0.1²), 20000×50: the top variance is 0.01, not 8.98."""
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


@pytest.mark.parametrize("method", ["evb", "laplace"])
def test_pure_noise_has_no_components(method):
    for seed in range(10):
        X = np.random.default_rng(seed).normal(size=(300, 30))
        assert BayesianPCA(method).fit(X).n_components_ == 0


def test_laplace_with_fewer_samples_than_features():
    assert BayesianPCA("laplace").fit(low_rank(60, 200, 4, random_state=0).X).n_components_ == 4


def test_noise_of_wide_data_counts_all_features():
    """30×100 unit noise with 5 components: 0.71, not 2.70."""
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
