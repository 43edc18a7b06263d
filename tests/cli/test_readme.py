"""What the README and the page "Start" print is what the installed command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_wine

from .installed import run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    load_wine(as_frame=True).data.to_csv(folder / "wine.csv", index=False)
    return run("fit", "wine.csv", cwd=folder)


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_first_answer(page, said):
    text = (ROOT / page).read_text(encoding="utf-8")
    (block,) = re.findall(r"```(?:text)?\n([^`]*  half samples[^`]*)```", text)
    for line in block.splitlines():
        assert " ".join(line.split()) in said
