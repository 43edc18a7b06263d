"""The noise that the evidence chooses, against one variance for all cells and against BiPCA."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from timing import heading, line, median_time, paired

from bayespca import BayesianPCA
from bayespca.datasets import low_rank, noisy

SHAPES = ((20_000, 500, 20), (8_000, 4_000, 30), (200, 20_000, 10))
UNEVEN = (("columns", "per-feature"), ("both", "both"))


def against(
    what: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    target: str,
    repeats: int = 5,
) -> None:
    mine, other = paired(ours, theirs, repeats)
    line(what, f"{mine / other:.2f} ({1e3 * mine:.0f}/{1e3 * other:.0f} ms)", target)


def white() -> None:
    heading('White noise: the default against noise="isotropic" (ratio of times, medians of 5)')
    for n, p, rank in SHAPES:
        X = low_rank(n, p, rank, random_state=0).X
        model, plain = BayesianPCA(), BayesianPCA(noise="isotropic")
        against(
            f"{n:,}×{p:,}, rank {rank}",
            lambda model=model, X=X: model.fit(X),
            lambda plain=plain, X=X: plain.fit(X),
            "≤ 1.1",
        )
        print(f"    noise {model.noise_}, rank {model.n_components_}")


def uneven() -> None:
    heading('Noise of columns and of both: against noise="isotropic" on white noise')
    for n, p, rank in SHAPES[:2]:
        X = low_rank(n, p, rank, random_state=0).X
        plain = BayesianPCA(noise="isotropic")
        for kind, noise in UNEVEN:
            Y = noisy(kind, n, p, rank, strength=1.0, random_state=0).X
            for asked, words in ((noise, f'noise="{noise}"'), ("auto", "default")):
                model = BayesianPCA(noise=asked)
                against(
                    f"{n:,}×{p:,}, rank {rank}, {kind}: {words}",
                    lambda model=model, Y=Y: model.fit(Y),
                    lambda plain=plain, X=X: plain.fit(X),
                    "≤ 5",
                    repeats=3,
                )
                found = f"noise {model.noise_}, rank {model.n_components_}"
                print(f"    {found}, {model.n_iter_} steps")


def counts() -> None:
    heading("Counts of 500×200, rank 5: against BiPCA (ratio of times, medians of 3)")
    if not find_spec("bipca"):
        print("    skipped: pip install bipca, after torch's build for CPUs")
        return
    from bipca import BiPCA

    X = noisy("poisson", random_state=0).X
    X = X[X.any(axis=1)][:, X.any(axis=0)]
    found: dict[str, int] = {}

    def theirs() -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            found["rank"] = int(BiPCA(verbose=0).fit(X).mp_rank)

    for noise in ("both", "auto"):
        model = BayesianPCA(noise=noise)
        against(f'noise="{noise}"', lambda model=model: model.fit(X), theirs, "≤ 0.1", repeats=3)
        print(f"    rank {model.n_components_} in {model.n_iter_} steps, BiPCA's {found['rank']}")


def digits() -> None:
    folder = os.environ.get("BAYESPCA_DATA")
    if not folder:
        print("optical digits: set BAYESPCA_DATA to the folder of optdigits.npz")
        return
    heading("Optical digits, 5620×64")
    with np.load(Path(folder) / "optdigits.npz") as file:
        X = file["X"].astype(float)
    for noise in ("per-feature", "auto"):
        model = BayesianPCA(noise=noise)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = median_time(lambda model=model: model.fit(X), repeats=3)
        line(f'noise="{noise}"', f"{seconds:.2f} s", "< 1 s")
        print(f"    {model.noise_}, rank {model.n_components_} in {model.n_iter_} steps")


def main() -> None:
    white()
    uneven()
    counts()
    digits()
