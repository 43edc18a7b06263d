"""The search over ranks, on a model that is only a table of free energies."""

from __future__ import annotations

import math

import pytest

from bayespca import BayesianPCA, inference
from bayespca.datasets import low_rank
from bayespca.inference import Info
from bayespca.inference.search import by_rank, decided, given_up

ENERGIES = {0: 90.0, 1: 40.0, 2: 20.0, 3: 30.0, 4: 35.0, 5: 200.0}


def step(rank):
    return rank, Info(ENERGIES[rank], rank, 1.0)


def search(begin, *, max_iter=10):
    run = inference.run(step, begin, max_iter=max_iter, tol=1e-9)
    return inference.searched(
        run,
        step,
        less=lambda rank: rank - 1 if rank else None,
        more=lambda rank: rank + 1 if rank < 5 else None,
        max_iter=max_iter,
        tol=1e-9,
    )


@pytest.mark.parametrize("begin", range(6))
def test_it_ends_at_the_lowest_neighbour(begin):
    found, energies = search(begin)
    assert found.state == 2
    assert found.free_energy == 20.0
    assert {1, 2} <= set(energies)
    assert all(energies[rank] == ENERGIES[rank] for rank in energies)
    assert (found.trace.free_energy[1:] <= found.trace.free_energy[:-1]).all()


def test_free_energies_by_rank_are_nats_above_the_lowest():
    assert by_rank({3: 25.5, 1: 20.0, 4: 2000.0}).tolist() == [math.inf, 0.0, math.inf, 5.5, 1980.0]
    assert by_rank({}).size == 0


def test_a_run_that_has_not_settled_is_left_alone():
    found, energies = search(4, max_iter=1)
    assert found.state == 4
    assert not found.converged
    assert set(energies) == {4}


def test_a_fit_makes_no_more_steps_than_asked_for():
    X = low_rank(60, 12, 2, random_state=0).X
    X[::7, 3] = X[::5, 8] = float("nan")
    with pytest.warns(match="raise max_iter"):
        model = BayesianPCA(n_components="evb", max_iter=1).fit(X)
    assert model.n_iter_ == 1
    calls = []
    with pytest.warns(match="raise max_iter"):
        model = BayesianPCA(n_components="evb").fit(
            X, callback=lambda number, info: calls.append(info) or True
        )
    assert model.n_iter_ == len(calls) == 1


def trial(energies, ranks, *, best=0.0, least=0, to_gain=math.inf):
    """Step after which a trial with these free energies and ranks is given up, or None."""
    watched = given_up(best, least)
    for number, (energy, rank) in enumerate(zip(energies, ranks, strict=True), start=1):
        if watched(number, Info(energy, rank, 1.0, to_gain)):
            return number
    return None


def test_a_trial_with_more_is_over_when_it_has_lost_them():
    falling = [8.0, 4.0, 2.0, 1.0]
    assert trial(falling, [5, 5, 4, 4], least=5) == 3
    assert trial(falling, [5, 5, 5, 5], least=5) is None


def test_a_rank_that_is_worse_need_not_be_known_to_all_digits():
    assert trial([9.0], [4], to_gain=0.005) == 1
    assert trial([9.0], [4], to_gain=0.5) is None
    # A trial that might still become better goes on.
    assert trial([0.05], [4], to_gain=0.005) is None
    assert trial([-1.0], [4], to_gain=0.005) is None


def test_a_trial_is_over_if_a_hundred_steps_like_the_last_would_not_do():
    assert trial([80.0, 79.3], [4, 4]) == 2
    assert trial([80.0, 79.1], [4, 4]) is None
    # A rank that is not improbable is worth knowing.
    assert trial([20.0, 19.9], [4, 4]) is None


def test_a_rank_that_is_clearly_better_is_taken_before_it_has_settled():
    assert decided(10.0)(1, Info(5.0, 3, 1.0, to_gain=0.05))
    assert not decided(10.0)(1, Info(9.9, 3, 1.0, to_gain=0.05))
    assert not decided(10.0)(1, Info(-90.0, 3, 1.0, to_gain=0.5))
    assert not decided(10.0)(1, Info(9.99, 3, 1.0, to_gain=0.005))


def test_what_is_found_has_settled():
    """Each step halves the distance to the free energy of its rank."""

    def slow(state):
        rank, distance = state
        return (rank, 0.5 * distance), Info(ENERGIES[rank] + 0.5 * distance, rank, 1.0)

    begun = inference.run(slow, (4, 8.0), max_iter=100, tol=1e-9)
    found, energies = inference.searched(
        begun,
        slow,
        less=lambda state: (state[0] - 1, 8.0) if state[0] else None,
        more=lambda state: None,
        max_iter=100,
        tol=1e-9,
    )
    assert found.converged
    assert found.state[0] == 2
    assert found.free_energy == pytest.approx(20.0, abs=1e-6)
    assert energies[3] > ENERGIES[3] + 1e-6
