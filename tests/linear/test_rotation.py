"""Rotations against grids over all angles and against known simple structures."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca import BayesianPCA, BinaryPCA, rotate
from bayespca.linear.rotation import OBLIMIN, VARIMAX


def turned(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def kaiser(loadings):
    rows = loadings / np.sqrt((loadings**2).sum(axis=1, keepdims=True))
    return -((rows**2).var(axis=0).sum())


def quartimin(loadings):
    squares = loadings**2
    return (squares[:, 0] * squares[:, 1]).sum()


@pytest.mark.parametrize("seed", range(4))
def test_varimax_is_the_best_of_all_angles(seed):
    L = np.random.default_rng(seed).normal(size=(12, 2))
    best = min(kaiser(L @ turned(angle)) for angle in np.linspace(0, np.pi / 2, 20_001))
    T = VARIMAX.turn(L)
    assert T.T @ T == pytest.approx(np.eye(2), abs=1e-12)
    assert kaiser(L @ T) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_oblimin_is_the_best_of_all_pairs_of_directions(seed):
    L = clusters(seed)
    angles = np.linspace(0, np.pi, 91)
    best = np.inf
    for a in angles:
        for b in angles:
            if abs(np.sin(a - b)) > 0.2:
                T = np.array([[np.cos(a), np.cos(b)], [np.sin(a), np.sin(b)]])
                best = min(best, quartimin(L @ np.linalg.inv(T).T))
    T = OBLIMIN.turn(L)
    assert (T**2).sum(axis=0) == pytest.approx(np.ones(2))
    assert quartimin(L @ np.linalg.inv(T).T) <= best * (1 + 1e-9)


def clusters(seed):
    rng = np.random.default_rng(seed)
    simple = np.zeros((12, 2))
    simple[:6, 0], simple[6:, 1] = rng.uniform(0.5, 1, 6), rng.uniform(0.5, 1, 6)
    return simple @ turned(rng.uniform(0, 3)) @ np.diag([1.0, 0.7]) + 0.05 * rng.normal(
        size=(12, 2)
    )


def simulated(correlation, n=2000, seed=0):
    """Three factors, each with five features of its own."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((3, 15))
    for h in range(3):
        truth[h, 5 * h : 5 * h + 5] = [1.2, 1.1, 1.0, 0.9, 0.8 - 0.1 * h]
    phi = np.full((3, 3), correlation) + (1 - correlation) * np.eye(3)
    scores = rng.normal(size=(n, 3)) @ np.linalg.cholesky(phi).T
    return scores @ truth + 0.5 * rng.normal(size=(n, 15)), truth, scores


def matched(found, truth):
    """Indices that put the factors in the order of the true ones."""
    order = [int(np.argmax(np.abs(found.loadings @ row))) for row in truth]
    assert sorted(order) == [0, 1, 2]
    return order


@pytest.mark.parametrize(("method", "correlation"), [("varimax", 0.0), ("oblimin", 0.4)])
def test_simple_structures_are_found(method, correlation):
    X, truth, scores = simulated(correlation)
    found = rotate(BayesianPCA(noise="isotropic").fit(X), method)
    order = matched(found, truth)
    assert found.loadings[order] == pytest.approx(truth, abs=0.08)
    apart = found.correlations[np.ix_(order, order)] - np.eye(3)
    assert apart[np.triu_indices(3, 1)] == pytest.approx(correlation, abs=0.08)
    ours = found.scores(X)[:, order]
    for h in range(3):
        assert np.corrcoef(ours[:, h], scores[:, h])[0, 1] > 0.9


@pytest.mark.parametrize(("method", "correlation"), [("varimax", 0.0), ("oblimin", 0.4)])
def test_standard_deviations_hold_the_truth(method, correlation):
    inside = []
    for seed in range(6):
        X, truth, _ = simulated(correlation, n=200, seed=seed)
        found = rotate(BayesianPCA(noise="isotropic").fit(X), method)
        order = matched(found, truth)
        inside.append(np.abs(found.loadings[order] - truth) < 1.96 * found.std[order])
    assert 0.9 < np.mean(inside) < 0.985


def test_a_rotation_keeps_the_signal():
    X, _, _ = simulated(0.4, n=300)
    for whiten in (False, True):
        model = BayesianPCA(noise="isotropic", whiten=whiten).fit(X)
        plain = BayesianPCA(noise="isotropic").fit(X)
        for method in ("varimax", "oblimin"):
            found = rotate(model, method)
            signal = found.scores(X) @ found.loadings + plain.mean_
            assert signal == pytest.approx(plain.denoise(X), abs=1e-8)


def test_one_component_is_as_it_was():
    X = np.outer(np.random.default_rng(0).normal(size=100), np.arange(1.0, 7.0))
    X += 0.1 * np.random.default_rng(1).normal(size=X.shape)
    found = rotate(BayesianPCA(noise="isotropic").fit(X), "oblimin")
    assert found.loadings.shape == (1, 6)
    assert found.correlations.tolist() == [[1.0]]


def test_mistakes_are_named():
    X, _, _ = simulated(0.0, n=60)
    with pytest.raises(ValueError, match="must be one of 'varimax', 'oblimin'"):
        rotate(BayesianPCA().fit(X), "quartimax")
    with pytest.raises(TypeError, match="rotate takes a fitted BayesianPCA"):
        rotate(BinaryPCA().fit(X > 0))
    noise = np.random.default_rng(0).normal(size=(50, 8))
    with pytest.raises(ValueError, match="nothing to rotate"):
        rotate(BayesianPCA(noise="isotropic").fit(noise))
