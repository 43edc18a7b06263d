"""`transform`, `denoise` and `impute` with a saved model of tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.types import Numbers
from bayespca.estimators.findings import findings_of
from bayespca.io.array_files import check_tensor_ending, read_tensor, write_tensor
from bayespca.io.records import How, Table

from . import screen
from .progress import progress


def scores(model: Any, data: Path, how: How) -> Table:
    """Scores of the slices along the first mode."""
    T = np.asarray(model.transform(_read(data, how)))
    return Table(T, [f"component {h + 1}" for h in range(T.shape[1])])


def denoise(model: Any, data: Path, how: How, out: Path, *, as_json: bool) -> None:
    """Write the slices of a tensor without noise."""
    check_tensor_ending(out)
    T = _read(data, how)
    with progress("denoising"):
        write_tensor(out, model.inverse_transform(model.transform(T)))
    _tell(model, data, {"denoised": str(out)}, as_json=as_json)


def impute(model: Any, data: Path, how: How, out: Path, *, std: Path | None, as_json: bool) -> None:
    """Write a tensor with its holes filled, and perhaps standard deviations to another file."""
    check_tensor_ending(out)
    T, written = _read(data, how), {"imputed": str(out)}
    with progress("filling"):
        filled, spread = model.impute(T, return_std=True)
    write_tensor(out, filled)
    if std is not None:
        write_tensor(std, spread)
        written["std"] = str(std)
    holes = int(np.isnan(T).sum())
    note = screen.filled(holes, T.size)
    _tell(model, data, written, as_json=as_json, note=note)


def _read(data: Path, how: How) -> Numbers:
    with progress(f"reading {data.name}"):
        return read_tensor(data, how)


def _tell(
    model: Any, data: Path, written: dict[str, str], *, as_json: bool, note: str | None = None
) -> None:
    account = findings_of(model)
    if as_json:
        screen.print_json({"file": str(data)} | account.numbers | {"written": written})
        return
    screen.print_findings(account, data.name, [note] if note else [])
    screen.print_footer(written)
