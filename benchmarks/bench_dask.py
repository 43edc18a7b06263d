"""Dask on this machine: two processes against the streaming engine, and four times the rows."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from timing import heading, line, paired

from bayespca import BayesianPCA

ROWS, COLUMNS, FILES, TIMES = 2_000_000, 100, 8, 4


def write_parts(folder: Path) -> None:
    """Write low-rank data with noise as float32 Parquet files; links to them multiply the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, COLUMNS), dtype=np.float32)
    for i in range(FILES):
        n = ROWS // FILES
        X = rng.standard_normal((n, 5), dtype=np.float32) @ W
        X += rng.standard_normal((n, COLUMNS), dtype=np.float32)
        table = pa.table({f"x{j}": X[:, j] for j in range(COLUMNS)})
        name = f"part-{i}.parquet"
        pq.write_table(table, folder / "once" / name, row_group_size=2**16)
        for k in range(TIMES):
            (folder / "times" / f"{k}-{name}").symlink_to(folder / "once" / name)


def streamed(path: Path) -> BayesianPCA:
    return BayesianPCA().fit(path)


def on_workers(path: Path) -> BayesianPCA:
    return BayesianPCA(engine="dask").fit(path / "*.parquet")


def of_table(path: Path) -> BayesianPCA:
    import dask.dataframe as dd

    return BayesianPCA().fit(dd.read_parquet(path))


def main() -> None:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print('Dask is not installed: pip install "bayespca[dask]"')
        return
    with (
        tempfile.TemporaryDirectory() as name,
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        once, times = Path(name) / "once", Path(name) / "times"
        once.mkdir()
        times.mkdir()
        write_parts(Path(name))
        here, there = streamed(once), on_workers(once)
        assert here.n_components_ == there.n_components_
        assert abs(here.noise_variance_ / there.noise_variance_ - 1) < 1e-6
        load = os.getloadavg()[0]
        heading(f"Dask, two processes, Parquet of float32, {COLUMNS} columns; load {load:.1f}")
        used = partial(cpu_seconds, client)
        compare("by workers", used, partial(on_workers, once), partial(streamed, once), "≤ 1.5")
        compare("by dask.dataframe", used, partial(of_table, once), partial(streamed, once), "")
        seconds, peer = paired(partial(on_workers, times), partial(on_workers, once))
        line(
            f"{TIMES * ROWS:,} rows {seconds:.2f} s, {ROWS:,} rows {peer:.2f} s",
            f"{seconds / peer:.2f}",
            "≤ 4.4",
        )


def cpu_seconds(client: Any) -> float:
    """CPU time used so far by the workers and by this process, which runs the scheduler."""
    return time.process_time() + sum(client.run(time.process_time).values())


def compare(
    what: str,
    used: Callable[[], float],
    ours: Callable[[], object],
    streaming: Callable[[], object],
    target: str,
) -> None:
    """Print wall time, and CPU time, which depends less on the machine's other load."""
    seconds, peer = paired(ours, streaming)
    before = used()
    ours()
    middle = used()
    streaming()
    cpu, peer_cpu = middle - before, used() - middle
    line(
        f"{ROWS:,} rows {what} {seconds:.2f} s, streaming {peer:.2f} s",
        f"{seconds / peer:.2f}",
        target,
    )
    print(f"    CPU time {cpu:.2f} s, streaming {peer_cpu:.2f} s: {cpu / peer_cpu:.2f}")


if __name__ == "__main__":
    main()
