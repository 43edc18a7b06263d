"""`BayesianTucker` and `tensor_ranks` as users see them."""

from __future__ import annotations

import copy
import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from bayespca import BayesianPCA, BayesianTucker, load, tensor_ranks
from bayespca.estimators import RankWarning
from bayespca.estimators.findings import findings_of
from tensors.simulated import artificial, with_holes


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


@pytest.fixture(scope="module")
def example():
    return artificial(0)


# --- ranks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
def test_artificial_tensor_of_the_paper_from_random_starts(method, example):
    """aistats2014 Table 2, ArtificialTF: (3, 4, 5) with the noise at 0 dB."""
    T, _ = example
    found = Counter(
        BayesianTucker(method, noise_variance="0db", init="random", random_state=seed).fit(T).ranks_
        for seed in range(10)
    )
    assert found[(3, 4, 5)] >= (9 if method == "emap" else 10)


def test_unfoldings_alone(example):
    T, _ = example
    assert tensor_ranks(T) == (3, 4, 5)
    assert tensor_ranks(T, "emap", noise_variance="0db") == (3, 4, 5)
    assert tensor_ranks(np.random.default_rng(0).normal(size=(5, 6, 7))) == (0, 0, 0)


def test_weak_components_that_no_unfolding_shows():
    """If the other modes are known to have small ranks, a mode shows more than its unfolding."""
    T, _ = artificial(7, (40, 40, 40), (2, 2, 2), snr=0.008)
    alone, together = tensor_ranks(T), BayesianTucker().fit(T).ranks_
    assert all(a <= b for a, b in zip(alone, together, strict=True))
    assert sum(together) > sum(alone)


def test_pure_noise_has_no_core():
    T = np.random.default_rng(0).normal(size=(8, 9, 10))
    model = BayesianTucker().fit(T)
    assert model.ranks_ == (0, 0, 0)
    assert model.noise_variance_ == pytest.approx(T.var(), rel=0.1)
    assert not model.reconstruct().any()
    assert model.transform(T).shape == (8, 0)
    holes = with_holes(T, 0.3)
    filled, std = BayesianTucker().fit(holes).impute(return_std=True)
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(std[np.isnan(holes)], np.nanstd(holes), rtol=0.1)


def test_ranks_that_are_asked_for(example):
    T, _ = example
    model = BayesianTucker(ranks=(2, None, 6)).fit(T)
    assert model.ranks_[0] == 2
    assert model.ranks_[2] == 6
    assert model.core_.shape == model.ranks_
    np.testing.assert_allclose(model.factors_[2].T @ model.factors_[2], np.eye(6), atol=1e-10)
    assert model.transform(T).shape == (30, 2)


def test_prior_given_takes_the_ranks_of_evb(example):
    T, X = example
    model = BayesianTucker("pb").fit(T)
    assert model.ranks_ == (3, 4, 5)
    assert rmse(model.reconstruct(), X) < 0.11
    tight = BayesianTucker("pb", prior_variance=1e-8).fit(T)
    assert np.linalg.norm(tight.core_) < 0.9 * np.linalg.norm(model.core_)


def test_gradient_descent_goes_to_the_same_place(example):
    T, _ = example
    plain = BayesianTucker("emap", noise_variance="0db").fit(T)
    slow = BayesianTucker("emap", noise_variance="0db", solver="gradient", max_iter=4000).fit(T)
    assert slow.ranks_ == plain.ranks_
    assert slow.n_iter_ > 5 * plain.n_iter_
    assert rmse(slow.reconstruct(), plain.reconstruct()) < 0.01


@pytest.mark.skipif("BAYESPCA_DATA" not in os.environ, reason="needs amino.npz (BAYESPCA_DATA)")
@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
def test_amino_acids(method):
    """Three amino acids in five samples, noise at 0 dB."""
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / "amino.npz") as file:
        T = file["T"].astype(float)
    assert BayesianTucker(method, noise_variance="0db").fit(T).ranks_ == (3, 3, 3)


