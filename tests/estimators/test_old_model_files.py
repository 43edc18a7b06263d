"""Model files of earlier versions load as the models that were saved, and can be saved again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bayespca
from bayespca import estimators

from .model_files.contents import GONE, answers, attributes, parameters
from .model_files.standard_deviations import ATTRIBUTES

FOLDER = Path(__file__).parent / "model_files"
FILES = sorted(FOLDER.glob("*.bpca"))

# Answers are the same up to rounding. The inverse covariance of inducing points magnified it when
# those of GPLVM were written down: in variances of functions, three digits were right. Densities of
# mixed tables end an iteration for each row.
ROUNDING = {estimators.GPLVM: 1e-6, estimators.GeneralizedPCA: 1e-9}
ROUNDING_OF = {
    (estimators.GPLVM, "inverse_transform.1"): 1e-4,
    (estimators.GPLVM, "sample"): 1e-5,
}
# These were rounding errors alone when they were written down: the variance of the functions is
# 6·10⁹ times that of the noise.
ROUNDED_AWAY = {"version-3-gplvm-map": ("inverse_transform.1", "sample")}


def _without(arrays, names):
    return {name: array for name, array in arrays.items() if name not in names}


def expected(path):
    """Arrays recorded when the file was made, by kind and name."""
    found = {"attribute": {}, "parameter": {}, "input": {}, "answer": {}}
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        for key in arrays.files:
            kind, name = key.split("/", 1)
            found[kind][name] = arrays[key]
    return found


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        assert np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f"), name


def assert_close(found, wanted, rounding=1e-12):
    """Assert equality up to rounding, which depends on the machine."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, name
        if array.dtype.kind == "f":
            rtol = rounding if array.dtype == np.float64 else 1e-5
            size = np.abs(array[np.isfinite(array)]).max(initial=0.0)
            assert_allclose(found[name], array, rtol=rtol, atol=rtol * size, err_msg=name)
        else:
            assert np.array_equal(found[name], array), name


def assert_as_written_down(model, wanted, rounded_away=()):
    names = dict.fromkeys(key.split(".")[0] for key in wanted["attribute"])
    found, before = attributes(model, names), wanted["attribute"]
    kind = type(model).__name__
    before = _without(before, GONE.get(kind, ()))
    # Standard deviations are recomputed; everything else is read from the file.
    computed = ATTRIBUTES.get(kind, ())
    assert_equal(*(_without(each, computed) for each in (found, before)))
    assert_close(*({n: each[n] for n in computed if n in before} for each in (found, before)))
    assert_equal(parameters(model, wanted["parameter"]), wanted["parameter"])
    rounding = ROUNDING.get(type(model), 1e-12)
    found = answers(model, wanted["input"])
    assert found.keys() == wanted["answer"].keys()
    for name in found.keys() - set(rounded_away):
        each = ({name: found[name]}, {name: wanted["answer"][name]})
        assert_close(*each, ROUNDING_OF.get((type(model), name), rounding))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_load_as_what_they_were(path, tmp_path):
    wanted, rounded_away = expected(path), ROUNDED_AWAY.get(path.stem, ())
    model = bayespca.load(path)
    assert_as_written_down(model, wanted, rounded_away)
    model.save(tmp_path / "again.bpca")
    again = bayespca.load(tmp_path / "again.bpca")
    assert type(again) is type(model)
    assert_as_written_down(again, wanted, rounded_away)


@pytest.mark.parametrize("name", ["pca-per-feature", "pca-holes-per-feature"])
@pytest.mark.parametrize("version", ["", "version-2-"])
def test_noise_of_features_is_read_as_such(name, version):
    path = FOLDER / f"{version}{name}.bpca"
    written = expected(path)["attribute"]["noise_variance_"]
    model = bayespca.load(path)
    assert model.noise_ == "per-feature"
    assert_allclose(model.feature_noise_variance_, written, rtol=0)
    assert_allclose(model.noise_variance_, written.mean(), rtol=1e-15)


def test_features_that_do_not_vary_have_no_part_in_the_mean_noise():
    model = bayespca.load(FOLDER / "version-2-pca-per-feature-constant.bpca")
    *own, none = model.feature_noise_variance_
    assert none == 0.0
    assert_allclose(model.noise_variance_, np.mean(own), rtol=1e-15)


def test_options_that_came_later_say_what_was_done():
    assert bayespca.load(FOLDER / "version-2-imputer.bpca").noise == "isotropic"
    assert bayespca.load(FOLDER / "imputer.bpca").noise == "isotropic"


@pytest.mark.parametrize("release", ["", "release-1.0-"])
def test_there_are_files_of_every_estimator(release):
    """Release 1.0 must have files of each as well, which every later version has to load."""
    public = (getattr(estimators, name) for name in estimators.__all__)
    # A base class of several estimators has no `fit`, and so no files.
    saveable = {cls for cls in public if hasattr(cls, "save") and hasattr(cls, "fit")}
    files = FOLDER.glob(f"{release}*.bpca")
    assert {type(bayespca.load(path)) for path in files} == saveable


def test_nothing_written_down_is_without_its_file():
    assert {path.stem for path in FILES} == {path.stem for path in FOLDER.glob("*.npz")}
