"""Model files of format version 3, and next to each what its model holds and answers.

Run once, with bayespca as it was when it got the estimators that are here.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from contents import Arrays
from make import FOLDER, FRAME, X, pierced, rows
from make_version_2 import described

from bayespca import GPLVM, MultiViewPCA


def models() -> dict[str, tuple[Any, Arrays]]:
    def fitted(model: Any, data: Any = X) -> tuple[Any, Arrays]:
        return model.fit(data), rows(np.asarray(data))

    def views(data: Any) -> tuple[Any, Arrays]:
        p = data.shape[1]
        names = ["first"] * (p // 2) + ["second"] * (p - p // 2)
        return MultiViewPCA(noise="per-feature").fit(data, views=names), rows(np.asarray(data))

    few: dict[str, Any] = {"n_inducing": 6, "max_iter": 10, "random_state": 0}
    dead = np.column_stack([X, np.full(len(X), 2.5)])
    return {
        "gplvm": fitted(GPLVM(2, **few)),
        "gplvm-names": fitted(GPLVM(2, **few), FRAME),
        "gplvm-holes": fitted(GPLVM(2, **few), pierced(X)),
        "gplvm-per-feature-constant": fitted(GPLVM(2, noise="per-feature", **few), dead),
        "gplvm-linear": fitted(GPLVM(2, kernel="linear+bias", **few), X.astype(np.float32)),
        "gplvm-map": fitted(GPLVM(2, "map", max_iter=10)),
        "views": fitted(MultiViewPCA()),
        "views-names": views(FRAME),
        "views-holes": views(pierced(X)),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in models().items():
        model.save(FOLDER / f"version-3-{name}.bpca")
        np.savez_compressed(FOLDER / f"version-3-{name}.npz", **described(model, inputs))
