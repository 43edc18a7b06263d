"""The walk through the site finds the faults of a page, and none in a correct page."""

from __future__ import annotations

import pytest

from pages import walk
from report import browser

RIGHT = """<!DOCTYPE html><html><head><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><h1 id="top">One</h1><a href="b.html#there">two</a> <a href="https://example.org">far</a></body></html>
"""


@pytest.fixture
def site(tmp_path):
    """A folder with two correct pages; `with_fault` spoils the second."""
    (tmp_path / "a.html").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "b.html").write_text(RIGHT.replace('id="top"', 'id="there"'), encoding="utf-8")
    return tmp_path.resolve()


def with_fault(site, text):
    path = site / "b.html"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", f"{text}</body>"))


def test_right_pages_have_no_faults(site):
    assert walk.faults_of_files(site) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="c.html">three</a>', "no such file"),
        ('<a href="a.html#nowhere">three</a>', "no such anchor"),
        ('<a href="../c.html">three</a>', "outside of the site"),
        ('<img src="https://example.org/a.png">', "loaded from elsewhere"),
        ('<script src="//example.org/a.js"></script>', "loaded from elsewhere"),
    ],
)
def test_faults_of_files(site, text, fault):
    with_fault(site, text)
    (found,) = walk.faults_of_files(site)
    assert found.startswith("b.html: ")
    assert found.endswith(fault)


def test_faults_of_styles(site):
    style = site / "a.css"
    style.write_text("/* http://a.org */ a { background: url(b.png) }", encoding="utf-8")
    assert walk.faults_of_files(site) == []
    style.write_text('@import "https://example.org/fonts.css";', encoding="utf-8")
    assert walk.faults_of_files(site) == [
        "a.css: https://example.org/fonts.css: loaded from elsewhere"
    ]


def test_a_folder_without_pages_is_a_fault(tmp_path):
    assert len(walk.faults_of_files(tmp_path)) == 1


def test_faults_in_the_browser(site):
    program = browser.find()
    if program is None:
        pytest.skip("there is no Chromium")
    assert walk.faults_in_browser(site, program) == []
    with_fault(site, "<script>console.error('broken')</script>")
    with_fault(site, '<div style="width: 900px; height: 1px"></div>')
    faults = walk.faults_in_browser(site, program)
    assert len(faults) == 2
    assert all(fault.startswith("b.html: ") for fault in faults)
    assert "broken" in faults[0]
    assert "wide on a phone" in faults[1]
