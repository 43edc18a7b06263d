"""A fit on a GPU, against the device's own rates and against torch's decompositions.

usage: python benchmarks/gpu.py [rows columns]

Needs torch with CUDA; CuPy is measured if it is installed. Times are medians of whole calls, with
the device synchronized.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from bench_missing import a_sweep
from timing import heading, line

from bayespca import BayesianPCA

RANK = 40


def seconds(work: Callable[[], Any], repeats: int = 7) -> float:
    """Median time of a call in seconds, after two warm-up calls."""
    import torch

    times = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:]))


def low_rank(n: int, p: int, rank: int, dtype: Any) -> Any:
    """Standard normal scores and loadings, noise of variance 1, means of 2; made on the device."""
    import torch

    torch.manual_seed(0)
    options = {"device": "cuda", "dtype": dtype}
    X = torch.randn(n, rank, **options) @ torch.randn(rank, p, **options)
    X += torch.randn(n, p, **options)
    return X.add_(2.0)


# --- what the device can do --------------------------------------------------------------------


@dataclass(frozen=True)
class Rates:
    """Operations per second in large products, by dtype, and bytes per second read."""

    products: dict[Any, float]
    reading: float

    def floor(self, n_operations: float, n_bytes: float, dtype: Any) -> float:
        """The roofline: the longer of computing and reading."""
        return max(n_operations / self.products[dtype], n_bytes / self.reading)


def rates() -> Rates:
    import torch

    found = {}
    for dtype in (torch.float32, torch.float64):
        A = torch.randn(8192, 8192, device="cuda", dtype=dtype)
        found[dtype] = 2 * 8192**3 / seconds(lambda A=A: A @ A)
    A = torch.randn(1 << 29, device="cuda")
    reading = A.numel() * 4 / seconds(A.sum)
    for dtype, rate in found.items():
        print(f"    products in {str(dtype).removeprefix('torch.')}: {rate / 1e12:.1f} TFLOP/s")
    print(f"    reading: {reading / 1e12:.2f} TB/s")
    return Rates(found, reading)


# --- complete data -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """An operator that records the number of columns of each matrix it multiplies."""

    operator: Any
    widths: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)

    def matmul(self, Q: Any) -> Any:
        self.widths.append(int(Q.shape[1]))
        return self.operator.matmul(Q)

    def rmatmul(self, W: Any) -> Any:
        self.widths.append(int(W.shape[1]))
        return self.operator.rmatmul(W)


def products_of_a_fit(X: Any) -> list[int]:
    """Number of columns in each of the randomized engine's products with X."""
    from bayespca.engines.operators import dense_operator
    from bayespca.engines.randomized import krylov
    from bayespca.spectrum import solve

    operator = Counted(dense_operator(X))
    krylov.decompose(operator, plan=solve, rng=np.random.default_rng(0))
    return operator.widths


def complete(n: int, p: int, dtype: Any, device: Rates) -> None:
    import torch

    X = low_rank(n, p, RANK, dtype)
    name = str(dtype).removeprefix("torch.")
    heading(f"{n:,}×{p:,} {name}, rank {RANK} found")
    model = BayesianPCA(random_state=0).fit(X)
    print(f"    engine {model.engine_}, rank {model.n_components_}")
    ours = seconds(lambda: BayesianPCA(random_state=0).fit(X))
    lowrank = seconds(lambda: torch.pca_lowrank(X, q=RANK))
    line(
        f"fit {ours * 1e3:.1f} ms; torch.pca_lowrank, rank known, {lowrank * 1e3:.1f} ms",
        f"{ours / lowrank:.2f} times",
        "≤ 2",
    )
    widths = products_of_a_fit(X)
    size = X.element_size()
    floor = sum(device.floor(2.0 * n * p * w, size * (n * p + (n + p) * w), dtype) for w in widths)
    floor += 2 * n * p * size / device.reading
    line(
        f"{len(widths)} products with {sum(widths)} columns and two passes: {floor * 1e3:.1f} ms "
        "at the device's rates",
        f"{ours / floor:.1f} times the roofline",
        "–",
    )
    try:
        exact = seconds(lambda: torch.linalg.svd(X, full_matrices=False), repeats=1)
        line(f"torch.linalg.svd {exact:.2f} s", f"{ours / exact:.3f} times", "< 1")
    except RuntimeError as error:
        print(f"    torch.linalg.svd: {str(error).splitlines()[0]}")
    same_as_on_the_host(X, model)
    with_cupy(X, ours)


