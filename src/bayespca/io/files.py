"""Opening of files by their endings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np

from .array_files import open_h5ad, open_matrix_market, open_npy, open_npz
from .arrow_files import open_feather, open_parquet
from .excel_files import open_excel
from .records import EXCEL, FEATHER, PARQUET, TEXT, File, How, Layout, RowBlock, Table, known_ending
from .text_files import open_text_file

OPENERS: dict[str, Callable[[Path, How], File]] = {
    **dict.fromkeys(TEXT, open_text_file),
    **dict.fromkeys(PARQUET, open_parquet),
    **dict.fromkeys(FEATHER, open_feather),
    ".npy": open_npy,
    ".npz": open_npz,
    ".mtx": open_matrix_market,
    ".h5ad": open_h5ad,
    **dict.fromkeys(EXCEL, open_excel),
}


def open_file(path: str | os.PathLike[str], how: How | None = None) -> File:
    """Open a file and determine its layout; the data are read later."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder: name a file in it, or several by a pattern: '{path}/*.parquet'."
        )
    opener = OPENERS[known_ending(path)]
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty (0 bytes).")
    how = how or How()
    _check_options(path, how, APPLY[opener])
    file = opener(path, how)
    return transposed(file) if how.transpose else file


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files that match a path with wildcards (*, ?, [); a path without them matches itself."""
    path = Path(path)
    if path.exists() or not has_magic(str(path)):
        return [path]
    found = sorted(Path(name) for name in glob(str(path), recursive=True))
    if not found:
        raise FileNotFoundError(f"{path}: there is no such file.")
    return found


def open_files(path: str | os.PathLike[str], how: How | None = None) -> File:
    """Open a file, or as one the files that match a path with wildcards.

    Several files must have the same columns, and are read in blocks only.
    """
    paths = files_of(path)
    if len(paths) == 1:
        return open_file(paths[0], how)
    files = [open_file(one, how) for one in paths]
    ours = files[0].layout
    for file in files:
        if file.blocks is None:
            raise ValueError(
                f"{file.path} cannot be read in blocks, as several files are: CSV, TSV, Parquet "
                "and NPY files can."
            )
        names, layout = file.layout.feature_names, file.layout
        if names != ours.feature_names or len(layout.features) != len(ours.features):
            odd = set(names or ()) ^ set(ours.feature_names or ())
            which = f": {min(odd)!r} is not in both" if odd else ""
            raise ValueError(
                f"{file.path} and {paths[0]} have different columns of numbers{which}. Files that "
                "are read together must have the same."
            )
    counts = [file.n_samples for file in files]

    def read() -> Table:
        raise ValueError(f"{path} means {len(files)} files, which are read in blocks only.")

    def blocks(block_bytes: int) -> Iterator[RowBlock]:
        for file in files:
            assert file.blocks is not None
            yield from file.blocks(block_bytes)

    return File(
        Path(path),
        files[0].layout,
        files[0].dtype if len({file.dtype for file in files}) == 1 else np.dtype(np.float64),
        None if None in counts else sum(count for count in counts if count),
        sum(file.memory for file in files),
        read,
        blocks,
    )


TABLE = ("id_column", "drop")
# Options that apply to each format.
APPLY: dict[Callable[[Path, How], File], tuple[str, ...]] = {
    open_text_file: ("delimiter", "decimal", "header", "missing", "units", *TABLE),
    open_parquet: TABLE,
    open_feather: TABLE,
    open_npy: (),
    open_npz: ("array",),
    open_matrix_market: (),
    open_h5ad: ("array",),
    open_excel: ("array", "header", "missing", "units", *TABLE),
}


def _check_options(path: Path, how: How, apply: tuple[str, ...]) -> None:
    """Raise for options that do not apply to the format of a file."""
    for field in fields(How):
        if getattr(how, field.name) != field.default and field.name not in (
            *apply,
            "transpose",
            "texts",
        ):
            raise ValueError(
                f"{path}: the option {field.name} does not apply to {path.suffix} files; "
                "leave it out."
            )


# --- rows as features and columns as samples ---------------------------------------------------


def transposed(file: File) -> File:
    """The file with rows as features and columns as samples; all rows are read immediately."""
    upright = file.read()
    values: Any = upright.values.T
    names = None if upright.ids is None else _different(upright.ids, file.path)
    table = Table(
        values.tocsr() if hasattr(values, "tocsr") else values,
        names,
        upright.names or [file.layout.name(j) for j in file.layout.features],
        id_name="sample",
        aside=upright.aside,
        upright=upright,
    )
    n, p = table.shape
    note = "The rows of the file were read as features."
    if names is not None:
        by = f"column {upright.id_name!r}" if upright.id_name else "first column"
        note = f"The rows of the file, named by its {by}, were read as features."
    notes = (*file.layout.notes, note)
    layout = Layout(p, None if names is None else tuple(names), tuple(range(p)), notes=notes)
    return File(file.path, layout, file.dtype, n, file.memory, lambda: table)


def _different(names: Sequence[str], path: Path) -> list[str]:
    """Names of rows; an error unless they are distinct, as names of features must be."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            raise ValueError(
                f"{path} has two rows called {name!r} (rows {seen[name] + 1} and {i + 1} below the "
                "header), and with --transpose rows are features: rename one of them, or read the "
                "names of rows from another column with --id-column."
            )
        seen[name] = i
    return list(names)
