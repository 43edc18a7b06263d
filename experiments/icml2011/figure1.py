"""Figure 1: dimensions found, and the time they take, over the true dimension.

The data have variances 5 and covariances 1 in the first H* directions, and variances 0.1 in the
others. The text gives neither L nor M: here 100 and 300.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from bayespca import BayesianPCA

from ..comparing import claim, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..iteration import Sweep, sweeps
from ..records import Outcome, Run

L, M = 100, 300
DIMENSIONS, QUICK_DIMENSIONS = range(5, 70, 10), (5, 25, 45)
# The iteration has settled when a sweep lowers the free energy by less than this share of it.
SETTLED, MOST_SWEEPS = 1e-6, 3000
REMARKS = (
    "With noise unknown EVB can keep no more than ⌈L/(1 + L/M)⌉ − 1 = 74 of 100 dimensions, and "
    "near that its global minimum is one with few dimensions and much noise; the iteration, which "
    "started from noise 1, ends in local minima of its own. The text does not say how far H* goes.",
)


def artificial(n_dimensions: int, seed: int) -> np.ndarray:
    """M samples of L features."""
    rng = np.random.default_rng(seed)
    covariance = np.diag(np.repeat([5.0, 0.1], [n_dimensions, L - n_dimensions]))
    block = covariance[:n_dimensions, :n_dimensions]
    block += 1.0 - np.eye(n_dimensions)
    return rng.multivariate_normal(np.zeros(L), covariance, size=M, method="cholesky")


def iterated(X: np.ndarray) -> tuple[Sweep, int]:
    """EVB-PCA by the papers' iteration until it settles, and the number of sweeps."""
    energy = np.inf
    for n, sweep in enumerate(sweeps(X.T, "evb", noise=1.0, learn_noise=True), start=1):
        if energy - sweep.free_energy < SETTLED * abs(energy) or n == MOST_SWEEPS:
            return sweep, n
        energy = sweep.free_energy
    raise AssertionError("sweeps never end")


def reproduce(run: Run) -> Outcome:
    dimensions = list(QUICK_DIMENSIONS if run.quick else DIMENSIONS)
    simple, full, times, counts = [], [], [], []
    evb = BayesianPCA(n_components="evb", center=False, noise="isotropic")
    for n in run.each(dimensions):
        X = artificial(n, seed=n)
        t0 = perf_counter()
        simple.append(evb.fit(X).n_components_)
        t1 = perf_counter()
        sweep, count = iterated(X)
        times.append((t1 - t0, perf_counter() - t1))
        full.append(sweep.rank)
        counts.append(count)
    seconds = np.array(times)
    apart = {n: abs(a - b) for n, a, b in zip(dimensions, simple, full, strict=True)}
    few = max(difference for n, difference in apart.items() if n <= L / 2)
    many = [
        f"H* = {n}: {a} and {b}"
        for n, a, b in zip(dimensions, full, simple, strict=True)
        if n > L / 2
    ]
    ratio = seconds[:, 1] / seconds[:, 0]
    return Outcome(
        (
            claim(
                "dimensions, H* up to half of L",
                run.printed["dimensions"],
                f"largest difference {few}",
                holds=few <= 1,
            ),
            *(
                [shown("dimensions by EVB-PCA and simple-EVB-PCA, H* beyond", "; ".join(many))]
                if many
                else []
            ),
            claim(
                "time",
                run.printed["time"],
                f"EVB-PCA takes {ratio.min():.0f} to {ratio.max():.0f} times as long",
                holds=bool(ratio.min() > 1),
            ),
        ),
        setting=f"L = {L}, M = {M}, H* from {dimensions[0]} to {dimensions[-1]}; "
        f"EVB-PCA until a sweep lowers F by less than {SETTLED:g} of itself "
        f"({min(counts)} to {max(counts)} sweeps).",
        seed="H*",
        remarks=REMARKS if many else (),
        figures={
            "Dimensions found (left) and seconds (right). Lines lie on top of each other where "
            "both find the true dimension.": _figure(dimensions, simple, full, seconds)
        },
    )


def _figure(dimensions, simple, full, seconds):
    figure, (left, right) = panels(2)
    left.plot(dimensions, dimensions, color=REFERENCE, linewidth=0.8, label="true dimension")
    left.plot(dimensions, full, "o-", color=COLOURS["map"], label="EVB-PCA")
    left.plot(dimensions, simple, "x--", color=COLOURS["evb"], label="simple-EVB-PCA")
    left.set(xlabel="true dimension H*", ylabel="estimated dimension")
    left.legend(frameon=False)
    right.semilogy(dimensions, seconds[:, 1], "o-", color=COLOURS["map"], label="EVB-PCA")
    right.semilogy(dimensions, seconds[:, 0], "x--", color=COLOURS["evb"], label="simple-EVB-PCA")
    right.set(xlabel="true dimension H*", ylabel="seconds")
    right.legend(frameon=False)
    return figure