def same_as_on_the_host(X: Any, model: BayesianPCA) -> None:
    start = time.perf_counter()
    host = BayesianPCA(random_state=0).fit(X.cpu().numpy())
    taken = time.perf_counter() - start
    noise = abs(float(model.noise_variance_) / float(host.noise_variance_) - 1)
    angle = np.linalg.svd(model.components_.cpu().numpy() @ host.components_.T, compute_uv=False)
    print(
        f"    NumPy: {taken:.2f} s, engine {host.engine_}, rank {host.n_components_}; noise apart "
        f"by {noise:.1e}, subspaces by {np.sqrt(max(1 - angle[-1] ** 2, 0)):.1e}"
    )


def as_cupy(X: Any) -> Any:
    """X as a CuPy array; None if CuPy is not installed."""
    try:
        import cupy
    except ImportError:
        print("    CuPy is not installed")
        return None
    return cupy.from_dlpack(X.contiguous())


def with_cupy(X: Any, torch_seconds: float) -> None:
    Y = as_cupy(X)
    if Y is None:
        return
    rank = BayesianPCA(random_state=0).fit(Y).n_components_
    taken = seconds(lambda: BayesianPCA(random_state=0).fit(Y))
    print(f"    CuPy: {taken * 1e3:.1f} ms ({taken / torch_seconds:.2f} times torch), rank {rank}")


# --- holes -------------------------------------------------------------------------------------


def with_holes(n: int, p: int, rank: int, dtype: Any) -> None:
    """Time a sweep against its matrix products: masks and values times packed moments."""
    import torch

    from bayespca.lowrank.observing import observed

    heading(
        f"{n:,}×{p} {str(dtype).removeprefix('torch.')}, 30 % missing: one sweep, {rank} components"
    )
    X = low_rank(n, p, rank, dtype)
    X[torch.rand(X.shape, device="cuda") < 0.3] = torch.nan
    taken = {}
    for name, Y in {"torch": X, "CuPy": as_cupy(X)}.items():
        if Y is not None:
            data = observed(Y, center=True, scale=False)
            taken[name] = seconds(a_sweep(data, p, rank), repeats=25)
    packed = (rank + 1) * (rank + 2) // 2
    masks = torch.rand(n, p, device="cuda", dtype=torch.float64)
    rows = torch.rand(n, packed, device="cuda", dtype=torch.float64)
    columns = torch.rand(p, packed, device="cuda", dtype=torch.float64)
    few, few_rows = columns[:, : rank + 1], rows[:, : rank + 1]

    def products() -> None:
        masks @ columns, masks.T @ rows, masks @ few, masks.T @ few_rows

    floor = seconds(products)
    for name, time_taken in taken.items():
        line(
            f"{name}: {time_taken * 1e3:.1f} ms; its products {floor * 1e3:.1f} ms",
            f"{time_taken / floor:.1f} times",
            "≤ 5",
        )
    warnings.simplefilter("ignore")
    whole = seconds(lambda: BayesianPCA().fit(X), repeats=1)
    found = BayesianPCA().fit(X)
    host = BayesianPCA().fit(X.cpu().numpy())
    print(
        f"    a whole fit {whole:.2f} s, rank {found.n_components_} (NumPy {host.n_components_}), "
        f"free energies apart by {abs(found.free_energy_ / host.free_energy_ - 1):.1e}"
    )


def main(arguments: list[str]) -> None:
    import torch

    n, p = (int(a) for a in arguments) if arguments else (200_000, 4_000)
    heading(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}")
    device = rates()
    complete(n, p, torch.float32, device)
    complete(n // 2, p, torch.float64, device)
    for dtype in (torch.float64, torch.float32):
        with_holes(100_000, 300, 20, dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
