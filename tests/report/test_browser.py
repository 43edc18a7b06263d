"""The report in a real browser: no console errors, no network requests, every figure drawn.

Screenshots go to the folder that BAYESPCA_ARTEFACTS names, else to pytest's temporary one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayespca import BayesianPCA, BayesianTucker, PCAMixture, rank_report
from bayespca.datasets import low_rank
from report import browser

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytest.importorskip("plotly", reason="plotly is not installed")

from bayespca.report import write
from report.test_models import MODELS

DRAWN = "document.documentElement.dataset.drawn === 'yes'"
POINT = """(() => {
  document.getElementById('figure-scores').scrollIntoView();
  const all = document.querySelectorAll('#figure-scores .scatterlayer path.point');
  const box = all[0].getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    program = browser.find()
    if program is None:
        pytest.skip("Chromium or Chrome is not installed")
    if not hasattr(os, "posix_spawn"):
        pytest.skip("this system cannot hand pipes to a browser")
    running = browser.Browser(program, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory):
    folder = os.environ.get("BAYESPCA_ARTEFACTS")
    path = Path(folder) if folder else tmp_path_factory.mktemp("artefacts")
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="module")
def wine_file(wine, tmp_path_factory):
    X, y = wine
    model = BayesianPCA(scale=True, noise="isotropic").fit(X)
    scores, std = model.transform(X, return_std=True)
    path = tmp_path_factory.mktemp("wine") / "wine.html"
    write(
        path,
        model,
        scores=scores,
        scores_std=std,
        sample_names=[f"bottle <{i}> & 'co'" for i in range(len(X))],
        labels=y,
        labels_name="cultivar",
        ranks=rank_report(X, scale=True),
        source="wine",
    )
    return path


@pytest.fixture
def page(chromium):
    opened = browser.Page(chromium)
    yield opened
    assert opened.complaints() == []
    assert opened.requests() == []
    opened.close()


def fits(page):
    return page.run("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("look", "width", "dark"),
    [("light", 1200, False), ("dark", 1200, True), ("phone", 360, False)],
)
def test_opens_and_draws(page, wine_file, artefacts, look, width, dark):
    page.look(width, dark=dark)
    page.open(wine_file, until=DRAWN)
    assert page.run("document.querySelectorAll('.canvas').length") == 3
    assert page.run("document.querySelectorAll('.canvas .main-svg').length") >= 4
    points = "document.querySelectorAll('#figure-scores .scatterlayer path.point').length"
    assert page.run(points) == 178
    assert fits(page)
    picture = artefacts / f"report-{look}.png"
    page.screenshot(picture)
    assert picture.stat().st_size > 50_000


@pytest.mark.parametrize(("look", "width"), [("light", 1200), ("phone", 360)])
def test_noise_of_features_and_samples_is_drawn(page, tmp_path, artefacts, look, width):
    rng = np.random.default_rng(0)
    X = low_rank(80, 12, 2, random_state=0).X
    X[[3, 20]] += 20 * rng.normal(size=(2, 12))
    write(tmp_path / "noise.html", BayesianPCA(noise="both").fit(X * np.geomspace(1, 9, 12)))
    page.look(width, dark=False)
    page.open(tmp_path / "noise.html", until=DRAWN)
    for name, count in (("noise", 12), ("samples", 20)):
        points = f"document.querySelectorAll('#figure-{name} .scatterlayer path.point').length"
        assert page.run(points) == count
    assert page.run("document.querySelectorAll('#figure-samples .textpoint').length") == 20
    assert fits(page)
    page.screenshot(artefacts / f"noise-{look}.png")


def test_pointing_shows_names_and_uncertainty(page, wine_file):
    page.open(wine_file, until=DRAWN)
    x, y = page.run(POINT)
    page.point_at(x - 30, y - 30)
    page.point_at(x, y)
    page.wait("document.querySelector('#figure-scores .hoverlayer').textContent.length > 0")
    shown = page.run("document.querySelector('#figure-scores .hoverlayer').textContent")
    assert re.search(r"bottle <\d+> & 'co'cultivar: cultivar \dcomponent 1: .* ± ", shown)
    page.wait("document.querySelectorAll('#figure-scores .shapelayer path').length === 1")


def test_sorting_by_mouse_and_keyboard(page, wine_file):
    page.open(wine_file, until=DRAWN)
    rows = "[...document.querySelectorAll('#loadings tbody tr')]"
    values = f"{rows}.map(row => Number(row.cells[2].dataset.v))"
    heading = "document.querySelectorAll('#loadings thead th')[2]"
    before = page.run(values)
    page.run(f"{heading}.firstElementChild.click()")
    assert page.run(values) == sorted(before, reverse=True)
    assert page.run(f"{heading}.getAttribute('aria-sort')") == "descending"
    page.run(f"{heading}.firstElementChild.focus()")
    page.press("Enter", 13, "\r")
    assert page.run(values) == sorted(before)
    assert page.run(f"{heading}.getAttribute('aria-sort')") == "ascending"
    page.run("document.querySelector('#loadings thead button').click()")
    names = page.run("[...document.querySelectorAll('#loadings tbody th')].map(c => c.textContent)")
    assert names == sorted(names)
    assert page.run(f"{heading}.getAttribute('aria-sort')") == "none"


def test_filter(page, wine_file):
    page.open(wine_file, until=DRAWN)
    page.run(
        "(() => { const box = document.getElementById('filter'); box.value = 'PHENOL';"
        " box.dispatchEvent(new Event('input')); })()"
    )
    left = "[...document.querySelectorAll('#loadings tbody tr:not([hidden]) th')]"
    assert page.run(f"{left}.map(c => c.textContent)") == ["total_phenols", "nonflavanoid_phenols"]
    assert page.run("document.getElementById('count').textContent") == "2 found."


def test_choosing_components(page, wine_file):
    page.open(wine_file, until=DRAWN)
    choose = (
        "(() => {{ const s = document.querySelectorAll('{0} select')[{1}];"
        " s.value = '{2}'; s.dispatchEvent(new Event('change')); }})()"
    )
    page.run(choose.format("#scores-controls", 1, 4))
    page.run(choose.format("#scores-controls", 0, -1))
    title = "document.querySelector('#figure-scores .{}title').textContent"
    assert page.run(title.format("y")).startswith("component 5")
    assert page.run(title.format("x")) == "sample, in the order of the data"
    bars = "document.querySelector('[data-figure=loadings]').data[0].text[0]"
    before = page.run(bars)
    page.run(choose.format("#loadings-controls", 0, 1))
    assert page.run(bars) != before


def test_uncertainty_of_all(page, wine_file):
    page.open(wine_file, until=DRAWN)
    count = "document.querySelectorAll('#figure-scores .errorbar').length"
    assert page.run(count) == 0
    page.run("document.querySelector('#scores-controls input').click()")
    assert page.run(count) == 178


def test_colours_follow_the_reader(page, wine_file):
    page.open(wine_file, until=DRAWN)
    colour = "document.querySelector('[data-figure=scree]').layout.font.color"
    light = page.run(colour)
    page.look(1200, dark=True)
    page.wait(f"{colour} !== {light!r}")


def test_figures_follow_the_window(page, wine_file):
    page.open(wine_file, until=DRAWN)
    width = "document.querySelector('[data-figure=scree] .main-svg').clientWidth"
    wide = page.run(width)
    page.look(390)
    page.wait(f"{width} < {wide} / 2")
    assert fits(page)


def test_prints_in_light_colours(page, wine_file, artefacts):
    page.look(1200, dark=True)
    page.open(wine_file, until=DRAWN)
    page.run(
        "addEventListener('beforeprint', () => { window.printed ="
        " document.querySelector('[data-figure=scree]').layout.font.color; })"
    )
    colour = "document.querySelector('[data-figure=scree]').layout.font.color"
    dark = page.run(colour)
    file = artefacts / "report.pdf"
    page.pdf(file)
    assert file.read_bytes().startswith(b"%PDF")
    assert page.run("window.printed") not in (None, dark)
    page.wait(f"{colour} === {dark!r}")


def test_an_old_browser_is_told(page, wine_file):
    page.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream;")
    page.open(wine_file, until="document.querySelector('.canvas.asleep') !== null")
    assert "cannot draw the figure" in page.run("document.querySelector('.canvas').textContent")
    page.run("document.querySelector('#loadings thead button').click()")


@pytest.mark.parametrize(
    ("name", "n", "p", "rank", "options"),
    [
        ("noise", 200, 30, 0, {}),
        ("one", 80, 8, 1, {}),
        ("features", 60, 5000, 3, {}),
        ("per-feature", 150, 12, 2, {"noise": "per-feature"}),
        ("large", 20_000, 100, 12, {}),
    ],
)
def test_other_models(page, tmp_path, artefacts, name, n, p, rank, options):
    X = low_rank(n, p, rank, strength=2, random_state=0).X
    model = BayesianPCA(**options).fit(X)
    assert model.n_components_ == rank
    scores, std = model.transform(X, return_std=True)
    write(tmp_path / "page.html", model, scores=scores, scores_std=std, labels=np.arange(n) % 4)
    for width in (1200, 360):
        page.look(width)
        page.open(tmp_path / "page.html", until=DRAWN)
        assert fits(page)
    page.look(1200)
    page.screenshot(artefacts / f"report-{name}.png")


# Numbers on cards that wrap onto a second line.
BROKEN = """[...document.querySelectorAll('.card .value')].filter((value) =>
  value.offsetHeight > 1.9 * parseFloat(getComputedStyle(value).fontSize)
).map((value) => value.textContent)"""


@pytest.mark.parametrize("width", [1200, 360])
def test_numbers_of_cards_do_not_break(page, tmp_path, width):
    X = low_rank(60, 3000, 3, random_state=0).X
    model = BayesianPCA(noise="isotropic").fit(X)
    write(tmp_path / "page.html", model, X)
    page.look(width)
    page.open(tmp_path / "page.html", until=DRAWN)
    assert page.run(BROKEN) == []


# Names on cards that are partly cut off.
HIDDEN = """[...document.querySelectorAll('.card .name')].filter((name) =>
  name.scrollHeight > name.clientHeight + 1 || name.scrollWidth > name.clientWidth
).map((name) => name.textContent)"""


def test_long_names_of_cards_can_be_told_apart(page, tmp_path):
    names = [f"measurement of gene number {j}" for j in range(8)]
    X = pd.DataFrame(low_rank(60, 8, 2, random_state=0).X, columns=names)
    write(tmp_path / "page.html", BayesianPCA(noise="isotropic").fit(X), X)
    for width in (1200, 360):
        page.look(width)
        page.open(tmp_path / "page.html", until=DRAWN)
        assert page.run(HIDDEN) == []
        assert page.run(BROKEN) == []


def tucker():
    X = np.random.default_rng(0).normal(size=(8, 9, 10)) + 5 * np.ones((8, 9, 10))
    return BayesianTucker().fit(X), X


def mixture():
    X = low_rank(80, 6, 2, random_state=0).X
    X = np.vstack([X, X + 1234.5])
    return PCAMixture(2, random_state=0).fit(X), X


KINDS = {name: lambda fitted=fitted, X=X: (fitted(), X) for name, (fitted, X, *_) in MODELS.items()}


@pytest.mark.parametrize("name", [*KINDS, "constant tensor", "distant clusters"])
def test_pages_of_every_kind_of_model(page, tmp_path, artefacts, name):
    write(
        tmp_path / "page.html",
        *(KINDS | {"constant tensor": tucker, "distant clusters": mixture})[name](),
    )
    for width in (1200, 360):
        page.look(width)
        page.open(tmp_path / "page.html", until=DRAWN)
        assert fits(page)
        assert page.run(BROKEN) == []
        assert page.complaints() == []
    page.look(1200)
    page.screenshot(artefacts / f"report-of-{name.replace(' ', '-')}.png")
