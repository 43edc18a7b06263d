"""The loop stops, keeps a trace, and does not let the free energy rise."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bayespca.inference import FreeEnergyWarning, best_of, run


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


def rising(x):
    return x + 1, Energy((3.0, 2.0, 1.0, 5.0)[x])


def test_a_rise_is_an_error():
    """The warning about a rise is an error in the tests."""
    with pytest.raises(FreeEnergyWarning, match=r"step 4 raised the free energy from 1\.0 to 5\.0"):
        run(rising, 0, max_iter=9, tol=-1.0)


@pytest.mark.filterwarnings("ignore::bayespca.inference.FreeEnergyWarning")
def test_after_a_rise_the_state_before_is_the_result():
    done = run(rising, 0, max_iter=9, tol=-1.0)
    assert (done.state, done.reason, done.converged) == (3, "rose", False)
    assert done.trace.free_energy.tolist() == [3.0, 2.0, 1.0]


def test_a_callback_sees_each_step_and_can_end_the_run():
    seen = []

    def callback(number, info):
        seen.append((number, info.free_energy))
        return number == 3

    done = run(halve, 8.0, max_iter=100, tol=0.0, callback=callback)
    assert seen == [(1, 9.0), (2, 5.0), (3, 3.0)]
    assert (done.reason, done.converged, done.n_iter) == ("stopped", False, 3)


def test_the_best_of_several_starts():
    runs = [run(lambda x, s=s: (x, Energy(s)), 0.0, max_iter=3, tol=0.1) for s in (3.0, 1.0, 2.0)]
    assert best_of(runs).free_energy == 1.0


def test_the_last_change_is_told():
    trace = run(halve, 8.0, max_iter=2, tol=0.0).trace
    assert trace.last_change == pytest.approx((9 - 5) / 6)
    assert run(halve, 8.0, max_iter=1, tol=0.0).trace.last_change == float("inf")


def test_the_trace_has_an_entry_per_step():
    trace = run(halve, 8.0, max_iter=4, tol=0.0).trace
    assert len(trace) == 4
    assert trace.rank.tolist() == [2] * 4
    assert trace.noise_variance.tolist() == [0.5] * 4
    assert (trace.seconds >= 0).all()
