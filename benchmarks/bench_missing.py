"""Data with holes: CPU time and error on the holes, against vbpca-py and scikit-learn."""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import heading, line, paired

from bayespca import BayesianPCA, VariationalPCA


def simulated(
    n: int, p: int, rank: int, share: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Complete data with noise of variance 1, and the same data with holes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p)) + rng.normal(size=p)
    X += rng.normal(size=(n, p))
    return X, np.where(rng.random((n, p)) < share, np.nan, X)


def by_us(Y: np.ndarray, most: int) -> np.ndarray:
    model = BayesianPCA(n_components=most).fit(Y)
    print(f"    ours: rank {model.n_components_} in {model.n_iter_} sweeps")
    return np.asarray(model.impute(Y))


def by_vbpca(Y: np.ndarray, most: int) -> np.ndarray:
    from vbpca_py import VBPCA

    model = VBPCA(most, random_state=0).fit(Y)
    return np.asarray(model.reconstruction_)


def by_iterative_imputer(Y: np.ndarray, most: int) -> np.ndarray:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return np.asarray(IterativeImputer(random_state=0).fit_transform(Y))


def measured(work: Callable[[np.ndarray, int], np.ndarray], Y: np.ndarray, most: int) -> tuple:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        filled = work(Y, most)
    return filled, time.process_time() - start


def compare(n: int, p: int, rank: int, share: float, most: int, peers: dict) -> None:
    X, Y = simulated(n, p, rank, share)
    holes = np.isnan(Y)
    heading(f"{n:,}×{p}, {share:.0%} missing, rank {rank}: CPU time and RMSE on the holes")
    filled, ours = measured(by_us, Y, most)
    error = np.sqrt(np.mean((filled - X)[holes] ** 2))
    print(f"    ours: {ours:.2f} s, RMSE {error:.4f}")
    for name, peer in peers.items():
        try:
            filled, seconds = measured(peer, Y, most)
        except ImportError as missing:
            print(f"    {name}: {missing}")
            continue
        theirs = np.sqrt(np.mean((filled - X)[holes] ** 2))
        line(f"{name} ({seconds:.1f} s), RMSE {theirs:.4f}", f"{seconds / ours:.0f} times", "≥ 20")


def one_sweep() -> None:
    """Print the time of a sweep over its operations at BLAS's rate, and the memory of a fit."""
    from bayespca.lowrank.observing import observed

    n, p, H = 100_000, 300, 20
    heading(f"{n:,}×{p}, 30 % missing, {H} components: one sweep, and the memory of a fit")
    data = observed(large(n, p, H), center=True, scale=False)
    A = np.random.default_rng(0).normal(size=(2000, 2000))
    seconds, product = paired(a_sweep(data, p, H), lambda: (A @ A, A @ A))
    packed = (H + 1) * (H + 2) // 2
    work = 2 * 2 * n * p * (packed + H) + n * 2 * H**3
    floor = work * product / (2 * 2 * 2000**3)
    line(f"{seconds:.2f} s, {work:.1e} operations", f"{seconds / floor:.1f} times", "≤ 3")
    line("peak memory of a whole fit, X included", f"{memory_of_a_fit(n, p, H):.1f} times X", "≤ 4")


def a_sweep(data: Any, p: int, H: int) -> Callable[[], Any]:
    """A function that runs EVB's second sweep over p columns with H components."""
    from bayespca.lowrank.factors import FactorPrior, Factors
    from bayespca.lowrank.filling import fill
    from bayespca.missing.dense import step as vb
    from bayespca.missing.dense.start import start
    from bayespca.missing.dense.state import DenseProblem
    from bayespca.spectrum import VB

    problem = DenseProblem(Factors((p, data.freedom), VB, FactorPrior("learned"), 1e-10), most=H)
    state = vb.sweep(start(data, problem, fill(data, most=H)), data, problem)
    assert state.rank == H
    return lambda: vb.sweep(state, data, problem)


def large(n: int, p: int, rank: int) -> np.ndarray:
    """Data with 30 % holes like those of `simulated`, built in blocks to save memory."""
    rng = np.random.default_rng(0)
    right, Y = rng.normal(size=(rank, p)), np.empty((n, p))
    for rows in np.array_split(np.arange(n), 100):
        block = rng.normal(size=(rows.size, rank)) @ right + rng.normal(size=(rows.size, p))
        Y[rows] = np.where(rng.random(block.shape) < 0.3, np.nan, block)
    return Y


def memory_of_a_fit(n: int, p: int, rank: int) -> float:
    """Peak memory of data and fit, relative to the memory of the data."""
    tracemalloc.start()
    Y = large(n, p, rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BayesianPCA().fit(Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / Y.nbytes


def metabolites() -> None:
    """Compare models on 154×52 metabolites, 5 % missing, whose true values are known."""
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print("metabolites: set BAYESPCA_DATA to the folder of metabolite.npz")
        return
    with np.load(Path(folder) / "metabolite.npz") as file:
        Y, X = file["X"].astype(float), file["X_complete"].astype(float)
    heading("metabolites: RMSE on the holes (pcaMethods at its best rank 0.148)")
    models = {
        "evb": BayesianPCA(),
        "evb, scale": BayesianPCA(scale=True),
        "evb, noise of each feature": BayesianPCA(noise="per-feature"),
        "epb": BayesianPCA("epb"),
        "vb, flat prior": BayesianPCA("vb"),
        "vb, flat prior, scale": BayesianPCA("vb", scale=True),
        "VariationalPCA": VariationalPCA(),
    }
    holes = np.isnan(Y) & ~np.isnan(X)
    for name, model in models.items():
        filled, std = model.fit(Y).impute(Y, return_std=True)
        errors = np.abs(filled - X)[holes]
        print(
            f"    {name}: rank {model.n_components_}, RMSE {np.sqrt(np.mean(errors**2)):.4f}, "
            f"95 % intervals hold {np.mean(errors < 1.96 * std[holes]):.1%}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        errors = np.abs(by_iterative_imputer(Y, 0) - X)[holes]
    print(f"    scikit-learn's IterativeImputer: RMSE {np.sqrt(np.mean(errors**2)):.4f}")


def ranks_and_coverage() -> None:
    """Print how often the rank is right, and the coverage of 95 % intervals of hidden cells."""
    heading("rank and coverage of 95 % predictive intervals, noise variance 1")
    for n, p, rank, seeds in ((500, 50, 4, 10), (200, 30, 3, 10), (1000, 200, 5, 4)):
        for share in (0.05, 0.1, 0.2, 0.5, 0.8, 0.9):
            right, covered = 0, []
            for seed in range(seeds):
                X, Y = simulated(n, p, rank, share, seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = BayesianPCA().fit(Y)
                filled, std = model.impute(Y, return_std=True)
                holes = np.isnan(Y)
                right += model.n_components_ == rank
                covered.append(np.mean(np.abs(filled - X)[holes] < 1.96 * std[holes]))
            print(
                f"    {n}×{p}, rank {rank}, {share:.0%} missing: right {right} of {seeds}, "
                f"covered {np.mean(covered):.1%}"
            )


def main() -> None:
    metabolites()
    ranks_and_coverage()
    by_us(simulated(300, 30, 3, 0.2)[1], 5)  # so that imports are not measured
    peers = {"vbpca-py": by_vbpca}
    compare(1_000, 200, 10, 0.2, 20, peers)
    both = {**peers, "IterativeImputer": by_iterative_imputer}
    compare(10_000, 100, 5, 0.5, 10, both)
    one_sweep()


if __name__ == "__main__":
    main()
