"""Holes and ratings on Dask: one sweep on two processes, against one thread in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from bench_missing import a_sweep
from timing import heading, line, once, paired

from bayespca.arrays.parallel import one_blas_thread
from bayespca.estimators import _distant_ratings, _ratings
from bayespca.lowrank.observing import observed
from bayespca.missing.dense.data import holes_table
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model
from bayespca.sources.partitions import partitioned

WORKERS = 2


def block(rows: int, seed: int, right: np.ndarray) -> np.ndarray:
    """Rows of a low-rank matrix with noise, a fifth of the cells missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, len(right))) @ right + rng.normal(size=(rows, right.shape[1]))
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


def one_sweep_over_holes(client: Any) -> None:
    import dask
    import dask.array as da

    n, p, H, n_blocks = 200_000, 100, 10, 16
    heading(f"{n:,}×{p}, 20 % missing, {H} components, {n_blocks} blocks: one sweep")
    right = np.random.default_rng(0).normal(size=(H, p))
    rows = n // n_blocks
    parts = [dask.delayed(block)(rows, seed, right) for seed in range(n_blocks)]
    X = da.concatenate([da.from_delayed(part, (rows, p), np.float64) for part in parts])
    table: list[Any] = []
    seconds = once(lambda: table.append(holes_table(partitioned(X), center=True, scale=False)))
    there = table[0].rows
    print(f"    reading {n_blocks} blocks three times and keeping them: {seconds:.1f} s")
    here = observed(np.concatenate(dask.compute(*parts)), center=True, scale=False)
    distant, local = paired(a_sweep(there, p, H), alone(a_sweep(here, p, H)))
    report(distant, local)
    passes(client, a_sweep(there, p, H))
    packed, sides = (H + 1) * (H + 2) // 2, p * (H * (H + 1) // 2 + 2 * H)
    print(
        f"    sent to each worker: {8 * sides / 1e3:.0f} kB; sums of a block: "
        f"{8 * p * (packed + H) / 1e3:.0f} kB"
    )


def one_sweep_over_ratings(client: Any) -> None:
    import dask.dataframe as dd
    import pandas as pd

    n, m, size, H, n_blocks = 200_000, 5_000, 10_000_000, 10, 16
    heading(f"{size:,} ratings of {m:,} items by {n:,} users, {H} components: one sweep")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": rng.integers(n, size=size),
            "item": (m * rng.random(size) ** 2).astype(np.int64),
            "rating": rng.normal(size=size),
        }
    )
    frame = frame.drop_duplicates(["user", "item"], ignore_index=True)
    given = dd.from_pandas(frame, npartitions=n_blocks)
    found: list[Any] = []
    columns = given["user"], given["item"], given["rating"]
    seconds = once(
        lambda: found.append(_distant_ratings.from_columns(*columns, None).data(center=True))
    )
    there = found[0]
    print(f"    bringing the ratings of each user together: {seconds:.1f} s")
    cells = _ratings.from_columns(frame["user"], frame["item"], frame["rating"], None)
    here = sorted_both_ways(cells.rows, cells.columns, cells.values, cells.shape, center=True)
    model = ratings_model(here, n_components=H, init="random")
    state = model.start(here, np.random.default_rng(1))
    distant, local = paired(
        lambda: model.step(state, there),
        alone(lambda: model.step(state, here)),
        repeats=3,
    )
    report(distant, local)
    passes(client, lambda: model.step(state, there))
    K = H + 1
    packed = K * (K + 1) // 2
    print(
        f"    sent to each worker, and sums of a block: {8 * m * (packed + 2 * K) / 1e6:.1f} MB; "
        f"of each user in the model: {8 * (K + packed)} bytes"
    )


def alone(work: Callable[[], object]) -> Callable[[], object]:
    """The same work on a single BLAS thread."""

    def run() -> None:
        with one_blas_thread():
            work()

    return run


def report(distant: float, local: float) -> None:
    line(
        f"{distant:.2f} s on {WORKERS} processes, {local:.2f} s in memory on one thread",
        f"{distant / local:.2f} times",
        "≤ 1",
    )


def passes(client: Any, sweep: Callable[[], object]) -> None:
    """Print the time of a sweep on the workers, and how long they are busy."""
    from distributed import get_task_stream

    with get_task_stream(client) as stream:
        seconds = once(sweep)
    busy = sum(span["stop"] - span["start"] for task in stream.data for span in task["startstops"])
    print(
        f"    one of {seconds:.2f} s: {len(stream.data)} tasks, workers busy for "
        f"{busy / WORKERS:.2f} s each"
    )


@contextmanager
def cluster() -> Iterator[Any]:
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


def main() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError as missing:
        print(f"    Dask: {missing}")
        return
    with cluster() as client:
        one_sweep_over_holes(client)
        one_sweep_over_ratings(client)
