"""Write model files of format version 2, each with a record of its model's contents and answers.

This was run once, with bayespca when it wrote format version 2. It is kept to show what is in the
files.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from contents import Arrays, answers, attributes
from make import CLUSTERS, FOLDER, FRAME, INNER, LONG, X, pierced, rows

from bayespca import BayesianPCA, BayesianPCAImputer, PCAMixture, VariationalPCA
from bayespca.estimators._base import Fitted

# Records, among them the trace, whose times depend on the machine.
OUT = (*INNER, "status_", "trace_", "fit_")


def models() -> dict[str, tuple[Any, Arrays]]:
    def fitted(model: Any, data: Any = X) -> tuple[Any, Arrays]:
        return model.fit(data), rows(np.asarray(data))

    dead = np.column_stack([X, np.full(len(X), 2.5)])
    by_parts = BayesianPCA().partial_fit(LONG).partial_fit(LONG[:5])
    few = {"max_iter": 30, "random_state": 0}
    return {
        "pca": fitted(BayesianPCA()),
        "pca-names": fitted(BayesianPCA(scale=True), FRAME),
        "pca-per-feature": fitted(BayesianPCA(noise="per-feature", max_iter=30)),
        "pca-per-feature-constant": fitted(BayesianPCA(noise="per-feature", max_iter=30), dead),
        "pca-holes": fitted(BayesianPCA(), pierced(X)),
        "pca-holes-per-feature": fitted(BayesianPCA(noise="per-feature"), pierced(X)),
        "pca-partial-fit": (by_parts, rows(LONG)),
        "variational": fitted(VariationalPCA(**few)),
        "imputer": fitted(BayesianPCAImputer(), pierced(X)),
        "mixture": (PCAMixture(2, **few).fit(CLUSTERS), rows(CLUSTERS[18:])),
    }


def described(model: Any, inputs: Arrays) -> Arrays:
    """The arrays that the test compares, by kind and name."""
    cls = type(model)
    names = [name for name in dir(cls) if isinstance(getattr(cls, name), Fitted)]
    here = [name for name in names if hasattr(model, name) and name not in OUT]
    kinds = {
        "attribute": attributes(model, here),
        "input": inputs,
        "answer": answers(model, inputs),
    }
    return {f"{kind}/{name}": a for kind, arrays in kinds.items() for name, a in arrays.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in models().items():
        model.save(FOLDER / f"version-2-{name}.bpca")
        np.savez_compressed(FOLDER / f"version-2-{name}.npz", **described(model, inputs))
