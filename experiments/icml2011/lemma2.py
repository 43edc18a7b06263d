"""Lemma 2: σ_a/σ_b of a component at simple-VB's threshold as c_b → ∞, with c_a = 1."""

from __future__ import annotations

import numpy as np

from bayespca import spectrum

from ..comparing import claim
from ..drawing import panels
from ..records import Outcome, Run

# M > L, M = L, M < L.
SHAPES = ((20, 50), (20, 20), (50, 20))
DEVIATIONS = np.geomspace(1e2, 1e5, 7)


def printed(L: int, M: int, c: float) -> float:
    """The leading term, for σ = 1."""
    if M > L:
        return (M - L) / np.sqrt(M)
    return 1 / c if M == L else np.sqrt(L) / ((L - M) * c**2)


def solved(L: int, M: int, c: float) -> float:
    """The same from the posterior moments of a component just above the threshold."""
    settings = {"noise_variance": 1.0, "prior_variance": c**2, "other_ranks": False}
    threshold = spectrum.solve(spectrum.Spectrum([1.0], (L, M)), "vb", **settings).threshold
    at_threshold = spectrum.Spectrum([threshold * (1 + 1e-12)], (L, M))
    moments = spectrum.solve(at_threshold, "vb", **settings).moments.with_unit_latent_prior()
    return float(np.sqrt(moments.variance_a[0] / moments.variance_b[0]))


def reproduce(run: Run) -> Outcome:
    lines, ratios = [], {}
    for L, M in SHAPES:
        exact = np.array([solved(L, M, c) for c in DEVIATIONS])
        leading = np.array([printed(L, M, c) for c in DEVIATIONS])
        ratios[L, M] = exact
        error = abs(exact[-1] / leading[-1] - 1)
        sign = ">" if M > L else "=" if M == L else "<"
        lines.append(
            claim(
                f"M = {M} {sign} L = {L}",
                f"{leading[-1]:.4g} at c_b = {DEVIATIONS[-1]:g}",
                f"{exact[-1]:.4g}; order of c_b: {_order(exact):.3f}",
                holds=error < 1e-2,
            )
        )
    return Outcome(
        tuple(lines),
        setting=f"σ² = 1, c_b up to {DEVIATIONS[-1]:g}, γ at the threshold.",
        figures={"Ratios against c_b: points as solved, lines as printed.": _figure(ratios)},
    )


def _order(ratios: np.ndarray) -> float:
    """The slope of log ratio against log c_b at the end."""
    return float(np.log(ratios[-1] / ratios[-2]) / np.log(DEVIATIONS[-1] / DEVIATIONS[-2]))


def _figure(ratios):
    figure, (ax,) = panels(1, width=6)
    for (L, M), values in ratios.items():
        line = ax.loglog(DEVIATIONS, [printed(L, M, c) for c in DEVIATIONS], linewidth=0.9)[0]
        ax.loglog(DEVIATIONS, values, "o", color=line.get_color(), label=f"L = {L}, M = {M}")
    ax.set(xlabel="$c_b$", ylabel=r"$\sigma_a / \sigma_b$")
    ax.legend(frameon=False)
    return figure
