"""Tables that people have, fitted as they fit them: no thread variables, nothing chosen.

Times are by the clock and of all cores, with all threads and with one. Tables of BAYESPCA_DATA are
left out if that is not set.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from threadpoolctl import threadpool_limits
from timing import heading

from bayespca import BayesianPCA

# What the default should take, in seconds by the clock.
REACH = {
    "iris": 0.02,
    "wine": 0.02,
    "breast cancer": 0.15,
    "metabolite": 0.15,
    "oilflow": 0.1,
    "satellite": 0.4,
    "letter": 0.4,
    "freyfaces": 0.8,
    "digits, 5 % holes": 3.0,
    "20,000×100, 5 % holes": 5.0,
}
INSIDE = ("iris", "wine", "diabetes", "breast_cancer", "digits")
OTHERS = {
    "glass": "X",
    "tobamovirus": "X",
    "metabolite": "X_complete",
    "oilflow": "X",
    "satellite": "X",
    "letter": "X",
    "freyfaces": "X",
}
HOLES = 0.05
LEAST, MOST_REPEATS = 0.5, 5
# Beyond so many cells, the imputers of others take minutes.
MOST_FOR_PEERS = 100_000


def main() -> None:
    warnings.simplefilter("ignore")
    BayesianPCA().fit(np.random.default_rng(0).normal(size=(30, 5)))
    heading(
        f"Nothing chosen, {os.cpu_count()} cores: clock and CPU seconds, and peers by the clock"
    )
    header = ("default", "CPU", "one thread", "isotropic", "PCA", "FactorAn.", "times PCA", "reach")
    print(f"{'':34s}" + "".join(f"{word:>12s}" for word in header))
    for name, X in complete():
        mine, cpu, alone = three(lambda X=X: BayesianPCA().fit(X))
        plain, *_ = timed(lambda X=X: BayesianPCA(noise="isotropic").fit(X))
        pca, *_ = timed(lambda X=X: PCA().fit(X))
        factors, *_ = timed(lambda X=X: FactorAnalysis(min(4, X.shape[1] - 1)).fit(X))
        row(name, X, (mine, cpu, alone, plain, pca, factors, mine / pca, REACH.get(name)))
    heading(f"{HOLES:.0%} holes: clock and CPU seconds")
    header = ("default", "CPU", "one thread", "Iterative", "KNN", "", "", "reach")
    print(f"{'':34s}" + "".join(f"{word:>12s}" for word in header))
    for name, X in with_holes():
        mine, cpu, alone = three(lambda X=X: BayesianPCA().fit(X))
        few = X.size <= MOST_FOR_PEERS
        iterated = timed(lambda X=X: IterativeImputer().fit_transform(X))[0] if few else None
        nearest = timed(lambda X=X: KNNImputer().fit_transform(X))[0] if few else None
        row(name, X, (mine, cpu, alone, iterated, nearest, None, None, REACH.get(name)))


def complete() -> Iterator[tuple[str, np.ndarray]]:
    for name in INSIDE:
        yield name.replace("_", " "), getattr(datasets, f"load_{name}")().data.astype(float)
    folder = os.environ.get("BAYESPCA_DATA")
    for name, key in OTHERS.items() if folder else ():
        with np.load(Path(str(folder)) / f"{name}.npz") as arrays:
            yield name, arrays[key].astype(float)


def with_holes() -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    tables = {name: getattr(datasets, f"load_{name}")().data for name in INSIDE}
    tables["20,000×100"] = rng.normal(size=(20_000, 8)) @ rng.normal(size=(8, 100)) + rng.normal(
        size=(20_000, 100)
    )
    for name, X in tables.items():
        holes = rng.random(X.shape) < HOLES
        yield (
            f"{name.replace('_', ' ')}, {HOLES:.0%} holes".replace("5%", "5 %"),
            np.where(holes, np.nan, X),
        )


def three(work: Callable[[], object]) -> tuple[float, float, float]:
    """Clock and CPU seconds with all threads, and clock seconds with one."""
    clock, cpu = timed(work)
    with threadpool_limits(1):
        return clock, cpu, timed(work)[0]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Median clock and CPU seconds of a few calls, or those of one that takes long."""
    found = []
    for _ in range(MOST_REPEATS):
        clock, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - clock, time.process_time() - cpu))
        if found[-1][0] > LEAST:
            break
    clocks, cpus = zip(*found, strict=True)
    return statistics.median(clocks), statistics.median(cpus)


def row(name: str, X: np.ndarray, figures: tuple[float | None, ...]) -> None:
    what = f"{name} {X.shape[0]}×{X.shape[1]}"
    cells = ("" if one is None else f"{one:.4g}" for one in figures)
    print(f"{what:34s}" + "".join(f"{cell:>12s}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
