"""Every model has a page with a headline that says what was found and the sections that suit it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bayespca
from bayespca.datasets import low_rank
from report.reading import Reader

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("plotly", reason="plotly is not installed")

from bayespca.report import render, write
from bayespca.report.page import PAGES

RNG = np.random.default_rng(0)
X = low_rank(80, 6, 2, random_state=0).X
APART = np.vstack([X, X + 40])
ONES = (RNG.random((120, 8)) < np.where(np.arange(120)[:, None] % 2, 0.9, 0.1)).astype(float)
PATTERNS = (
    RNG.random((120, 12))
    < 1 / (1 + np.exp(-3 * RNG.normal(size=(120, 1)) @ RNG.normal(size=(1, 12))))
).astype(float)
T = np.linspace(0, 3, 60)
ARC = np.stack([np.cos(T), np.sin(T), np.cos(2 * T), np.sin(2 * T)], axis=1)
ARC += 0.05 * RNG.normal(size=ARC.shape)
TENSOR = np.einsum("i,j,k->ijk", *RNG.normal(size=(3, 9))) + 0.01 * RNG.normal(size=(9, 9, 9))


def ratings(rank):
    rng = np.random.default_rng(rank)
    users, items = np.nonzero(rng.random((30, 20)) < 0.6)
    U, V = rng.normal(size=(30, rank)), rng.normal(size=(20, rank))
    stars = 3 + (U[users] * V[items]).sum(axis=1) + 0.1 * rng.normal(size=users.size)
    names = np.array([f"film {i}" for i in range(20)], dtype=object)[items]
    return users, names, stars


RATINGS = ratings(1)


def rated(method="evb", given=RATINGS, **options):
    return bayespca.MatrixFactorization(method, random_state=0, **options).fit_ratings(*given)


def sampled():
    model = bayespca.GibbsPCA(n_draws=50, n_warmup=50, n_chains=2, random_state=0)
    with warnings.catch_warnings():
        # So few draws cannot mix, and a page does not need them to.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X)


# The model, its data, and the sections and figures that its page has.
MODELS = {
    "BayesianPCA": (
        lambda: bayespca.BayesianPCA().fit(X),
        X,
        "There are two dimensions in these data.",
        {"dimensions", "samples", "figure-scree", "features"},
    ),
    "VariationalPCA": (
        lambda: bayespca.VariationalPCA(random_state=0).fit(X),
        X,
        "There are two dimensions in these data.",
        {"dimensions", "samples", "figure-scree", "features"},
    ),
    "GibbsPCA": (
        sampled,
        X,
        "dimensions in these data.",
        {"dimensions", "samples", "figure-rank", "features"},
    ),
    "PCAMixture": (
        lambda: bayespca.PCAMixture(2, random_state=0).fit(APART),
        APART,
        "These rows fall into two clusters, as requested.",
        {"clusters", "samples", "figure-memberships", "features"},
    ),
    "BernoulliMixture": (
        lambda: bayespca.BernoulliMixture(4, random_state=0).fit(ONES),
        ONES,
        "These rows of zeros and ones fall into two clusters.",
        {"clusters", "samples", "figure-memberships", "features"},
    ),
    "BinaryPCA": (
        lambda: bayespca.BinaryPCA().fit(PATTERNS),
        PATTERNS,
        "There is one dimension in these zeros and ones.",
        {"dimensions", "samples", "figure-ones", "features"},
    ),
    "GeneralizedPCA": (
        lambda: bayespca.GeneralizedPCA().fit(PATTERNS),
        PATTERNS,
        "There is one dimension in this table.",
        {"dimensions", "samples", "features"},
    ),
    "GPLVM": (
        lambda: bayespca.GPLVM(2, n_inducing=10, random_state=0).fit(ARC),
        ARC,
        "These data lie along one curved dimension.",
        {"dimensions", "samples", "figure-relevance", "figure-curves"},
    ),
    "MatrixFactorization": (
        rated,
        RATINGS,
        "There is one dimension of taste in these ratings.",
        {"dimensions", "samples", "figure-rated", "figure-uncertain", "features"}
        | {"figure-spectrum", "figure-holding", "figure-groups"},
    ),
    "MultiViewPCA": (
        lambda: bayespca.MultiViewPCA().fit(
            X, views=["a"] * (X.shape[1] // 2) + ["b"] * (-(-X.shape[1] // 2))
        ),
        X,
        "Two factors drive these two tables.",
        {"pattern", "dimensions", "samples", "figure-pattern", "features"},
    ),
    "BayesianTucker": (
        lambda: bayespca.BayesianTucker().fit(TENSOR),
        TENSOR,
        "A core of 1 × 1 × 1 makes up this tensor.",
        {"modes", "figure-core", "figure-factor-3", "computed"},
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def page(request, tmp_path_factory):
    fitted, data, headline, ids = MODELS[request.param]
    path = tmp_path_factory.mktemp("page") / "page.html"
    write(path, fitted(), data)
    return Reader(path.read_text(encoding="utf-8")), headline, ids


def test_every_estimator_has_a_page():
    public = {name for name in bayespca.__all__ if name[0].isupper()}
    assert public - {"BayesianPCAImputer"} == set(MODELS)
    assert set(PAGES) < set(MODELS)


def test_a_headline_and_the_sections_of_the_model(page):
    found, headline, ids = page
    assert headline in found.words
    assert ids <= found.ids()
    assert "nan" not in found.words.replace("covenant", "").split()


def test_everything_that_is_drawn_has_its_place(page):
    found, _, _ = page
    for name, figure in found.data["figures"].items():
        assert f"figure-{name}" in found.ids()
        assert figure["data"]
    if found.data["scores"] is not None:
        assert len(found.data["shares"]) >= len(found.data["scores"]["components"])


def test_pages_without_data_leave_samples_out():
    model = bayespca.PCAMixture(2, random_state=0).fit(APART)
    found = Reader(render(model))
    assert "figure-memberships" not in found.ids()
    assert {"clusters", "features"} <= found.ids()
    assert "160 samples" in Reader(render(model, APART)).words


def test_means_in_any_unit_are_short():
    for unit in (1e-9, 1.0, 1e6):
        model = bayespca.PCAMixture(2, random_state=0).fit(unit * APART)
        assert "clusters" in Reader(render(model)).ids()


def test_nothing_found_is_kind():
    noise = RNG.normal(size=(12, 12, 12))
    found = Reader(render(bayespca.BayesianTucker().fit(noise), noise))
    assert "This tensor is noise." in found.words
    flat = (np.random.default_rng(1).random((400, 6)) < 0.3).astype(float)
    found = Reader(render(bayespca.BinaryPCA().fit(flat), flat))
    assert "There are no dimensions in these zeros and ones." in found.words


def test_the_strength_of_each_part_of_ratings():
    model = rated(noise_variance=0.01)
    (bars,) = Reader(render(model)).data["figures"]["spectrum"]["data"]
    product = model.user_factors_ @ model.item_factors_.T
    assert bars["x"] == ["user", "item", "1", "noise"]
    expected = (model.user_biases_, model.item_biases_, product, [0.1])
    sizes = [np.sqrt(np.mean(np.square(part))) for part in expected]
    assert bars["y"] == pytest.approx(sizes, abs=2e-4 * max(sizes))


# Averages over draws are accurate before R-hat shows that the chains have mixed.
@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("method", ["evb", "gibbs"])
def test_ratings_say_which_of_them_calibration_is_about(method):
    model = rated(method)
    fitted = Reader(render(model, RATINGS))
    assert "ratings, each predicted from all the others. The model was not refitted" in fitted.words
    drawn = fitted.data["figures"]["holding"]["data"][1]
    assert np.abs(np.subtract(drawn["x"], drawn["y"])).max() < 0.1
    others = tuple(column[::2] for column in RATINGS)
    found = Reader(render(rated(method, others), RATINGS))
    rest = RATINGS[0].size - others[0].size
    assert f"The {rest:,} that were not in the fit are predicted as they are." in found.words
    unseen = tuple(column[1::2] for column in RATINGS)
    found = Reader(render(rated(method, others), unseen))
    assert f"{rest:,} ratings, none of which was in the fit." in found.words


def test_ratings_without_calibration():
    assert "figure-holding" not in Reader(render(rated())).ids()
    few = tuple(column[:19] for column in RATINGS)
    assert "figure-holding" not in Reader(render(rated(), few)).ids()
    # With point estimates, the influence of a rating on its own prediction is unknown.
    assert "figure-holding" not in Reader(render(rated("emap"), RATINGS)).ids()


def test_ratings_of_no_and_of_two_dimensions():
    given = ratings(0)
    found = Reader(render(rated(given=given), given))
    assert "There is no dimension of taste." in found.words
    assert {"figure-spectrum", "figure-holding"} <= found.ids()
    model = rated(given=ratings(2), biases=False)
    assert Reader(render(model)).data["figures"]["spectrum"]["data"][0]["x"][-1] == "noise"


def test_cards_of_tastes_have_both_ends():
    model = rated()
    w = model.item_factors_[:, 0]
    ends = [str(model.items_[j]) for j in (np.argmax(w), np.argmin(w))]
    words = Reader(render(model)).words
    card = words[words.index("What the dimensions are") : words.index("Where the items lie")]
    assert all(end in card for end in ends)


def test_curves_without_data_have_the_rows_of_the_fit():
    model = bayespca.GPLVM(2, n_inducing=10, random_state=0).fit(ARC)
    found = Reader(render(model, labels=np.where(T > 1, "late", "early")))
    assert "nats more evidence than a linear PCA" in found.words
    (points,) = found.data["scores"]["components"]
    assert points == pytest.approx(model.embedding_[:, 0], abs=1e-3 * np.ptp(model.embedding_))
    lines = [line for line in found.data["figures"]["curves"]["data"] if "name" in line]
    assert {line["name"] for line in lines} == {f"feature {j}" for j in range(4)}
    sharpest = next(line for line in lines if line["name"] == "feature 3")
    assert np.ptp(sharpest["y"]) > 1.5


def test_planes_where_planes_are_enough():
    model = bayespca.GPLVM(3, n_inducing=10, random_state=0).fit(X)
    found = Reader(render(model))
    assert "A linear PCA is enough for these data." in found.words
    assert "BayesianPCA is the model to use." in found.words


def test_a_model_without_a_page():
    with pytest.raises(ValueError, match="a BayesianPCAImputer keeps only what it needs"):
        render(bayespca.BayesianPCAImputer().fit(X))
