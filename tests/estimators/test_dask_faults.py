"""Dask clusters of real processes: killed workers, lost schedulers, little memory, wrong chunks."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from functools import lru_cache

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster

from bayespca import BayesianPCA
from bayespca.engines import map_reduce
from bayespca.sources.cluster import ClusterError

RANK, FEATURES = 3, 20


@pytest.fixture(scope="module")
def cluster():
    # On a busy machine, a worker takes longer to restart than the cluster waits by default.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            memory_limit="1GB",
            silence_logs=logging.CRITICAL,
        ) as found,
    ):
        yield found


@pytest.fixture
def client(cluster):
    with Client(cluster) as found:
        yield found


def block(seed, p=FEATURES, wait=0.0):
    time.sleep(wait)
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(0).normal(size=(RANK, p))
    return 2 * rng.normal(size=(400, RANK)) @ W + rng.normal(size=(400, p))


def collection(n_blocks, p=FEATURES, *, make=block, wait=0.0):
    parts = [
        da.from_delayed(delayed(make)(i, p, wait=wait), (400, p), np.float64)
        for i in range(n_blocks)
    ]
    return da.concatenate(parts)


def in_memory(n_blocks, p=FEATURES):
    return np.concatenate([block(i, p) for i in range(n_blocks)])


def is_same(found, reference, tol=1e-9):
    assert found.n_components_ == reference.n_components_ == RANK
    assert found.noise_variance_ == pytest.approx(reference.noise_variance_, rel=min(tol, 1e-8))
    assert np.abs(found.components_ - reference.components_).max() < tol


def test_a_cluster_of_processes(client):
    found = BayesianPCA().fit(collection(6))
    is_same(found, BayesianPCA().fit(in_memory(6)))
    scores = found.transform(collection(6))
    assert scores.compute() == pytest.approx(found.transform(in_memory(6)), abs=1e-10)
    wide = BayesianPCA().fit(collection(6).T)
    assert wide.noise_variance_ == pytest.approx(
        BayesianPCA().fit(in_memory(6).T).noise_variance_, rel=1e-9
    )


@pytest.mark.parametrize(("way", "n_blocks", "p"), [("matrix", 40, 20), ("products", 5, 800)])
def test_a_worker_is_killed(client, monkeypatch, way, n_blocks, p):
    """The other workers take over its blocks, and a new worker is started.

    Results kept on the lost worker, such as the tall basis of products, are computed again.
    """
    if way == "products":
        monkeypatch.setattr(map_reduce, "GRAM_WIDTH", 100)
    pids = set(client.run(os.getpid).values())
    at_work = threading.Event()
    killed = []

    def kill():
        at_work.wait()
        time.sleep(0.6)
        pid = min(pids)
        os.kill(pid, signal.SIGKILL)
        killed.append(time.perf_counter())

    killer = threading.Thread(target=kill)
    killer.start()
    data = collection(n_blocks, p, wait=0.08)
    at_work.set()
    start = time.perf_counter()
    found = BayesianPCA(random_state=0).fit(data)
    end = time.perf_counter()
    killer.join()
    assert start < killed[0] < end
    assert found.spectrum_.is_complete == (way == "matrix")
    is_same(found, BayesianPCA().fit(in_memory(n_blocks, p)), 1e-9 if way == "matrix" else 1e-6)
    client.wait_for_workers(2, timeout=120)
    assert set(client.run(os.getpid).values()) != pids


def test_a_worker_is_killed_that_keeps_rows(client):
    """If rows have their own noise, the rows it kept are read again between two rounds."""
    pids, data, killed = set(client.run(os.getpid).values()), collection(6), []

    def kill(step, info):
        if not killed:
            killed.append(min(pids))
            os.kill(killed[0], signal.SIGKILL)

    options = {"noise": "both", "tol": 1e-10}
    found = BayesianPCA(**options).fit(data, callback=kill)
    assert killed
    theirs = BayesianPCA(**options).fit(in_memory(6))
    is_same(found, theirs, 1e-7)
    assert found.sample_noise_variance_ == pytest.approx(theirs.sample_noise_variance_, rel=1e-7)
    client.wait_for_workers(2, timeout=120)


def narrow(seed, p, wait=0.0):
    return block(seed)[:, :-1] if seed == 3 else block(seed)


def short(seed, p, wait=0.0):
    return block(seed).astype(np.float32) if seed == 3 else block(seed)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (narrow, r"block 3 .* has shape \(400, 19\), but 20 columns were declared"),
        (short, "block 3 .* is of type float32, but float64 was declared"),
    ],
)
def test_a_wrong_chunk_is_named(client, make, words):
    model = BayesianPCA()
    with pytest.raises(ValueError, match=words):
        model.fit(collection(6, make=make))
    assert not hasattr(model, "components_")


@lru_cache(maxsize=1)
def noise_table():
    return np.random.default_rng(0).standard_normal((401, 40), dtype=np.float32)


def cheap_block(seed, n=400_000):
    """64 MB that are quick to make: repeating noise and two components."""
    rng = np.random.default_rng(seed)
    X = np.resize(noise_table(), (n, 40))
    X[:, :2] += 3 * rng.standard_normal((n, 1), dtype=np.float32)
    X[:, 2:4] += 2 * rng.standard_normal((n, 1), dtype=np.float32)
    return X


@pytest.mark.slow
def test_eight_gigabytes_by_workers_of_one(client):
    """A worker that uses more than 1 GB is killed."""
    n_blocks = 125
    parts = [
        da.from_delayed(delayed(cheap_block)(i), (400_000, 40), np.float32) for i in range(n_blocks)
    ]
    data = da.concatenate(parts)
    assert data.nbytes == 8e9
    pids = set(client.run(os.getpid).values())
    # If noise could differ between columns, its repeating pattern would count as 38 components.
    found = BayesianPCA(n_components=2, noise="isotropic").fit(data)
    assert found.n_samples_ == 400_000 * n_blocks
    weights = np.sort(np.abs(found.components_), axis=1)
    assert weights[:, -2:] == pytest.approx(np.full((2, 2), 0.5**0.5), abs=0.02)
    assert set(client.run(os.getpid).values()) == pids


def program(name):
    return sys.executable, "-m", f"distributed.cli.dask_{name}"


def test_the_scheduler_is_lost(tmp_path):
    """The fit must end in one clear error and leave the estimator unchanged."""
    file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    common = ("--scheduler-file", str(file), "--no-dashboard")
    scheduler = subprocess.Popen([*program("scheduler"), *common, "--port", "0"], **quiet)
    worker = subprocess.Popen(
        [*program("worker"), *common, "--no-nanny", "--nthreads", "1", "--death-timeout", "5"],
        **quiet,
    )
    try:
        while not file.exists():
            assert scheduler.poll() is None
            time.sleep(0.05)
        client = Client(scheduler_file=str(file), timeout=120)
        try:
            client.wait_for_workers(1, timeout=120)
            model = BayesianPCA()
            timer = threading.Timer(1.0, scheduler.kill)
            timer.start()
            with pytest.raises(ClusterError, match="connection to the Dask scheduler was lost"):
                model.fit(collection(200, wait=0.1))
            timer.join()
            assert scheduler.wait(timeout=5) == -signal.SIGKILL
            assert not hasattr(model, "components_")
            assert not hasattr(model, "n_features_in_")
        finally:
            client.close(timeout=2)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


PERSISTED = {
    "rows": lambda X: X,
    "pieces of rows": lambda X: X.rechunk({1: 10}).persist(),
    "some columns": lambda X: X[:, :12],
    "wide": lambda X: X.T,
    "altered": lambda X: 2 * X + 1,
}


@pytest.mark.parametrize("kind", PERSISTED)
def test_what_workers_keep_already_is_read_there(client, kind):
    """The documentation recommends `persist` for data that are read several times."""
    X = PERSISTED[kind](collection(3).persist())
    values = X.compute()
    model = BayesianPCA(noise="isotropic").fit(X)
    reference = BayesianPCA(noise="isotropic").fit(values)
    assert model.noise_variance_ == pytest.approx(reference.noise_variance_, rel=1e-9)
    np.testing.assert_allclose(model.transform(X), model.transform(values), atol=1e-8)


def test_every_method_takes_what_workers_keep(client):
    """Lazy answers must equal those of the same rows in memory, with and without holes."""
    X = collection(3, 6).persist()
    values = X.compute()
    model = BayesianPCA(noise="isotropic").fit(X)
    scores = model.transform(X)
    holed = X.map_blocks(lambda block: np.where(block > 2.5, np.nan, block), dtype=float).persist()
    pairs = [
        (model.project(X), model.project(values)),
        (model.denoise(X), model.denoise(values)),
        (model.score_samples(X), model.score_samples(values)),
        (model.inverse_transform(scores.persist()), model.inverse_transform(scores.compute())),
        (model.impute(holed), model.impute(holed.compute())),
        (model.transform(holed), model.transform(holed.compute())),
    ]
    for lazy, there in pairs:
        np.testing.assert_allclose(np.asarray(lazy), there, atol=1e-8)
    assert np.isnan(holed.compute()).any()
    again = BayesianPCA(noise="isotropic").fit(holed)
    assert again.n_samples_ == len(values)
