"""Denoised volumes against a loop over patches and against simulated truth; bad input."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.arrays import cuda
from bayespca.imaging import denoise, denoising
from bayespca.imaging.denoising import patch_size
from oracles.patches import denoised


def signal(shape=(9, 8, 6), volumes=20, rank=2, seed=0):
    """Smooth maps times series over volumes, plus a mean."""
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, s) for s in shape), indexing="ij")
    maps = np.stack([np.sin(3 * x + 2 * y), np.cos(2 * y - z), x * z][:rank], axis=-1)
    return 5.0 + 2.0 * maps @ rng.normal(size=(rank, volumes))


def noisy(truth, std=0.5, seed=1):
    return truth + std * np.random.default_rng(seed).normal(size=truth.shape)


def error(found, truth):
    return float(np.sqrt(np.mean(np.abs(found - truth) ** 2)))


@pytest.mark.parametrize("volumes", [20, 60])
def test_it_is_what_a_loop_over_patches_gives(volumes):
    """A patch has 36 voxels: once there are fewer volumes than that, once more."""
    data = noisy(signal(volumes=volumes))
    mask = np.ones(data.shape[:3], bool)
    mask[:3, :4] = False
    ours = denoise(data, mask=mask, patch=(4, 3, 3), noise_std=0.5).values
    oracle = denoised(data, mask, (4, 3, 3), 0.25)
    assert ours == pytest.approx(oracle, rel=1e-9)
    assert np.array_equal(ours[~mask], data[~mask])


def test_complex_data_are_what_a_loop_over_patches_gives():
    rng = np.random.default_rng(3)
    truth = signal() + 1j * signal(seed=5)
    data = truth + 0.5 * (rng.normal(size=truth.shape) + 1j * rng.normal(size=truth.shape))
    mask = np.ones(data.shape[:3], bool)
    ours = denoise(data, patch=3, noise_std=0.5)
    assert ours.values == pytest.approx(denoised(data, mask, (3, 3, 3), 0.5), rel=1e-9)
    found = denoise(data, patch=4)
    assert np.nanmean(found.noise_std) == pytest.approx(0.5, rel=0.02)
    assert error(found.values, truth) < 0.5 * error(data, truth)


def test_noise_rank_and_errors_are_those_of_the_truth():
    truth = signal(shape=(14, 12, 10), volumes=40)
    data = noisy(truth)
    found = denoise(data)
    assert found.patch == (5, 5, 5)
    assert found.noise_std.mean() == pytest.approx(0.5, rel=0.01)
    assert np.median(found.rank) == pytest.approx(2.0, abs=0.3)
    assert error(found.values, truth) < 0.3 * error(data, truth)
    # One patch is less certain than the average of many.
    assert error(found.values, truth) < found.std.mean() < 1.6 * error(found.values, truth)


def test_noise_alone_is_removed():
    data = noisy(np.full((10, 10, 8, 30), 7.0))
    found = denoise(data)
    assert found.rank.max() == 0
    assert error(found.values, 7.0) < 0.1


def test_a_step_of_two_is_nearly_as_good():
    truth = signal(shape=(13, 12, 11))
    data = noisy(truth)
    one, two = denoise(data, patch=4), denoise(data, patch=4, step=2)
    assert error(two.values, truth) < 1.15 * error(one.values, truth)
    assert np.isfinite(two.noise_std).all()


def test_scale_and_shift_change_nothing():
    data = noisy(signal())
    plain, moved = denoise(data, patch=4), denoise(1e6 * data - 3e7, patch=4)
    assert moved.values == pytest.approx(1e6 * plain.values - 3e7, rel=1e-9)
    assert moved.noise_std == pytest.approx(1e6 * plain.noise_std, rel=1e-8)


def test_voxels_that_do_not_vary_take_no_part():
    """Air that was set to 0 has no noise; counting it would make the noise look too small."""
    truth = signal(shape=(12, 12, 8), volumes=30)
    data = noisy(truth)
    data[:5] = 0.0
    found = denoise(data, patch=4)
    assert np.array_equal(found.values[:5], data[:5])
    assert np.isnan(found.noise_std[:5]).all()
    assert np.nanmean(found.noise_std) == pytest.approx(0.5, rel=0.03)


def test_a_constant_image_stays_as_it_is():
    data = np.full((6, 6, 6, 10), 3.0)
    found = denoise(data)
    assert np.array_equal(found.values, data)
    assert np.isnan(found.noise_std).all()


def test_data_without_noise_stay_as_they_are():
    truth = signal()
    found = denoise(truth, patch=4)
    assert found.values == pytest.approx(truth, abs=1e-5)
    assert found.noise_std.max() < 1e-5


def test_slices_and_short_axes_are_taken_whole():
    data = noisy(signal(shape=(16, 16, 1), volumes=12))
    found = denoise(data)
    assert found.patch == (5, 5, 1)
    assert np.nanmean(found.noise_std) == pytest.approx(0.5, rel=0.03)


def test_single_precision_stays():
    data = noisy(signal())
    found = denoise(data.astype(np.float32), patch=4)
    assert found.values.dtype == np.float32
    assert found.values == pytest.approx(denoise(data, patch=4).values, abs=1e-4)


def test_whole_numbers_are_numbers():
    data = np.round(100 * noisy(signal())).astype(np.int16)
    assert denoise(data, patch=4).values.dtype == np.float64


@pytest.mark.parametrize("routine", ["of the device", "of the host"])
@pytest.mark.parametrize("kind", [float, complex])
def test_eigenvectors_of_a_device_and_of_its_host(monkeypatch, routine, kind):
    """torch on the CPU stands in for a GPU, with CuPy and without."""
    torch = pytest.importorskip("torch")
    data = noisy(signal()).astype(kind)
    if kind is complex:
        data += 1j * noisy(signal(seed=2))
    host = denoise(data, patch=4)
    monkeypatch.setattr(denoising, "on_accelerator", torch.is_tensor)
    asked = []
    if routine == "of the device":
        monkeypatch.setattr(cuda, "is_served", torch.is_tensor)
        monkeypatch.setattr(cuda, "eigh", lambda a: asked.append(a) or torch.linalg.eigh(a))
    found = denoise(torch.as_tensor(data), patch=4)
    assert bool(asked) == (routine == "of the device")
    np.testing.assert_allclose(found.values.numpy(), host.values, atol=1e-9)
    np.testing.assert_allclose(found.noise_std.numpy(), host.noise_std, atol=1e-9)


def test_a_torch_tensor_gives_torch_tensors():
    torch = pytest.importorskip("torch")
    data = noisy(signal())
    ours, host = denoise(torch.as_tensor(data), patch=4), denoise(data, patch=4)
    assert isinstance(ours.values, torch.Tensor)
    assert np.asarray(ours.values) == pytest.approx(host.values, rel=1e-9)
    assert np.asarray(ours.noise_std) == pytest.approx(host.noise_std, rel=1e-9)


def test_patches_that_are_done_are_counted():
    seen = []
    data = noisy(signal())
    denoise(data, patch=4, callback=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (6 * 5 * 3, 6 * 5 * 3)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("volumes", "shape", "expected"),
    [
        (20, (30, 30, 30), (3, 3, 3)),
        (27, (30, 30, 30), (5, 5, 5)),
        (60, (24, 24, 12), (5, 5, 5)),
        (288, (60, 60, 60), (7, 7, 7)),
        (60, (40, 40, 1), (9, 9, 1)),
        (60, (5, 5, 2), (5, 5, 2)),
    ],
)
def test_the_size_of_patches(volumes, shape, expected):
    assert patch_size(None, shape, volumes) == expected


DATA = noisy(signal())


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (DATA[..., 0], {}, "four axes"),
        (DATA[..., :1], {}, "numpy.moveaxis"),
        (np.where(DATA > 8, np.nan, DATA), {}, "cells that are NaN"),
        (DATA, {"mask": np.ones((8, 9, 6))}, "another order"),
        (DATA, {"mask": np.ones((2, 2, 2))}, r"\(2, 2, 2\), but data have voxels \(9, 8, 6\)"),
        (DATA, {"mask": np.zeros((9, 8, 6))}, "mask is empty"),
        (DATA, {"patch": 1}, "too small"),
        (DATA, {"patch": (3, 3)}, "one whole number or three"),
        (DATA, {"patch": 2.5}, "one whole number or three"),
        (DATA, {"step": 0}, "step must be a whole number"),
        (DATA, {"noise_std": 0.0}, "positive and finite"),
        (DATA, {"noise_std": np.ones((2, 2))}, "one number, or one for each voxel"),
    ],
)
def test_mistakes_are_named(data, options, words):
    with pytest.raises(ValueError, match=words):
        denoise(data, **options)


def test_text_is_no_image():
    with pytest.raises(TypeError, match="numbers are needed"):
        denoise(np.full((4, 4, 4, 4), "a"))
