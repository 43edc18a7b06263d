"""Accelerated runs step from where the last steps were heading: fewer steps to the same end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bayespca.inference import Checkpoint, Info, run
from bayespca.inference.accelerating import MEMORY, PAUSE, Memory, StatePoint
from bayespca.inference.loop import to_gain

CURVATURE = np.array([1.0, 0.7, 0.3, 0.1, 0.03, 0.01])
LOWEST = np.arange(6.0)


@dataclass(frozen=True, eq=False)
class Place:
    x: np.ndarray
    energy: float = np.inf


def energy(x):
    return float(0.5 * (CURVATURE * (x - LOWEST) ** 2).sum())


def slow(place):
    """Gradient descent that takes hundreds of steps in some directions."""
    x = place.x - CURVATURE * (place.x - LOWEST)
    return Place(x, energy(x)), Info(energy(x), 1, 0.5)


class Plain:
    """Chart of places, which are vectors already."""

    def point(self, place, like):
        return StatePoint(place.x, np.ones_like(place.x))

    def at(self, place, vector):
        return Place(vector)


START = Place(np.full(6, 30.0))


def test_slow_directions_are_found_in_a_few_steps():
    plain = run(slow, START, max_iter=5000, tol=1e-12)
    quick = run(slow, START, max_iter=5000, tol=1e-12, chart=Plain())
    assert quick.converged
    assert plain.n_iter > 700
    assert quick.n_iter < 15
    np.testing.assert_allclose(quick.state.x, LOWEST, atol=1e-5)


def test_the_free_energy_never_rises_and_each_step_is_told():
    seen = []
    quick = run(
        slow,
        START,
        max_iter=50,
        tol=1e-12,
        chart=Plain(),
        callback=lambda number, info: seen.append((number, info.free_energy)),
    )
    assert (np.diff(quick.trace.free_energy) <= 0).all()
    assert seen == list(enumerate(quick.trace.free_energy.tolist(), start=1))


class Knowing(Plain):
    """Chart that knows how slow two of the directions are, to a factor of about two."""

    def point(self, place, like):
        reach = np.array([1, 1, 1, 1, 20, 60.0])
        return StatePoint(place.x, np.sqrt(reach), reach)


def test_what_is_known_of_slow_directions_saves_steps():
    quick = run(slow, START, max_iter=50, tol=1e-12, chart=Plain())
    knowing = run(slow, START, max_iter=50, tol=1e-12, chart=Knowing())
    assert knowing.converged
    np.testing.assert_allclose(knowing.state.x, LOWEST, atol=1e-5)
    assert (knowing.trace.free_energy[1:6] < 0.9 * quick.trace.free_energy[1:6]).all()
    assert knowing.n_iter <= quick.n_iter


def test_one_step_is_enough_where_it_is_known_how_far_it_leads():
    start, end = _at([1.0, 2.0]), _at([2.0, 3.0])._replace(reach=np.array([1.0, 5.0]))
    assert Memory.empty().with_step(start, end).goal.tolist() == [2.0, 7.0]


class Misleading(Plain):
    """Chart whose proposals always raise the free energy."""

    tried = 0

    def at(self, place, vector):
        self.tried += 1
        return Place(place.x + 100.0)


def test_what_leads_up_is_not_taken():
    chart = Misleading()
    plain = run(slow, START, max_iter=60, tol=0.0)
    misled = run(slow, START, max_iter=60, tol=0.0, chart=chart)
    np.testing.assert_array_equal(misled.trace.free_energy, plain.trace.free_energy)
    assert 10 < chart.tried <= 60 // PAUSE


def test_the_memory_is_short_and_forgets_states_of_another_kind():
    memory = Memory.empty()
    for i in range(MEMORY + 5):
        memory = memory.with_step(_at([i, i]), _at([i + 1, i + 1]))
    assert len(memory) == MEMORY
    assert memory.starts[0].tolist() == [5, 5]
    other = memory.with_step(_at([1, 2, 3]), _at([2, 3, 4]))
    assert len(other) == 1
    assert other.goal is None


def test_a_memory_that_tells_nothing_has_no_goal():
    memory = Memory.empty()
    for _ in range(3):
        memory = memory.with_step(_at([1, 2]), _at([2, 3]))
    assert memory.goal is None


def _at(x):
    return StatePoint(np.array(x, dtype=float), np.ones(len(x)))


@pytest.mark.parametrize("when", [1, 2, 5, 8])
def test_broken_off_and_taken_up_again_it_ends_with_the_same_digits(tmp_path, when):
    def storage():
        return Checkpoint(tmp_path / "run", Place, fingerprint="a", every=0.0)

    def fail(number, info):
        if number == when:
            raise KeyboardInterrupt

    asked = {"max_iter": 12, "tol": 0.0, "chart": Plain()}
    whole = run(slow, START, **asked)
    with pytest.raises(KeyboardInterrupt):
        run(slow, START, callback=fail, storage=storage(), **asked)
    again = run(slow, START, storage=storage(), **asked)
    np.testing.assert_array_equal(again.trace.free_energy, whole.trace.free_energy)
    np.testing.assert_array_equal(again.state.x, whole.state.x)


# --- free energy to gain -------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("count", [4, 5, 9])
def test_the_tail_of_a_geometric_sequence_is_exact(rate, count):
    energies = 7 + 3 * rate ** np.arange(count)
    assert to_gain(energies.tolist()) == pytest.approx(energies[-1] - 7, rel=1e-6)


def test_nothing_is_left_without_a_fall_and_anything_before_two():
    assert to_gain([3.0, 2.0, 2.0]) == 0.0
    assert to_gain([2.0, 2.0]) == 0.0
    assert to_gain([3.0]) == to_gain([3.0, 2.0]) == np.inf


def test_falls_that_grow_go_on_for_a_hundred_steps():
    assert to_gain([10.0, 9.0, 7.0]) == pytest.approx(200.0)
    assert to_gain([10.0, 9.0, 8.0]) == pytest.approx(100.0)


def test_first_falls_do_not_say_how_small_the_next_will_be():
    assert to_gain([1000.0, 10.0, 9.0]) == pytest.approx(1.0)
    assert to_gain([2000.0, 1000.0, 10.0, 9.0]) > 0.1


def test_one_short_step_is_not_the_end():
    """The free energy falls by 5 three times, then by 1e-9."""
    assert to_gain([25.0, 20.0, 15.0, 10.0, 10.0 - 1e-9]) > 1


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.98])
def test_tol_means_the_same_for_quick_and_slow_steps(rate):
    """What is left to gain when the loop ends is `tol`, to within the last step."""

    def step(x):
        return rate * x, Info(1000 + rate * x, 1, 0.5)

    class Still(Misleading):
        def point(self, x, like):
            return None

    done = run(step, 50.0, max_iter=5000, tol=1e-6, chart=Still())
    left = done.free_energy - 1000
    assert rate * 1e-3 < left <= 1.001e-3
