"""`bayespca denoise` on NIfTI files that nibabel writes and reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bayespca.cli.app import app
from bayespca.imaging import denoise

nib = pytest.importorskip("nibabel")

AFFINE = np.array(
    [[0.0, -2.0, 0.0, 90.0], [2.0, 0.0, 0.0, -126.0], [0, 0, 2.5, -72.0], [0, 0, 0, 1]]
)


def run(*arguments, rc=0):
    """Both output streams of the command, joined into one line."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == rc, done.output
    return " ".join(done.output.split())


def series(seed=0, shape=(9, 8, 6), volumes=20):
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, s) for s in shape), indexing="ij")
    truth = 100 + 20 * np.stack([np.sin(3 * x), y * z], -1) @ rng.normal(size=(2, volumes))
    return truth + 5 * rng.normal(size=truth.shape)


@pytest.fixture
def folder(tmp_path):
    image = nib.Nifti1Image(series().astype(np.float32), AFFINE)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = b"a scan"
    nib.save(image, tmp_path / "dwi.nii.gz")
    mask = np.ones((9, 8, 6), np.uint8)
    mask[0] = 0
    nib.save(nib.Nifti1Image(mask, AFFINE), tmp_path / "mask.nii")
    return tmp_path


def test_the_file_comes_back_without_its_noise(folder):
    out, sigma, rank = folder / "clean.nii.gz", folder / "sigma.nii.gz", folder / "rank.nii"
    words = run(
        *("denoise", folder / "dwi.nii.gz", "-o", out, "--mask", folder / "mask.nii"),
        *("--patch", 4, "--noise-map", sigma, "--rank-map", rank),
    )
    assert "9×8×6×20 image" in words
    given, clean = nib.load(folder / "dwi.nii.gz"), nib.load(out)
    data, mask = given.get_fdata(), np.asarray(nib.load(folder / "mask.nii").dataobj)
    expected = denoise(data, mask=mask, patch=4)
    assert clean.get_fdata() == pytest.approx(expected.values, rel=1e-5)
    assert nib.load(sigma).get_fdata() == pytest.approx(expected.noise_std, rel=1e-5, nan_ok=True)
    assert nib.load(rank).shape == (9, 8, 6)
    assert np.array_equal(clean.affine, given.affine)
    assert np.array_equal(nib.load(sigma).affine, given.affine)
    assert clean.header["descrip"] == given.header["descrip"]
    assert clean.header.get_xyzt_units() == ("mm", "sec")
    assert clean.header.get_zooms() == given.header.get_zooms()
    assert clean.get_data_dtype() == np.float32


def test_scaled_whole_numbers_are_read_as_the_file_says(folder):
    image = nib.Nifti1Image(series(), AFFINE)
    image.set_data_dtype(np.int16)
    nib.save(image, folder / "short.nii")
    run("denoise", folder / "short.nii", "-o", folder / "out.nii", "--patch", 4)
    read = nib.load(folder / "short.nii").get_fdata()
    assert nib.load(folder / "out.nii").get_fdata() == pytest.approx(
        denoise(read, patch=4).values, rel=1e-4
    )


def test_complex_images_stay_complex(folder):
    values = (series() + 1j * series(1)).astype(np.complex64)
    nib.save(nib.Nifti1Image(values, AFFINE), folder / "phase.nii")
    run("denoise", folder / "phase.nii", "-o", folder / "out.nii", "--patch", 4)
    found = nib.load(folder / "out.nii")
    assert found.get_data_dtype() == np.complex64
    assert np.asarray(found.dataobj) == pytest.approx(denoise(values, patch=4).values, rel=1e-4)


def test_json(folder):
    words = run("denoise", folder / "dwi.nii.gz", "-o", folder / "out.nii", "--json", "--step", 2)
    found = json.loads(words)
    assert found["shape"] == [9, 8, 6, 20]
    assert found["noise_std"] == pytest.approx(5.0, rel=0.1)
    assert found["written"] == {"denoised": str(folder / "out.nii")}


def test_a_file_without_affine_says_so(folder):
    nib.save(nib.Nifti1Image(series().astype(np.float32), None), folder / "lost.nii")
    words = run("denoise", folder / "lost.nii", "-o", folder / "out.nii")
    assert "lost.nii gives no position for its voxels" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mask.nii", "-o", "out.nii"), "holds an image of 9×8×6 voxels"),
        (("dwi.nii.gz", "-o", "out.csv"), "must end with .nii or .nii.gz"),
        (("dwi.nii.gz", "-o", "dwi.nii.gz"), "would write"),
        (("dwi.nii.gz", "-o", "out.nii", "--scale"), "--scale does not apply to an image"),
        (("dwi.nii.gz", "-o", "out.nii", "--na", "x"), "how to read a table"),
        (("none.nii", "-o", "out.nii"), "does not exist"),
        (("text.nii", "-o", "out.nii"), "cannot be read as NIfTI"),
        (("table.csv", "-o", "out.csv", "--patch", 3), "--patch is for images"),
    ],
)
def test_mistakes_are_named(folder, monkeypatch, arguments, words):
    (folder / "text.nii").write_text("no image")
    (folder / "table.csv").write_text("a,b\n1,2\n3,5\n")
    monkeypatch.chdir(folder)
    assert words in run("denoise", *arguments, rc=1)
    assert not (folder / "out.nii").exists()
