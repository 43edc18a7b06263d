"""Charts: a state is recovered from its own vector, and the next steps from both agree."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.discrete.data import bits, known_table
from bayespca.discrete.fit import binary_model, general_model
from bayespca.missing.ratings.data import sorted_both_ways
from bayespca.missing.ratings.fit import ratings_model
from bayespca.mixtures.pca.data import prepared
from bayespca.mixtures.pca.fit import mixture_model
from bayespca.mixtures.weights import Dirichlet
from bayespca.sources.data import BinaryCells
from bayespca.spectrum.methods import METHODS
from bayespca.views.data import views_table
from bayespca.views.fit import ViewsModel
from bayespca.views.mixed.fit import MixedModel
from discrete.tables import simulated
from views import mixed
from views.simulated import pierced


def table(seed=0, n=80, p=12, k=3):
    """A low-rank matrix with noise, and a mask of its observed cells."""
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + rng.normal(size=(n, p))
    return X, rng.random(X.shape) > 0.3


def cells(holes):
    X, seen = table()
    ones = X > 0
    return BinaryCells(ones & seen, seen) if holes else BinaryCells(ones)


def of_ratings(method, **options):
    X, seen = table()
    i, j = np.nonzero(seen)
    data = sorted_both_ways(i, j, X[i, j], X.shape, center=True)
    return ratings_model(data, METHODS[method], n_components=4, **options), data


def of_bits(holes):
    data = known_table(bits(cells(holes)))
    return binary_model(data, n_components=4), data


def of_tables(holes):
    kinds = {"normal": 4, "bernoulli": 3, "negative-binomial": 3, "ordinal": 4}
    data = known_table(simulated(kinds, n=80, holes=0.3 if holes else 0.0)[0])
    return general_model(data, n_components=4), data


def of_clusters(per_feature):
    X, seen = table()
    X[:40] += 5
    data = prepared(np.where(seen, X, np.nan), None)
    asked = {"ranks": (None,) * 2, "method": "evb", "weights": Dirichlet(0.5), "prune": False}
    return mixture_model(data, per_feature=per_feature, **asked), data


def of_views(holes):
    X, seen = table(p=18)
    X[:, 12:] = 3 * X[:, :6] + np.random.default_rng(1).normal(size=(80, 6))
    data = views_table(np.where(seen, X, np.nan) if holes else X, np.arange(18) // 6, 3)
    return ViewsModel(6), data


def of_mixed_views(holes):
    kinds = ("normal", "bernoulli", "poisson")
    tables = mixed.simulated(0, n=80, sizes=(12, 12, 10), kinds=kinds).tables
    data = mixed.as_views(pierced(tables, 0.2) if holes else tables, kinds)
    return MixedModel(6), data


MODELS = {
    "views with likelihoods": lambda: of_mixed_views(False),
    "views with likelihoods, with holes": lambda: of_mixed_views(True),
    "views": lambda: of_views(False),
    "views with holes": lambda: of_views(True),
    "ratings": lambda: of_ratings("evb"),
    "ratings, without biases": lambda: of_ratings("evb", biases=False),
    "ratings, EPB, noise given": lambda: of_ratings("epb", noise_variance=1.0),
    "ratings, EMAP, noise given": lambda: of_ratings("emap", noise_variance=1.0),
    "bits": lambda: of_bits(False),
    "bits, with holes": lambda: of_bits(True),
    "tables": lambda: of_tables(False),
    "tables, with holes": lambda: of_tables(True),
    "clusters with holes, noise of features": lambda: of_clusters(True),
    "clusters with holes": lambda: of_clusters(False),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_state_is_where_its_vector_is(name):
    model, data = MODELS[name]()
    state = model.start(data, np.random.default_rng(0))
    for _ in range(4):
        state, _ = model.step(state, data)
    chart = model.chart(data)
    while chart.point(state, None) is None:  # until the pattern of views has settled
        state, _ = model.step(state, data)
    point = chart.point(state, None)
    vector, errors = point.vector, point.errors
    assert vector.shape == errors.shape
    assert (errors > 0).all()
    again = chart.at(state, vector)
    np.testing.assert_allclose(chart.point(again, vector).vector, vector, rtol=1e-9, atol=1e-9)
    expected = model.step(state, data)[1].free_energy
    assert model.step(again, data)[1].free_energy == pytest.approx(expected, rel=1e-11)
