"""`bayespca demo`: from a table to a report, on embedded data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bayespca.estimators.pca import BayesianPCA
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table

from . import fitting, screen
from .outputs import FitOutputs


def demo(folder: Path) -> None:
    """Write a table of wines, and run `bayespca fit` on it."""
    from sklearn.datasets import load_wine

    wines = load_wine()
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "wine.csv"
    ids = [f"wine {i + 1}" for i in range(len(wines.data))]
    cultivars = np.array([f"cultivar {c + 1}" for c in wines.target], dtype=object)
    names = [name.replace("_", " ") for name in wines.feature_names]
    write_table(data, Table(wines.data, names, ids, "wine", {"cultivar": cultivars}))
    outputs = FitOutputs(
        report=folder / "wine.html",
        scores=folder / "scores.csv",
        loadings=folder / "loadings.csv",
        model=folder / "wine.bpca",
        label="cultivar",
    )
    files = {name: path for name, path in vars(outputs).items() if isinstance(path, Path)}
    options = " ".join(f"--{name} {path}" for name, path in files.items())
    out = screen.console()
    out.print(f"[dim]$ bayespca fit {data} --label {outputs.label} {options}[/dim]\n")
    model = BayesianPCA(random_state=0)
    fitting.fit(data, How(), model, outputs)
    out.print(f"\nOpen [bold]{outputs.report}[/bold] in a browser to see it.")
