"""The command as a whole process, against a script that reads and fits the same file."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
from timing import heading, line, median_time, once, paired

from bayespca import BayesianPCA
from bayespca.datasets import low_rank
from bayespca.io import open_file

COMMAND = str(Path(sys.executable).parent / "bayespca")
SCRIPT = """
import polars, sys
from bayespca import BayesianPCA
BayesianPCA().fit(polars.read_csv(sys.argv[1]))
"""


def process(*arguments: str) -> None:
    subprocess.run(arguments, check=True, capture_output=True)


def main() -> None:
    heading("The command, 20,000×100 CSV (medians of 5)")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.csv"
        X = low_rank(20_000, 100, 5, random_state=0).X
        pl.DataFrame(X, schema=[f"feature {j}" for j in range(100)]).write_csv(path)
        mine, other = paired(
            lambda: process(COMMAND, "fit", path),
            lambda: process(sys.executable, "-c", SCRIPT, path),
        )
        line("fit: a script with polars", f"{mine / other:.2f} ({mine:.2f}/{other:.2f} s)", "≤ 3")
        mine, other = paired(
            lambda: BayesianPCA().fit(open_file(path).read()),
            lambda: BayesianPCA().fit(pl.read_csv(path)),
        )
        figure = f"{mine / other:.2f} ({1e3 * mine:.0f}/{1e3 * other:.0f} ms)"
        line("the same within one process: read and fit", figure, "≤ 3")
        page = f"{folder}/x.html"
        seconds = once(lambda: process(COMMAND, "fit", path, "--report", page))
        line("fit with --report", f"{seconds:.2f} s", "≤ 5 s")
        print(f"    {Path(page).stat().st_size / 1e6:.1f} MB")
    line("--help", f"{median_time(lambda: process(COMMAND, '--help')):.2f} s", "≤ 0.5 s")


if __name__ == "__main__":
    main()
