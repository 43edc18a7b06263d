"""Release files agree with the package, and workflows call targets that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from bayespca import __version__

from .installed import USES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Extras for developers, and torch, whose wheels take gigabytes.
NOT_TRIED = {"test", "coverage", "release", "check", "docs", "bench", "ratings", "torch"}


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def spelled(requirement):
    """ "name>=1.2" and "name[extra] >=1.2" as ("name", "1.2")."""
    found = re.fullmatch(r"([a-zA-Z0-9-]+)(?:\[.*\])?\s*>=\s*([0-9.]+)", requirement)
    return found[1], found[2]


def test_the_version_is_the_same_everywhere():
    assert read("CITATION.cff")["version"] == __version__
    assert read("recipe/recipe.yaml")["context"]["version"] == __version__
    cut = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert cut[1] in {__version__, "Unreleased"}


def test_a_citation_has_what_the_format_requires():
    found = read("CITATION.cff")
    assert found["cff-version"] == "1.2.0"
    assert all(found[key] for key in ("title", "message", "authors"))
    assert found["license"] == PROJECT["license"]


def test_the_recipe_asks_for_what_the_package_and_its_command_ask_for():
    extras = PROJECT["optional-dependencies"]
    names = re.search(r"\[(.*)\]", extras["program"][0])[1].split(",")
    wanted = PROJECT["dependencies"] + [item for name in names for item in extras[name]]
    run = read("recipe/recipe.yaml")["requirements"]["run"]
    python = f"python {PROJECT['requires-python']}"
    assert run[0] == python
    assert {spelled(item) for item in run[1:]} == {spelled(item) for item in wanted}


def test_the_wheel_is_tried_with_every_extra():
    extras = set(PROJECT["optional-dependencies"]) - NOT_TRIED
    assert set(USES) - {"none"} == extras
    matrix = read(".github/workflows/release.yml")["jobs"]["extras"]["strategy"]["matrix"]
    assert set(matrix["extra"]) == set(USES) - {"program"}


def test_workflows_try_every_version_of_python_that_is_promised():
    promised = {
        line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)
    }
    matrix = read(".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == promised
    assert min(promised) == PROJECT["requires-python"].removeprefix(">=")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_are_there(path):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    called = re.findall(r"run: make ([a-z-]+)", path.read_text(encoding="utf-8"))
    assert set(called) <= set(targets)


def test_hooks_have_the_versions_of_the_checks():
    pinned = {item.split("==")[0]: item for item in PROJECT["optional-dependencies"]["check"]}
    for hook in read(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        for item in hook.get("additional_dependencies", ()):
            assert item == pinned[item.split("==")[0]]
