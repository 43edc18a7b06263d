"""The papers' iteration with holes; without holes it equals that for complete matrices."""

from __future__ import annotations

from importlib import import_module
from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from bayespca.cli import reproduction

package = reproduction.experiments().__name__
iteration = import_module(f"{package}.iteration")
holes = import_module(f"{package}.aistats2014.holes")
artificial = import_module(f"{package}.aistats2014.artificial")


@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
@pytest.mark.parametrize("shape", [(8, 12), (12, 8)])
def test_without_holes_it_is_the_iteration_of_complete_matrices(method, shape):
    V = artificial.matrix(*shape, 2, seed=0)
    complete = islice(iteration.sweeps(V, method, noise=1.0, seed=1), 100)
    run = holes.ranks(sparse.csr_array(V), method, noise=1.0, n_components=8, seed=1)
    found = list(islice(run, 100))
    assert found == [sweep.rank for sweep in complete]
    assert found[-1] < found[0]


@pytest.mark.parametrize("method", ["evb", "epb", "emap"])
def test_it_finds_the_rank_in_a_fifth_of_the_cells(method):
    rows, columns, values = artificial.cells(150, 200, 2, 0.2, seed=0)
    V = sparse.csr_array((values, (rows, columns)), shape=(150, 200))
    run = holes.ranks(V, method, noise=1.0, n_components=5)
    assert next(islice(run, 400, None)) == 2


def test_cells_are_drawn_without_repetition_and_as_many_as_asked_for():
    rows, columns, values = artificial.cells(30, 40, 2, 0.25, seed=0)
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == values.size == 300
    assert np.all(rows < 30)
    assert np.all(columns < 40)
