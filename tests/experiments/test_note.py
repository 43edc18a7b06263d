"""The measures that the programs about the note use."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayespca.cli import reproduction

reproduction.experiments()
curves, likelihood, oilflow, solutions = (
    import_module(f"{reproduction.PACKAGE}.note.{name}")
    for name in ("curves", "likelihood", "oilflow", "solutions")
)
data = import_module(f"{reproduction.PACKAGE}.data")


def test_the_likelihood_is_that_of_the_rows():
    X = likelihood.simulated(30, (4.0, 2.0), 5)
    V, s2 = np.random.default_rng(1).normal(size=(5, 2)), 0.7
    rows = multivariate_normal(np.zeros(5), V @ V.T + s2 * np.eye(5)).logpdf(X)
    found = likelihood.log_likelihood(V, s2, likelihood.covariance(X), 30)
    assert found == pytest.approx(rows.sum(), rel=1e-12)


def test_no_neighbour_of_the_closed_form_is_higher():
    S = likelihood.covariance(likelihood.simulated(100, (4.0, 2.0), 5))
    V, s2 = likelihood.closed_form(S, 2)
    best = likelihood.log_likelihood(V, s2, S, 100)
    rng = np.random.default_rng(0)
    for _ in range(20):
        moved = V + 0.05 * rng.normal(size=V.shape)
        assert likelihood.log_likelihood(moved, s2 * np.exp(0.05 * rng.normal()), S, 100) < best


def test_another_eigenvector_is_a_saddle():
    S = likelihood.covariance(likelihood.simulated(200, solutions.VARIANCES, solutions.D))
    s2 = 0.9 * np.linalg.eigvalsh(S)[0]
    assert solutions.solution((0, 1), s2, S).rising == 0
    assert solutions.solution((0, 2), s2, S).rising == 1
    V = np.random.default_rng(0).normal(size=(solutions.D, 2))
    assert solutions.left_over(V, s2, S) > 0.01


def test_tears_of_a_circle():
    t = np.linspace(0, 2 * np.pi, 100, endpoint=False) - np.pi
    truth = np.stack([np.cos(t), np.sin(t)], axis=1)
    assert curves.tears(truth, truth) == 0
    assert curves.tears(truth, t[:, None]) == 1
    assert curves.tears(truth, (t + 5 * (t > 0))[:, None]) == 2


def test_errors_of_nearest_neighbours():
    latent = np.array([[0.0], [0.1], [1.0], [1.1], [1.16]])
    assert oilflow.errors(latent, np.array([0, 0, 1, 1, 1])) == 0
    assert oilflow.errors(latent, np.array([0, 0, 1, 1, 0])) == 2


def test_labels(tmp_path):
    np.savez(tmp_path / "oilflow.npz", X=np.zeros((1000, 12)), y=np.arange(1000) % 3)
    np.savez(tmp_path / "wine.npz", X=np.zeros((178, 13)))
    found = data.Data((tmp_path,), download=None)
    assert np.bincount(found.labels("oilflow")).tolist() == [334, 333, 333]
    with pytest.raises(data.Missing, match="no array y"):
        found.labels("wine")
    with pytest.raises(data.Missing, match="glass is not there"):
        found.labels("glass")


def test_oil_flow_is_simulated_where_it_is_not_there(tmp_path):
    X, labels, what = oilflow.measured(data.Data((tmp_path,), download=None))
    assert X.shape == (oilflow.N, oilflow.FEATURES)
    assert set(labels) == {0, 1, 2}
    assert "simulated" in what
