"""Rows that a fit has learned from are recognised."""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA
from bayespca.lowrank import posterior as read
from bayespca.lowrank.recognising import digests


def rows(n=200, p=7):
    X = np.random.default_rng(0).integers(-3, 4, size=(n, p)).astype(np.float32)
    return np.where(np.random.default_rng(1).random((n, p)) < 0.2, np.nan, X)


def test_a_row_has_one_digest_wherever_it_stands_and_whatever_its_type():
    X = rows()
    order = np.random.default_rng(2).permutation(len(X))
    np.testing.assert_array_equal(digests(X)[order], digests(X[order].astype(np.float64)))
    np.testing.assert_array_equal(digests(-0.0 * np.ones((1, 3))), digests(np.zeros((1, 3))))


def test_rows_that_differ_in_a_cell_or_in_their_order_have_others():
    """Tested on small integers, whose bits are nearly all 0."""
    X = np.unique(rows(2000), axis=0)
    assert np.unique(digests(X)).size == len(X)
    assert not np.isin(digests(X[:, ::-1]), digests(X)[(X != X[:, ::-1]).all(axis=1)]).all()
    assert digests(np.array([[1.0, 2.0]])) != digests(np.array([[2.0, 1.0]]))


def test_no_rows_have_no_digests():
    assert digests(np.empty((0, 3))).shape == (0,)


def test_scores_of_complete_rows_have_the_errors_of_the_noise_that_was_found():
    """Fitted rows have the noise found for them; new rows are judged by their distance."""
    rng = np.random.default_rng(0)
    low = (rng.normal(size=(100, 12)) * np.geomspace(4, 0.5, 12)) @ rng.normal(size=(12, 200))
    X = (low + rng.normal(size=(100, 200))) * np.sqrt(3 / rng.gamma(3.0, size=(100, 1)))
    model = BayesianPCA(noise="per-sample").fit(X[:50])
    posterior = model.fit_.posterior
    r = posterior.latent_variance / (posterior.latent_variance + posterior.noise_variance)

    def noise(rows, new):
        T, std = read.scores_and_std(posterior, rows)
        off = T - r * model.project(rows)
        return (std**2 - new * off**2) / r

    found = np.broadcast_to(model.sample_noise_variance_[:, None], (50, model.n_components_))
    np.testing.assert_allclose(noise(X[:50], 0), found, rtol=0.02)
    # A change in the twelfth digit makes a row new, and its distance alone tells its noise.
    assert (noise(X[:50] * (1 + 1e-12), 1) < 0.8 * found).all()
