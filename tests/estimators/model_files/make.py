"""Write model files of format version 1, each with a record of its model's contents and answers.

This was run once, with bayespca 0.1.0 when it wrote format version 1. It is kept to show what is
in the files, not to be run again: later versions add files of their own, as `make_version_2.py`
does.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from contents import Arrays, answers, attributes, parameters

from bayespca import (
    BayesianPCA,
    BayesianPCAImputer,
    BayesianTucker,
    BernoulliMixture,
    BinaryPCA,
    GibbsPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
)
from bayespca.datasets import low_rank, low_rank_tensor

FOLDER = Path(__file__).parent
# Records, whose numbers are not recorded.
INNER = ("posterior_", "spectrum_", "draws_")


def pierced(X: np.ndarray) -> np.ndarray:
    """A copy of X in which every seventh cell is a hole."""
    X = X.astype(X.dtype if X.dtype.kind == "f" else float)
    X.reshape(-1)[3::7] = np.nan
    return X


def rows(X: np.ndarray) -> Arrays:
    return {"X": X[:4].copy(), "H": pierced(X[:4])}


X = low_rank(20, 4, 2, mean=3.0, strength=8.0, random_state=0).X
LONG = low_rank(1100, 3, 1, mean=3.0, random_state=1).X.astype(np.float32)
FRAME = pd.DataFrame(X, columns=["length", "größe", "weight \U0001f600", "a\nb"])
T = low_rank_tensor((6, 5, 4), (2, 2, 1), snr=20.0, random_state=0).T
CLUSTERS = np.concatenate([X + 100.0, low_rank(14, 4, 1, strength=5.0, random_state=2).X])


def pca() -> dict[str, tuple[Any, Arrays]]:
    def fitted(model: Any, data: Any = X) -> tuple[Any, Arrays]:
        return model.fit(data), rows(np.asarray(data))

    def by_parts(model: Any, *parts: np.ndarray) -> tuple[Any, Arrays]:
        for part in parts:
            model.partial_fit(part)
        return model, rows(parts[0])

    numbers = np.random.default_rng([1, 2])
    numbers.spawn(2)
    odd = {"n_components": np.int8(-3), "noise_variance": np.inf, "tol": np.float32(0.1)}
    return {
        "pca-evb": fitted(BayesianPCA()),
        "pca-float32": fitted(BayesianPCA(), X.astype(np.float32)),
        "pca-holes": fitted(BayesianPCA(), pierced(X)),
        "pca-holes-per-feature": fitted(BayesianPCA(noise="per-feature"), pierced(X)),
        "pca-per-feature": fitted(BayesianPCA(noise="per-feature", max_iter=30)),
        "pca-ml": fitted(BayesianPCA("ml", n_components=2)),
        "pca-vb-scaled-whitened": fitted(
            BayesianPCA("vb", prior_variance=5.0, scale=True, whiten=True)
        ),
        "pca-rank-0": fitted(BayesianPCA(n_components=0)),
        "pca-iterative": fitted(BayesianPCA(solver="iterative", max_iter=20, random_state=0)),
        "pca-partial-fit": by_parts(BayesianPCA(), X[:8], X[8:]),
        "pca-partial-fit-folded": by_parts(BayesianPCA(), LONG, LONG[:5]),
        "pca-names": fitted(BayesianPCA(), FRAME),
        "pca-output": fitted(BayesianPCA().set_output(transform="pandas"), FRAME),
        "pca-generator": fitted(BayesianPCA(random_state=numbers)),
        "pca-unfitted": (BayesianPCA("typo", random_state=10**30), {}),
        "pca-unfitted-random-state": (
            BayesianPCA(**odd, random_state=np.random.RandomState(3)).set_output(
                transform="polars"
            ),
            {},
        ),
        "variational": fitted(VariationalPCA(random_state=0, max_iter=50)),
        "variational-holes": fitted(VariationalPCA(random_state=0, max_iter=50), pierced(X)),
        "gibbs": fitted(GibbsPCA(2, n_draws=6, n_warmup=20, n_chains=2, random_state=0)),
        "imputer": fitted(BayesianPCAImputer(), pierced(X)),
        "imputer-names": fitted(
            BayesianPCAImputer(n_components=1), FRAME.mask(np.isnan(pierced(X)))
        ),
    }


def factorizations() -> dict[str, tuple[Any, Arrays]]:
    rng = np.random.default_rng(0)
    cells = rng.permutation(8 * 6)[:34]
    users, items = cells // 6, cells % 6
    signal = np.outer(rng.normal(size=8), rng.normal(size=6))
    ratings = np.clip(np.round(3 + 2 * signal[users, items]), 1, 5)
    names = np.array([f"user {u}" for u in users]), np.array([f"ítem {i}" for i in items])

    def fitted(model: Any, users: np.ndarray, items: np.ndarray) -> tuple[Any, Arrays]:
        some = {"users": users[:5], "items": items[:5], "ratings": ratings[:5]}
        return model.fit_ratings(users, items, ratings), some

    few = {"max_iter": 20, "random_state": 0}
    return {
        "ratings-strings": fitted(MatrixFactorization(**few), *names),
        "ratings-ints": fitted(MatrixFactorization(bounds=(1, 5), **few), users * 10, items),
        "ratings-without-biases": fitted(
            MatrixFactorization(biases=False, bounds=None, **few), users, items
        ),
        "ratings-emap": fitted(MatrixFactorization("emap", n_components=1, **few), users, items),
    }


def tensors() -> dict[str, tuple[Any, Arrays]]:
    def fitted(data: np.ndarray, **options: Any) -> tuple[Any, Arrays]:
        return BayesianTucker(max_iter=20, random_state=0, **options).fit(data), rows(data)

    matrix = np.asarray(X - X.mean(axis=0))
    return {
        "tucker": fitted(T),
        "tucker-centred": fitted(T.astype(np.float32), center=True, ranks=(2, None, 1)),
        "tucker-holes": fitted(pierced(T)),
        "tucker-two-modes": fitted(matrix),
        "tucker-two-modes-holes": fitted(pierced(matrix)),
    }


def mixtures() -> dict[str, tuple[Any, Arrays]]:
    rng = np.random.default_rng(0)
    means = np.array([[0.9, 0.9, 0.1, 0.1, 0.5], [0.1, 0.2, 0.9, 0.8, 0.5]])
    binary = (rng.random((60, 5)) < np.repeat(means, 30, axis=0)).astype(float)
    some = rows(binary[28:])

    def mixture(**options: Any) -> tuple[Any, Arrays]:
        model = PCAMixture(2, max_iter=20, random_state=0, **options)
        return model.fit(CLUSTERS), rows(CLUSTERS[18:])

    return {
        "mixture": mixture(),
        "mixture-per-feature": mixture(noise="per-feature", rank=[1, 1]),
        "bernoulli-em": (
            BernoulliMixture(2, method="ml", means_init=means, random_state=0).fit(binary),
            some,
        ),
        "bernoulli-vb": (BernoulliMixture(2, max_iter=30, random_state=0).fit(binary), some),
        "binary-pca": (BinaryPCA(max_iter=30, random_state=0).fit(binary), some),
    }


def described(model: Any, inputs: Arrays) -> Arrays:
    """The arrays that the test compares, by kind and name."""
    fitted = [name for name in vars(model) if name.endswith("_") and name not in INNER]
    defaults = type(model)().get_params(deep=False)
    given = [
        name
        for name, value in model.get_params(deep=False).items()
        if isinstance(value, str | int | float | np.generic | tuple | list)
        and repr(value) != repr(defaults[name])
    ]
    kinds = {
        "attribute": attributes(model, fitted),
        "parameter": parameters(model, given),
        "input": inputs,
        "answer": answers(model, inputs),
    }
    return {f"{kind}/{name}": a for kind, arrays in kinds.items() for name, a in arrays.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in (pca() | factorizations() | tensors() | mixtures()).items():
        model.save(FOLDER / f"{name}.bpca")
        np.savez_compressed(FOLDER / f"{name}.npz", **described(model, inputs))
