"""Update the recorded standard deviations of the models in this folder.

Means stay as they were when a file was made. Standard deviations now account for more of the
uncertainty than they did then: run this after a change that is meant to change them, and check the
ratios that it prints. Everything else stays as recorded.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import bayespca

if __package__:
    from .contents import answers, attributes
else:
    from contents import answers, attributes

FOLDER = Path(__file__).parent

# Standard deviations among the attributes and answers of each estimator.
ATTRIBUTES = {"BayesianPCA": ("components_std_",), "VariationalPCA": ("components_std_",)}
ANSWERS = {
    "BinaryPCA": ("transform.1",),
    "BayesianPCA": ("transform with std.1", "impute.1"),
    "VariationalPCA": ("transform with std.1", "impute.1"),
    "MatrixFactorization": ("predict_new.1",),
}


def of_today(model: Any, written: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Standard deviations of a model, by their keys in `written`."""
    name = type(model).__name__
    given = {key.split("/", 1)[1]: a for key, a in written.items() if key.startswith("input/")}
    found = {f"answer/{key}": a for key, a in answers(model, given).items()}
    kept = [key for key in ATTRIBUTES.get(name, ()) if f"attribute/{key}" in written]
    found |= {f"attribute/{key}": a for key, a in attributes(model, kept).items()}
    wanted = [f"answer/{key}" for key in ANSWERS.get(name, ())]
    wanted += [f"attribute/{key}" for key in kept]
    return {key: found[key] for key in wanted if key in written}


def write_anew(path: Path) -> None:
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
        written = dict(arrays)
    changed = of_today(bayespca.load(path), written)
    for key, now in changed.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nanmedian(now / written[key]) if now.size else 1.0
        sys.stdout.write(f"{path.stem}: {key}: {ratio:.3f} times\n")
    if changed:
        np.savez_compressed(path.with_suffix(".npz"), **(written | changed))


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.bpca")):
        write_anew(file)
