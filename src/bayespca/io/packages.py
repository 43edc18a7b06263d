"""Optional packages, imported where they are used; an error says how to install missing ones."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXTRAS = {
    "pyarrow": "bayespca[io]",
    "dask": "bayespca[dask]",
    "distributed": "bayespca[dask]",
    "anndata": "bayespca[scverse]",
    "nibabel": "bayespca[imaging]",
    "openpyxl": "bayespca[excel]",
    "torch": "bayespca[torch]",
    "pandas": "pandas",
    "tensorly": "tensorly",
}


def need(name: str, purpose: str) -> Any:
    """The module `name`, or an ImportError that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f'{purpose} needs {package}: install it with pip install "{EXTRAS[package]}".'
        ) from error
