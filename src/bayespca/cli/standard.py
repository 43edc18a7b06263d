"""`-`: a file that is read from standard input, or written to standard output.

Options that name files map `-` to a file in a temporary folder, which is filled before the command
does its work and printed after it. So formats and commands handle only files.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

INPUT, OUTPUT = "standard input", "standard output"
# First bytes of each format; all other files are read as text.
BEGINNINGS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\x93NUMPY": ".npy",
    b"%%MatrixMarket": ".mtx",
    b"\x89HDF": ".h5ad",
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
}
COMPLETING = "_BAYESPCA_COMPLETE"
ZIP, LOOKED_AT = b"PK\x03\x04", 512


@dataclass
class Standard:
    """The files that stand for standard input and output, while a command runs."""

    folder: TemporaryDirectory[str] | None = None
    read: Path | None = None
    written: Path | None = None

    def place(self, name: str) -> Path:
        if self.folder is None:
            self.folder = TemporaryDirectory(prefix="bayespca-")
        return Path(self.folder.name) / name


STANDARD = Standard()


def to_read(ending: str | None = None) -> Callable[[Path | None], Path | None]:
    """Callback of an option that names a file to read; without `ending`, `-` is recognised."""

    def mapped(path: Path | None) -> Path | None:
        # Nothing is read while the shell completes a line.
        if path != Path("-") or COMPLETING in os.environ:
            return path
        if STANDARD.read is not None:
            raise typer.BadParameter("standard input can be read for one file only.")
        if ending is not None:
            STANDARD.read = STANDARD.place(INPUT + ending)
            return STANDARD.read
        reader: Any = sys.stdin.buffer
        # This does not consume what it looks at.
        head = bytes(reader.peek(LOOKED_AT)[:LOOKED_AT])
        STANDARD.read = STANDARD.place(INPUT + ending_of(head))
        return STANDARD.read

    return mapped


def all_to_read(paths: list[Path] | None) -> list[Path | None]:
    """Callback of an argument that names several files to read, one of them perhaps `-`."""
    return [to_read()(path) for path in paths or []]


def to_write(ending: str = ".csv") -> Callable[[Path | None], Path | None]:
    """Callback of an option that names a file to write; `-` gets the format of `ending`."""

    def mapped(path: Path | None) -> Path | None:
        if path != Path("-"):
            return path
        if STANDARD.written is not None:
            raise typer.BadParameter("standard output can take one file only.")
        STANDARD.written = STANDARD.place(OUTPUT + ending)
        return STANDARD.written

    return mapped


@contextmanager
def streams() -> Iterator[None]:
    """Read standard input before the work, and print the file for `-` after it.

    If a file goes to standard output, everything else is printed to standard error.
    """
    if STANDARD.read is not None:
        try:
            with STANDARD.read.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            raise OSError(
                f"cannot keep standard input in {STANDARD.read.parent.parent}: {error.strerror}; "
                "set TMPDIR to a folder with more room."
            ) from error
    if STANDARD.written is None:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
    with STANDARD.written.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def named(text: str) -> str:
    """A text in which `standard input` and `standard output` replace their temporary files."""
    if STANDARD.folder is None:
        return text
    folder = re.escape(STANDARD.folder.name + "/")
    return re.sub(rf"(?:{folder})?({INPUT}|{OUTPUT})(\.[a-z0-9]+)+", r"\1", text)


def forget() -> None:
    """Remove the temporary files for standard input and output."""
    if STANDARD.folder is not None:
        STANDARD.folder.cleanup()
    STANDARD.folder = STANDARD.read = STANDARD.written = None


def ending_of(head: bytes) -> str:
    """The ending of the format that begins with these bytes."""
    if head.startswith(ZIP):
        return ".npz" if b".npy" in head else ".xlsx"
    return next((end for begin, end in BEGINNINGS.items() if head.startswith(begin)), ".csv")
