"""Figure 1: the free energy of a component against c_a·c_b, and where it has local minima.

The posterior under each prior is the package's; what is drawn is Eq. 17, 18 and 27 of it. Minima
are searched for on these curves, and compared with the closed forms of Theorems 1 and 2.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from bayespca import spectrum

from ..comparing import Comparison, claim, shown
from ..drawing import COLOURS, panels
from ..records import Outcome, Run
from .formulas import METHODS, marchenko_pastur, solved, threshold

GIVEN = {"evb": "vb", "epb": "pb", "emap": "map"}
# Below all thresholds, between them, and above.
OBSERVED = (10.0, 11.2, 12.0, 13.0, 14.0)
PRIORS = np.geomspace(0.01, 3, 100)
# Two curves are of one height, or a slope is zero, to so much of γ.
PRECISION = 1e-6


def posterior(method: str, gamma: float, c: float, shape: tuple[int, int]) -> spectrum.Moments:
    """Under the prior c_a² = c_b² = c."""
    found = solved(GIVEN[method], gamma, shape, prior_variance=c**2)
    return found.moments.with_equal_priors()


def energy(method: str, gamma: float, c: float, shape: tuple[int, int]) -> float:
    """F_h, Eq. 17; of a point-estimated factor the entropy is left out (Eq. 18 and 27)."""
    L, M = shape
    found = posterior(method, gamma, c, shape)
    a, b = found.mean_a[0], found.mean_b[0]
    of_a, of_b = _squares(found, shape)
    twice = (of_a + of_b) / c - 2 * a * b * gamma + of_a * of_b
    for n, variance in ((M, found.variance_a[0]), (L, found.variance_b[0])):
        twice += n * (np.log(c / variance) - 1) if variance else n * np.log(c)
    return 0.5 * twice


def slope(method: str, gamma: float, c: float, shape: tuple[int, int]) -> float:
    """dF_h/d log c. All else is at its best, so that only c's own place in Eq. 17 counts."""
    return 0.5 * (sum(shape) - sum(_squares(posterior(method, gamma, c, shape), shape)) / c)


def _squares(found: spectrum.Moments, shape: tuple[int, int]) -> tuple[float, float]:
    """a² + M·σ_a² and b² + L·σ_b²."""
    L, M = shape
    return (
        float(found.mean_a[0] ** 2 + M * found.variance_a[0]),
        float(found.mean_b[0] ** 2 + L * found.variance_b[0]),
    )


def local_minimum(method: str, gamma: float, shape: tuple[int, int]) -> float | None:
    """c of the non-trivial local minimum, if there is one: where the slope turns positive."""
    slopes = np.array([slope(method, gamma, c, shape) for c in PRIORS])
    turns = np.flatnonzero((slopes[:-1] < 0) & (slopes[1:] >= 0))
    if turns.size == 0:
        return None
    low, high = PRIORS[turns[-1]], PRIORS[turns[-1] + 1]
    return float(brentq(lambda c: slope(method, gamma, c, shape), low, high, xtol=1e-14))


