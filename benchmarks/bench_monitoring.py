"""Share of clean new rows that T² and Q flag at nominal 5 %, beside textbook limits and peers.

The textbook limits use the variances of the fitted rows: Hotelling's F for T², and Jackson and
Mudholkar's limit for Q. The peers are chemotools, and `pca`, whose SPE is a distance along the
first two components. All use the number of components that our model finds. Real tables are split
at random; their limits are also calibrated with the rows of the fit.

usage: python benchmarks/run.py monitoring
       python benchmarks/bench_monitoring.py picture.png
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import norm
from sklearn.decomposition import PCA
from timing import heading

from bayespca import BayesianPCA, monitoring

ALPHA, REPEATS, NEW = 0.05, 200, 1000
# Number of fits for `pca`, which takes a second for a thousand rows.
OF_PCA = 10
# Rows, columns, components, their strength, and the noise model.
CASES = [
    *[(60, 20, k, s, "auto") for k, s in ((0, 1.0), (1, 1.0), (3, 1.0), (6, 1.0))],
    *[(60, 20, k, s, "auto") for k, s in ((1, 0.4), (3, 0.4), (6, 0.4))],
    *[(200, 30, k, s, "auto") for k, s in ((0, 1.0), (1, 1.0), (3, 1.0), (6, 1.0), (6, 0.4))],
    *[(n, p, 3, 1.0, "per-feature") for n, p in ((60, 20), (200, 30))],
]
TABLES = ("wine", "glass", "segment", "satellite", "letter", "chart", "oilflow")
MOST, SPLITS = 400, 5


def main() -> None:
    warnings.simplefilter("ignore")
    _simulated()
    if "BAYESPCA_DATA" not in os.environ:
        print("monitoring: set BAYESPCA_DATA to the folder of the data for real tables")
        return
    for noise in ("auto", "isotropic"):
        _real(noise)


# --- simulated rows ----------------------------------------------------------------------------


def _simulated() -> None:
    heading("simulated rows")
    about = "rows × columns | components | strength | noise | found"
    print(f"| {about} | T² | Q | textbook T² | Q | chemotools T² | Q | pca T² | SPE |")
    print(f"|{13 * '---|'}")
    for case in CASES:
        n, p, k, strength, noise = case
        found, shares = _measured(case)
        print(f"| {n} × {p} | {k} | {strength} | {noise} | {found:.1f} | {_percent(shares)} |")


def _percent(shares: np.ndarray) -> str:
    return " | ".join("–" if np.isnan(v) else f"{100 * v:.1f} %" for v in shares)


def _measured(case: tuple[int, int, int, float, str]) -> tuple[float, np.ndarray]:
    n, p, k, strength, noise = case
    rng = np.random.default_rng([n, p, k])
    ranks, shares = [], []
    for repeat in range(REPEATS):
        loadings, mean = strength * rng.normal(size=(k, p)), rng.normal(size=p)
        own = np.exp(0.35 * rng.normal(size=p)) if noise == "per-feature" else np.ones(p)
        size = n + NEW
        rows = rng.normal(size=(size, k)) @ loadings + rng.normal(size=(size, p))
        X = mean + rows * own
        model = BayesianPCA(noise=noise).fit(X[:n])
        ours = _flagged(monitoring.statistics(model, X[n:], alpha=ALPHA))
        ranks.append(model.n_components_)
        peers = (*_textbook(X[:n], X[n:], ranks[-1]), *_chemotools(X[:n], X[n:], ranks[-1]))
        last = _pca(X[:n], X[n:], ranks[-1]) if repeat < OF_PCA else (np.nan, np.nan)
        shares.append([*ours, *peers, *last])
    kept = np.ma.masked_invalid(shares).mean(axis=0)
    return float(np.mean(ranks)), np.ma.filled(kept, np.nan)


def _flagged(found: monitoring.Monitoring) -> tuple[float, float]:
    t2 = np.nan if np.isnan(found.t2).all() else found.t2_alarms.mean()
    return float(t2), float(found.q_alarms.mean())


# --- real rows ---------------------------------------------------------------------------------


def _real(noise: str) -> None:
    heading(f"real tables, noise={noise!r}")
    print("| table | components | T² | Q | calibrated T² | Q | chemotools T² | Q |")
    print(f"|{8 * '---|'}")
    for name in TABLES:
        with np.load(Path(os.environ["BAYESPCA_DATA"]) / f"{name}.npz") as file:
            X = file["X"].astype(np.float64)
        X = X[:, X.std(axis=0) > 0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        half = min(len(X) // 2, MOST)
        shares = np.array([_split(X, half, noise, seed) for seed in range(SPLITS)])
        ranks = f"{shares[:, 0].min():.0f}–{shares[:, 0].max():.0f}"
        mean = _percent(shares[:, 1:].mean(axis=0))
        print(f"| {name}, {half}×{X.shape[1]} | {ranks} | {mean} |", flush=True)


def _split(X: np.ndarray, half: int, noise: str, seed: int) -> tuple[float, ...]:
    order = np.random.default_rng(seed).permutation(len(X))
    good, new = X[order[:half]], X[order[half:]]
    model = BayesianPCA(noise=noise).fit(good)
    k, clean = model.n_components_, monitoring.calibrate(model, good)
    law = _flagged(monitoring.statistics(model, new, alpha=ALPHA))
    moved = _flagged(monitoring.statistics(model, new, alpha=ALPHA, calibration=clean))
    return (k, *law, *moved, *_chemotools(good, new, k))


# --- others ------------------------------------------------------------------------------------


def _textbook(X: np.ndarray, new: np.ndarray, k: int) -> tuple[float, float]:
    n, mean = len(X), X.mean(axis=0)
    values, V = np.linalg.eigh(np.cov(X.T))
    values, V = values[::-1], V[:, ::-1]
    Y = (new - mean) @ V
    limit = k * (n**2 - 1) / (n * (n - k)) * fisher.isf(ALPHA, k, n - k) if k else np.nan
    t2 = np.mean((Y[:, :k] ** 2 / values[:k]).sum(axis=1) > limit) if k else np.nan
    a, b, c = (float((values[k:] ** power).sum()) for power in (1, 2, 3))
    h = 1 - 2 * a * c / (3 * b**2)
    root = norm.isf(ALPHA) * np.sqrt(2 * b * h**2) / a + 1 + b * h * (h - 1) / a**2
    return float(t2), float(np.mean((Y[:, k:] ** 2).sum(axis=1) > a * root ** (1 / h)))


def _chemotools(X: np.ndarray, new: np.ndarray, k: int) -> tuple[float, float]:
    if not k or not find_spec("chemotools"):
        return np.nan, np.nan
    from chemotools.outliers import HotellingT2, QResiduals

    model = PCA(k).fit(X)
    found = [kind(model, confidence=1 - ALPHA).fit(X) for kind in (HotellingT2, QResiduals)]
    t2, q = (float(np.mean(each.predict(new) == -1)) for each in found)
    return t2, q


def _pca(X: np.ndarray, new: np.ndarray, k: int) -> tuple[float, float]:
    """Shares that `pca` flags; raw p-values of T², as `y_bool` corrects for the number of rows."""
    if not k or not find_spec("pca"):
        return np.nan, np.nan
    from pca import pca

    quiet: Any = {"verbose": 0}
    model = pca(n_components=k, alpha=ALPHA, detect_outliers=["ht2", "spe"], **quiet)
    model.fit_transform(X, **quiet)
    model.transform(new, **quiet)
    found = model.results["outliers"].iloc[len(X) :]
    spe = found["y_bool_spe"].mean() if "y_bool_spe" in found else np.nan
    return float((found["p_raw"] < ALPHA).mean()), float(spe)


# --- a picture ---------------------------------------------------------------------------------


def picture(path: str) -> None:
    """Draw the charts of ten sensors, one of which drifts, with one row far from the others."""
    from matplotlib import pyplot as plt

    from bayespca.displays import MonitoringDisplay

    rng = np.random.default_rng(5)
    loadings = rng.normal(size=(3, 10))
    X = rng.normal(size=(280, 3)) @ loadings + 0.5 * rng.normal(size=(280, 10))
    good, new = X[:200], X[200:]
    new[25] = 3.0 * np.array([1.0, -1.0, 1.0]) @ loadings + 0.5 * rng.normal(size=10)
    new[50:, 6] += np.linspace(0, 6, 30)
    model = BayesianPCA().fit(good)
    found = monitoring.statistics(model, new, alpha=0.01)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.5, 3.6), width_ratios=(3, 1.2), layout="constrained"
    )
    MonitoringDisplay.from_statistics(found, ax=left)
    left.set_title("80 new rows; sensor 6 drifts from row 50 on", fontsize=10, pad=22)
    last = found.q_contributions[-5:].mean(axis=0)
    right.barh(range(10), last, color=["tab:red" if j == 6 else "silver" for j in range(10)])
    right.set_yticks(range(10), [f"sensor {j}" for j in range(10)], fontsize=8)
    right.invert_yaxis()
    right.set_title("what columns add to Q,\nlast five rows", fontsize=10)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    picture(sys.argv[1]) if sys.argv[1:] else main()
