"""BayesianPCA, with the rank found, against scikit-learn's PCA, with the rank given."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.linalg import eigh
from sklearn.decomposition import PCA
from timing import heading, line, once, paired

from bayespca import BayesianPCA, evbmf
from bayespca.datasets import low_rank
from bayespca.spectrum import Spectrum, gavish_donoho, minka, parallel_analysis, solve

CASES = ((300, 100, 20), (500, 400, 5), (1000, 50, 10), (200, 200, 40), (300, 100, 0))
ROWS_PER_GB = 1_250_000  # of 200 float32 columns


def against(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], target: float
) -> None:
    mine, other = paired(ours, theirs)
    figure = f"{mine / other:.2f} ({1e3 * mine:.0f}/{1e3 * other:.0f} ms)"
    line(what, figure, f"≤ {target}")


def in_memory() -> None:
    heading("BayesianPCA against scikit-learn's PCA (ratio of times, medians of 5)")
    X = low_rank(20_000, 500, 20, random_state=0).X
    model = BayesianPCA()
    against(
        "20,000×500, rank 20: PCA(20, covariance_eigh)",
        lambda: model.fit(X),
        lambda: PCA(20, svd_solver="covariance_eigh").fit(X),
        0.8,
    )
    print(f"    engine {model.engine_}, rank {model.n_components_}")
    X = low_rank(8_000, 4_000, 30, random_state=0).X
    against(
        "8,000×4,000, rank 30: PCA(30, randomized)",
        lambda: model.fit(X),
        lambda: PCA(30, svd_solver="randomized", random_state=0).fit(X),
        1.0,
    )
    print(f"    engine {model.engine_}, rank {model.n_components_}")
    X = low_rank(200, 20_000, 10, random_state=0).X
    against("200×20,000, rank 10: PCA(10)", lambda: model.fit(X), lambda: PCA(10).fit(X), 1.0)
    print(f"    engine {model.engine_}, rank {model.n_components_}")
    X = low_rank(1_200, 1_000, 10, random_state=0).X
    theirs = once(lambda: PCA("mle").fit(X))
    mine, _ = paired(lambda: model.fit(X), lambda: None)
    line('1,200×1,000: PCA("mle")', f"{mine / theirs:.5f} ({1e3 * mine:.0f} ms)", "≤ 0.01")
    truth = low_rank(100_000, 200, 10, noise_variance=0.01, strength=0.1, random_state=0)
    X = (truth.X + 300).astype(np.float32)
    against(
        "100,000×200 float32, offset 300: PCA(10)",
        lambda: model.fit(X),
        lambda: PCA(10).fit(X),
        0.8,
    )
    exact = BayesianPCA(engine="dense").fit(X.astype(np.float64))
    error = np.abs(model.explained_variance_ / exact.explained_variance_ - 1).max()
    line("    error of variances after the offset", f"{error:.1e}", "≤ 1e-4")
    Y = low_rank(200, 6_000, 10, random_state=0).X
    against(
        "evbmf 200×6,000: NumPy's thin SVD",
        lambda: evbmf(Y),
        lambda: np.linalg.svd(Y, full_matrices=False),
        1.5,
    )


def at_equal_accuracy() -> None:
    """Compare with fbpca, given the rank and as many iterations as it needs to be as accurate."""
    if not find_spec("fbpca"):
        print("\nfbpca: not installed")
        return
    from fbpca import pca

    heading("Against fbpca, given the rank (CPU, medians of 5)")
    for n, p, strength in ((200, 20_000, 1.0), (8_000, 4_000, 1.0), (8_000, 4_000, 0.25)):
        X = low_rank(n, p, 20, strength=strength, random_state=0).X
        model = BayesianPCA(random_state=0)
        model.fit(X)
        exact = leading_rows(X - X.mean(axis=0), 20)
        mine = distance(model.components_, exact)
        title = f"{n:,}×{p:,}, components {strength}"
        for n_iter in range(2, 13):
            theirs = partial(pca, X, k=20, raw=False, n_iter=n_iter)
            error = distance(theirs()[2], exact)
            if n_iter == 2 or error <= mine or n_iter == 12:
                ours, other = paired(lambda m=model, X=X: m.fit(X), theirs, clock=time.process_time)
                figure = f"{ours / other:.2f} ({1e3 * ours:.0f}/{1e3 * other:.0f} ms)"
                line(f"{title}: n_iter={n_iter}", figure, "≤ 1.0")
                print(f"    sine of the largest angle: ours {mine:.0e}, fbpca's {error:.0e}")
            if error <= mine:
                break


def leading_rows(X: np.ndarray, k: int) -> np.ndarray:
    """Right singular vectors of the k largest singular values."""
    if X.shape[0] < X.shape[1]:
        return np.linalg.svd(X, full_matrices=False)[2][:k]
    p = X.shape[1]
    return eigh(X.T @ X, subset_by_index=(p - k, p - 1))[1].T


def distance(rows: np.ndarray, exact: np.ndarray) -> float:
    """Sine of the largest angle between the spaces of orthonormal rows."""
    return float(np.linalg.norm(rows - rows @ exact.T @ exact, 2))


def growth() -> None:
    heading("How time grows with rows (200 features)")
    base = None
    X = low_rank(400_000, 200, 10, random_state=0).X
    for factor in (1, 2, 4, 8):
        part = X[: 50_000 * factor]
        mine, _ = paired(lambda part=part: BayesianPCA().fit(part), lambda: None)
        base = base or mine
        line(f"{50_000 * factor} rows", f"{mine / base:.2f} times", f"{factor}")


def streaming(gigabytes: int = 4) -> None:
    heading(f"Streaming a {gigabytes} GB float32 .npy with 200 columns")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.npy"
        write_large(path, gigabytes * ROWS_PER_GB)
        read_and_multiply(path)
        theirs = min(once(lambda: read_and_multiply(path)) for _ in range(3))
        code = (
            "import re, sys, time; from bayespca import BayesianPCA;"
            "m = BayesianPCA(); m.fit(sys.argv[1]); t = [];"
            "exec('for _ in range(3):\\n s = time.perf_counter(); m.fit(sys.argv[1]); "
            "t.append(time.perf_counter() - s)');"
            "hwm = re.search('VmHWM:\\\\s+(\\\\d+)', open('/proc/self/status').read())[1];"
            "print(min(t), hwm, m.n_components_)"
        )
        out = subprocess.run(
            [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
        ).stdout.split()
    mine, peak, rank = float(out[0]), int(out[1]) / 1024, out[2]
    line(
        "against reading it and one product per block",
        f"{mine / theirs:.2f} ({mine:.1f}/{theirs:.1f} s)",
        "≤ 1.3",
    )
    line("    peak memory of the process", f"{peak:.0f} MB", "< 500 MB")
    print(f"    rank {rank}")


def write_large(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(10, 200)).astype(np.float32)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, 200))
    for start in range(0, rows, 100_000):
        n = min(100_000, rows - start)
        A = rng.standard_normal((n, 10), dtype=np.float32)
        out[start : start + n] = A @ B + rng.standard_normal((n, 200), dtype=np.float32)
    out.flush()
    del out


def read_and_multiply(path: Path, rows: int = 20_000) -> None:
    """Do the unavoidable work: read all bytes once, and multiply each block once."""
    with path.open("rb") as file:
        file.seek(128)
        while data := file.read(rows * 800):
            block = np.frombuffer(data, np.float32).reshape(-1, 200)
            block.T @ block


def recovery(seeds: int = 100) -> None:
    heading(f"Rank recovery: exactly right, of {seeds} seeds")
    print(f"{'':22s}{'EVB':>8s}{'Minka':>8s}{'G–D':>8s}{'PA':>8s}")
    for n, p, rank in (
        (300, 100, 20),
        (500, 400, 5),
        (1000, 50, 10),
        (200, 200, 40),
        (300, 100, 0),
    ):
        hits = np.zeros(4, dtype=int)
        for seed in range(seeds):
            X = low_rank(n, p, rank, random_state=seed).X
            gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
            s = Spectrum(gamma[: min(p, n - 1)], (p, n - 1))
            found = (
                solve(s).rank,
                minka(s).rank,
                gavish_donoho(s),
                parallel_analysis(s, n_draws=20),
            )
            hits += np.array(found) == rank
        print(f"{n}×{p} rank {rank}".ljust(22) + "".join(f"{hit:8d}" for hit in hits))


def main() -> None:
    in_memory()
    at_equal_accuracy()
    growth()
    streaming()
    recovery()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\npeak memory of this process: {peak / 1024:.0f} MB")
