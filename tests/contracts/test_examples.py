"""Every public class and function has an example in its docstring, and its output is right.

So is that of the examples on the pages of the site: blocks of Python with prompts (`>>>`).
"""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib import pyplot

import bayespca
from bayespca import datasets

MODULES = [
    value for name in bayespca.__all__ if isinstance(value := getattr(bayespca, name), ModuleType)
]
PUBLIC = {
    f"{module.__name__}.{name}": value
    for module in (bayespca, *MODULES, datasets)
    for name in module.__all__
    # Modules and constants are listed on pages of their own.
    if inspect.isclass(value := getattr(module, name)) or inspect.isroutine(inspect.unwrap(value))
}
BLOCK = re.compile(r"^```python\n(>>> .*?)^```", flags=re.MULTILINE | re.DOTALL)
PAGES = {
    page.stem: blocks
    for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    if (blocks := BLOCK.findall(page.read_text(encoding="utf-8")))
}
OPTIONAL = ("torch", "anndata", "nibabel", "pandas", "tensorly")


def run(text: str, name: str) -> int:
    """Run the examples in a text and return their number."""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    for package in OPTIONAL:
        if f"import {package}" in text and importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    try:
        assert doctest.DocTestRunner().run(example).failed == 0
    finally:
        pyplot.close("all")
    return len(example.examples)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_docstring(name):
    text = inspect.getdoc(PUBLIC[name])
    assert text
    assert run(text, name), "there is no example"


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("\n".join(PAGES[page]), page)
