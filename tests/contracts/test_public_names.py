"""The public names are exactly the documented ones, and each of them exists.

docs/design.md has a section "## Public names" whose first Python block imports all of them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import make_dataclass
from pathlib import Path
from types import ModuleType

import pytest

import bayespca
from bayespca import datasets, spectrum

DOCS = Path(__file__).parents[2] / "docs"
DESIGN = DOCS / "design.md"
MODULES = [getattr(bayespca, name) for name in bayespca.__all__]
MODULES = [datasets, *(value for value in MODULES if isinstance(value, ModuleType))]


def documented_names(text: str) -> list[str]:
    """The names imported from bayespca in the first Python block under "## Public names"."""
    _, heading, rest = text.partition("\n## Public names\n")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    block = re.search(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    if not heading or not block:
        raise ValueError('no Python block under "## Public names"')
    return [
        alias.name
        for node in ast.walk(ast.parse(block[1]))
        if isinstance(node, ast.ImportFrom) and node.module == "bayespca"
        for alias in node.names
    ]


def has_docstring(value: object) -> bool:
    """Whether there is a written docstring; a generated `Name(field: type)` does not count."""
    text = value.__doc__ or ""
    return bool(text.strip()) and not re.fullmatch(r"\w+\(.*\)", text, flags=re.DOTALL)


def test_public_names_are_the_documented_ones():
    assert sorted(bayespca.__all__) == sorted(documented_names(DESIGN.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("module", "name"),
    [(module, name) for module in (bayespca, spectrum) for name in module.__all__],
)
def test_public_name_is_there_and_documented(module, name):
    value = getattr(module, name)
    # A constant, such as a table or a number, only has the docstring of its type.
    if isinstance(value, ModuleType) or callable(value):
        assert has_docstring(value)


def listed_in_the_reference() -> set[str]:
    """Qualified names that have their own entries on the pages of docs/reference."""
    found = set()
    for page in (DOCS / "reference").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        module = re.search(r"^\.\. currentmodule:: (\S+)$", text, flags=re.MULTILINE)
        for name in re.findall(r"^(?: {3}|\.\. data:: | {10})([\w.]+)$", text, flags=re.MULTILINE):
            found.add(f"{module[1]}.{name}" if module else name)
        found.update(re.findall(r"^\.\. automodule:: (\S+)$", text, flags=re.MULTILINE))
    return found


def test_every_public_name_is_in_the_reference():
    public = {f"{module.__name__}.{name}" for module in MODULES for name in module.__all__}
    public |= {f"bayespca.{name}" for name in bayespca.__all__}
    public -= {module.__name__ for module in MODULES}
    assert listed_in_the_reference() == public


def test_a_generated_docstring_does_not_count():
    assert has_docstring(has_docstring)
    assert not has_docstring(make_dataclass("Record", ["field"]))
    assert not has_docstring(lambda: None)


def test_parser_reads_only_its_section():
    text = (
        "# Design\n```python\nfrom bayespca import before\n```\n## Public names\nThese:\n"
        "```python\nfrom bayespca import (\n    load,\n    spectrum,\n)\n```\n"
        "## After\n```python\nfrom bayespca import after\n```\n"
    )
    assert documented_names(text) == ["load", "spectrum"]


@pytest.mark.parametrize(
    "text", ["# Design\n", "\n## Public names\nnone\n## After\n```python\nx\n```\n"]
)
def test_parser_fails_without_a_list(text):
    with pytest.raises(ValueError, match="no Python block"):
        documented_names(text)
