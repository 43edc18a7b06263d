"""Which share of clean new rows T² and Q flag at nominal 5 %, beside textbook limits.

The textbook has the variances of the fit's rows, χ² or Hotelling's F for T² and Jackson and
Mudholkar's limit for Q, with the number of components that the model finds.

usage: python benchmarks/run.py monitoring
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import norm

from bayespca import BayesianPCA, monitoring

ALPHA, REPEATS, NEW = 0.05, 200, 1000
# Rows, columns, components, their strength, and the noise model.
CASES = [
    *[(60, 20, k, s, "auto") for k, s in ((0, 1.0), (1, 1.0), (3, 1.0), (6, 1.0))],
    *[(60, 20, k, s, "auto") for k, s in ((1, 0.4), (3, 0.4), (6, 0.4))],
    *[(200, 30, k, s, "auto") for k, s in ((0, 1.0), (1, 1.0), (3, 1.0), (6, 1.0), (6, 0.4))],
    *[(n, p, 3, 1.0, "per-feature") for n, p in ((60, 20), (200, 30))],
]


def main() -> None:
    print("| rows × columns | components | strength | noise | found | T² | Q | textbook T² | Q |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        n, p, k, strength, noise = case
        found, shares = _measured(case)
        shown = " | ".join("–" if np.isnan(v) else f"{100 * v:.1f} %" for v in shares)
        print(f"| {n} × {p} | {k} | {strength} | {noise} | {found:.1f} | {shown} |", flush=True)


def _measured(case: tuple[int, int, int, float, str]) -> tuple[float, np.ndarray]:
    n, p, k, strength, noise = case
    rng = np.random.default_rng([n, p, k])
    ranks, shares = [], []
    for _ in range(REPEATS):
        loadings, mean = strength * rng.normal(size=(k, p)), rng.normal(size=p)
        own = np.exp(0.35 * rng.normal(size=p)) if noise == "per-feature" else np.ones(p)
        size = n + NEW
        rows = rng.normal(size=(size, k)) @ loadings + rng.normal(size=(size, p))
        X = mean + rows * own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BayesianPCA(noise=noise).fit(X[:n])
        found = monitoring.statistics(model, X[n:], alpha=ALPHA)
        ranks.append(model.n_components_)
        ours = [found.t2_alarms.mean(), found.q_alarms.mean()]
        if not ranks[-1]:
            ours[0] = np.nan
        shares.append([*ours, *_textbook(X[:n], X[n:], ranks[-1])])
    kept = np.ma.masked_invalid(shares).mean(axis=0)
    return float(np.mean(ranks)), np.ma.filled(kept, np.nan)


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


if __name__ == "__main__":
    main()
