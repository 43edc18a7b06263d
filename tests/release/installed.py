"""Try a built wheel as a user would: in a fresh environment, away from the repository.

usage: python tests/release/installed.py dist [--extra NAME]...

Installs the wheel in the folder with one extra at a time ("none" for the package by itself), uses
what the extra provides, and runs the command. Needs only Python and pip.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

# Code that runs in every environment.
FIRST = """
import sys
import numpy as np
import bayespca
from bayespca import BayesianPCA
heavy = {"numba", "torch", "matplotlib", "polars", "dask", "anndata"} & set(sys.modules)
assert not heavy, f"import bayespca brought {heavy}"
assert bayespca.__file__.startswith(sys.prefix), f"not the wheel's: {bayespca.__file__}"
rng = np.random.default_rng(0)
X = 3 * rng.normal(size=(80, 2)) @ rng.normal(size=(2, 9)) + rng.normal(size=(80, 9))
model = BayesianPCA().fit(X)
assert model.n_components_ == 2, model.n_components_
model.save("m.bpca")
assert bayespca.load("m.bpca").n_components_ == 2
"""
# Code that uses what each extra provides.
USES = {
    "none": "",
    "cli": "import bayespca.cli",
    "io": "import polars; polars.DataFrame(X).write_csv('x.csv')",
    "plot": "import matplotlib; matplotlib.use('Agg')\n"
    "from bayespca.displays import ScreeDisplay; ScreeDisplay.from_estimator(model)",
    "report": "bayespca.report.write('r.html', model, X)",
    "dask": "import dask.array as da\n"
    "assert BayesianPCA().fit(da.from_array(X)).n_components_ == 2",
    "bayes": "from bayespca import GibbsPCA\n"
    "GibbsPCA(2, n_draws=4, n_warmup=4, random_state=0).fit(X)\nimport arviz",
    "excel": "import openpyxl",
    "imaging": "import nibabel; from bayespca import imaging\n"
    "imaging.denoise(rng.normal(size=(5, 5, 5, 8)))",
    "scverse": "import anndata; from bayespca import scverse\n"
    "a = anndata.AnnData(X); scverse.pca(a); assert a.obsm['X_pca'].shape == (80, 2)",
    "program": "import bayespca.cli, polars, openpyxl, nibabel, plotly",
    "all": "import bayespca.cli, polars, matplotlib, plotly, dask, arviz, openpyxl, anndata",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--extra", action="append", choices=USES, dest="extras")
    options = parser.parse_args()
    wheels = sorted(options.folder.glob("bayespca-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{options.folder} has {len(wheels)} wheels of bayespca; one is needed.")
    for extra in options.extras or USES:
        with tempfile.TemporaryDirectory() as folder:
            tried(wheels[0].resolve(), extra, Path(folder))
        print(f"{extra}: ok", flush=True)


def tried(wheel: Path, extra: str, folder: Path) -> None:
    venv.create(folder / "env", with_pip=True)
    binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = str(binaries / "python")
    wanted = str(wheel) if extra == "none" else f"{wheel}[{extra}]"
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted], folder)
    run([python, "-W", "error::DeprecationWarning:bayespca", "-c", FIRST + USES[extra]], folder)
    command(str(binaries / "bayespca"), extra, folder)


def command(program: str, extra: str, folder: Path) -> None:
    """Check that the command works with its extra, and says what to install without it."""
    version = run([program, "--version"], folder, status=None)
    if extra in {"cli", "program", "all"}:
        assert version.returncode == 0, version.stderr
        assert version.stdout.strip(), "bayespca --version prints nothing"
    else:
        said = version.stdout + version.stderr
        assert "Traceback" not in said, said
        assert version.returncode == 0 or "bayespca[" in said, said
    if extra in {"program", "all"}:
        run([program, "demo"], folder)
        assert list(folder.glob("bayespca-demo/*.html")), "bayespca demo wrote no report"


def run(
    words: list[str], folder: Path, *, status: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder, without the repository on Python's path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        words, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=1200
    )
    if status is not None and done.returncode != status:
        sys.exit(f"{' '.join(words)[:200]} ended with {done.returncode}:\n{done.stderr}")
    return done


if __name__ == "__main__":
    main()
