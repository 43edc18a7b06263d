"""The examples of the gallery: each asks a question and uses public names only.

The build of the site runs all of them; these tests run the two fastest.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import bayespca

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.glob("*/*.py"))
FASTEST = ("practice/plot_monitoring.py", "papers/plot_phase_transition.py")
# Public packages, whose public names are those in their `__all__`.
PACKAGES = {"bayespca.datasets"} | {
    f"bayespca.{name}" for name in bayespca.__all__ if inspect.ismodule(getattr(bayespca, name))
}


def named(path: Path) -> str:
    return path.relative_to(EXAMPLES).as_posix()


every_example = pytest.mark.parametrize("path", FILES, ids=named)


def bayespca_names(source: str) -> set[str]:
    """Dotted names of bayespca that a program uses: what it imports, and attributes of modules."""
    tree = ast.parse(source)
    found, modules = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bayespca":
                    modules[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bayespca":
            for alias in node.names:
                found.add(f"{node.module}.{alias.name}")
                if f"{node.module}.{alias.name}" in PACKAGES:
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None:
                found.add(f"{module}.{node.attr}")
    return found


def is_public(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return (module == "bayespca" or module in PACKAGES) and last in import_module(module).__all__


def test_there_are_at_least_25_examples():
    assert len(FILES) >= 25


def test_sections_have_headers():
    folders = {path.parent for path in FILES} | {EXAMPLES}
    for folder in folders:
        title, underline, *_ = (
            (folder / "GALLERY_HEADER.rst").read_text(encoding="utf-8").split("\n")
        )
        assert title
        assert set(underline) <= {"=", "-"}
        assert len(underline) == len(title)


@every_example
def test_an_example_begins_with_a_title_and_a_question(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text is not None
    title, underline, gap, rest = text.split("\n", 3)
    assert underline == "=" * len(title)
    assert gap == ""
    assert title.endswith("?")
    assert "?" in rest.split("\n\n")[0], "the first paragraph asks nothing"


@every_example
def test_an_example_draws_and_explains(path):
    text = path.read_text(encoding="utf-8")
    assert path.name.startswith("plot_")
    assert "plt.show()" in text
    assert re.search(r"^# %%\n# \w", text, flags=re.MULTILINE), "no text between the code"


@every_example
def test_an_example_uses_public_names_only(path):
    names = bayespca_names(path.read_text(encoding="utf-8"))
    assert names
    assert not {name for name in names if not is_public(name)}


@every_example
def test_an_example_needs_no_network_and_no_other_files(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\bfetch_\w+|https?://|\bread_csv\b|BAYESPCA_DATA", text)


def test_every_public_estimator_is_in_an_example():
    used = set().union(*(bayespca_names(path.read_text(encoding="utf-8")) for path in FILES))
    estimators = {
        f"bayespca.{name}"
        for name in bayespca.__all__
        if inspect.isclass(value := getattr(bayespca, name)) and issubclass(value, BaseEstimator)
    }
    assert len(estimators) > 10
    assert not estimators - used


def test_names_that_are_not_public_are_seen():
    """The search must see private modules, private names and attributes of modules."""
    assert bayespca_names("import bayespca\nbayespca.load(1)") == {"bayespca.load"}
    names = bayespca_names(
        "from bayespca import spectrum\nfrom bayespca.lowrank import axes\nspectrum.secret()"
    )
    assert {name for name in names if not is_public(name)} == {
        "bayespca.lowrank.axes",
        "bayespca.spectrum.secret",
    }


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="examples draw with matplotlib")
@pytest.mark.parametrize("name", FASTEST)
def test_an_example_runs(name, tmp_path):
    """Nothing may appear on standard error, where warnings would go."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
