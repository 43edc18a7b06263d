"""Run the benchmarks: our median times and those of the peers, side by side, as ratios.

usage: python benchmarks/run.py [name ...]
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(names: list[str]) -> None:
    sys.path.insert(0, str(HERE))
    everything = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    for name in names or everything:
        importlib.import_module(f"bench_{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
