"""Ranks to start with, from truncations of the full core."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.inference import Looping
from bayespca.inference.fitting import settle
from bayespca.spectrum import Spectrum
from bayespca.spectrum.solving import solve
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import tucker_model
from bayespca.tensors.modes import times, unfolded
from bayespca.tensors.ranks import _energy, worthwhile
from bayespca.tensors.start import SPARE, guess
from tensors.simulated import artificial


def vectors(T):
    return [np.linalg.svd(unfolded(T, n), full_matrices=False)[0] for n in range(T.ndim)]


def core_of(data, sizes):
    bases = [U[:, :H].T for U, H in zip(vectors(data.values), sizes, strict=True)]
    return times(data.values, bases)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("snr", [1.0, 10.0])
def test_a_fit_ends_with_as_many_or_few_more(seed, snr):
    T, _ = artificial(seed, (15, 20, 25), (2, 3, 4), snr=snr)
    data = tucker_cells(T, center=False)
    found = worthwhile(core_of(data, (6, 7, 8)), data, (0, 1, 2))
    ranks = settle(tucker_model(data), data, Looping(tol=1e-6)).run.state.ranks
    for some, rank in zip(found, ranks, strict=True):
        assert some <= rank <= some + 1


def test_modes_that_are_not_free_keep_theirs():
    data = tucker_cells(artificial(0, (15, 20, 25), (2, 3, 4))[0], center=False)
    assert worthwhile(core_of(data, (6, 7, 8)), data, (0, 2)) == (2, 7, 4)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_the_unit_of_the_data_does_not_matter(unit):
    data = tucker_cells(unit * artificial(0, (15, 20, 25), (2, 3, 4))[0], center=False)
    assert worthwhile(core_of(data, (6, 7, 8)), data, (0, 1, 2)) == (2, 3, 4)


def test_a_matrix_has_the_rank_of_its_closed_form():
    rng = np.random.default_rng(0)
    Y = 5 * rng.normal(size=(60, 3)) @ rng.normal(size=(3, 80)) + rng.normal(size=(60, 80))
    data = tucker_cells(Y, center=False)
    core = core_of(data, (8, 8))
    found = [_energy(core[:k, :k] ** 2, data) for k in range(1, 9)]
    exact = solve(Spectrum(np.linalg.svd(Y, compute_uv=False), Y.shape)).rank
    assert exact == 1 + int(np.argmin(found)) == 3


def test_the_start_has_some_to_spare():
    data = tucker_cells(artificial(0, (15, 20, 25), (2, 3, 4), snr=10.0)[0], center=False)
    assert guess(data, (None, None, None)).ranks == (2 + SPARE, 3 + SPARE, 4 + SPARE)
    assert guess(data, (None, 7, None)).ranks[1] == 7
