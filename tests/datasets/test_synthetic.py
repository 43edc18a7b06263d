"""Generators: the data match the truth that comes with them."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.datasets import low_rank, low_rank_tensor


@pytest.mark.parametrize("shape", [(300, 20), (20, 300)])
def test_truth_is_the_svd_of_the_signal(shape):
    truth = low_rank(*shape, 3, mean=2.0, random_state=0)
    assert truth.rank == 3
    assert truth.components @ truth.components.T == pytest.approx(np.eye(3), abs=1e-12)
    gram = truth.scores.T @ truth.scores
    assert gram == pytest.approx(np.diag(np.diag(gram)), abs=1e-9 * gram.max())
    assert np.all(np.diff(np.diag(gram)) <= 0)
    assert truth.scores.mean(0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert (truth.X - truth.signal).var() == pytest.approx(1.0, rel=0.1)


def test_seeds_and_noise():
    assert np.array_equal(low_rank(9, 4, 1, random_state=3).X, low_rank(9, 4, 1, random_state=3).X)
    quiet = low_rank(50, 5, 2, noise_variance=0.0, random_state=0)
    assert np.linalg.matrix_rank(quiet.X - quiet.X.mean(0)) == 2
    assert low_rank(50, 5, 0, random_state=0).scores.shape == (50, 0)


def test_tensors_have_the_truth_they_say_they_have():
    made = low_rank_tensor((20, 30, 25), (2, 3, 2), snr=4.0, random_state=0)
    expected = np.einsum("abc,ia,jb,kc->ijk", made.core, *made.factors)
    np.testing.assert_allclose(made.signal, expected, atol=1e-12)
    assert np.mean(made.signal**2) == pytest.approx(1.0)
    assert made.noise_variance == 0.25
    assert np.var(made.T - made.signal) == pytest.approx(0.25, rel=0.05)
    for n, rank in enumerate((2, 3, 2)):
        unfolded = np.moveaxis(made.signal, n, 0).reshape(made.T.shape[n], -1)
        assert np.linalg.matrix_rank(unfolded) == rank
