"""The free energy of matrix factorization, written out, and minimised by brute force.

Slow and obvious: aistats2014 Eq. 16 and 17 term by term, and a general-purpose optimiser. Nothing
here uses a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, pi

import numpy as np
from scipy.optimize import minimize


@dataclass(frozen=True)
class Component:
    """Moments of one singular component: means, variances (0 for a point estimate), priors."""

    a: float
    b: float
    sa2: float
    sb2: float
    ca2: float
    cb2: float


def twice_component_energy(h: Component, gamma: float, s: float, L: int, M: int) -> float:
    """2F_h of aistats2014 Eq. 17. A factor with zero variance is a point estimate.

    The entropy of its pseudo-Dirac density is left out; it contributes −2 log of its prior density.
    """

    def divergence(mean: float, variance: float, prior: float, size: int) -> float:
        if variance > 0:
            return size * log(prior / variance) + (mean**2 + size * variance) / prior - size
        return size * log(2 * pi * prior) + mean**2 / prior

    squares = (h.a**2 + M * h.sa2) * (h.b**2 + L * h.sb2)
    return (
        divergence(h.a, h.sa2, h.ca2, M)
        + divergence(h.b, h.sb2, h.cb2, L)
        + (squares - 2 * h.a * h.b * gamma) / s
    )


def free_energy(
    components: list[Component], gammas: np.ndarray, sum_of_squares: float, s: float, L: int, M: int
) -> float:
    """F of aistats2014 Eq. 16, in nats with all constants."""
    total = L * M * np.log(2 * np.pi * s) + sum_of_squares / s
    for h, gamma in zip(components, gammas, strict=True):
        total += twice_component_energy(h, gamma, s, L, M)
    return 0.5 * total


@dataclass(frozen=True)
class Minimum:
    """A minimum of 2F_h: its value, the product ab, and the component that gives it."""

    energy: float
    product: float
    component: Component


def minimise_component(
    gamma: float,
    s: float,
    L: int,
    M: int,
    *,
    integrates_a: bool,
    integrates_b: bool,
    c2: float | None = None,
    starts: int = 6,
) -> list[Minimum]:
    """Local minima of 2F_h found from several starts, lowest first.

    With c2 the prior is given (c_a² = 1, c_b² = c2); otherwise c_a² = c_b² is minimised over too.
    """
    free = [integrates_a, integrates_b, c2 is None]

    def component(theta: np.ndarray) -> Component:
        a, b, *logs = theta.tolist()
        rest = iter([exp(min(max(one, -80), 80)) for one in logs])
        sa2 = next(rest) if integrates_a else 0.0
        sb2 = next(rest) if integrates_b else 0.0
        ca2, cb2 = (1.0, c2) if c2 is not None else (c := next(rest), c)
        return Component(a, b, sa2, sb2, ca2, cb2)

    def value(theta: np.ndarray) -> float:
        return twice_component_energy(component(theta), gamma, s, L, M)

    minima = []
    for k in range(starts):
        mean = np.sqrt(gamma) * (1.0, 0.8, 0.5, 0.2, 0.05, 0.0)[k]
        start = np.concatenate(
            [[mean, mean], np.log([s / gamma, s / gamma, gamma / np.sqrt(L * M)])]
        )
        theta = start[[True, True, *free]]
        before, now = np.inf, value(theta)
        while now < before - 1e-10:
            theta = minimize(value, theta, method="Nelder-Mead", options=_NELDER_MEAD).x
            theta = minimize(value, theta, method="BFGS", options={"gtol": 1e-12}).x
            before, now = now, value(theta)
        found = component(theta)
        minima.append(Minimum(value(theta), found.a * found.b, found))
    return sorted(minima, key=lambda minimum: minimum.energy)


_NELDER_MEAD = {"xatol": 1e-13, "fatol": 1e-15, "maxiter": 4000, "maxfev": 4000}
