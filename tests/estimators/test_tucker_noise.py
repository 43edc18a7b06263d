"""`BayesianTucker` with noise that differs between slices."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bayespca import BayesianPCA, BayesianTucker, load
from cases import EVERY_CASE
from tensors.simulated import artificial, unequal, with_holes

SIZES, RANKS = (12, 14, 16), (2, 3, 2)


@pytest.fixture(scope="module")
def example():
    T, variances = unequal(0, SIZES, RANKS)
    return T, variances, BayesianTucker(noise="per-mode").fit(T)


@pytest.mark.parametrize("seed", range(10 if EVERY_CASE else 4))
def test_ranks_are_right_where_equal_noise_finds_too_many(seed):
    T, _ = unequal(seed, SIZES, RANKS)
    own, equal = (
        BayesianTucker(noise="per-mode").fit(T),
        BayesianTucker(noise="isotropic", tol=1e-6).fit(T),
    )
    assert own.ranks_ == RANKS
    assert all(found > true for found, true in zip(equal.ranks_, RANKS, strict=True))
    assert own.free_energy_ < equal.free_energy_ - 500


def test_noise_of_slices_is_found(example):
    _, variances, model = example
    assert model.noise_ == "per-mode"
    for found, true in zip(model.slice_noise_variances_, variances, strict=True):
        assert found.mean() == pytest.approx(model.noise_variance_)
        error = np.log(found / found.mean()) - np.log(true / true.mean())
        assert np.abs(error).max() < 0.5


def test_equal_slices_have_the_same_variance():
    T, _ = artificial(0, SIZES, RANKS, snr=5.0)
    model = BayesianTucker().fit(T)
    assert model.noise_ == "isotropic"
    assert model.noise_evidence_ == {"isotropic": 0.0}
    assert [one.shape for one in model.slice_noise_variances_] == [(M,) for M in SIZES]
    assert all((one == model.noise_variance_).all() for one in model.slice_noise_variances_)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_evidence_chooses(share):
    equal = BayesianTucker(noise="auto").fit(with_holes(artificial(0, SIZES, RANKS)[0], share))
    assert equal.noise_ == "isotropic"
    assert equal.ranks_ == RANKS
    own = BayesianTucker(noise="auto").fit(with_holes(unequal(0, SIZES, RANKS)[0], share))
    assert own.noise_ == "per-mode"
    assert own.ranks_ == RANKS
    assert own.noise_evidence_["isotropic"] == 0
    assert own.noise_evidence_["per-mode"] > 300


def test_few_slices_that_differ_by_chance_are_equal():
    """The evidence counts all modes together, and each prior has its price."""
    for seed in range(5):
        T, _ = artificial(seed, (4, 5, 40), (2, 2, 2), snr=5.0)
        assert BayesianTucker(noise="auto").fit(T).noise_ == "isotropic"


def test_ranks_that_are_asked_for_do_not_choose_the_noise(example):
    """What one component leaves unexplained differs between slices, but is not noise."""
    model = BayesianTucker(ranks=(1, 1, 1)).fit(example[0])
    assert model.noise_ == "isotropic"
    assert model.ranks_ == (1, 1, 1)


@pytest.mark.parametrize("center", [False, True])
def test_what_was_fitted_is_found_again(center):
    T, _ = unequal(1, SIZES, RANKS)
    model = BayesianTucker(noise="per-mode", center=center, tol=1e-13).fit(T + 3.0 * center)
    np.testing.assert_allclose(model.transform(T + 3.0 * center), model.factors_[0], atol=1e-6)
    for U in model.factors_:
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
    if center:
        weights = 1 / model.slice_noise_variances_[0]
        mean = np.tensordot(weights / weights.sum(), T + 3.0, axes=1)
        np.testing.assert_allclose(model.mean_, mean)


def test_filled_cells_are_as_uncertain_as_their_slices_are_noisy(example):
    T, _, _ = example
    holes = with_holes(T, 0.3)
    model = BayesianTucker(noise="per-mode").fit(holes)
    assert model.ranks_ == RANKS
    filled, std = model.impute(return_std=True)
    gone = np.isnan(holes)
    z = (filled - T)[gone] / std[gone]
    assert np.std(z) == pytest.approx(1.0, abs=0.1)
    noisy = std[gone] > np.median(std[gone])
    assert np.std(z[noisy]) == pytest.approx(np.std(z[~noisy]), abs=0.1)
    # New slices are given the noise of a typical slice.
    _, new = model.impute(holes, return_std=True)
    first = model.slice_noise_variances_[0] / model.noise_variance_
    i, j = np.argmax(first), np.argmin(first)
    assert (std[i][gone[i]] > new[i][gone[i]]).all()
    assert (std[j][gone[j]] < new[j][gone[j]]).all()


def test_units_of_slices_do_not_matter(example):
    """Rescaling slices must leave the model the same, except for the priors of the scales."""
    T, _, model = example
    units = np.exp(np.random.default_rng(1).normal(size=SIZES[1]) * 0.5)
    other = BayesianTucker(noise="per-mode").fit(T * units[:, None])
    assert other.ranks_ == model.ranks_
    np.testing.assert_allclose(
        other.reconstruct() / units[:, None], model.reconstruct(), atol=0.05 * T.std()
    )


def test_model_files(example, tmp_path):
    T, _, model = example
    model.save(tmp_path / "tensor.bpca")
    same = load(tmp_path / "tensor.bpca")
    assert same.noise_ == "per-mode"
    for mine, theirs in zip(same.slice_noise_variances_, model.slice_noise_variances_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    holes = with_holes(T, 0.2)
    for mine, theirs in zip(
        same.impute(holes, return_std=True), model.impute(holes, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_checkpoints_hold_the_noise(example, tmp_path):
    T, _, model = example
    path = tmp_path / "checkpoint"

    def broken(number, info):
        if number == 12:
            raise KeyboardInterrupt

    half = BayesianTucker(noise="per-mode", checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        half.fit(T, callback=broken)
    half.fit(T)
    assert half.free_energy_ == pytest.approx(model.free_energy_)


def test_torch(example):
    torch = pytest.importorskip("torch")
    T, _, model = example
    same = BayesianTucker(noise="per-mode").fit(torch.asarray(T))
    assert same.ranks_ == model.ranks_
    for mine, theirs in zip(same.slice_noise_variances_, model.slice_noise_variances_, strict=True):
        assert isinstance(mine, torch.Tensor)
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_two_modes_are_a_matrix(share):
    rng = np.random.default_rng(0)
    u, v = np.exp(rng.normal(size=(40, 1))), np.exp(rng.normal(size=25))
    X = 3 * rng.normal(size=(40, 3)) @ rng.normal(size=(3, 25))
    X = with_holes(X + np.sqrt(u * v) * rng.normal(size=X.shape), share)
    model = BayesianTucker(noise="per-mode").fit(X)
    same = BayesianPCA(noise="both", center=False).fit(X)
    assert model.ranks_ == (same.n_components_,) * 2
    np.testing.assert_allclose(model.reconstruct(), same.denoise(X), atol=1e-8)
    np.testing.assert_allclose(model.transform(X), model.factors_[0], atol=1e-8)
    np.testing.assert_allclose(model.slice_noise_variances_[1], same.feature_noise_variance_)
    assert BayesianTucker(noise="auto").fit(X).noise_ == "per-mode"


def test_modes_of_size_one_have_the_noise_of_all(example):
    T, _, model = example
    other = BayesianTucker(noise="per-mode").fit(T[:, None])
    assert [one.size for one in other.slice_noise_variances_] == [12, 1, 14, 16]
    assert other.slice_noise_variances_[1][0] == other.noise_variance_
    assert other.free_energy_ == model.free_energy_


def test_what_cannot_be(example):
    T, _, _ = example
    with pytest.raises(ValueError, match="works with method='evb'"):
        BayesianTucker("emap", noise="per-mode").fit(T)
    with pytest.raises(ValueError, match="leave noise_variance at 'auto'"):
        BayesianTucker(noise="per-mode", noise_variance="0db").fit(T)
    assert BayesianTucker(noise_variance="0db").fit(T).noise_ == "isotropic"


def test_a_line_about_it(example, capsys):
    T, _, _ = example
    BayesianTucker(verbose=True).fit(T)
    assert "core 2×3×2, noise per-mode (+" in capsys.readouterr().out


@pytest.mark.skipif("BAYESPCA_DATA" not in os.environ, reason="needs amino.npz (BAYESPCA_DATA)")
def test_amino_acids():
    """Noise of slices has more evidence, and little stands out beside the three amino acids."""
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / "amino.npz") as file:
        T = file["T"].astype(float)
    model = BayesianTucker(tol=1e-5).fit(T)
    assert model.noise_ == "per-mode"
    assert model.noise_evidence_["per-mode"] > 10_000
    assert [int((one > 1e-3).sum()) for one in model.explained_ratios_] == [3, 3, 3]
    assert all(one.sum() == pytest.approx(1.0) for one in model.explained_ratios_)
