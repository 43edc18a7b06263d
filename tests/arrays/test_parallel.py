"""Results of several threads come back in order, and their errors are raised."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayespca.arrays import parallel
from bayespca.arrays.threads import blas_threads, one_blas_thread


def test_several_threads_do_the_work(monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: 3)
    pools = []

    class Watched(ThreadPoolExecutor):
        def __init__(self, threads):
            pools.append(threads)
            super().__init__(threads)

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Watched)
    assert list(parallel.in_turn(str, range(20))) == [str(i) for i in range(20)]
    assert pools == [3]
    assert list(parallel.in_turn(str, range(5))) == ["0", "1", "2", "3", "4"]
    assert pools == [3]


def test_one_thread_of_blas_leaves_threads_to_loops():
    """Loops within `one_blas_thread` still run on several threads, but not loops inside those."""
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
            assert {pool["num_threads"] for pool in blas} == {1}
            assert blas_threads() == 2
            with one_blas_thread():
                assert blas_threads() == 2
            assert list(parallel.in_turn(lambda _: blas_threads(), range(8))) == [1] * 8
        assert blas_threads() == 2


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(parallel.in_turn(lambda x: 1 / (x - 7), range(20)))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_shares_are_all_rows_in_order(threads, n, monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: threads)
    shares = parallel.by_shares(lambda rows: list(range(n))[rows], n)
    assert list(chain(*shares)) == list(range(n))
    assert len(shares) == max(min(threads, n), 1)
    assert len(parallel.by_shares(lambda rows: rows, n, cells_per_row=5)) == 1
