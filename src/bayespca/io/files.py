"""Files by their ending."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from .array_files import open_h5ad, open_matrix_market, open_npy, open_npz
from .arrow_files import open_feather, open_parquet
from .layout import How
from .records import File
from .text_files import open_text_file

COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
OPENERS: dict[str, Callable[[Path, How], File]] = {
    ".csv": open_text_file,
    ".tsv": open_text_file,
    ".tab": open_text_file,
    ".txt": open_text_file,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".feather": open_feather,
    ".arrow": open_feather,
    ".npy": open_npy,
    ".npz": open_npz,
    ".mtx": open_matrix_market,
    ".h5ad": open_h5ad,
}


def open_file(path: str | os.PathLike[str], how: How | None = None) -> File:
    """Look at a file and find out what is in it; the data are read later."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file in it.")
    opener = OPENERS[known_ending(path)]
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty (0 bytes).")
    how = how or How()
    _check_options(path, how, APPLY[opener])
    return opener(path, how)


def known_ending(path: Path) -> str:
    """The ending that tells the format, without that of a compression."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    ending = plain.suffix.lower()
    may_be_compressed = OPENERS.get(ending) is open_text_file
    if ending not in OPENERS or (plain != path and not may_be_compressed):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not known: use one of "
            f"{', '.join(OPENERS)}."
        )
    return ending


TABLE = ("id_column", "drop")
# What can be said about a file of each format.
APPLY: dict[Callable[[Path, How], File], tuple[str, ...]] = {
    open_text_file: ("delimiter", "decimal", "header", "missing", *TABLE),
    open_parquet: TABLE,
    open_feather: TABLE,
    open_npy: (),
    open_npz: ("array",),
    open_matrix_market: (),
    open_h5ad: ("array",),
}


def _check_options(path: Path, how: How, apply: tuple[str, ...]) -> None:
    """Raise for what was said about a file and means nothing for its format."""
    for field in fields(How):
        if getattr(how, field.name) != field.default and field.name not in apply:
            option = {"missing": "na"}.get(field.name, field.name).replace("_", "-")
            raise ValueError(
                f"{path}: the option {option} means nothing for {path.suffix} files; leave it out."
            )
