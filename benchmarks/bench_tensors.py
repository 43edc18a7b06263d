"""Tensors: ranks of the paper's artificial tensor and of two real ones; time against TensorLy."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from timing import heading, line, paired

from bayespca import BayesianTucker, tensor_ranks
from bayespca.datasets import low_rank_tensor
from bayespca.tensors.modes import times

# aistats2014 Table 2, ArtificialTF.
PRINTED = {
    "evb": "(3, 4, 5) 100 %",
    "epb": "(3, 4, 5) 100 %",
    "emap": "(3, 4, 5) 90 %, (3, 7, 5) 10 %",
    "gradient": "(3, 4, 4) 80 %, (3, 4, 5) 20 %",
}


def paper() -> None:
    heading(
        "ArtificialTF 30×40×50, core 3×4×5, 0 dB: ranks from 10 random starts, and what is printed"
    )
    for method, printed in PRINTED.items():
        for seed in range(3):
            made = low_rank_tensor((30, 40, 50), (3, 4, 5), random_state=seed)
            T = made.T
            found = Counter(_from_random_start(T, method, start) for start in range(10))
            label = ", ".join(f"{ranks} {10 * count} %" for ranks, count in found.most_common())
            line(f"{method}, tensor {seed}", label, printed)


def _from_random_start(T: np.ndarray, method: str, seed: int) -> tuple[int, ...]:
    options = {"noise_variance": "0db", "init": "random", "random_state": seed}
    if method == "gradient":
        model = BayesianTucker("emap", solver="gradient", max_iter=2000, **options)
    else:
        model = BayesianTucker(method, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(T).ranks_


def real() -> None:
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print("real tensors: set BAYESPCA_DATA to the folder of amino.npz")
        return
    heading("real tensors: ranks, and the error of the reconstruction relative to the data")
    for name in ("amino", "kinetic_fluorescence"):
        with np.load(Path(folder) / f"{name}.npz") as file:
            T = file["T"].astype(float)
            if "missing" in file.files:
                T = np.where(file["missing"].astype(bool), np.nan, T)
        there = ~np.isnan(T)
        for method in ("evb", "epb", "emap"):
            model = BayesianTucker(method, noise_variance="0db").fit(T)
            error = np.linalg.norm((model.reconstruct() - T)[there]) / np.linalg.norm(T[there])
            target = "(3, 3, 3)" if name == "amino" else ""
            line(f"{name} {T.shape}, {method}, 0 dB", f"{model.ranks_}, {error:.4f}", target)


def speed() -> None:
    from tensorly.decomposition import tucker

    heading("100×100×100, core 5×5×5: ranks found, against TensorLy's tucker with ranks given")
    made = low_rank_tensor((100, 100, 100), (5, 5, 5), random_state=0)
    T, X = made.T, made.signal
    mine, theirs = paired(lambda: BayesianTucker().fit(T), lambda: tucker(T, rank=[5, 5, 5]))
    model = BayesianTucker().fit(T)
    line(
        f"ours {mine:.3f} s, core {model.ranks_}, TensorLy {theirs:.3f} s",
        f"{mine / theirs:.2f}",
        "≤ 3",
    )
    alone, _ = paired(lambda: tensor_ranks(T), lambda: None)
    line(f"unfoldings alone {tensor_ranks(T)}, {alone:.3f} s", f"{alone / theirs:.2f}", "")
    core, factors = tucker(T, rank=[5, 5, 5])
    for name, low in (("ours", model.reconstruct()), ("TensorLy", times(core, factors))):
        line(f"error of the tensor without noise, {name}", f"{_rmse(low, X):.4f}", "")


def holes() -> None:
    heading("100×100×100 with holes, 0 dB: error in them, TensorLy's masked tucker at true ranks")
    for share in (0.9, 0.98):
        made = low_rank_tensor((100, 100, 100), (5, 5, 5), random_state=0)
        T, X = made.T, made.signal
        gone = np.random.default_rng(1).random(T.shape) < share
        model = BayesianTucker().fit(np.where(gone, np.nan, T))
        filled, std = model.impute(return_std=True)
        mine = _rmse(filled[gone], X[gone])
        inside = 100 * np.mean(np.abs(T - filled)[gone] < 1.96 * std[gone])
        floor = np.sqrt((3 * 500 + 125) / np.sum(~gone))
        label = f"{share:.0%} missing, core {model.ranks_}, parameters alone {floor:.4f}"
        line(label, f"{mine:.4f}", "")
        line("    cells in their 95 % intervals", f"{inside:.1f} %", "")
        for label, other in _by_tensorly(T, X, gone):
            line(f"    TensorLy, {label}: {other:.4f}", f"{mine / other:.2f}", "≤ 0.5")


def _by_tensorly(T: np.ndarray, X: np.ndarray, gone: np.ndarray) -> Iterator[tuple[str, float]]:
    from tensorly.decomposition import tucker

    for init in ("svd", "random"):
        for iterations, tol in ((100, 1e-4), (1000, 1e-8)):
            core, factors = tucker(
                np.where(gone, 0.0, T),
                rank=[5, 5, 5],
                mask=~gone,
                init=init,
                n_iter_max=iterations,
                tol=tol,
                random_state=0,
            )
            error = _rmse(times(core, factors)[gone], X[gone])
            yield f"init {init}, {iterations} iterations, tol {tol:g}", error


def _rmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2)))


def main() -> None:
    paper()
    real()
    speed()
    holes()
