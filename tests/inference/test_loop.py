"""The loop: it stops, it traces, and it will not let the free energy rise."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bayespca.inference import FreeEnergyError, run


@dataclass(frozen=True)
class Energy:
    free_energy: float
    rank: int = 2
    noise_variance: float = 0.5


def halve(x):
    return x / 2, Energy(1 + x)


def test_it_stops_when_nothing_changes():
    done = run(halve, 8.0, max_iter=100, tol=1e-6)
    assert done.converged
    assert done.n_iter < 40
    assert done.trace.free_energy[0] == 9.0
    assert done.trace.free_energy[-1] == pytest.approx(1.0, abs=1e-5)


def test_it_stops_after_max_iter():
    done = run(halve, 8.0, max_iter=3, tol=1e-6)
    assert not done.converged
    assert (done.n_iter, done.state) == (3, 1.0)


def test_a_rise_is_an_error():
    with pytest.raises(FreeEnergyError, match=r"step 2 raised the free energy from 1\.0 to 2\.0"):
        run(lambda x: (x + 1, Energy(x)), 1.0, max_iter=5, tol=0.0)


def test_the_trace_has_an_entry_per_step():
    trace = run(halve, 8.0, max_iter=4, tol=0.0).trace
    assert len(trace) == 4
    assert trace.rank.tolist() == [2] * 4
    assert trace.noise_variance.tolist() == [0.5] * 4
    assert (trace.seconds >= 0).all()
