"""The display of estimators in Jupyter."""

from __future__ import annotations

import re
import warnings
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_wine

from bayespca import (
    GPLVM,
    BayesianPCA,
    BayesianPCAImputer,
    BayesianTucker,
    BinaryPCA,
    GeneralizedPCA,
    GibbsPCA,
    MatrixFactorization,
    PCAMixture,
)
from bayespca.datasets import low_rank
from bayespca.estimators import RankWarning, summarize


@pytest.fixture(scope="module")
def model():
    return BayesianPCA(scale=True, noise="isotropic").fit(load_wine().data)


def shown(model):
    return model._repr_mimebundle_()["text/html"]


def test_jupyter_and_others_get_the_same(model):
    assert shown(model) == model._repr_html_()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_says_what_was_found(model):
    html = shown(model)
    assert escape(summarize(model).sentence) in html
    assert "178\N{NO-BREAK SPACE}samples" in html
    for note in summarize(model).notes:
        assert escape(note.text) in html
    assert html.count("<circle") == 13
    assert "stroke-dasharray" in html


def test_says_what_the_noise_is():
    X = low_rank(200, 8, 2, random_state=0).X * np.geomspace(1, 30, 8)
    html = shown(BayesianPCA().fit(X))
    assert "Noise differs between the features (" in html
    assert "nats more evidence than equal noise)." in html
    equal = BayesianPCA(noise="isotropic", n_components=2).fit(X)
    assert "nats more evidence than equal noise)." not in shown(equal)


def test_is_still_and_alone(model):
    html = shown(model)
    assert "<script" not in html
    assert "http" not in html
    assert "url(" not in html
    assert len(html) < 20_000


def test_styles_stay_inside(model):
    style = re.search("<style>(.*?)</style>", shown(model), re.DOTALL)[1]
    for selector in re.findall(r"(?:^|[};])\s*([^@{};]+?)\s*\{", style):
        assert all(".bayespca-card" in part for part in selector.split(",")), selector


def test_not_fitted_is_scikit_learns():
    html = BayesianPCA()._repr_html_()
    assert "bayespca-card" not in html
    assert "BayesianPCA" in html


def test_text_stays_text(model):
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.outer(np.arange(6.0), [1, 2, 3]),
        np.random.default_rng(0).normal(size=(100, 20)),
        low_rank(200, 100, 5, strength=100, random_state=0).X,
        1e120 * low_rank(50, 8, 2, random_state=0).X,
    ],
    ids=["zeros", "exact", "noise", "steep", "huge"],
)
@pytest.mark.parametrize("method", ["evb", "map", "ml"])
def test_any_model(X, method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        model = BayesianPCA(method, n_components=1 if method == "ml" else "auto").fit(X)
    html = shown(model)
    assert "nan" not in html
    assert "inf" not in html
    HTMLParser().feed(html)


def test_names_are_escaped():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1e4, 1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        frame = pandas.DataFrame(X, columns=["<i>", "b", "c", "d"])
        model = BayesianPCA(noise="isotropic").fit(frame)
    assert "almost alone" in shown(model)
    assert "<i>" not in shown(model)


def test_other_estimators_show_what_their_records_tell():
    X = (np.random.default_rng(0).random((40, 6)) < 0.3).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            BinaryPCA(max_iter=1).fit(X),
            GeneralizedPCA(max_iter=1).fit(X),
            PCAMixture(2, random_state=0).fit(X),
            GibbsPCA(1, n_draws=5, n_warmup=1, n_chains=1, random_state=0).fit(X),
            MatrixFactorization(max_iter=5).fit(X),
            BayesianTucker(max_iter=5).fit(X.reshape(10, 4, 6)),
            BayesianPCAImputer().fit(X),
            GPLVM(2, n_inducing=8, max_iter=2, random_state=0).fit(X),
        ]
    for model in found:
        html = shown(model)
        assert f"<strong>{type(model).__name__}</strong>" in html
        assert "nan" not in html
        HTMLParser().feed(html)
    assert "stopped after 1 step;" in shown(found[0])
    assert "40\N{NO-BREAK SPACE}samples" in shown(found[0])
    assert "evidence over a linear PCA" in shown(found[-1])
