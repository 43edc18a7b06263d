"""Write model files of format version 3, each with a record of its model's contents and answers.

This was run once, with bayespca as it was when it gained these estimators.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from contents import Arrays
from make import FOLDER, FRAME, X, pierced, rows
from make_version_2 import described

from bayespca import GPLVM, GeneralizedPCA, MultiViewPCA


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


def tables() -> dict[str, tuple[Any, Arrays]]:
    """Models of numbers, flags, ranks, categories and counts in one array of floats."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=60)
    draws = [rng.logistic(size=60) for _ in range(4)]
    mixed = np.column_stack(
        [
            *(3 + a + 0.5 * rng.normal(size=60) for _ in range(3)),
            *(a + draw > 0 for draw in draws[:2]),
            *(np.digitize(a + draw, [-1.0, 0.0, 1.0]) for draw in draws[2:]),
            *(rng.poisson(np.exp(0.7 * a + 1)) for _ in range(3)),
        ]
    ).astype(float)
    kinds = {5: "categorical", 6: "ordinal", 7: "poisson", 8: "poisson", 9: "negative-binomial"}

    def fitted(data: Any, **options: Any) -> tuple[Any, Arrays]:
        return GeneralizedPCA(likelihood=kinds, **options).fit(data), rows(data)

    return {
        "generalized": fitted(mixed),
        "generalized-holes": fitted(pierced(mixed)),
        "generalized-sizes": fitted(mixed, row_sizes=True),
        "generalized-rank-0": fitted(mixed, n_components=0),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in (models() | tables()).items():
        model.save(FOLDER / f"version-3-{name}.bpca")
        np.savez_compressed(FOLDER / f"version-3-{name}.npz", **described(model, inputs))
