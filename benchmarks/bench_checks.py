"""The cost of probabilities, checks and half samples, relative to EVB alone."""

from __future__ import annotations

import time

from timing import heading, line, paired

from bayespca import BayesianPCA, engines, rank_stability
from bayespca.datasets import low_rank
from bayespca.spectrum.solving import solve

N, P, RANK, HALVES = 20_000, 500, 20, 100


def main() -> None:
    X = low_rank(N, P, RANK, random_state=0).X
    heading(f"{N:,}×{P}, rank {RANK}, white noise (ratios of CPU time, medians)")

    def decomposed() -> object:
        """Singular values, EVB's solution and the directions that it keeps."""
        return engines.decompose(X, plan=solve, center=True)

    for what, model in (
        ("a fit with equal noise, its probabilities and checks", BayesianPCA(noise="isotropic")),
        ("the default, which looks for another noise too", BayesianPCA()),
    ):
        fit, alone = paired(lambda m=model: m.fit(X), decomposed, 7, time.process_time)
        figure = f"{fit / alone:.2f} ({1e3 * fit:.0f}/{1e3 * alone:.0f} ms)"
        line(f"{what}, against EVB alone", figure, "≤ 1.2")
    halves, fit = paired(
        lambda: rank_stability(X, n_halves=HALVES),
        lambda: BayesianPCA().fit(X),
        1,
        time.process_time,
    )
    line(f"{HALVES} halves, against a fit", f"{halves / fit:.1f}", "≤ 20")


if __name__ == "__main__":
    main()