def appears(method: str, shape: tuple[int, int]) -> float:
    """γ from which there is a non-trivial local minimum: somewhere the slope is negative."""

    def least_slope(gamma: float) -> float:
        least = int(np.argmin([slope(method, gamma, c, shape) for c in PRIORS]))
        found = minimize_scalar(
            lambda log_c: slope(method, gamma, np.exp(log_c), shape),
            bounds=np.log(PRIORS[[max(least - 1, 0), min(least + 1, PRIORS.size - 1)]]),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return float(found.fun)

    return float(brentq(least_slope, OBSERVED[0], OBSERVED[-1], xtol=1e-9))


def pays(shape: tuple[int, int]) -> float:
    """γ from which EVB's non-trivial minimum is below the trivial one, whose F_h is 0."""

    def depth(gamma: float) -> float:
        c = local_minimum("evb", gamma, shape)
        return 1.0 if c is None else energy("evb", gamma, c, shape)

    return float(brentq(depth, OBSERVED[0], OBSERVED[-1], xtol=1e-9))


def reproduce(run: Run) -> Outcome:
    shape = run.printed["L"], run.printed["M"]
    scale, alpha = np.sqrt(max(shape)), min(shape) / max(shape)
    lines: list[Comparison] = [_bounded_below(method, shape) for method in METHODS]
    for method in ("epb", "emap"):
        equation = {"epb": 22, "emap": 25}[method]
        printed = threshold(method, alpha) * scale
        lines.append(_threshold_line(method, equation, printed, appears(method, shape), "appears"))
    printed = threshold("evb", alpha) * scale
    lines.append(_threshold_line("evb", 10, printed, pays(shape), "is the lowest"))
    edge = marchenko_pastur(alpha) * scale
    lines.append(
        shown(
            "EVB: the local minimum appears earlier",
            f"at γ = {appears('evb', shape):.4f}; √L + √M = {edge:.4f}",
        )
    )
    minima = {(m, g): local_minimum(m, g, shape) for m in METHODS for g in OBSERVED}
    lines += [_closed_form_line(method, minima, shape) for method in METHODS]
    return Outcome(
        tuple(lines),
        setting=f"L = {shape[0]}, M = {shape[1]}, σ² = 1, γ = "
        f"{', '.join(f'{g:g}' for g in OBSERVED)}; the paper does not print its γ.",
        figures={
            "F against c_a·c_b, its other parameters at their best, for several γ. Crosses: "
            "non-trivial local minima.": _figure(shape, minima)
        },
    )


def _bounded_below(method: str, shape: tuple[int, int]) -> Comparison:
    """Section 3.1: where a factor is point-estimated, F_h → −∞ as c → 0."""
    at = [energy(method, OBSERVED[-1], c, shape) for c in (1e-9, 1e-10)]
    fall = at[0] - at[1]
    return claim(
        f"{METHODS[method].removeprefix('local-')}: F as c_a·c_b → 0",
        "bounded" if method == "evb" else "diverges to −∞",
        f"falls by {abs(fall):.1f} per decade",
        holds=bool((fall < 1e-6) == (method == "evb")),
    )


def _threshold_line(method: str, equation: int, printed: float, found: float, event: str):
    return claim(
        f"{METHODS[method]}: γ from which the local minimum {event}",
        f"{printed:.4f} (Eq. {equation})",
        f"{found:.4f}",
        holds=abs(found / printed - 1) < PRECISION,
    )


def _closed_form_line(method: str, minima: dict, shape: tuple[int, int]) -> Comparison:
    """c·c at the crosses, and γ̂ there, against what the package has in closed form."""
    apart, n = 0.0, 0
    for (m, gamma), c in minima.items():
        closed = solved(method, gamma, shape)
        if m != method or c is None or closed.rank == 0:
            continue
        of_closed = closed.moments
        product = np.sqrt(of_closed.prior_variance_a[0] * of_closed.prior_variance_b[0])
        found = posterior(method, gamma, c, shape)
        kept = found.mean_a[0] * found.mean_b[0]
        apart = max(apart, abs(product / c - 1), abs(closed.shrunk_singular_values[0] / kept - 1))
        n += 1
    return claim(
        f"{METHODS[method]}: crosses and closed forms",
        "the same c_a·c_b and γ̂",
        f"{n} crosses, relative difference {'below' if apart < PRECISION else 'above'} "
        f"{PRECISION:g}",
        holds=bool(n and apart < PRECISION),
    )


def _figure(shape, minima):
    figure, axes = panels(3, width=3.8)
    for ax, (method, name) in zip(axes, METHODS.items(), strict=True):
        for number, gamma in enumerate(OBSERVED):
            values = [energy(method, gamma, c, shape) for c in PRIORS]
            shade = 0.25 + 0.75 * number / (len(OBSERVED) - 1)
            ax.plot(PRIORS, values, color=COLOURS[method], alpha=shade, label=f"γ = {gamma:g}")
            if (c := minima[method, gamma]) is not None:
                ax.plot(c, energy(method, gamma, c, shape), "x", color="black", markersize=7)
        ax.set(xlabel="$c_a c_b$", title=name.replace("local-", ""), xlim=(0, 1.5))
        visible = [energy(method, g, c, shape) for g in OBSERVED for c in PRIORS if 0.1 < c < 1.5]
        ax.set_ylim(min(visible) - 2, max(visible) + 2)
    axes[0].set_ylabel("$F_h$, nats")
    axes[0].legend(frameon=False)
    return figure
