"""Mixtures of PCAs against scikit-learn's: densities of digits, and classes of oil flow."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from timing import heading, line

from bayespca import PCAMixture

FLOORS = (1e-6, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
SHAPES = ("full", "tied", "diag")


def loaded(name: str) -> dict[str, np.ndarray] | None:
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print(f"{name}: set BAYESPCA_DATA to the folder of {name}.npz")
        return None
    with np.load(Path(folder) / f"{name}.npz") as file:
        return dict(file)


def timed(model: Any, X: np.ndarray) -> tuple[Any, float]:
    """The fitted model, and the CPU time of the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(X)
        return model, time.process_time() - start


def digits() -> None:
    """Print log densities of held-out rows; uniform noise on [0, 1) smooths the whole numbers."""
    data = loaded("optdigits")
    if data is None:
        return
    whole = data["X"].astype(float)
    X = whole + np.random.default_rng(0).random(whole.shape)
    X = X[:, np.ptp(whole, axis=0) > 0]
    order = np.random.default_rng(0).permutation(len(X))
    most = int(0.8 * len(X))
    held_out = X[order[most:]]
    for name, n in (("1,000 rows", 1000), ("80 % of the rows", most)):
        heading(f"optdigits, 10 clusters of {name}: log density of a held-out row, CPU time")
        best, seconds = peers(X[order[:n]], held_out)
        ours(X[order[:n]], held_out, best, seconds)


def peers(train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Best score of scikit-learn's mixtures over `reg_covar`, and the time of full Gaussians."""
    found, seconds = {}, 0.0
    for kind in (GaussianMixture, BayesianGaussianMixture):
        for shape in SHAPES:
            fits = [
                (*timed(kind(n_components=10, covariance_type=shape, **options), train), options)
                for options in ({"reg_covar": floor, "random_state": 0} for floor in FLOORS)
            ]
            model, took, options = max(fits, key=lambda fit: fit[0].score(test))
            found[kind.__name__, shape] = model.score(test)
            name = f"{kind.__name__}, {shape}, reg_covar {options['reg_covar']:g}"
            print(f"    {name}: {model.score(test):.2f}, {model.n_iter_} steps, {took:.2f} s")
            if (kind, shape) == (GaussianMixture, "full"):
                times = [
                    timed(kind(10, reg_covar=options["reg_covar"], random_state=seed), train)[1]
                    for seed in range(5)
                ]
                seconds = float(np.median(times))
    return max(found.values()), seconds


def ours(train: np.ndarray, test: np.ndarray, best: float, seconds: float) -> None:
    for options in (
        {"noise": "per-feature", "init": "k-means", "tol": 1e-5},
        {"noise": "per-feature"},
        {"noise": "auto"},
        {},
    ):
        fits = [timed(PCAMixture(10, random_state=seed, **options), train) for seed in range(5)]
        scores = [model.score(test) for model, _ in fits]
        ratio = float(np.median([took for _, took in fits])) / seconds
        label = ", ".join(f"{key} {value}" for key, value in options.items()) or "default"
        first, sweeps = fits[0][0], [model.n_iter_ for model, _ in fits]
        print(f"    ours, {label}: ranks {first.ranks_.tolist()}, sweeps {sweeps}")
        line(
            f"  {min(scores):.2f} to {max(scores):.2f}", f"{np.median(scores):.2f}", f"> {best:.2f}"
        )
        line("  CPU over that of GaussianMixture, full", f"{ratio:.1f} times", "≤ 2")


def oil_flow() -> None:
    data = loaded("oilflow")
    if data is None:
        return
    X, y = data["X"].astype(float), data["y"]
    y = y.argmax(axis=1) if y.ndim > 1 else y
    heading("oilflow, 3 clusters: adjusted Rand index with the classes")
    found = []
    for kind in (GaussianMixture, BayesianGaussianMixture):
        for shape in (*SHAPES, "spherical"):
            model = kind(n_components=3, covariance_type=shape, n_init=10, random_state=0)
            model, took = timed(model, X)
            found.append(adjusted_rand_score(y, model.predict(X)))
            print(f"    {kind.__name__}, {shape}, 10 starts: {found[-1]:.3f}, {took:.2f} s")
    full = [timed(GaussianMixture(3, random_state=seed), X)[1] for seed in range(5)]
    for options in ({}, {"noise": "auto"}, {"noise": "per-feature"}, {"init": "k-means"}):
        fits = [timed(PCAMixture(3, random_state=seed, **options), X) for seed in range(5)]
        scores = [adjusted_rand_score(y, model.predict(X)) for model, _ in fits]
        model, took = fits[0][0], float(np.median([took for _, took in fits]))
        label = ", ".join(f"{key} {value}" for key, value in options.items()) or "default"
        name = f"ours, {label}: ranks {model.ranks_.tolist()}, {took:.2f} s"
        line(name, f"{min(scores):.3f} to {max(scores):.3f}", f"≥ {max(found):.3f}")
        ratio = took / float(np.median(full))
        line("  CPU over that of GaussianMixture, full, one start", f"{ratio:.1f} times", "≤ 2")


def simulated(seed: int, separation: float) -> tuple[np.ndarray, np.ndarray]:
    """150 rows in each of three clusters of ranks 1, 2 and 5 in 10 features.

    Scores have standard deviation 2, noise 0.5; means are `separation` from the origin.
    """
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(3, 10))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    parts = []
    for mean, rank in zip(means, (1, 2, 5), strict=True):
        W = np.linalg.qr(rng.normal(size=(10, 10)))[0][:rank]
        parts.append(2 * rng.normal(size=(150, rank)) @ W + mean)
    X = np.vstack(parts)
    return X + 0.5 * rng.normal(size=X.shape), np.repeat(np.arange(3), 150)


def ranks(seeds: int = 100) -> None:
    heading("simulated clusters of ranks 1, 2, 5: ranks found, and adjusted Rand index")
    for separation in (1.0, 2.0):
        for K, count in ((3, seeds), ("auto", seeds // 5)):
            right, agreement = 0, []
            for seed in range(count):
                X, y = simulated(seed, separation)
                model, _ = timed(PCAMixture(K, random_state=0), X)
                right += sorted(model.ranks_.tolist()) == [1, 2, 5]
                agreement.append(adjusted_rand_score(y, model.predict(X)))
            name = f"separation {separation:g}, n_components {K}: index {np.mean(agreement):.3f}"
            line(name, f"{right} of {count}", f"≥ {int(0.95 * count)}")


def main() -> None:
    digits()
    oil_flow()
    ranks()


if __name__ == "__main__":
    main()
