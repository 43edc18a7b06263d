"""Iteration on complete data: EVB by sweeps, and VariationalPCA against its peers."""

from __future__ import annotations

import time
import warnings

import numpy as np
from timing import heading, line, paired

from bayespca import BayesianPCA, VariationalPCA
from bayespca.datasets import low_rank

COLUMNS = 20
TOLERANCE = 1e-6


def sweeps_against_closed_form() -> None:
    heading("EVB by sweeps from normal draws (ratio of times, medians of 5)")
    X = low_rank(5_000, 500, 20, random_state=0).X
    closed, swept = BayesianPCA(), BayesianPCA(solver="iterative", random_state=0)
    mine, other = paired(lambda: swept.fit(X), lambda: closed.fit(X))
    figure = f"{mine / other:.1f} ({1e3 * mine:.0f}/{1e3 * other:.0f} ms)"
    line("5,000×500, rank 20: the closed form with its decomposition", figure, "≤ 5")
    same = abs(swept.free_energy_ - closed.free_energy_) / abs(closed.free_energy_)
    print(f"    {swept.n_iter_} sweeps; free energies differ by {same:.0e} of themselves")


def by_vbpca(X: np.ndarray) -> tuple[float, int]:
    from vbpca_py import VBPCA

    model = VBPCA(
        COLUMNS, maxiters=500, cfstop_rel=TOLERANCE, rmsstop=(), minangle=0.0, random_state=0
    )
    start = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - start, int(getattr(model, "n_iter_", 0))


def by_bayespy(X: np.ndarray) -> tuple[float, int]:
    """Fit BayesPy's own PCA example, with its rotations, and with a bias as in ours."""
    from bayespy.inference import VB
    from bayespy.inference.vmp import transformations
    from bayespy.nodes import Add, Gamma, GaussianARD, SumMultiply

    start = time.perf_counter()
    n, d = X.shape
    scores = GaussianARD(0, 1, plates=(1, n), shape=(COLUMNS,))
    alpha = Gamma(1e-3, 1e-3, plates=(COLUMNS,))
    weights = GaussianARD(0, alpha, plates=(d, 1), shape=(COLUMNS,))
    bias = GaussianARD(0, 1e-3, plates=(d, 1))
    product = Add(SumMultiply("d,d->", weights, scores), bias)
    tau = Gamma(1e-3, 1e-3)
    data = GaussianARD(product, tau)
    data.observe(X.T)
    scores.initialize_from_random()
    rotation = transformations.RotationOptimizer(
        transformations.RotateGaussianARD(scores),
        transformations.RotateGaussianARD(weights, alpha),
        COLUMNS,
    )
    inference = VB(data, scores, weights, alpha, bias, tau)
    inference.set_callback(rotation.rotate)
    inference.update(repeat=300, tol=TOLERANCE, verbose=False)
    return time.perf_counter() - start, int(inference.iter)


def variational_against_peers() -> None:
    heading(f"VariationalPCA, 10,000×100, {COLUMNS} columns, bound settled to {TOLERANCE:.0e}")
    X = low_rank(10_000, 100, 5, random_state=0).X
    model = VariationalPCA(COLUMNS, tol=TOLERANCE, random_state=0)
    mine, _ = paired(lambda: model.fit(X), lambda: None)
    print(f"    ours: {1e3 * mine:.0f} ms, {model.n_iter_} sweeps, {model.n_components_} on")
    for name, peer in (("vbpca-py", by_vbpca), ("BayesPy, its PCA example", by_bayespy)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, sweeps = peer(X)
        except ImportError as error:
            print(f"    {name}: {error}")
            continue
        figure = f"{seconds / mine:.0f} times ({seconds:.1f} s)"
        line(f"{name}, {sweeps} sweeps", figure, "≥ 10 times")


def main() -> None:
    sweeps_against_closed_form()
    variational_against_peers()


if __name__ == "__main__":
    main()
