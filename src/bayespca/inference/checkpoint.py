"""Checkpoints: the state of a run in a file without code, so that an interrupted run can resume."""

from __future__ import annotations

import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Generic, TypeVar

from bayespca.arrays.namespaces import to_numpy
from bayespca.io import archive
from bayespca.io.archive import FlawError
from bayespca.io.kinds import ANYTHING, records_in
from bayespca.io.tree import Decoder, Encoder, Record, members

from .accelerating import Memory
from .loop import Run, Trace

S = TypeVar("S")

# Seconds between two writes of a run.
EVERY = 10.0


class Checkpoint(Generic[S]):
    """Write a run to a file every few seconds, and resume it from there.

    Parameters
    ----------
    path
        The file. It is replaced in a single step, so it is complete at any moment.
    state
        The class of the states, a frozen dataclass; its annotations name the other records in it.
    fingerprint
        Identifies the fit; the checkpoint of another fit is refused.
    every
        Seconds between two writes of the run; `EVERY` by default.

    Arrays of other libraries come back from the file as NumPy's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        state: type[S],
        *,
        fingerprint: str,
        every: float | None = None,
    ) -> None:
        self.path = Path(path)
        self._records = {
            cls.__name__: Record(cls, {field.name: ANYTHING for field in fields(cls)})
            for cls in (*records_in(state), Run, Trace, Memory)
        }
        self._fingerprint = fingerprint
        self._every = EVERY if every is None else every
        self._written = time.monotonic()

    def find(self) -> Run[S] | None:
        """The run that the file holds; None if there is no file."""
        if not self.path.exists():
            return None
        meta, arrays = archive.read(self.path)
        with archive.naming(self.path):
            mark, tree = members(meta, "checkpoint", "run")
            if mark != self._fingerprint:
                raise ValueError(
                    f"{self.path} is the checkpoint of another fit, with other data or options: "
                    "remove it, or name another file."
                )
            found = Decoder(self._records, arrays).decode(tree)
            if not isinstance(found, Run):
                raise FlawError("it does not contain a run")
            return found

    def keep(self, run: Run[S]) -> None:
        """Write the run, unless it was written less than `every` seconds ago."""
        if time.monotonic() - self._written < self._every:
            return
        encoder = Encoder(self._records, to_numpy)
        tree = encoder.encode(run, "run")
        archive.write(self.path, {"checkpoint": self._fingerprint, "run": tree}, encoder.arrays)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file once the fit is done and its result is elsewhere."""
        self.path.unlink(missing_ok=True)
