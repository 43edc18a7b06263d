"""Fixtures for the data sets, which are not part of the package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Use the same examples in every run, and do not fail because a machine is busy.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

VARIABLE = "BAYESPCA_DATA"


def data_file(name: str) -> Path:
    """Return the path of `name`.npz, or skip the test and say what is missing."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set: it must name the folder that holds {name}.npz")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{VARIABLE} names {folder}, which does not hold {name}.npz")
    return path


@pytest.fixture(scope="session")
def load_data() -> Callable[[str], dict[str, np.ndarray]]:
    """Function that loads the arrays (X, y, ...) of a data set by its name, such as "wine"."""

    def load(name: str) -> dict[str, np.ndarray]:
        with np.load(data_file(name), allow_pickle=False) as arrays:
            return dict(arrays)

    return load
