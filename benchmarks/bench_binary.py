"""Binary data: a sweep of the mixture against its products, hidden cells, and ranks found."""

from __future__ import annotations

import os
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from timing import heading, line, paired

from bayespca import BayesianPCA, BernoulliMixture, BinaryPCA, select_components

# Linear predictions of zeros and ones are clipped to this range.
CLIPPED = (0.01, 0.99)
TRIED = (10, 20, 30, 40, 60, 80)


def one_sweep() -> None:
    """EM on 100,000×200 cells: a sweep against the two products it contains."""
    from bayespca.mixtures.bernoulli.data import BernoulliRows
    from bayespca.mixtures.bernoulli.family import MaximumLikelihood
    from bayespca.mixtures.bernoulli.start import kmeans_plus_plus
    from bayespca.mixtures.bernoulli.step import step

    n, p, K = 100_000, 200, 10
    rng = np.random.default_rng(0)
    means = rng.beta(0.5, 0.5, size=(K, p))
    X = rng.random((n, p)) < means[rng.integers(K, size=n)]
    data, numbers = BernoulliRows(X), X.astype(np.float64)
    state = kmeans_plus_plus(data, K, rng)
    D, Q = rng.normal(size=(p, K)), rng.random((n, K))
    sweep = partial(step, state, data, MaximumLikelihood())
    seconds, products = paired(sweep, lambda: (numbers @ D, Q.T @ numbers))
    heading(f"BernoulliMixture, {n:,}×{p}, {K} clusters: a sweep of EM against its two products")
    line(
        f"{1e3 * seconds:.0f} ms, products {1e3 * products:.0f} ms",
        f"{seconds / products:.2f}",
        "≤ 3",
    )


def log_loss(x: np.ndarray, p: np.ndarray) -> float:
    return float(-np.mean(np.where(x, np.log(p), np.log1p(-p))))


def said(name: str, X: np.ndarray, hidden: np.ndarray, filled: np.ndarray, start: float) -> None:
    loss = log_loss(X[hidden], filled[hidden])
    print(f"    {name}: log loss {loss:.4f}, {time.perf_counter() - start:.1f} s")


def compare(X: np.ndarray, share: float, tried: tuple[int, ...], n_init: int = 1) -> None:
    """Print the log loss of hidden cells under each model."""
    hidden = np.random.default_rng(0).random(X.shape) < share
    Y = np.where(hidden, np.nan, X)
    start = time.perf_counter()
    model = BinaryPCA().fit(Y)
    said(f"BinaryPCA, rank {model.n_components_}", X, hidden, model.impute(Y), start)
    start = time.perf_counter()
    mixture = BernoulliMixture(n_init=n_init, random_state=0)
    K = select_components(mixture, Y, tried, cv=3).best
    filled = mixture.set_params(n_components=K).fit(Y).impute(Y)
    said(
        f"BernoulliMixture, at most {K} clusters by CV, {mixture.n_components_} left",
        X,
        hidden,
        filled,
        start,
    )
    start = time.perf_counter()
    linear = BayesianPCA().fit(Y)
    filled = np.clip(linear.impute(Y), *CLIPPED)
    said(
        f"BayesianPCA, rank {linear.n_components_}, clipped to {CLIPPED}", X, hidden, filled, start
    )
    shares = np.clip(np.broadcast_to(np.nanmean(Y, axis=0), X.shape), *CLIPPED)
    said("shares of ones", X, hidden, shares, time.perf_counter())


def by_draws(X: np.ndarray, share: float) -> None:
    """Print the log loss of hidden cells by Gibbs sampling; takes ten minutes of CPU time."""
    hidden = np.random.default_rng(0).random(X.shape) < share
    Y = np.where(hidden, np.nan, X)
    start = time.perf_counter()
    model = BinaryPCA(method="gibbs", n_warmup=400, n_draws=150, random_state=0).fit(Y)
    said(f"BinaryPCA, draws, R-hat {model.r_hat_}", X, hidden, model.impute(Y), start)


def digits() -> None:
    """Optical digits as pixels with any ink, and with half of it; a fifth of the cells hidden."""
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print("digits: set BAYESPCA_DATA to the folder of optdigits.npz")
        return
    with np.load(Path(folder) / "optdigits.npz") as file:
        whole = file["X"]
    for limit in (0, 7):
        X = whole > limit
        heading(f"optical digits above {limit}, {X.shape[0]}×{X.shape[1]}, 20 % hidden")
        compare(X, 0.2, TRIED)
        if limit:
            by_draws(X, 0.2)


def simulated(n: int, p: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Zeros and ones, and the probabilities that they were drawn with."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=p)
    P = 1 / (1 + np.exp(-Z))
    return rng.random((n, p)) < P, P


def of_known_rank() -> None:
    X, P = simulated(1000, 50, 5, 0)
    heading("simulated logits of rank 5, 1000×50, 20 % hidden")
    compare(X, 0.2, (5, 10, 20, 40), n_init=3)
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    print(f"    the truth: log loss {log_loss(X[hidden], P[hidden]):.4f}")


def ranks() -> None:
    heading("BinaryPCA: how often the rank is right, 10 data sets each")
    for n, p, rank in ((500, 40, 0), (500, 40, 3), (1000, 50, 5), (200, 100, 2)):
        for share in (0.0, 0.3):
            found = []
            for seed in range(10):
                X, _ = simulated(n, p, rank, seed)
                hidden = np.random.default_rng(seed).random(X.shape) < share
                found.append(BinaryPCA().fit(np.where(hidden, np.nan, X)).n_components_)
            right = sum(k == rank for k in found)
            print(f"    {n}×{p}, rank {rank}, {share:.0%} missing: right {right} of 10")


def main() -> None:
    one_sweep()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_known_rank()
        ranks()
        digits()


if __name__ == "__main__":
    main()
