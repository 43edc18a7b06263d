"""The page reports the model faithfully, for every kind of model and for any names."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import bayespca
from bayespca import BayesianPCA, BayesianPCAImputer, rank_report, rank_stability
from bayespca.datasets import low_rank
from bayespca.estimators import summarize
from bayespca.estimators.wording import significant
from report.reading import Reader

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("plotly", reason="plotly is not installed")

from bayespca.report import render, write

MEGABYTE = 1_000_000
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "\"quoted\" and 'quoted'",
    "🧬 déjà\u2028vu",
    "<!-- not a comment",
    "{{ 7 * 7 }} %{x} @accent",
    "&lt;b&gt; & <b>bold</b>",
    "",
]


def report(X, *, names=None, y=None, **options):
    """The page of a model with its scores, and the model."""
    model = BayesianPCA(**options).fit(X)
    scores, std = model.transform(X, return_std=True)
    page = render(model, scores=scores, scores_std=std, sample_names=names, labels=y)
    return Reader(page), model


@pytest.fixture(scope="module")
def wine_page(wine):
    X, y = wine
    model = BayesianPCA(scale=True, noise="isotropic").fit(X)
    scores, std = model.transform(X, return_std=True)
    page = render(
        model,
        scores=scores,
        scores_std=std,
        sample_names=[f"bottle {i}" for i in range(len(X))],
        labels=y,
        labels_name="cultivar",
        ranks=rank_report(X, scale=True),
        source="wine.csv",
        details={"Columns set aside": "none", "Time": "0.03 s"},
    )
    return page, Reader(page), model


# --- what it says ------------------------------------------------------------------------------


def test_headline(wine_page):
    _, page, model = wine_page
    assert model.rank_posterior_ is None
    assert summarize(model).sentence in page.words
    assert "if the noise is as assumed," not in page.words
    assert f"{model.explained_variance_ratio_.sum():.0%}".replace("%", " %") in page.words
    assert "What is in wine.csv · 178 samples × 13 features" in page.words


def test_notes_are_those_of_the_summary(wine_page):
    _, page, model = wine_page
    notes = summarize(model).notes
    assert notes
    for note in notes:
        assert note.text in page.words


def test_rules_stand_side_by_side(wine_page, wine):
    _, page, _ = wine_page
    others = rank_report(wine[0], scale=True).ranks()
    others = {name: k for name, k in others.items() if "kept" not in name and "most" not in name}
    for name, rank in others.items():
        assert name in page.words
        assert str(rank) in page.words
    assert "the number on this page" in page.words
    assert "rules" in page.ids()


def test_how_it_was_computed(wine_page):
    _, page, _ = wine_page
    for words in (f"version {bayespca.__version__}", "Engine dense:", "Seed none", "Time 0.03 s"):
        assert words in page.words


def test_same_page_every_time(wine_page, wine):
    page, _, model = wine_page
    assert render(model) == render(model)
    assert len(page.encode()) < 3 * MEGABYTE


def test_asks_for_nothing(wine_page):
    _, page, _ = wine_page
    for tag, attributes in page.tags:
        for name in ("src", "href", "action", "srcset"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), (tag, attributes)
    assert "@import" not in wine_page[0]


def test_figures_of_the_data(wine_page, wine):
    _, page, model = wine_page
    figures = page.data["figures"]
    assert set(figures) == {"scree"}
    kept = next(trace for trace in figures["scree"]["data"] if trace["name"] == "kept")
    np.testing.assert_allclose(kept["y"], model.singular_values_, rtol=1e-3)
    at = next(trace for trace in figures["scree"]["data"] if trace["name"] == "threshold")
    np.testing.assert_allclose(at["y"], model.threshold_, rtol=1e-3)
    sure = BayesianPCA().fit(wine[0])
    [shown] = Reader(render(sure)).data["figures"]["rank"]["data"]
    bars = dict(zip(shown["x"], shown["y"], strict=True))
    assert bars[5] == pytest.approx(sure.rank_posterior_[5], abs=1e-3)


def test_scores_with_names_and_groups(wine_page, wine):
    _, page, model = wine_page
    scores = page.data["scores"]
    expected = model.transform(wine[0])
    np.testing.assert_allclose(np.transpose(scores["components"]), expected, atol=2e-3)
    assert scores["names"][3] == "bottle 3"
    assert scores["labels"]["groups"] == ["cultivar 0", "cultivar 1", "cultivar 2"]
    assert scores["labelsName"] == "cultivar"


def test_table_has_every_loading(wine_page):
    _, page, model = wine_page
    values = [float(a["data-v"]) for tag, a in page.tags if tag == "td" and "data-v" in a]
    np.testing.assert_allclose(np.reshape(values, (13, 7)), model.components_.T, atol=1e-6)
    headings = [a["aria-sort"] for tag, a in page.tags if tag == "th" and "aria-sort" in a]
    assert headings == ["none"] * 8


# --- every kind of model -----------------------------------------------------------------------


def test_rank_zero_is_kind():
    page, model = report(np.random.default_rng(0).normal(size=(200, 30)))
    assert model.n_components_ == 0
    assert "No dimension stands out from the noise." in page.words
    assert "That is an answer, not a failure" in page.words
    assert "loadings" not in page.ids()
    assert page.data["scores"] is None


@pytest.mark.parametrize("rows", [1, 5])
def test_where_nothing_varies_nothing_is_sure(rows):
    """Rank 0 must not have a probability over 99.9 % here, nor a free energy of −∞ nats."""
    page, _ = report(np.tile([1.0, 2.0, 3.0], (rows, 1)))
    assert "Nothing varies in these data." in page.words
    assert "All samples are the same in every feature" in page.words
    assert "rank" not in page.ids()
    for nonsense in ("99.9 %", "∞", "hardly any doubt", "not a failure"):
        assert nonsense not in page.words


def test_an_imputer_says_which_model_has_a_report():
    X = low_rank(30, 4, 1, random_state=0).X
    imputer = BayesianPCAImputer().fit(X)
    with pytest.raises(ValueError, match=r"BayesianPCA\(\*\*imputer\.get_params\(\)\)\.fit\(X\)"):
        render(imputer, X)
    same = BayesianPCA(**imputer.get_params()).fit(X)
    np.testing.assert_allclose(same.impute(X[:3]), imputer.transform(X[:3]))
    assert "What the dimensions are" in Reader(render(same)).words


def test_rank_one_is_drawn_in_order():
    page, model = report(low_rank(60, 8, 1, strength=2, random_state=0).X)
    assert model.n_components_ == 1
    assert "There is one dimension in these data." in page.words
    assert len(page.data["scores"]["components"]) == 1
    assert page.data["scores"]["index"] == list(range(60))
    assert "in the order of the data" in page.words


def test_given_rank_has_no_probability(wine):
    page, _ = report(wine[0], method="ml", n_components=2, scale=True)
    assert "Two dimensions, as requested." in page.words
    assert "so it has no probability" in page.words
    assert "rank" not in page.data["figures"]
    # Loadings have error bars with every method: these are about the axes of the population.
    assert "±" in page.words


@pytest.mark.parametrize("method", ["evb", "epb", "emap", "vb", "pb", "map", "laplace"])
def test_every_method(wine, method):
    given = {"prior_variance": 100.0} if method in ("vb", "pb", "map") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bayespca.estimators.RankWarning)
        page, model = report(wine[0], method=method, scale=True, **given)
    assert f"Method {method}:" in page.words
    assert page.data["figures"]["scree"]
    assert str(model.n_components_) in page.words


def test_noise_of_each_feature(wine):
    page, model = report(wine[0], noise="per-feature")
    figures = page.data["figures"]
    noise = figures["noise"]["data"][0]
    order = np.argsort(-model.feature_noise_variance_)
    std = np.sqrt(model.feature_noise_variance_[order])
    np.testing.assert_allclose(noise["x"], std, atol=1e-2)
    assert noise["text"] == [wine[0].columns[j] for j in order]
    assert "samples" not in figures
    assert f"noise {significant(std[-1], 2)} to {significant(std[0], 2)} standard" in page.words
    assert "Noise differs between the features, as the options specify." in page.words
    np.testing.assert_allclose(figures["trace"]["data"][0]["y"], model.trace_.free_energy)
    assert "and settled" in page.words


def test_noise_that_the_evidence_chose():
    X = low_rank(200, 8, 2, random_state=0).X * np.geomspace(1, 30, 8)
    page, model = report(X)
    assert model.noise_ == "per-feature"
    nats = f"{model.noise_evidence_['per-feature']:,.0f}"
    said = f"Noise differs between the features ({nats} nats more evidence than equal noise)."
    assert said in page.words
    assert f"Noise per-feature; nats of evidence more than equal noise: per-feature +{nats}" in (
        page.words
    )


def noisy_rows(n=60, p=12):
    rng = np.random.default_rng(0)
    scale = np.ones(n)
    scale[[3, 20]] = 20.0
    return low_rank(n, p, 2, random_state=0).X + scale[:, None] * rng.normal(size=(n, p))


def test_outlying_samples():
    names = [f"<patient {i}>" for i in range(60)]
    page, model = report(noisy_rows(), names=names, noise="per-sample")
    assert np.flatnonzero(model.outlier_probability_ > 0.5).tolist() == [3, 20]
    drawn = page.data["figures"]["samples"]
    dots, ticks = drawn["data"][0], drawn["layout"]["yaxis"]["ticktext"]
    order = np.argsort(-model.sample_noise_variance_)[:20]
    np.testing.assert_allclose(dots["x"], np.sqrt(model.sample_noise_variance_[order]), atol=1e-3)
    assert set(ticks[:2]) == {"&lt;patient 3&gt;", "&lt;patient 20&gt;"}
    assert dots["text"][0].startswith("over 99")
    assert dots["marker"]["color"] == ["@warm"] * 2 + ["@accent"] * 18
    assert "Two samples are probably outliers." in page.words
    assert "the 20 noisiest of 60" in page.words
    assert "noise" not in page.data["figures"]


def test_rows_have_numbers_where_they_have_no_names():
    page, _ = report(noisy_rows(), noise="per-sample")
    ticks = page.data["figures"]["samples"]["layout"]["yaxis"]["ticktext"]
    assert set(ticks[:2]) == {"row 4", "row 21"}


def test_outlying_cells():
    X = low_rank(30, 5, 1, random_state=0).X
    model = BayesianPCA(noise="per-feature").fit(X)
    probability = np.zeros((30, 5))
    probability[4, 2], probability[7, 0] = 0.9, 0.6
    noise = replace(model.fit_.noise, name="student-cells", outliers=probability)
    model.fit_ = replace(model.fit_, noise=noise)
    page = Reader(render(model))
    drawn = page.data["figures"]["cells"]
    assert drawn["data"][0]["x"] == [0.9, 0.6]
    assert drawn["layout"]["yaxis"]["ticktext"] == ["feature 2, row 5", "feature 0, row 8"]
    assert "Two cells are probably outliers." in page.words


def test_noise_of_each_feature_at_rank_zero():
    page, model = report(np.random.default_rng(0).normal(size=(300, 6)), noise="per-feature")
    assert model.n_components_ == 0
    assert "loadings" in page.ids()
    assert "Noise" in page.words


def test_complete_spectra_are_compared_with_noise():
    X = low_rank(300, 60, 3, random_state=0).X
    page, model = report(X)
    bars, curve = page.data["figures"]["eigenvalues"]["data"][:2]
    assert sum(bars["y"]) == 57
    area = np.trapezoid(curve["y"], curve["x"]) / bars["width"]
    assert area == pytest.approx(57, rel=0.02)
    assert model.spectrum_.is_complete


def test_torch(wine):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X = torch.asarray(wine[0].to_numpy())
    page, model = report(X, y=torch.arange(178), scale=True)
    assert model.n_components_ == BayesianPCA(scale=True).fit(wine[0]).n_components_
    assert len(page.data["scores"]["labels"]["values"]) == 178


@pytest.mark.parametrize("unit", [1e-120, 1e-30, 1e30, 1e120])
def test_any_unit(unit):
    X = unit * low_rank(100, 12, 2, random_state=0).X
    page, model = report(X)
    assert model.n_components_ == 2
    kept = page.data["figures"]["scree"]["data"][0]["y"]
    np.testing.assert_allclose(kept, model.singular_values_, rtol=1e-3)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.ones((4, 2)),
        np.outer(np.arange(6.0), [1, 2, 3]),
        np.arange(6.0).reshape(6, 1),
        np.arange(8.0).reshape(2, 4),
    ],
    ids=["zeros", "constant", "exact rank 1", "one feature", "two samples"],
)
def test_poor_data(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bayespca.estimators.RankWarning)
        page, model = report(X)
    assert len(page.data["loadings"]) == model.n_components_


def test_one_new_sample(wine):
    X = wine[0]
    model = BayesianPCA(scale=True, noise="isotropic").fit(X)
    scores, std = model.transform(X[:1], return_std=True)
    page = Reader(render(model, scores=scores, scores_std=std, sample_names=["the one"]))
    assert page.data["scores"]["names"] == ["the one"]
    assert "1 of 178 samples are drawn" in page.words


def test_without_scores_says_why(wine):
    page = Reader(render(BayesianPCA(scale=True, noise="isotropic").fit(wine[0])))
    assert "The rows were read once and not kept" in page.words
    assert page.data["scores"] is None


def test_not_fitted():
    with pytest.raises(Exception, match="not fitted"):
        render(BayesianPCA())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_names": ["a"]}, "178 rows of scores, but 1 sample_names"),
        ({"labels": [1, 2]}, "178 rows of scores, but 2 labels"),
        ({"scores_std": np.ones((3, 7))}, "scores_std has"),
        ({"scores": np.ones(178)}, "a table of samples and components"),
    ],
)
def test_what_does_not_fit_together(wine, given, message):
    model = BayesianPCA(scale=True, noise="isotropic").fit(wine[0])
    with pytest.raises(ValueError, match=message):
        render(model, **{"scores": model.transform(wine[0]), **given})


# --- names of any kind -------------------------------------------------------------------------


def test_hostile_names_are_only_names():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X = pandas.DataFrame(low_rank(40, 8, 2, strength=2, random_state=1).X, columns=HOSTILE)
    model = BayesianPCA().fit(X)
    scores = model.transform(X)
    who = [HOSTILE[i % 8] for i in range(40)]
    text = render(
        model,
        scores=scores,
        sample_names=who,
        labels=who,
        labels_name=HOSTILE[0],
        title=HOSTILE[1],
        source=HOSTILE[4],
        details={HOSTILE[0]: HOSTILE[1]},
    )
    page = Reader(text)
    assert set(page.scripts) == {"data", "plotly", None}
    assert "alert" not in page.scripts[None]
    assert "<" not in page.scripts["data"]
    assert page.data["scores"]["names"][0] == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert "{{ 7 * 7 }} %{x} @accent" in page.text
    assert HOSTILE[6] in page.text
    text.encode("utf-8")


def test_half_a_surrogate_pair_can_be_written(tmp_path):
    model = BayesianPCA().fit(low_rank(40, 8, 2, random_state=1).X)
    write(tmp_path / "report.html", model, title="\ud83d", source="\udcff")
    assert (tmp_path / "report.html").stat().st_size > MEGABYTE


def test_numbers_as_labels_have_a_scale():
    X = low_rank(40, 8, 2, random_state=1).X
    assert "values" in report(X, y=np.linspace(0, 1, 40))[0].data["scores"]["labels"]
    few = report(X, y=np.arange(40) % 3)[0].data["scores"]["labels"]
    assert few["groups"] == ["0", "1", "2"]


def test_many_labels_leave_the_common_ones():
    X = low_rank(40, 8, 2, random_state=1).X
    y = ["common"] * 20 + [f"rare {i}" for i in range(20)]
    labels = report(X, y=y)[0].data["scores"]["labels"]
    assert len(labels["groups"]) == 9
    assert "common" in labels["groups"]
    assert labels["groups"][-1] == "other"
    assert labels["texts"][-1] == "rare 19"


def test_missing_labels():
    X = low_rank(40, 8, 2, random_state=1).X
    labels = report(X, y=["a", None] * 20)[0].data["scores"]["labels"]
    assert labels["groups"] == ["a", "no label"]


# --- size and time -----------------------------------------------------------------------------


def test_large_data_are_light():
    X = low_rank(20_000, 100, 12, random_state=0).X
    model = BayesianPCA().fit(X)
    start = time.perf_counter()
    scores, std = model.transform(X, return_std=True)
    text = render(
        model,
        scores=scores,
        scores_std=std,
        sample_names=[f"sample number {i}" for i in range(20_000)],
        labels=[f"group {i % 5}" for i in range(20_000)],
        ranks=rank_report(X),
    )
    assert time.perf_counter() - start < 5
    assert len(text.encode()) < 6 * MEGABYTE
    page = Reader(text)
    assert "10,000 of 20,000 samples are drawn, picked at random" in page.words
    assert len(page.data["scores"]["index"]) == 10_000


def test_many_components_are_cut():
    rng = np.random.default_rng(0)
    model = SimpleNamespace(T=rng.normal(size=(12_000, 60)))
    from bayespca.report.scores import read_scores

    drawn = read_scores(model.T, np.abs(model.T))
    assert drawn.n_components == 12
    assert drawn.n_points == 10_000


def test_thousands_of_features():
    X = low_rank(80, 5000, 3, random_state=0).X
    page, _ = report(X, names=[f"s{i}" for i in range(80)])
    rows = sum(tag == "tr" for tag, _ in page.tags)
    assert rows == 201
    assert "The 200 of 5,000 features that weigh most." in page.words


# --- files and packages ------------------------------------------------------------------------


def test_write_replaces(tmp_path, wine):
    model = BayesianPCA(scale=True, noise="isotropic").fit(wine[0])
    path = tmp_path / "report.html"
    path.write_text("old")
    write(path, model, source="wine")
    assert path.read_text(encoding="utf-8") == render(model, source="wine")
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path, wine):
    model = BayesianPCA(scale=True, noise="isotropic").fit(wine[0])
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="labels"):
        write(path, model, scores=model.transform(wine[0]), labels=[1])
    assert path.read_text() == "old"


@pytest.mark.parametrize("module", ["jinja2", "plotly.offline"])
def test_missing_packages(monkeypatch, wine, module):
    from bayespca.report import page

    page.packed_plotly.cache_clear()
    model = BayesianPCA(scale=True, noise="isotropic").fit(wine[0])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "bayespca\[report\]"'):
        render(model)


def test_what_comes_back_stands_beside_the_probability():
    X = low_rank(60, 8, 2, random_state=0).X
    model = BayesianPCA().fit(X)
    page = Reader(render(model, stability=rank_stability(X, n_halves=20)))
    assert "What comes back in half of the samples" in page.words
    assert "2 of 2 come back in at least 90 % of 20 halves of the rows" in page.words
    assert "of the halves." in page.words
    assert "What comes back" not in Reader(render(model)).words


def test_every_probability_has_its_condition():
    """The tile, the sentence and the bars all state the assumption about the noise."""
    page, _ = report(low_rank(60, 8, 2, random_state=0).X)
    assert page.words.count("if the noise is as assumed") >= 3
