"""Print the oldest versions that pyproject.toml allows, as requirements for pip."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

# Extras and further packages that the command and the tests of `make test-oldest` need.
EXTRAS = ("cli", "io", "excel", "plot", "report")
BESIDES = (
    "pandas>=2.2.2",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "array-api-strict>=2.3",
    "dask>=2025.1",
)


def oldest(requirements: list[str]) -> Iterator[str]:
    """Yield name==1.2.* for name>=1.2: the last patch of the oldest series."""
    for requirement in requirements:
        found = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)", requirement)
        if not found:
            raise ValueError(f"{requirement} in pyproject.toml has no lower bound to test.")
        yield f"{found[1]}=={found[2]}.*"


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [item for name in EXTRAS for item in project["optional-dependencies"][name]]
    print(*oldest([*project["dependencies"], *extras, *BESIDES]))


if __name__ == "__main__":
    main()
