"""Relative links in Markdown files lead to files: people read the pages in the repository too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md")]
FENCED = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)|<img src=\"([^\"]+)\"")


def links(text: str) -> list[str]:
    """Addresses of links and pictures that are files, without those in code blocks."""
    found = [one or other for one, other in LINK.findall(FENCED.sub("", text))]
    return [address for address in found if "://" not in address]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    addresses = links(page.read_text(encoding="utf-8"))
    assert [address for address in addresses if not (page.parent / address).exists()] == []


def test_links_are_found():
    text = '[a](b.md#c) [d](https://e.org)\n```\n[f](g.md)\n```\n<img src="h.png" width="3">'
    assert links(text) == ["b.md", "h.png"]
