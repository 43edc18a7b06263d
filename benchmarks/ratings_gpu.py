"""Ten million simulated ratings on a machine with a GPU: sweeps against the bytes they move.

Run ``python benchmarks/ratings_gpu.py``; needs torch for ids on the device. Sweeps over ratings are
loops on the cores of the host: ids and ratings on a device are copied to the host once. The last
part prints how long the bytes of a sweep would take at the rates of both memories.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespca import MatrixFactorization
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model
from bayespca.missing.sampled.data import with_features
from bayespca.missing.sampled.fit import SampledModel
from bayespca.spectrum.methods import EVB

N, M, RANK, CELLS = 70_000, 10_000, 10, 10_000_000


def simulated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and ratings."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, N * M, CELLS + CELLS // 50))
    cells = rng.permutation(cells)[:CELLS]
    i, j = (cells // M).astype(np.int32), (cells % M).astype(np.int32)
    A, B = rng.normal(size=(N, RANK)), rng.normal(size=(M, RANK))
    return i, j, np.einsum("ch,ch->c", A[i], B[j]) + rng.normal(size=i.size)


def timed(work: Callable[[], Any], times: int = 3) -> float:
    """Wall-clock seconds, the shortest of several calls."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def on_device(columns: tuple[np.ndarray, ...]) -> tuple[str, tuple[Any, ...]] | None:
    """Name of the device, and the columns as torch tensors on it: a GPU if there is one."""
    try:
        import torch
    except ImportError as absent:
        print(f"torch: {absent}")
        return None
    place = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if place == "cuda" else "torch on the host"
    return name, tuple(torch.asarray(column, device=place) for column in columns)


def fitted(columns: tuple[Any, ...]) -> MatrixFactorization:
    model = MatrixFactorization(n_components=RANK, noise_variance=1.0, max_iter=3)
    with warnings.catch_warnings():
        # Three sweeps do not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit_ratings(*columns)


def whole_fits(columns: tuple[np.ndarray, ...]) -> None:
    """Print the times of a short fit from ids in NumPy and from ids on the device."""
    print(f"{CELLS:,} ratings of {M:,} items by {N:,} users, rank {RANK}, {os.cpu_count()} cores")
    given = {"NumPy": columns}
    if (found := on_device(columns)) is not None:
        given[found[0]] = found[1]
    # Warm up, so that compilation is not timed.
    small = tuple(column[:50_000] for column in columns)
    fitted(small)
    answers = {}
    for name, some in given.items():
        begin = time.perf_counter()
        model = fitted(some)
        seconds = time.perf_counter() - begin
        print(f"    fit_ratings, max_iter=3, ids and ratings in {name}: {seconds:.2f} s")
        answers[name] = model.predict(np.arange(10), np.arange(10))
    same = all((one == answers["NumPy"]).all() for one in answers.values())
    print(f"    the same predictions: {same}. Ratings are brought to the host: sweeps run there.")
    if found is not None:
        seconds = timed(lambda: [column.cpu() for column in found[1]])
        size = sum(column.nbytes for column in columns)
        print(f"    bringing {size / 1e6:.0f} MB to the host: {seconds:.3f} s")


def sweep_bytes(K: int) -> tuple[int, int]:
    """Bytes that a sweep must read and write, and bytes that it gathers.

    Both orders of the cells are read once: an id of the other side and a value. Rows and columns of
    both sides, means and packed covariances, are read and written. For each cell and each order the
    regressors of one row of the other side are gathered: K + K(K + 1)/2 numbers and K more.
    """
    packed = K * (K + 1) // 2
    streamed = 2 * CELLS * (4 + 8) + 2 * (N + M) * (K + packed) * 8
    gathered = 2 * CELLS * (2 * K + packed) * 8
    return streamed, gathered


def sweeps(columns: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Seconds of a sweep of EVB, and of one chain of the sampler without and with `implicit`."""
    rng = np.random.default_rng(0)
    cells = sorted_both_ways(*columns, (N, M), center=True)
    data, implicit = with_features(cells), with_features(cells, implicit=True)
    begun = ratings_model(data, EVB, n_components=RANK, noise_variance=1.0)
    sampler = SampledModel(begun=begun, rank=RANK, n_chains=1, n_warmup=10**9)
    first = begun.start(data, rng)
    models: dict[str, tuple[Any, Any, Any]] = {
        "EVB": (begun, first, data),
        "Gibbs": (sampler, sampler.lent(first).start(data, rng), data),
        "Gibbs with implicit": (sampler, sampler.lent(first).start(implicit, rng), implicit),
    }
    found = {}
    for name, (model, begin, its) in models.items():
        state, _ = model.step(begin, its)
        found[name] = timed(partial(model.step, state, its))
    return found


def rates() -> dict[str, float]:
    """Bytes per second that the host copies, and that the device copies if there is one."""
    some = np.ones(1 << 27)
    other = np.empty_like(some)
    found = {"host, NumPy's copy": 2 * some.nbytes / timed(lambda: np.copyto(other, some))}
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        a = torch.ones(1 << 27, dtype=torch.float64, device="cuda")
        b = torch.empty_like(a)

        def copied() -> None:
            for _ in range(20):
                b.copy_(a)
            torch.cuda.synchronize()

        copied()
        found[torch.cuda.get_device_name()] = 20 * 2 * some.nbytes / timed(copied)
    return found


def main() -> None:
    columns = simulated()
    whole_fits(columns)
    streamed, gathered = sweep_bytes(RANK + 1)
    print(f"a sweep: {streamed / 1e9:.2f} GB streamed, {gathered / 1e9:.2f} GB gathered")
    for name, seconds in sweeps(columns).items():
        rate = (streamed + gathered) / seconds
        print(f"    {name}: {seconds:.2f} s, {rate / 1e9:.1f} GB/s, gathered bytes included")
    for name, rate in rates().items():
        both = (streamed + gathered) / rate
        print(
            f"    {name}: {rate / 1e9:.0f} GB/s; streamed {streamed / rate:.3f} s, all {both:.3f} s"
        )


if __name__ == "__main__":
    main()
