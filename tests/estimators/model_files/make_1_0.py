"""Write model files of bayespca 1.0, at least one for each estimator, each with a record of its
model's contents and answers.

This was run once, with the first release candidate; later versions must load these files.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from contents import Arrays
from make import CLUSTERS, FOLDER, FRAME, LONG, T, X, pierced, rows
from make_version_2 import described

from bayespca import (
    GPLVM,
    BayesianPCA,
    BayesianPCAImputer,
    BayesianTucker,
    BernoulliMixture,
    BinaryPCA,
    GeneralizedPCA,
    GibbsPCA,
    MatrixFactorization,
    MultiViewPCA,
    PCAMixture,
    VariationalPCA,
)

FEW: dict[str, Any] = {"max_iter": 20, "random_state": 0}
DRAWS: dict[str, Any] = {"n_draws": 6, "n_warmup": 10, "n_chains": 2, "random_state": 0}


def numbers() -> dict[str, tuple[Any, Arrays]]:
    def fitted(model: Any, data: Any = X, **given: Any) -> tuple[Any, Arrays]:
        return model.fit(data, **given), rows(np.asarray(data))

    by_parts = BayesianPCA().partial_fit(LONG).partial_fit(LONG[:5])
    outlying = X.copy()
    outlying[3] += 40.0
    spread = X * np.geomspace(0.2, 5.0, len(X))[:, None]
    return {
        "pca": fitted(BayesianPCA()),
        "pca-names-auto-noise": fitted(BayesianPCA(noise="auto", scale=True), FRAME),
        "pca-holes": fitted(BayesianPCA(), pierced(X)),
        "pca-per-feature": fitted(BayesianPCA(noise="per-feature")),
        "pca-per-sample": fitted(BayesianPCA(noise="per-sample"), spread),
        "pca-student": fitted(BayesianPCA(noise="student"), outlying),
        "pca-student-cells": fitted(BayesianPCA(noise="student-cells"), outlying),
        "pca-autoregressive": fitted(BayesianPCA(noise="autoregressive")),
        "pca-partial-fit": (by_parts, rows(LONG)),
        "variational": fitted(VariationalPCA(**FEW)),
        "gibbs": fitted(GibbsPCA(2, **DRAWS)),
        "imputer": fitted(BayesianPCAImputer(), pierced(X)),
        "gplvm": fitted(GPLVM(2, n_inducing=6, **FEW)),
        "mixture": (PCAMixture(2, **FEW).fit(CLUSTERS), rows(CLUSTERS[18:])),
        "tucker": fitted(BayesianTucker(**FEW), T),
        "tucker-holes": fitted(BayesianTucker(**FEW), pierced(T)),
        "views": fitted(MultiViewPCA(), FRAME, views=["first", "first", "second", "second"]),
    }


def discrete() -> dict[str, tuple[Any, Arrays]]:
    rng = np.random.default_rng(0)
    a = rng.normal(size=60)
    flags = np.column_stack([a + rng.logistic(size=60) > 0 for _ in range(6)]).astype(float)
    measured = np.column_stack([3 + a + 0.5 * rng.normal(size=60) for _ in range(3)])
    counts = np.column_stack([rng.poisson(np.exp(0.7 * a + 1)) for _ in range(3)])
    mixed = np.column_stack([measured, flags[:, :2], counts]).astype(float)
    kinds: dict[Any, str] = {3: "bernoulli", 4: "bernoulli", **dict.fromkeys((5, 6, 7), "poisson")}
    views = ["numbers"] * 3 + ["flags"] * 2 + ["counts"] * 3
    by_view: dict[Any, str] = {"flags": "bernoulli", "counts": "poisson"}
    return {
        "binary": (BinaryPCA(**FEW).fit(flags), rows(flags)),
        "binary-draws": (BinaryPCA(2, method="gibbs", **DRAWS).fit(flags), rows(flags)),
        "bernoulli-mixture": (BernoulliMixture(2, **FEW).fit(flags), rows(flags)),
        "generalized": (GeneralizedPCA(likelihood=kinds).fit(mixed), rows(mixed)),
        "generalized-draws": (
            GeneralizedPCA(1, likelihood="bernoulli", method="gibbs", **DRAWS).fit(flags),
            rows(flags),
        ),
        "views-likelihoods": (
            MultiViewPCA(likelihood=by_view).fit(mixed, views=views),
            rows(mixed),
        ),
    }


def ratings() -> dict[str, tuple[Any, Arrays]]:
    rng = np.random.default_rng(0)
    cells = rng.permutation(8 * 6)[:34]
    users, items = cells // 6, cells % 6
    signal = np.outer(rng.normal(size=8), rng.normal(size=6))
    stars = np.clip(np.round(3 + 2 * signal[users, items]), 1, 5)
    features = {
        "user_features": rng.normal(size=(8, 2)),
        "item_features": rng.normal(size=(6, 1)),
    }
    times = rng.choice([0.0, 1e5, 5e6, 1e7], stars.size)
    names = np.array([f"user {u}" for u in users]), np.array([f"ítem {i}" for i in items])

    def fitted(model: Any, *ids: np.ndarray, **given: Any) -> tuple[Any, Arrays]:
        some = {"users": ids[0][:5], "items": ids[1][:5], "ratings": stars[:5]}
        return model.fit_ratings(*ids, stars, **given), some

    return {
        "ratings": fitted(MatrixFactorization(**FEW), *names),
        "ratings-draws": fitted(MatrixFactorization("gibbs", **DRAWS), users, items),
        "ratings-draws-features-times": fitted(
            MatrixFactorization("gibbs", **DRAWS), users, items, times=times, **features
        ),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in (numbers() | discrete() | ratings()).items():
        model.save(FOLDER / f"release-1.0-{name}.bpca")
        np.savez_compressed(FOLDER / f"release-1.0-{name}.npz", **described(model, inputs))