# --- equivalent input --------------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("method", ["evb", "epb", "emap", "pb"])
def test_two_modes_are_a_matrix(method, share, center):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 25)) + 0.5 * rng.normal(size=(40, 25))
    X = with_holes(X, share)
    model = BayesianTucker(method, center=center).fit(X)
    prior = 1.0 if method == "pb" else None
    same = BayesianPCA(method, center=center, prior_variance=prior).fit(X)
    assert model.ranks_ == (same.n_components_,) * 2
    assert model.free_energy_ == same.free_energy_
    assert model.noise_variance_ == same.noise_variance_
    np.testing.assert_allclose(model.reconstruct(), same.denoise(X), atol=1e-10)
    np.testing.assert_allclose(model.transform(X), model.factors_[0], atol=1e-10)
    for mine, theirs in zip(
        model.impute(return_std=True), same.impute(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_modes_of_size_one_say_nothing(example):
    T, _ = example
    plain = BayesianTucker().fit(T)
    model = BayesianTucker().fit(T[:, None, :, :, None])
    assert model.ranks_ == (3, 1, 4, 5, 1)
    assert model.free_energy_ == plain.free_energy_
    np.testing.assert_allclose(model.reconstruct()[:, 0, :, :, 0], plain.reconstruct())
    assert BayesianTucker().fit(T[:, :, :1]).ranks_[2] == 1
    assert BayesianTucker().fit(T[:, :1, :1]).core_.ndim == 3
    one = BayesianTucker().fit(T[:1])
    assert one.reconstruct().shape == (1, 40, 50)


@pytest.mark.parametrize("factor", [1e-150, 1e-3, 1e150])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_scale_of_the_data(factor, share):
    T, _ = artificial(1, (12, 13, 14), (2, 3, 2), snr=4.0)
    T = with_holes(T, share)
    plain, scaled = BayesianTucker().fit(T), BayesianTucker().fit(T * factor)
    assert scaled.ranks_ == plain.ranks_
    assert min(plain.ranks_) > 1
    assert scaled.noise_variance_ == pytest.approx(plain.noise_variance_ * factor**2, rel=1e-6)
    shift = np.sum(~np.isnan(T)) * np.log(factor)
    assert scaled.free_energy_ == pytest.approx(plain.free_energy_ + shift, rel=1e-8)
    np.testing.assert_allclose(scaled.reconstruct() / factor, plain.reconstruct(), atol=1e-4)


@pytest.mark.parametrize("method", ["epb", "emap"])
def test_free_energy_of_points_has_the_units_of_the_data(method):
    """Densities of point estimates change with the unit, as if data were rescaled by hand."""
    T, _ = artificial(1, (12, 13, 14), (2, 3, 2), snr=4.0)
    a, b = (BayesianTucker(method, noise_variance="0db").fit(T * u) for u in (1.0, 100.0))
    entries = sum(M * H for M, H in zip(T.shape, a.ranks_, strict=True)) / 6
    entries += (method == "emap") * np.prod(a.ranks_) / 2
    expected = (T.size + entries) * np.log(100.0)
    assert b.free_energy_ - a.free_energy_ == pytest.approx(expected, rel=1e-6)


def test_kinds_of_arrays(example):
    torch = pytest.importorskip("torch", reason="needs torch")
    T, _ = artificial(1, (12, 13, 14), (2, 3, 2), snr=4.0)
    plain = BayesianTucker().fit(T)
    for other in (np.asfortranarray(T), T[::-1][::-1], T.astype(np.float32), T.tolist()):
        model = BayesianTucker().fit(other)
        assert model.ranks_ == plain.ranks_
        assert rmse(model.reconstruct(), plain.reconstruct()) < 1e-4
    assert BayesianTucker().fit(T.astype(np.float32)).core_.dtype == np.float32
    whole = BayesianTucker().fit(np.round(10 * T).astype(int))
    assert whole.ranks_ == plain.ranks_
    for holes in (T, with_holes(T, 0.4)):
        same = BayesianTucker().fit(holes)
        model = BayesianTucker().fit(torch.asarray(holes))
        assert model.ranks_ == same.ranks_
        assert isinstance(model.core_, torch.Tensor)
        filled, std = model.impute(return_std=True)
        np.testing.assert_allclose(filled.numpy(), same.impute(), atol=1e-8)
        assert isinstance(std, torch.Tensor)
        np.testing.assert_allclose(
            model.transform(torch.asarray(holes)).numpy(), same.transform(holes), atol=1e-8
        )


# --- holes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_holes(share, example):
    T, _ = example
    holes = with_holes(T, share)
    there = ~np.isnan(holes)
    model = BayesianTucker().fit(holes)
    assert model.ranks_ == (3, 4, 5)
    filled, std = model.impute(return_std=True)
    np.testing.assert_array_equal(filled[there], T[there])
    assert not std[there].any()
    inside = np.abs(T - filled)[~there] < 1.96 * std[~there]
    assert 0.94 < inside.mean() < 0.96
    with pytest.raises(ValueError, match="return_std"):
        model.impute(return_std="mean")


def test_masks_as_in_tensorly(example):
    T, _ = example
    mask = np.random.default_rng(0).random(T.shape) < 0.5
    expected = BayesianTucker().fit(np.where(mask, T, np.nan))
    for kind in (bool, int, float):
        model = BayesianTucker().fit(np.where(mask, T, np.inf), mask=mask.astype(kind))
        assert model.free_energy_ == expected.free_energy_
    masked = BayesianTucker().fit(np.ma.masked_array(T, ~mask))
    assert masked.free_energy_ == expected.free_energy_


def test_slices_without_any_value(example):
    T, X = example
    T = with_holes(T, 0.2)
    T[3], T[:, 5], T[:, :, 7] = np.nan, np.nan, np.nan
    with pytest.warns(RankWarning, match="along mode"):
        model = BayesianTucker().fit(T)
    assert len([a for a in model.status_.advice if a.code == "empty-slices"]) == 3
    assert model.ranks_ == (3, 4, 5)
    filled, std = model.impute(return_std=True)
    assert np.isfinite(filled).all()
    assert std[3].mean() > 1.1 * std[4][np.isnan(T[4])].mean()
    assert np.mean(np.abs(X[3] - filled[3]) < 1.96 * std[3]) > 0.9


def test_new_slices(example):
    T, X = example
    model = BayesianTucker().fit(T[:25])
    new = with_holes(T[25:], 0.5)
    filled = model.impute(new)
    assert rmse(filled[np.isnan(new)], X[25:][np.isnan(new)]) < 0.25
    scores = model.transform(new)
    assert scores.shape == (5, 3)
    slices = model.inverse_transform(scores)
    np.testing.assert_allclose(slices[np.isnan(new)], filled[np.isnan(new)], atol=1e-10)
    shrunk = model.transform(np.full_like(new, np.nan))
    np.testing.assert_allclose(shrunk, 0, atol=1e-12)


def test_a_large_core_with_few_holes():
    """The core has too many entries for a covariance, so holes are filled sweep by sweep."""
    T, _ = artificial(0, (24, 25, 26), (9, 9, 9), snr=20.0)
    holes = with_holes(T, 0.05)
    model = BayesianTucker().fit(holes)
    assert model.ranks_ == (9, 9, 9)
    filled, std = model.impute(return_std=True)
    gone = np.isnan(holes)
    assert 0.93 < np.mean(np.abs(T - filled)[gone] < 1.96 * std[gone]) < 0.97


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_mean_of_slices(share):
    T, X = artificial(4, (30, 12, 10), (2, 2, 2), snr=4.0)
    offset = 5 + np.random.default_rng(0).normal(size=(12, 10))
    model = BayesianTucker(center=True).fit(with_holes(T + offset, share))
    assert model.ranks_ == (2, 2, 2)
    assert rmse(model.mean_, offset + X.mean(axis=0)) < 0.2
    assert rmse(model.reconstruct(), X + offset) < 0.25
    other = BayesianTucker(center=True).fit(with_holes(T, share))
    assert other.ranks_ == model.ranks_
    assert other.noise_variance_ == pytest.approx(model.noise_variance_, rel=1e-3)


# --- TensorLy, files, interruptions and messages -----------------------------------------------


def test_tensorly(example):
    tensorly = pytest.importorskip("tensorly", reason="needs tensorly")
    T, _ = example
    model = BayesianTucker().fit(T)
    found = tensorly.tucker_to_tensor(model.to_tensorly())
    np.testing.assert_allclose(found, model.reconstruct(), atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_files_and_copies_leave_the_tensor_behind(share, tmp_path):
    T, _ = artificial(1, (12, 13, 14), (2, 3, 2), snr=4.0)
    T = with_holes(T, share)
    model = BayesianTucker(ranks=(None, 3, None)).fit(T)
    model.save(tmp_path / "tucker")
    copies = (load(tmp_path / "tucker"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model))
    for other in copies:
        np.testing.assert_array_equal(other.impute(T), model.impute())
        np.testing.assert_array_equal(other.transform(T), model.transform(T))
        with pytest.raises(ValueError, match="pass it as X"):
            other.impute()
    matrix = BayesianTucker().fit(T[:, :, 0])
    matrix.save(tmp_path / "matrix")
    again = load(tmp_path / "matrix").transform(T[:, :, 0])
    np.testing.assert_array_equal(again, matrix.transform(T[:, :, 0]))


def test_broken_off_and_taken_up(tmp_path, example, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    T, _ = example

    def stop(number, info):
        if number == 6:
            raise KeyboardInterrupt

    plain = BayesianTucker("emap", noise_variance="0db").fit(T)
    model = BayesianTucker("emap", noise_variance="0db", checkpoint=tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        model.fit(T, callback=stop)
    told = []
    model.fit(T, callback=lambda number, info: told.append(number))
    assert told[0] > 1
    assert model.free_energy_ == plain.free_energy_
    assert not list(tmp_path.iterdir())


def test_early_end_of_a_matrix_is_told_once():
    X = with_holes(np.random.default_rng(0).normal(size=(30, 8)) + 3, 0.3)
    with pytest.warns(ConvergenceWarning) as told:
        BayesianTucker(max_iter=2, tol=0.0).fit(X)
    assert len([w for w in told if w.category is ConvergenceWarning]) == 1


def test_cores_too_large_for_covariances_of_cells():
    """Holes are filled until they settle; only standard deviations are unavailable."""
    T, X = artificial(0, (20, 20, 20), (17, 17, 17), snr=1e4)
    holes = with_holes(T, 0.02)
    model = BayesianTucker(ranks=(17, 17, 17)).fit(holes)
    gone = np.isnan(holes)
    assert rmse(model.impute()[gone], X[gone]) < 0.7 * rmse(0, X[gone])
    np.testing.assert_allclose(model.transform(holes), model.factors_[0], atol=1e-2)
    with pytest.raises(ValueError, match="too large for standard deviations"):
        model.impute(return_std=True)
    few = with_holes(artificial(0, (17, 18, 19), (2, 2, 2))[0], 0.5)
    with pytest.warns(ConvergenceWarning):
        assert BayesianTucker(ranks=(17, 17, 17), max_iter=5).fit(few).ranks_ == (17, 17, 17)


def test_a_start_that_had_to_be_small_is_told(monkeypatch):
    T = with_holes(artificial(0, (20, 20, 20), (4, 4, 4), snr=100.0)[0], 0.5)
    monkeypatch.setattr("bayespca.tensors.start.LARGEST_CORE", 27)
    with pytest.warns(RankWarning, match="ranks may be too small"):
        model = BayesianTucker().fit(T)
    assert "capped-core" in model.status_


def test_early_end_is_told(example):
    T, _ = example
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = BayesianTucker(max_iter=2).fit(T)
    assert np.isfinite(model.reconstruct()).all()


def test_verbose(example, capsys):
    BayesianTucker(verbose=True).fit(example[0])
    assert "30×40×50, evb: core 3×4×5" in capsys.readouterr().out


# --- bad input ---------------------------------------------------------------------------------

T3 = np.random.default_rng(0).normal(size=(4, 5, 6))


@pytest.mark.parametrize(
    ("options", "T", "words"),
    [
        ({"ranks": (2, 9, 2)}, T3, r"ranks\[1\] is 9, but mode 1 has size 5"),
        ({"ranks": (2, 2)}, T3, "2 entries, but the tensor has 3 modes"),
        ({"ranks": (2, 0, 2)}, T3, r"ranks\[1\] must be a whole number of at least 1"),
        ({"ranks": (2, 1.5, 2)}, T3, r"ranks\[1\] must be a whole number"),
        ({"ranks": 3}, T3, "one entry for each mode"),
        ({"ranks": "all"}, T3, "one entry for each mode"),
        ({"ranks": (2, 3)}, T3[0], "a matrix has one rank"),
        ({"method": "vb"}, T3, "method must be one of"),
        ({"solver": "gradient"}, T3, "is for method='emap'"),
        ({"method": "emap", "solver": "gradient"}, T3[0], "three modes or more"),
        ({"method": "emap", "solver": "gradient"}, with_holes(T3, 0.2), "without holes"),
        ({"noise_variance": -1.0}, T3, "noise_variance must be a positive number"),
        ({"prior_variance": 2.0}, T3, "prior_variance is for method='pb'"),
        ({"prior_variance": 0}, T3, "prior_variance must be a positive number"),
        ({"center": True}, T3[:1], "needs two slices"),
        ({}, T3 + 1j, "Complex data not supported"),
        ({}, np.full((2, 3, 4), np.nan), "NaN only"),
        ({}, np.where(np.arange(120).reshape(4, 5, 6) == 37, np.inf, T3), r"first at \(1, 1, 1\)"),
        ({}, T3[0, 0], "2D"),
        ({}, np.empty((0, 3, 4)), "0 sample"),
    ],
)
def test_bad_input(options, T, words):
    with pytest.raises(ValueError, match=words):
        BayesianTucker(**options).fit(T)


def test_bad_masks_and_slices():
    with pytest.raises(ValueError, match=r"mask has the shape \(4, 5\)"):
        BayesianTucker().fit(T3, mask=np.ones((4, 5)))
    with pytest.raises(ValueError, match="mask must be 1"):
        BayesianTucker().fit(T3, mask=2 * np.ones(T3.shape))
    with pytest.raises(ValueError, match="without holes"):
        tensor_ranks(with_holes(T3, 0.2))
    with pytest.raises(NotFittedError):
        BayesianTucker().reconstruct()
    model = BayesianTucker().fit(T3)
    with pytest.raises(ValueError, match=r"shape \(5, 7\)"):
        model.transform(np.ones((2, 5, 7)))
    assert not hasattr(BayesianTucker(), "core_")


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2, 1), (3, 1, 1), (4, 3, 1)])
def test_where_nothing_is_found_no_mode_has_a_rank(shape):
    model = BayesianTucker().fit(np.zeros(shape))
    assert model.ranks_ == (0,) * len(shape)
    again = model.inverse_transform(model.transform(np.zeros(shape)))
    np.testing.assert_array_equal(again, np.zeros(shape))


def test_the_ranks_that_hold_the_signal_are_said():
    """Two strong components in each mode; a third stands out of the noise, and hardly counts."""
    rng = np.random.default_rng(0)
    sizes = (20, 15, 12)
    A = [np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in sizes]
    core = np.zeros((3, 3, 3))
    core[[0, 1, 2], [0, 1, 2], [0, 1, 2]] = 3000.0, 1000.0, 20.0
    T = np.einsum("abc,ia,jb,kc->ijk", core, *A) + rng.normal(size=sizes)
    model = BayesianTucker().fit(T)
    assert model.ranks_ == (3, 3, 3)
    said = findings_of(model)
    assert said.numbers["ranks_of_signal"] == (2, 2, 2)
    assert "2 × 2 × 2 hold 99.9 %" in [fact.value for fact in said.facts]
    assert BayesianTucker(ranks=(2, 2, 2)).fit(T).ranks_ == (2, 2, 2)
