"""Number and CPU time of sweeps with holes, plain and accelerated, to the same tolerance.

usage: python benchmarks/run.py sweeps
       python benchmarks/bench_sweeps.py plain digits letters

Names of fits select some of them; `plain` adds plain sweeps for comparison.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from timing import heading

from bayespca import BayesianPCA, BayesianTucker
from bayespca.datasets import low_rank_tensor
from bayespca.missing.dense import step as dense
from bayespca.missing.dense.fit import DenseModel
from bayespca.tensors import complete, holes
from bayespca.tensors.fit import TuckerModel

MOST_SWEEPS = 5_000


class Fitted(NamedTuple):
    """A fit; `sweeps` counts all of them, trial sweeps and undone sweeps included."""

    sweeps: int
    seconds: float
    free_energy: float
    ranks: object
    has_settled: bool


# --- data ---------------------------------------------------------------------------------------


def table(name: str, rows: int | None = 1_500) -> np.ndarray:
    """Rows of a real table without constant columns, a tenth of the cells missing at random."""
    X = _archive(name)["X"][:rows].astype(float)
    return with_holes(X[:, X.std(axis=0) > 0], 0.1)


def zeros_and_ones() -> np.ndarray:
    """All optical digits as zeros and ones, for pixels at most or more than half black."""
    X = (_archive("optdigits")["X"] > 8).astype(float)
    return with_holes(X[:, X.std(axis=0) > 0], 0.1)


def strong_directions(n: int = 6178, p: int = 77, strong: int = 60) -> np.ndarray:
    """Simulated data with nearly as many components as features, all well above the noise."""
    rng = np.random.default_rng(5)
    Q = np.linalg.qr(rng.normal(size=(p, p)))[0]
    sizes = np.zeros(p)
    sizes[:strong] = 3 * np.exp(-np.arange(strong) / 20) + 0.3
    X = (rng.normal(size=(n, p)) * sizes) @ Q.T + 0.25 * rng.normal(size=(n, p))
    X += rng.normal(size=p)
    X[rng.random((n, p)) < 0.16] = np.nan
    return X


def tensor_with_holes(seed: int = 0) -> np.ndarray:
    """A simulated 27×121×24 tensor with a core of 4×5×4, 2 % missing."""
    made = low_rank_tensor((27, 121, 24), (4, 5, 4), random_state=seed)
    return with_holes(made.signal + 0.05 * (made.T - made.signal), 0.02)


def interleukin() -> np.ndarray:
    """TensorLy's 13×4×12×8 responses to interleukin-2, with 192 holes."""
    from tensorly.datasets import load_IL2data

    return np.asarray(load_IL2data().tensor, dtype=float)


def with_holes(X: np.ndarray, share: float) -> np.ndarray:
    gone = np.random.default_rng(0).random(X.shape) < share
    return np.where(gone, np.nan, X)


def _archive(name: str) -> dict[str, np.ndarray]:
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / f"{name}.npz") as file:
        return dict(file)


def _pca(noise: str = "isotropic") -> BayesianPCA:
    return BayesianPCA(noise=noise, max_iter=MOST_SWEEPS)


def _tucker() -> BayesianTucker:
    return BayesianTucker(noise="isotropic", max_iter=MOST_SWEEPS)


# By the name of a fit: whether it needs files, its estimator and its data.
FITS: dict[str, tuple[bool, Callable[[], Any], Callable[[], np.ndarray]]] = {
    "digits": (True, _pca, lambda: table("optdigits")),
    "digits, features": (True, lambda: _pca("per-feature"), lambda: table("optdigits")),
    "digits, zeros and ones": (True, _pca, zeros_and_ones),
    "letters": (True, _pca, lambda: table("letter")),
    "letters, features": (True, lambda: _pca("per-feature"), lambda: table("letter")),
    "satellite": (True, _pca, lambda: table("satellite")),
    "satellite, features": (True, lambda: _pca("per-feature"), lambda: table("satellite")),
    "oil flow": (True, _pca, lambda: table("oilflow")),
    "oil flow, features": (True, lambda: _pca("per-feature"), lambda: table("oilflow")),
    "60 strong directions": (False, _pca, strong_directions),
    "Tucker, interleukin": (False, _tucker, interleukin),
    "Tucker, 27×121×24": (False, _tucker, tensor_with_holes),
    "Tucker, amino": (True, _tucker, lambda: _archive("amino")["T"]),
}


# --- measuring ----------------------------------------------------------------------------------


@contextmanager
def counted(*, accelerated: bool) -> Iterator[list[int]]:
    """Count sweeps, which are plain unless accelerated."""
    count = [0]

    def counting(sweep: Callable[..., Any]) -> Callable[..., Any]:
        def one(*given: Any) -> Any:
            count[0] += 1
            return sweep(*given)

        return one

    with ExitStack() as stack:
        for module, name in ((dense, "sweep"), (complete, "swept"), (holes, "swept")):
            found = counting(getattr(module, name))
            stack.enter_context(patch.object(module, name, found))
        for model in () if accelerated else (DenseModel, TuckerModel):
            stack.enter_context(patch.object(model, "chart", lambda *_: None))
        yield count


def measured(model: Any, X: np.ndarray, *, accelerated: bool) -> Fitted:
    start = time.process_time()
    with counted(accelerated=accelerated) as count, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.process_time() - start
    ranks = model.n_components_ if isinstance(model, BayesianPCA) else model.ranks_
    return Fitted(count[0], seconds, model.free_energy_, ranks, model.converged_)


def compare(name: str, *, plain: bool) -> None:
    needs_files, estimator, data = FITS[name]
    if needs_files and "BAYESPCA_DATA" not in os.environ:
        print(f"{name}: set BAYESPCA_DATA to the folder of its file")
        return
    X = data()
    for accelerated in (False, True) if plain else (True,):
        found = measured(estimator(), X, accelerated=accelerated)
        kind = "accelerated" if accelerated else "plain"
        print(
            f"{name:24s}{kind:12s}{found.sweeps:6d} sweeps{found.seconds:9.2f} s"
            f"   F {found.free_energy:.4f}   rank {found.ranks}"
            f"{'' if found.has_settled else '   NOT SETTLED'}",
            flush=True,
        )


def main(names: list[str] | None = None, *, plain: bool = False) -> None:
    heading("sweeps with holes, and CPU time")
    # Warm up, so that no import or compilation is timed.
    measured(_pca(), strong_directions(10_000, 40, 12), accelerated=True)
    for name in names or FITS:
        compare(name, plain=plain)


if __name__ == "__main__":
    asked = sys.argv[1:]
    main([name for name in asked if name != "plain"], plain="plain" in asked)
