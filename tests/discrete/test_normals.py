"""Stacks of normal distributions: selecting, adding and conditioning on entries."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.discrete.normals import Normals


def normals(n=4, width=3, seed=0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, width, width))
    cov = roots @ roots.swapaxes(1, 2) + np.eye(width)
    i, j = np.triu_indices(width)
    return Normals(rng.normal(size=(n, width)), cov[:, i, j], np.linalg.slogdet(cov)[1])


def test_what_is_known_beside_a_zero_is_the_conditional_distribution():
    all_of, rest = normals(), [0, 2]
    found = all_of.beside_zero(1)
    for mean, cov, new, new_cov, log_det in zip(
        all_of.mean, all_of.matrices, found.mean, found.matrices, found.log_dets, strict=True
    ):
        precision = np.linalg.inv(cov)
        inner = np.linalg.inv(precision[np.ix_(rest, rest)])
        np.testing.assert_allclose(new_cov, inner)
        np.testing.assert_allclose(new, mean[rest] + inner @ precision[rest, 1] * mean[1])
        assert log_det == pytest.approx(np.linalg.slogdet(inner)[1])


def test_entries_are_put_among_zeros_and_taken_out_again():
    some, places = normals(), np.array([0, 2, 4])
    wide = some.among(places, 5)
    assert not wide.mean[:, [1, 3]].any()
    assert not wide.matrices[:, [1, 3]].any()
    again = wide.only(places)
    for name in ("mean", "cov", "log_dets"):
        np.testing.assert_allclose(getattr(again, name), getattr(some, name))


def test_another_entry_is_independent_of_the_others():
    some, variance = normals(), np.arange(1.0, 5.0)
    more = some.with_another(1, np.full(4, 0.5), variance)
    np.testing.assert_allclose(more.mean[:, 1], 0.5)
    np.testing.assert_allclose(more.matrices[:, 1, 1], variance)
    assert not more.matrices[:, 1, [0, 2, 3]].any()
    np.testing.assert_allclose(more.log_dets, np.linalg.slogdet(more.matrices)[1])
