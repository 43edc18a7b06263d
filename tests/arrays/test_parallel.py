"""Work on several threads comes back in order, or raises."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bayespca.arrays import parallel


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


def test_what_goes_wrong_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(parallel, "blas_threads", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        list(parallel.in_turn(lambda x: 1 / (x - 7), range(20)))
