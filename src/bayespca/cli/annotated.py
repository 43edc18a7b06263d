"""`bayespca fit cells.h5ad -o out.h5ad`: components of annotated data, written to a copy."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayespca.estimators.wording import kept
from bayespca.io.packages import need
from bayespca.io.records import How, first_line
from bayespca.io.writing import replacing_path
from bayespca.scverse.annotating import pca

from . import screen
from .column_options import ColumnKinds
from .options import Fitting
from .outputs import FitOutputs, check_places
from .progress import progress

# Options of a fit that `scverse.pca` also has.
SHARED = ("noise", "n_components", "seed")


def fit_annotated(
    data: Path,
    how: How,
    fitting: Fitting,
    outputs: FitOutputs,
    columns: ColumnKinds,
    others: Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Write a copy of annotated data with the results of `scverse.pca`."""
    out = outputs.annotated
    assert out is not None
    _check(data, how, fitting, outputs, columns, others)
    check_places([("--out", out)], read=[("DATA", data)])
    start = time.perf_counter()
    adata = _read(data)
    with progress(f"fitting {data.name}"):
        pca(
            adata,
            layer=how.array,
            noise=fitting.noise.value,
            likelihood=columns.for_all() or "auto",
            n_components=fitting.cap(),
            random_state=fitting.seed,
        )
    with replacing_path(out) as temporary:
        adata.write_h5ad(temporary)
    _say(data, out, adata, time.perf_counter() - start, as_json=as_json)


def _check(
    data: Path,
    how: How,
    fitting: Fitting,
    outputs: FitOutputs,
    columns: ColumnKinds,
    others: Iterable[str],
) -> None:
    """Raise for options that do not apply to annotated data."""
    given = [name for name in fitting.changed() if name not in SHARED]
    given += [name for name in vars(outputs) if name != "annotated" and getattr(outputs, name)]
    given += [name for name in vars(columns) if name != "likelihood" and getattr(columns, name)]
    for name in [*given, *others]:
        shown = name.replace("_", "-")
        raise ValueError(f"--{shown} cannot be combined with --out: leave one of them out.")
    if how != How(array=how.array):
        raise ValueError(f"{data} is annotated: options on how to read a table do not apply to it.")
    if columns.likelihood not in (None, "auto") and columns.for_all() is None:
        raise ValueError("Annotated data have one --likelihood for all genes.")


def _read(path: Path) -> Any:
    anndata = need("anndata", f"reading {path}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with progress(f"reading {path.name}"):
            return anndata.read_h5ad(path)
    except Exception as error:
        # anndata and h5py raise errors of many types for a damaged file.
        raise ValueError(f"{path} cannot be read as .h5ad: {first_line(error)}") from error


def _say(data: Path, out: Path, adata: Any, seconds: float, *, as_json: bool) -> None:
    about = adata.uns["pca"]
    likelihood, rank = about["params"]["likelihood"], about["n_components"]
    if as_json:
        screen.print_json(
            {
                "file": str(data),
                "shape": list(adata.shape),
                "rank": rank,
                "how_sure": about.get("how_sure"),
                "likelihood": likelihood,
                "explained_variance_ratio": about["variance_ratio"].tolist(),
                "written": {"annotated": str(out)},
            }
        )
        return
    facts = {
        "components": kept(rank, about["how_sure"]) if "how_sure" in about else str(rank),
        "likelihood": likelihood,
        "written to": "obsm['X_pca'], varm['PCs'], uns['pca'], and standard deviations beside them",
    }
    n, p = adata.shape
    screen.print_facts(data.name, f"{n} cells × {p} genes", facts)
    screen.print_footer({"annotated": str(out)}, screen.took(seconds))
