"""Write model files of the earliest format version 3, each with a record of its model's answers.

This was run once, with bayespca as it was before mixtures chose their noise.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from contents import Arrays
from make import CLUSTERS, FOLDER, X, pierced, rows
from make_version_2 import described

from bayespca import BayesianPCA, BayesianTucker, PCAMixture, VariationalPCA


def models() -> dict[str, tuple[Any, Arrays]]:
    def fitted(model: Any, data: Any = X) -> tuple[Any, Arrays]:
        return model.fit(data), rows(np.asarray(data))

    few: dict[str, Any] = {"max_iter": 30, "random_state": 0}
    T = np.einsum("ia,ja,ka->ijk", X[:6, :2], X[6:12, :2], X[:5, 2:4])
    clusters = pierced(CLUSTERS), rows(CLUSTERS[18:])
    return {
        "mixture": (PCAMixture(2, **few).fit(CLUSTERS), clusters[1]),
        "mixture-per-feature": (PCAMixture(2, noise="per-feature", **few).fit(CLUSTERS),
                                clusters[1]),
        "mixture-holes": (PCAMixture(2, **few).fit(clusters[0]), clusters[1]),
        "mixture-ml": (PCAMixture(2, method="ml", ranks=1, **few).fit(CLUSTERS), clusters[1]),
        "pca-student-cells": fitted(BayesianPCA(noise="student-cells", max_iter=30)),
        "variational-holes": fitted(VariationalPCA(**few), pierced(X)),
        "tucker": (BayesianTucker(random_state=0).fit(T), {}),
    }  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in models().items():
        model.save(FOLDER / f"version-3-early-{name}.bpca")
        np.savez_compressed(FOLDER / f"version-3-early-{name}.npz", **described(model, inputs))
