"""Quick runs of all programs, the page made from their results, and the committed page."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from bayespca.cli import reproduction
from cases import EVERY_CASE

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("BAYESPCA_DATA")

reproduction.experiments()
comparing, data, page, records, running = (
    import_module(f"{reproduction.PACKAGE}.{name}")
    for name in ("comparing", "data", "page", "records", "running")
)
PROGRAMS = running.chosen("all")
# Their claims are about many data sets, so even quick runs take half a minute or more.
LONG = [
    *(("claims", "holes"), ("claims", "intervals")),
    *(("noise", "heldout"), ("noise", "unfoldings"), ("note", "curves")),
]
QUICK = [one for one in PROGRAMS if EVERY_CASE or one not in LONG]
COMMITTED = {(one.paper, one.program): one for one in page.results(ROOT / "docs")}


def explained(result):
    """Assert that every line that differs from the paper has an explanation for its result."""
    assert not result.unexplained(), result.unexplained()


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "program"), QUICK, ids=map("/".join, QUICK))
def test_the_quick_run(paper, program, tmp_path):
    places = data.Data((Path(FOLDER),) if FOLDER else (), download=None)
    result, outcome = running.reproduce(paper, program, data=places, quick=True)
    if result.skipped:
        pytest.skip(result.skipped)
    explained(result)
    assert result.comparisons
    page.keep(tmp_path, result, outcome.figures)
    markdown, html = page.write(tmp_path)
    for file, caption in result.figures:
        assert (tmp_path / page.FOLDER / file).stat().st_size > 2000
        assert caption in markdown.read_text(encoding="utf-8")
    assert result.title in html.read_text(encoding="utf-8").replace("&#39;", "'")


@pytest.mark.parametrize(("paper", "program"), PROGRAMS, ids=map("/".join, PROGRAMS))
def test_the_committed_page_is_of_a_full_run(paper, program):
    result = COMMITTED[paper, program]
    assert not result.quick
    explained(result)
    # An explanation of a line that agrees would be out of date.
    verdicts = {line.what: line.verdict for line in result.comparisons}
    stated = running.expected(paper)[program].get("differences", ())
    assert [one["what"] for one in stated] == [one.what for one in result.differences]
    for difference in result.differences:
        assert verdicts[difference.what] == comparing.DIFFERS


def test_the_committed_page_is_made_of_its_results(tmp_path):
    (tmp_path / page.FOLDER).mkdir()
    (tmp_path / page.FOLDER / page.RESULTS).write_bytes(
        (ROOT / "docs" / page.FOLDER / page.RESULTS).read_bytes()
    )
    for written in page.write(tmp_path):
        assert written.read_bytes() == (ROOT / "docs" / written.name).read_bytes()
    for result in COMMITTED.values():
        for file, _ in result.figures:
            assert (ROOT / "docs" / page.FOLDER / file).is_file()


def test_targets():
    assert running.chosen("icml2011/table1") == [("icml2011", "table1")]
    assert next(paper for paper, _ in running.chosen("lecture")) == "lecture"
    assert {paper for paper, _ in running.chosen("all")} == set(running.PAPERS)
    for wrong in ("icml2012", "icml2011/table9", ""):
        with pytest.raises(ValueError, match="to reproduce: choose"):
            running.chosen(wrong)


def result_of(**changes):
    usual = {"paper": "icml2011", "program": "table1", "title": "A | table", "quick": True}
    return records.Result(**usual | {"seconds": 75.0} | changes)


def test_a_line_that_differs_must_be_explained_by_what_came_out():
    line = comparing.number("x", 1, 2)
    assert result_of(comparisons=(line,)).unexplained() == [line]
    for came_out, rest in ((("2",), []), (("3",), [line])):
        known = records.Difference("x", came_out, "because")
        found = result_of(comparisons=(line,), differences=(known,))
        assert found.unexplained() == rest


def test_results_are_kept_and_replaced(tmp_path):
    line = comparing.number("a | b", 1, 2)
    known = records.Difference("a | b", ("2",), "because <of> it")
    first = result_of(comparisons=(line,), differences=(known,), remarks=("Well.",))
    second = result_of(program="figure1", skipped="no data")
    for result in (first, second, result_of(program="table1", skipped="gone"), first):
        page.keep(tmp_path, result, {})
    assert page.results(tmp_path) == [second, first]
    markdown, html = (path.read_text(encoding="utf-8") for path in page.write(tmp_path))
    assert "| a \\| b | 1 | 2 | differs |" in markdown
    assert "because <of> it" in markdown
    assert "because &lt;of&gt; it" in html
    assert "1 min 15 s" in html
    assert "Skipped: no data" in html
    assert "0 agree, 1 differ, 1 skipped" in html


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("BAYESPCA_DATA", raising=False)
    reproduction.reproduce("icml2011/lemma2", data=tmp_path, quick=True, out=tmp_path / "page")
    assert "M = 20 < L = 50" in capsys.readouterr().out
    assert (tmp_path / "page" / "reproduction.html").is_file()
    with pytest.raises(ValueError, match="is no folder"):
        reproduction.reproduce("all", data=tmp_path / "none", quick=True, out=tmp_path)
    with pytest.raises(ValueError, match="there is no 'x'"):
        reproduction.reproduce("x", data=None, quick=True, out=tmp_path)
