"""Accelerated against plain sweeps of every iterative model: their number and CPU time.

Plain fits are the same fits without the model's chart. They run once with the same `tol`, and once
until their free energy is as low as the accelerated fit's, for at most `MOST` sweeps.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.base import clone
from timing import heading

from bayespca import (
    BayesianPCA,
    BayesianTucker,
    BinaryPCA,
    MatrixFactorization,
    PCAMixture,
    VariationalPCA,
)
from bayespca.discrete.fit import BinaryModel
from bayespca.linear.sweeps.fit import SweepModel
from bayespca.linear.variational.fit import VariationalModel
from bayespca.missing.dense.fit import DenseModel
from bayespca.missing.ratings.fit import RatingsModel
from bayespca.missing.variational.fit import VariationalHolesModel
from bayespca.mixtures.pca.fit import MixtureModel
from bayespca.tensors.fit import TuckerModel

MOST = 1000
# Relative difference below which free energies count as equal.
SAME = 1e-9


class Case(NamedTuple):
    """One fit to measure; `work` takes a callback and options of the iteration."""

    name: str
    model: type
    work: Callable[..., Any]


class Measured(NamedTuple):
    """Steps, CPU seconds, the lowest free energy that the callback saw, and the fit's own."""

    steps: int
    seconds: float
    free_energy: float
    at_the_end: float


def table(name: str, rows: int) -> np.ndarray:
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / f"{name}.npz") as file:
        X = file["X"].astype(float)[:rows]
    return X[:, np.ptp(X, axis=0) > 0]


def with_holes(X: np.ndarray, share: float = 0.1) -> np.ndarray:
    return np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)


def fitted(estimator: Any, X: np.ndarray) -> Callable[..., Any]:
    def work(callback: Any, **options: Any) -> Any:
        return clone(estimator).set_params(**options).fit(X, callback=callback)

    return work


def rated(X: np.ndarray, share: float) -> Callable[..., Any]:
    i, j = np.nonzero(np.random.default_rng(0).random(X.shape) < share)

    def work(callback: Any, **options: Any) -> Any:
        return MatrixFactorization(**options).fit_ratings(i, j, X[i, j], callback=callback)

    return work


def cases() -> Iterator[Case]:
    digits, letters, oil = table("optdigits", 1500), table("letter", 2000), table("oilflow", 1000)
    glass, standard = table("glass", 214), (letters - letters.mean(axis=0)) / letters.std(axis=0)
    bits = (table("optdigits", 800) > 7).astype(float)
    swept = BayesianPCA("epb", solver="iterative", noise="isotropic", random_state=0)
    yield Case("`BayesianPCA`, EPB by sweeps, letters", SweepModel, fitted(swept, letters))
    plain = VariationalPCA(random_state=0)
    yield Case("`VariationalPCA`, oil flow", VariationalModel, fitted(plain, oil))
    holes = VariationalPCA(random_state=0)
    yield Case(
        "`VariationalPCA`, glass, 10 % holes",
        VariationalHolesModel,
        fitted(holes, with_holes(glass)),
    )
    for noise in ("isotropic", "per-feature"):
        model, name = BayesianPCA(noise=noise), f'`BayesianPCA(noise="{noise}")`'
        yield Case(
            f"{name}, letters, 10 % holes", DenseModel, fitted(model, with_holes(letters[:800]))
        )
    tucker = BayesianTucker(noise="isotropic")
    yield Case("`BayesianTucker`, amino acids", TuckerModel, fitted(tucker, amino()))
    yield Case("`MatrixFactorization`, letters, half", RatingsModel, rated(standard, 0.5))
    scaled = (digits - digits.mean(axis=0)) / digits.std(axis=0)
    yield Case("`MatrixFactorization`, digits, 30 %", RatingsModel, rated(scaled, 0.3))
    yield Case("`BinaryPCA`, digits > 7", BinaryModel, fitted(BinaryPCA(), bits))
    for noise in ("isotropic", "per-feature"):
        model = PCAMixture(3, noise=noise, random_state=0)
        label = f'`PCAMixture(3, noise="{noise}")`, oil flow, 10 % holes'
        yield Case(label, MixtureModel, fitted(model, with_holes(oil)))


def amino() -> np.ndarray:
    """Part of the amino-acid tensor: samples × emission × excitation."""
    with np.load(Path(os.environ["BAYESPCA_DATA"]) / "amino.npz") as file:
        return np.asarray(file["T"], float)[:, ::8, ::4]


@contextmanager
def counted(model: type, *, accelerated: bool) -> Iterator[list[int]]:
    """Count all steps, trial steps and undone steps included; they are plain unless accelerated."""
    count, step = [0], model.step

    def counting(*given: Any) -> Any:
        count[0] += 1
        return step(*given)

    with ExitStack() as stack:
        stack.enter_context(patch.object(model, "step", counting))
        if not accelerated:
            stack.enter_context(patch.object(model, "chart", lambda *_: None))
        yield count


def measured(case: Case, *, accelerated: bool, until: float | None = None) -> Measured:
    """Measure a fit; `until`, a free energy in the loop's units, replaces `tol` as its end."""
    seen: list[float] = []

    def callback(number: int, info: Any) -> bool:
        seen.append(info.free_energy)
        return until is not None and bool(info.free_energy <= until)

    options = {"max_iter": MOST} if until is None else {"max_iter": MOST, "tol": 1e-15}
    with warnings.catch_warnings(), counted(case.model, accelerated=accelerated) as count:
        warnings.simplefilter("ignore")
        start = time.process_time()
        fit = case.work(callback, **options).fit_
        return Measured(count[0], time.process_time() - start, min(seen), fit.free_energy)


def main() -> None:
    if "BAYESPCA_DATA" not in os.environ:
        print("accelerating: set BAYESPCA_DATA to the folder of the data")
        return
    heading("sweeps and CPU seconds: accelerated; plain with the same tol; plain until as low")
    for case in cases():
        measured(case, accelerated=True)  # so that compilation is not timed
        quick, plain = (measured(case, accelerated=which) for which in (True, False))
        goal = quick.free_energy + SAME * (abs(quick.free_energy) + 1)
        equal = measured(case, accelerated=False, until=goal)
        higher = plain.at_the_end - quick.at_the_end
        reached = "" if equal.free_energy <= goal else ", not reached"
        print(
            f"| {case.name} | {quick.steps}, {quick.seconds:.2f} s "
            f"| {plain.steps}, {plain.seconds:.2f} s | {higher:.2g} "
            f"| {equal.steps}, {equal.seconds:.2f} s{reached} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
