"""Results of several threads come back in order, and their errors are raised."""

from __future__ import annotations

import os
import threading
import time
from itertools import chain

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bayespca.arrays import parallel
from bayespca.arrays.parallel import blas_threads, one_blas_thread


def test_several_threads_do_the_work(monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: 3)
    own, seen = threading.get_ident(), set()

    def work(i):
        seen.add(threading.get_ident())
        return str(i)

    assert list(parallel.in_turn(work, range(20))) == [str(i) for i in range(20)]
    assert own not in seen
    seen.clear()
    assert list(parallel.in_turn(work, range(5))) == ["0", "1", "2", "3", "4"]
    assert seen == {own}


def test_threads_stay_and_are_new_in_a_child():
    first = parallel._pool(2)
    assert parallel._pool(2) is first
    if hasattr(os, "fork"):
        read, write = os.pipe()
        if not os.fork():
            os.write(write, b"new" if parallel._pool(2) is not first else b"old")
            os._exit(0)
        os.wait()
        assert os.read(read, 3) == b"new"


def test_nothing_runs_on_after_a_loop_that_ends_early(monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: 2)
    done = []

    def work(i):
        time.sleep(0.01)
        done.append(i)
        return i

    loop = parallel.in_turn(work, range(20))
    assert next(loop) == 0
    loop.close()
    count = len(done)
    time.sleep(0.05)
    assert len(done) == count < 6


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
