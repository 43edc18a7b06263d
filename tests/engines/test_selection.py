"""Table of the engines that are chosen."""

from __future__ import annotations

import pytest

from bayespca.engines import ENGINES, Job, select

GB = 2.0**30
ALL = 10**9


@pytest.mark.parametrize(
    ("job", "engine"),
    [
        (Job(100, 20), "dense"),
        (Job(20, 100), "dense"),
        (Job(150, 4), "dense"),
        (Job(20_000, 500), "gram"),
        (Job(200, 20_000), "gram"),
        (Job(100_000, 200, itemsize=4), "gram"),
        (Job(1_200, 1_000), "gram"),
        (Job(8_000, 4_000), "randomized"),
        (Job(8_000, 4_000, n_needed=30), "randomized"),
        (Job(8_000, 4_000, n_needed=ALL), "gram"),
        (Job(100_000, 20_000), "randomized"),
        (Job(200, 100, memory=3e5), "gram"),
        (Job(50_000, 50_000, n_needed=10, memory=25 * GB), "randomized"),
        (Job(10, 10, layout="sparse"), "sparse"),
        (Job(10**6, 10**5, layout="sparse"), "sparse"),
        (Job(0, 200, layout="blocks"), "streaming"),
        (Job(0, 200, layout="dask"), "dask"),
    ],
)
def test_table(job, engine):
    assert select(job) == engine


def test_every_engine_can_be_selected():
    reached = {
        select(Job(100, 20)),
        select(Job(20_000, 500)),
        select(Job(8_000, 4_000)),
        select(Job(10, 10, layout="sparse")),
        select(Job(0, 200, layout="blocks")),
        select(Job(0, 200, layout="dask")),
    }
    assert reached == set(ENGINES)
