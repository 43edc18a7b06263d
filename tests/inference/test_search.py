"""The search over ranks, on a model that is nothing but a free energy for each rank."""

from __future__ import annotations

import pytest

from bayespca import BayesianPCA, inference
from bayespca.datasets import low_rank
from bayespca.inference import Info

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


def test_a_run_that_has_not_settled_is_left_alone():
    found, energies = search(4, max_iter=1)
    assert found.state == 4
    assert not found.converged
    assert set(energies) == {4}


def test_a_fit_makes_no_more_steps_than_asked_for():
    X = low_rank(60, 12, 2, random_state=0).X
    X[::7, 3] = X[::5, 8] = float("nan")
    with pytest.warns(match="raise max_iter"):
        model = BayesianPCA(max_iter=1).fit(X)
    assert model.n_iter_ == 1
    calls = []
    with pytest.warns(match="raise max_iter"):
        model = BayesianPCA().fit(X, callback=lambda number, info: calls.append(info) or True)
    assert model.n_iter_ == len(calls) == 1
