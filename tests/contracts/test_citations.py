"""Public docstrings cite papers by authors and year, and docs/references.md lists them all."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import bayespca
from bayespca import datasets, displays

REFERENCES = Path(__file__).parents[2] / "docs" / "references.md"
SHORT = re.compile(r"\b(icml2011|aistats2014|icann1999)\b")
CITED = re.compile(
    r"\b([A-ZØ]\w+(?:, [A-Z]\w+)*(?: (?:and|&) [A-Z]\w+)?)\s+((?:19|20)[0-9]{2})\b", re.UNICODE
)


def public():
    for place in (bayespca, displays, datasets):
        for name in place.__all__:
            item = getattr(place, name)
            yield f"{place.__name__}.{name}", item
            if inspect.isclass(item):
                for method, function in inspect.getmembers(item, inspect.isfunction):
                    if not method.startswith("_"):
                        yield f"{name}.{method}", function


DOCS = {name: inspect.getdoc(item) or "" for name, item in public()}


@pytest.mark.parametrize("name", DOCS)
def test_no_paper_has_a_nickname(name):
    assert SHORT.search(DOCS[name]) is None


def test_every_paper_is_listed():
    listed = REFERENCES.read_text(encoding="utf-8")
    cited = {
        f"{authors.replace(' & ', ' and ')} {year}"
        for doc in DOCS.values()
        for authors, year in CITED.findall(" ".join(doc.split()))
    }
    assert len(cited) >= 5
    assert {paper for paper in cited if f"| {paper} |" not in listed} == set()
