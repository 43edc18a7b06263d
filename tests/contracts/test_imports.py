"""Imports point downward only, and `import bayespca` stays light.

The layers and their order are the table LAYERS; docs/design.md explains them. A new folder under
src/bayespca must be added to both.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "bayespca"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE

# A layer may import itself and the layers with a smaller number.
LAYERS = {
    "version": 0,
    "spectrum": 0,
    "io": 0,
    "arrays": 0,
    "sources": 1,
    "inference": 1,
    "engines": 2,
    "lowrank": 3,
    "linear": 4,
    "missing": 4,
    "tensors": 4,
    "mixtures": 4,
    "discrete": 4,
    "nonlinear": 4,
    "datasets": 4,
    "imaging": 4,
    "noise": 5,
    "views": 5,
    "checks": 5,
    "estimators": 6,
    "displays": 7,
    "monitoring": 7,
    "report": 7,
    "scverse": 7,
    "layers": 7,
    "cli": 8,
    "__main__": 9,
}
NAMES_THAT_SAY_NOTHING = {"utils", "misc", "helpers", "common"}
HEAVY = {"arviz", "cupy", "dask", "matplotlib", "numba", "pandas", "plotly", "polars", "torch"}


def modules(source: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield each file and its path below the package: linear/em.py gives ("linear", "em")."""
    for path in sorted(source.rglob("*.py")):
        yield path, path.relative_to(source).with_suffix("").parts


def imports(tree: ast.AST, parts: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield line and path below the package of everything a module imports from the package.

    `from bayespca.linear import em` and `from ..linear import em` both give ("linear", "em"),
    `import bayespca` gives (). Imports inside functions count.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # One dot is the folder of the file; each further dot goes one folder up.
            above = (PACKAGE, *parts)[: -node.level] if node.level else ()
            base = ".".join((*above, *filter(None, [node.module])))
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == PACKAGE:
                yield node.lineno, tuple(rest)


def complaint(parts: tuple[str, ...], target: tuple[str, ...]) -> str | None:
    """Reason why the module at `parts` must not import `target`, or None if it may."""
    layer, other = parts[0], target[0] if target else None
    if layer == "__init__":
        private = [name for name in target if name.startswith("_") and not name.endswith("__")]
        return f"the package root imports the private {private[0]}" if private else None
    if other not in LAYERS:
        return f"{layer} imports the package root"
    if layer == other or LAYERS[other] < LAYERS[layer]:
        return None
    return f"{layer} imports {other}, which is not below it"


def violations(source: Path) -> list[str]:
    """One line for each unknown layer and each import that does not point downward."""
    found = []
    for path, parts in modules(source):
        where = path.relative_to(source)
        if parts[0] not in {*LAYERS, "__init__"}:
            found.append(f"{where}: {parts[0]} is not a layer in tests/contracts/test_imports.py")
            continue
        for line, target in imports(ast.parse(path.read_text(encoding="utf-8")), parts):
            if reason := complaint(parts, target):
                found.append(f"{where}:{line}: {reason}")
    return found


def empty_names(source: Path) -> list[str]:
    """Modules and folders whose names say nothing about their contents."""
    return [
        "/".join(parts)
        for _, parts in modules(source)
        if any(part.strip("_") in NAMES_THAT_SAY_NOTHING for part in parts)
    ]


def loaded_by(module: str) -> set[str]:
    """Top-level packages in memory after a fresh interpreter has imported `module`."""
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_imports_point_downward():
    assert any(parts[0] == "spectrum" for _, parts in modules(SOURCE)), f"nothing in {SOURCE}"
    assert violations(SOURCE) == []


def test_names_say_something():
    assert empty_names(SOURCE) == []


def test_importing_the_package_is_light():
    assert loaded_by(PACKAGE) & {"numpy", "scipy", "sklearn"} == set()
    loaded = loaded_by(f"{PACKAGE}.estimators")
    # scikit-learn imports pandas by itself where it is installed.
    excused = loaded_by("sklearn.base") if "sklearn" in loaded else set()
    assert (loaded & HEAVY) - excused == set()


def test_a_heavy_import_would_be_seen():
    assert "numba" in loaded_by("numba.core") & HEAVY


def write(source: Path, file: str, text: str) -> Path:
    path = source / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return source


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("__init__.py", "from bayespca import spectrum\nfrom .estimators import BayesianPCA"),
        ("spectrum/noise.py", "import numpy\nfrom .families import VB\nfrom . import records"),
        ("spectrum/__init__.py", "from . import noise\nfrom .noise import evb"),
        ("engines/dense.py", "from bayespca.spectrum import Spectrum"),
        ("linear/em.py", "from ..inference import run\nfrom bayespca import engines, spectrum"),
        ("linear/deep/em.py", "from ...engines import dense\nfrom ..updates import step"),
        ("estimators/pca.py", "import bayespca.linear.em as em"),
        ("cli/main.py", "from bayespca.estimators import PCA\nfrom ..report import html"),
        ("report/html.py", "from bayespca.version import __version__"),
        ("io/tables.py", "import bayespca_other"),
    ],
)
def test_allowed(tmp_path, file, text):
    assert violations(write(tmp_path, file, text)) == []


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("spectrum/noise.py", "import bayespca.engines.dense", "spectrum imports engines"),
        ("spectrum/noise.py", "from ..engines import dense", "spectrum imports engines"),
        ("spectrum/__init__.py", "from .. import engines", "spectrum imports engines"),
        ("spectrum/noise.py", "def f():\n    from .. import cli", "spectrum imports cli"),
        ("sources/columns.py", "from .. import spectrum, inference", "sources imports inference"),
        ("linear/em.py", "from bayespca.missing import rows", "linear imports missing"),
        ("linear/deep/em.py", "from ...estimators import pca", "linear imports estimators"),
        ("estimators/pca.py", "from ..report import html", "estimators imports report"),
        ("io/tables.py", "from ..displays import scree", "io imports displays"),
        ("engines/dense.py", "import bayespca", "engines imports the package root"),
        ("engines/dense.py", "from bayespca import PCA", "engines imports the package root"),
        ("engines/dense.py", "from .. import *", "engines imports the package root"),
        ("cli/main.py", "import bayespca", "cli imports the package root"),
        ("report/html.py", "from bayespca import __version__", "report imports the package root"),
        ("__init__.py", "from .estimators._pca import PCA", "imports the private _pca"),
        ("plumbing/pipes.py", "", "plumbing is not a layer"),
        ("plumbing.py", "", "plumbing is not a layer"),
    ],
)
def test_forbidden(tmp_path, file, text, reason):
    found = violations(write(tmp_path, file, text))
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("file", ["linear/utils.py", "linear/_helpers.py", "common/__init__.py"])
def test_empty_names_are_caught(tmp_path, file):
    assert len(empty_names(write(tmp_path, file, ""))) == 1
