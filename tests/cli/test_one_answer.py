"""The command, its JSON, `rank` and the report give one number, and say alike how sure it is."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine

from bayespca import BayesianPCA, rank_report
from bayespca.estimators.wording import CONDITION
from bayespca.report import page
from report.reading import Reader

from .installed import output, run

TABLES = {
    "wine": lambda: load_wine().data,
    "iris": lambda: load_iris().data,
    "diabetes": lambda: load_diabetes().data,
    "noise": lambda: np.random.default_rng(0).normal(size=(200, 10)),
}


@pytest.mark.filterwarnings("ignore::bayespca.estimators.pca.RankWarning")
@pytest.mark.parametrize("name", TABLES)
def test_one_answer(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = TABLES[name]()
    np.save("x.npy", X)
    said = run("fit", "x.npy", "--report", "r.html", cwd=tmp_path)
    ranks = run("rank", "x.npy", cwd=tmp_path)
    as_json, rank_json = (json.loads(output(verb, "x.npy", "--json")) for verb in ("fit", "rank"))
    html = Reader((tmp_path / "r.html").read_text(encoding="utf-8")).words
    html = html.replace(" ,", ",").replace(" .", ".")
    model = BayesianPCA(random_state=0).fit(X)

    def line(text):
        return re.search(r"components (.*?) (?:of the signal|half samples)", text)[1]

    assert line(said) == line(ranks)
    assert as_json["rank"] == rank_json["rank"] == model.n_components_
    assert rank_report(X).n_components == model.n_components_
    for key in ("sentence", "how_sure", "rank_probabilities"):
        assert as_json[key] == rank_json[key]
    assert as_json["sentence"] in html
    assert as_json["how_sure"] in html
    assert as_json["sentence"] in model._repr_html_()
    assert as_json["determined"] == (model.rank_posterior_ is not None)
    halves = re.search(r"half samples (.*?rows(?:, the \d+\w+ in \d+ %)*)", said)[1]
    assert f"half samples {halves}" in ranks
    assert f"Of the dimensions, {halves}" in html
    if as_json["determined"]:
        k, posterior = as_json["rank"], model.rank_posterior_
        assert k == posterior.argmax()
        assert line(said) == f"{k}, {as_json['how_sure']}, {CONDITION}"
    else:
        assert as_json["at_least"] is as_json["exactly"] is as_json["most_probable"] is None
        assert "%" not in line(said)
        assert CONDITION not in html.split("What the words mean")[0]


def test_the_report_links_to_the_words():
    X = TABLES["wine"]()
    html = page.render(BayesianPCA().fit(X))
    linked = set(re.findall(r'href="#(word-\d+)"', html))
    assert linked
    assert all(f'id="{word}"' in html for word in linked)
