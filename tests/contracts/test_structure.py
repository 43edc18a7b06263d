"""Structure of the source: short chains of imports, short files, and one meaning for each name.

The measures themselves are tested on small made-up packages.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

PACKAGE = "bayespca"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE

MOST_LINES = 500
LONGEST_CHAIN = 24


# --- chains of imports -------------------------------------------------------------------------


def modules(source: Path) -> dict[str, Path]:
    """Path of every module by its dotted name; a package has the name of its folder."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = (PACKAGE, *path.relative_to(source).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules of the package that a module imports, at its top or inside functions."""
    folder = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & set(known)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            whole = {f"{base}.{alias.name}" for alias in node.names}
            # A name is either a module or something that its parent module defines.
            found |= whole & set(known)
            found |= {base} & set(known) if whole - set(known) else set()
    return found - {name}


def graph(source: Path) -> dict[str, set[str]]:
    known = modules(source)
    return {name: imported(name, path, known) for name, path in known.items()}


def longest_chain(imports: Mapping[str, set[str]]) -> list[str]:
    """Longest chain of modules in which each imports the next.

    A circle, which only an import inside a function can close, counts with all its modules.
    """
    names = sorted(imports)
    edges = csr_array([[other in imports[name] for other in names] for name in names])
    _, labels = connected_components(edges, connection="strong")
    circle = dict(zip(names, labels.tolist(), strict=True))
    members, below = defaultdict(list), defaultdict(set)
    for name in names:
        members[circle[name]].append(name)
        below[circle[name]] |= {circle[other] for other in imports[name]} - {circle[name]}
    chains: dict[int, list[str]] = {}
    for one in TopologicalSorter(below).static_order():
        longest = max((chains[other] for other in below[one]), key=len, default=[])
        chains[one] = [*members[one], *longest]
    return max(chains.values(), key=len)


# --- names -------------------------------------------------------------------------------------


def bound(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield each name bound at the top of a module, and whether it is a module of its folder."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, False
        elif isinstance(node, ast.Assign):
            yield from ((t.id, False) for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            is_folder = node.level == 1 and node.module is None
            for alias in node.names:
                same = is_folder and alias.asname in (None, alias.name)
                yield alias.asname or alias.name, same


def shadowed(source: Path) -> list[str]:
    """Modules whose names their packages bind to something else."""
    found = []
    for init in sorted(source.rglob("__init__.py")):
        inside = {path.stem for path in init.parent.iterdir() if path.suffix in ("", ".py")}
        names = bound(ast.parse(init.read_text(encoding="utf-8")))
        wrong = {name for name, is_module in names if name in inside and not is_module}
        found += [f"{init.parent.relative_to(source)}: {name}" for name in sorted(wrong)]
    return found


def classes(source: Path) -> dict[str, list[str]]:
    """Files that define each public class."""
    found = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(source)))
    return found


# --- the source --------------------------------------------------------------------------------


def test_no_file_is_long():
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCE.rglob("*.py")
    }
    assert {file: n for file, n in lengths.items() if n > MOST_LINES} == {}


def test_chains_of_imports_are_short():
    chain = longest_chain(graph(SOURCE))
    assert len(chain) <= LONGEST_CHAIN, " -> ".join(chain)


def test_no_package_shadows_its_modules():
    assert shadowed(SOURCE) == []


def test_every_class_has_a_name_of_its_own():
    assert {name: files for name, files in classes(SOURCE).items() if len(files) > 1} == {}


# --- the measures ------------------------------------------------------------------------------


def package(folder: Path, **files: str) -> Path:
    """Write a package from the texts of its files; `a__b` is the file a/b.py."""
    for name, text in {"__init__": "", **files}.items():
        path = folder / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def chain_of(folder: Path) -> list[str]:
    return [name.removeprefix(f"{PACKAGE}.") for name in longest_chain(graph(folder))]


@pytest.mark.parametrize(
    "text",
    [
        "import bayespca.b",
        "from bayespca import b",
        "from bayespca.b import f",
        "from . import b",
        "from .b import f",
        "def g():\n    from .b import f",
    ],
)
def test_a_chain_counts_every_kind_of_import(tmp_path, text):
    folder = package(tmp_path, a=text, b="import numpy\nfrom .c import f", c="f = 1", d="")
    assert chain_of(folder) == ["a", "b", "c"]


def test_a_chain_goes_through_packages_and_upward(tmp_path):
    folder = package(tmp_path, deep__x="from ..other import f", deep__y="from .x import f")
    (folder / "deep" / "__init__.py").write_text("from .y import f")
    package(tmp_path, other="f = 1", top="from bayespca.deep import f")
    assert chain_of(folder) == ["top", "deep", "deep.y", "deep.x", "other"]


def test_a_circle_counts_whole(tmp_path):
    folder = package(
        tmp_path,
        a="from .b import f",
        b="from .c import f",
        c="def f():\n    from . import b, d",
        d="",
    )
    assert chain_of(folder) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("init", "found"),
    [
        ("from .fit import fit", [".: fit"]),
        ("from .other import fit", [".: fit"]),
        ("def fit(): ...", [".: fit"]),
        ("fit = 1", [".: fit"]),
        ("from . import other as fit", [".: fit"]),
        ("from . import fit", []),
        ("from .fit import start", []),
    ],
)
def test_a_function_that_shadows_its_module_is_caught(tmp_path, init, found):
    folder = package(tmp_path, fit="", other="")
    (folder / "__init__.py").write_text(init)
    assert shadowed(folder) == found


def test_classes_are_found_where_they_are(tmp_path):
    folder = package(tmp_path, a="class State: ...\nclass _Own: ...", b="class State: ...")
    assert classes(folder) == {"State": ["a.py", "b.py"]}
