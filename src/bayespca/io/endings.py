"""File endings and their formats."""

from __future__ import annotations

from pathlib import Path

TEXT = (".csv", ".tsv", ".tab", ".txt")
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow")
EXCEL = (".xlsx", ".xlsm")
READABLE = (*TEXT, *PARQUET, *FEATHER, ".npy", ".npz", ".mtx", ".h5ad", *EXCEL)
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


def known_ending(path: Path) -> str:
    """The ending that names the format, without that of a compression, which only text may have."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    ending = plain.suffix.lower()
    if ending not in READABLE or (plain != path and ending not in TEXT):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not known: use one of "
            f"{', '.join(READABLE)}."
        )
    return ending


def ending_of(path: Path, text: tuple[str, ...], others: tuple[str, ...], what: str) -> str:
    """The ending of an existing, non-empty file; an error if it is not known for `what`."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it.")
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    ending = plain.suffix.lower()
    if ending not in text + others or (plain != path and ending not in text):
        raise ValueError(
            f"{path} has the ending {path.suffix!r}, which is not known for {what}: use one of "
            f"{', '.join(text + others)}."
        )
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty (0 bytes).")
    return ending
