"""Sweeps of a mixture against its free energy written out, and against known properties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from bayespca import inference
from bayespca.mixtures.pca import start
from bayespca.mixtures.pca import step as mixing
from bayespca.mixtures.pca.closed_form import solved_together, updated
from bayespca.mixtures.pca.cluster import ClusterPlan, ClusterRows, merged, moments_of
from bayespca.mixtures.pca.data import gathered, prepared
from bayespca.mixtures.pca.fit import mixture_model
from bayespca.mixtures.pca.gaussian import (
    Gaussian,
    densities_of_all,
    expected,
    log_densities,
)
from bayespca.mixtures.pca.removal import Pool, with_fewer
from bayespca.mixtures.weights import Dirichlet, PointWeights
from oracles.mixtures import conditional, free_energy, log_density_of_seen


def three_clusters(seed=0, n=60, p=6, ranks=(0, 1, 3)):
    rng = np.random.default_rng(seed)
    parts = []
    for rank in ranks:
        W = np.linalg.qr(rng.normal(size=(p, p)))[0][:rank]
        parts.append(3 * rng.normal(size=(n, rank)) @ W + 4 * rng.normal(size=p))
    X = np.vstack(parts)
    return X + rng.normal(size=X.shape)


def with_holes(X, share=0.2, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def begun(X, K=3, method="evb", rank=None, weights=None, per_feature=False):
    data = prepared(X, weights)
    floor = 1e-6 * data.variances if per_feature else 1e-9
    prior = Dirichlet(1 / K) if method == "evb" else PointWeights()
    model = mixing.MixtureProblem(method, prior, floor)
    whole = start.one_cluster(data, model, rank)
    state = start.by_k_means(data, model, (rank,) * K, whole, np.random.default_rng(0))
    return state, data, model


def written_out(cluster, unit, location):
    """A cluster as the oracle takes it, in data units, with ratios that give the costs in F."""
    posterior, noise = cluster.posterior, cluster.noise * unit**2
    x = 1 / (1 - posterior.shrinkage)
    # M·log(cₐ²/σₐ²) and p·log(c_b²/σ_b²) are kept as sums: any split over components will do.
    k = x.size
    ratio = np.exp(2 * cluster.latent_cost / max(k, 1)) * np.ones(k)
    p = posterior.mean.size
    ratio_b = np.exp(2 * cluster.loading_cost / max(k, 1) / p) * np.ones(k)
    return {
        "mean": posterior.mean * unit + location,
        "W": posterior.components,
        "shrinkage": posterior.shrinkage,
        "noise": noise,
        "ratio_a": ratio,
        "ratio_b": ratio_b,
    }


def test_the_free_energy_is_the_one_written_out():
    X = three_clusters()
    state, data, model = begun(X)
    for _ in range(2):
        r = mixing.responsibilities(mixing.row_costs(state, data.rows, model))
        state, info = mixing.step(state, data, model)
    clusters = [written_out(c, data.unit, data.location) for c in state.clusters]
    assert sorted(len(c["W"]) for c in clusters) == [0, 1, 3]
    in_units = info.free_energy + (X.size - X.shape[1]) * np.log(data.unit)
    assert in_units == pytest.approx(free_energy(X, r, clusters, 1 / 3), rel=1e-10)


def test_no_other_responsibilities_are_better():
    """The oracle is minimised over r, with tangents in place of the costs of means and weights."""
    X = three_clusters(n=3, p=2, ranks=(0, 0, 0))
    state, data, model = begun(X)
    clusters = [written_out(c, data.unit, data.location) for c in state.clusters]
    counts = state.counts
    logs = model.weights.expected_logs(counts)

    def value(theta):
        e = np.exp(theta.reshape(len(X), 3))
        r = e / e.sum(axis=1, keepdims=True)
        N = r.sum(axis=0)
        exact = free_energy(X, r, clusters, 1 / 3)
        # Tangents at the previous counts replace the costs of means and weights.
        tangent = (N / (counts + 1)).sum() - np.log(N + 1).sum() - N @ logs
        return exact + tangent - model.weights.cost(N)

    ours = mixing.responsibilities(mixing.row_costs(state, data.rows, model))
    found = minimize(value, np.zeros(3 * len(X)), options={"gtol": 1e-7})
    assert value(np.log(np.maximum(ours, 1e-300))) <= found.fun + 1e-6


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize(("method", "rank"), [("evb", None), ("ml", 2)])
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_free_energy_never_rises(per_feature, method, rank, holes, weighted):
    X = with_holes(three_clusters(1), holes)
    weights = np.random.default_rng(2).uniform(0, 3, len(X)) if weighted else None
    state, data, model = begun(X, 5, method, rank, weights, per_feature)
    energies = []
    for _ in range(30):
        state, info = mixing.step(state, data, model)
        energies.append(info.free_energy)
    assert np.isfinite(energies).all()
    assert (np.diff(energies) <= 1e-9 * np.abs(energies[:-1])).all()


def test_a_cluster_left_alone_costs_what_an_updated_one_does():
    """Both ways of computing F agree where the closed form is at its minimum."""
    X = with_holes(three_clusters(3), 0.1)
    state, data, model = begun(X)
    run = inference.run(lambda s: mixing.step(s, data, model), state, max_iter=300, tol=1e-13).state
    costs = mixing.row_costs(run, data.rows, model)
    r = mixing.responsibilities(costs)
    for k, cluster in enumerate(run.clusters):
        rows = data.rows.taken(r[:, k] > 0, r[:, k])
        update = updated(rows, cluster, model.plan(None))
        of_rows = r[:, k] @ (cluster.surplus - log_densities(cluster.gaussian, data.rows))
        assert of_rows + cluster.fixed_cost == pytest.approx(
            update.free_energy - update.entropy, rel=1e-6
        )


def test_gaussians_of_rows_with_holes():
    rng = np.random.default_rng(4)
    p, W = 5, np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    gaussian = Gaussian(rng.normal(size=p), np.array([1, 2, 0.5, 1, 3]), W, np.array([4.0, 2]), 0.3)
    scale = np.diag(gaussian.scale)
    covariance = scale @ (W.T @ np.diag(gaussian.spread) @ W + 0.3 * np.eye(p)) @ scale
    X = rng.normal(size=(20, p))
    weights = rng.uniform(0.5, 2, 20)
    for holes in (X, with_holes(X, 0.4)):
        rows = gathered(holes, weights)
        direct = [log_density_of_seen(x, gaussian.mean, covariance) for x in holes]
        assert rows.in_order(log_densities(gaussian, rows)) == pytest.approx(direct, rel=1e-10)
        found = expected(gaussian, rows)
        pairs = [conditional(x, gaussian.mean, covariance) for x in holes]
        assert rows.in_order(found.values) == pytest.approx(np.array([m for m, _ in pairs]))
        spread = sum(w * C for w, (_, C) in zip(weights, pairs, strict=True))
        assert np.broadcast_to(found.covariance, (p, p)) == pytest.approx(spread, abs=1e-10)
        dets = [
            np.linalg.slogdet(2 * np.pi * np.e * C[np.ix_(m, m)])[1] if m.any() else 0.0
            for (_, C), m in zip(pairs, np.isnan(holes), strict=True)
        ]
        assert found.entropy == pytest.approx(0.5 * weights @ dets, abs=1e-10)


def test_wide_clusters_go_through_their_rows():
    """With fewer rows than features, products of rows give the result of products of features."""
    rng = np.random.default_rng(5)
    X = 3 * np.outer(rng.normal(size=12), rng.normal(size=40)) + rng.normal(size=(12, 40))
    rows = gathered(X, rng.uniform(0.5, 1, 12))
    wide = updated(rows, None, ClusterPlan("evb", None, 1e-9))
    extra = gathered(
        np.vstack([X, np.zeros((40, 40))]), np.append(rows.weights, np.full(40, 1e-300))
    )
    tall = updated(extra, None, ClusterPlan("evb", None, 1e-9))
    assert wide.cluster.n_components == 1
    assert wide.free_energy == pytest.approx(tall.free_energy, rel=1e-10)


@pytest.mark.parametrize("prior", [Dirichlet(0.3), PointWeights()])
def test_weights_of_one_cluster_cost_nothing(prior):
    counts = np.array([12.5])
    assert prior.cost(counts) == pytest.approx(0.0, abs=1e-12)
    assert prior.expected_logs(counts) == pytest.approx([0.0], abs=1e-12)


def test_a_starved_cluster_goes_when_that_is_better():
    X = three_clusters(6)
    data = prepared(X, None)
    model = mixture_model(data, ranks=(2,) * 25, method="ml", weights=PointWeights(), prune=False)
    fitted = inference.fit(model, data, inference.Looping(random_state=0))
    assert len(fitted.counts) < 25
    assert "removed-clusters" in fitted.status
    assert fitted.counts.min() > 3
    assert fitted.counts.sum() == pytest.approx(len(X))


@pytest.mark.parametrize("noise", [0.3, 1e-9])
def test_densities_of_all_clusters_are_those_of_each(noise):
    """Includes almost no noise, where squares of differences lose their digits."""
    rng = np.random.default_rng(7)
    p = 5
    gaussians = [
        Gaussian(
            rng.normal(size=p),
            np.exp(rng.normal(size=p)),
            np.linalg.qr(rng.normal(size=(p, p)))[0][:k],
            rng.uniform(1, 5, k),
            noise,
        )
        for k in (0, 2, 3)
    ]
    rows = gathered(rng.normal(size=(40, p)), np.ones(40))
    found = densities_of_all(gaussians, rows)
    for gaussian, column in zip(gaussians, found.T, strict=True):
        scale = np.diag(gaussian.scale)
        W = gaussian.directions
        covariance = scale @ (W.T @ np.diag(gaussian.spread) @ W + noise * np.eye(p)) @ scale
        direct = [log_density_of_seen(x, gaussian.mean, covariance) for x in rows.values]
        assert column == pytest.approx(direct, rel=1e-9 if noise > 1e-3 else 1e-5)
        assert column == pytest.approx(log_densities(gaussian, rows), rel=1e-9)


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("shape", [(50, 6), (6, 40)])
def test_moments_of_two_clusters_in_one(per_feature, shape):
    """Merged moments are those of all rows and give the same closed form."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=shape) @ rng.normal(size=(shape[1], shape[1]))
    rows = gathered(X, rng.uniform(0.5, 2, len(X)))
    first = np.arange(len(X)) < len(X) // 2
    plan = ClusterPlan("evb", None, 1e-6 * np.ones(shape[1]) if per_feature else 1e-9)
    one, other = (
        moments_of(ClusterRows(rows.taken(some, rows.weights), None, plan))
        for some in (first, ~first)
    )
    both = moments_of(ClusterRows(rows, None, plan))
    found = merged(one, other)
    assert found.count == pytest.approx(both.count)
    assert found.mean == pytest.approx(both.mean)
    assert found.rows.T @ found.rows == pytest.approx(both.gram)
    assert found.gram == pytest.approx(both.gram)
    F = [update.free_energy for update in solved_together([found, both])]
    assert F[0] == pytest.approx(F[1], rel=1e-10)


def test_the_price_of_a_merger_is_what_the_free_energy_rises_by():
    state, data, model = begun(three_clusters(9), K=6)
    pool = Pool.of(state, data, model)
    pairs, prices = pool._merges()
    for (i, j), price in zip(pairs, prices, strict=True):
        joined = pool._merged(i, j)
        assert joined.r.sum(axis=1) == pytest.approx(np.ones(len(data.rows.values)))
        # Prices leave out the part of a Dirichlet prior that all clusters share.
        whole = model.weights.total_cost(joined.state.counts)
        whole -= model.weights.total_cost(pool.state.counts)
        assert joined.free_energy - pool.free_energy - whole == pytest.approx(price, abs=1e-3)


def test_too_many_clusters_become_those_that_are_there():
    X = three_clusters(10, n=80)
    state, data, model = begun(X, K=9)
    found = with_fewer(Pool.of(state, data, model), 3)
    assert np.sort(found.counts) == pytest.approx([80, 80, 80], abs=3)
