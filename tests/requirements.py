"""Print requirements for pip: the oldest versions that pyproject.toml allows, or the newest.

python tests/requirements.py oldest
python tests/requirements.py newest
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

# Extras and further packages that the tests of `make test-oldest` and `make test-newest` need.
EXTRAS = ("cli", "io", "excel", "plot", "report")
BESIDES = (
    "pandas>=2.2.2",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "hypothesis>=6.100",
    "array-api-strict>=2.3",
    "dask>=2025.1",
)


def oldest(requirement: str) -> str:
    """name==1.2.* for name>=1.2: the last patch of the oldest series."""
    found = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)", requirement)
    if not found:
        raise ValueError(f"{requirement} in pyproject.toml has no lower bound to test.")
    return f"{found[1]}=={found[2]}.*"


def newest(requirement: str) -> str:
    """The requirement itself: pip takes the newest version that it allows."""
    return requirement


def main(which: str) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [item for name in EXTRAS for item in project["optional-dependencies"][name]]
    chosen = {"oldest": oldest, "newest": newest}[which]
    print(*map(chosen, [*project["dependencies"], *extras, *BESIDES]))


if __name__ == "__main__":
    main(sys.argv[1])
