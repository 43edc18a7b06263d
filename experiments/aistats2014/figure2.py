"""Figure 2: what is left of a singular value, prior learned (left) and almost flat (right)."""

from __future__ import annotations

import numpy as np

from ..comparing import claim
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .formulas import METHODS, STYLES, shrunk, solved, threshold

# α = 1/3.
SHAPE = (100, 300)
UNIT = np.sqrt(max(SHAPE))
OBSERVED = np.linspace(0.01, 4, 400)
GIVEN = {"vb": "VB", "pb": "PB", "map": "MAP"}
ALMOST_FLAT = 1e6


def estimated(method: str, gamma: float, **options) -> float:
    """γ̂' of γ': both in units of √max(L, M)."""
    left = solved(method, gamma * UNIT, SHAPE, **options).shrunk_singular_values
    return float(left.sum()) / UNIT


def curve(method: str, **options) -> np.ndarray:
    return np.array([estimated(method, g, **options) for g in OBSERVED])


def reproduce(run: Run) -> Outcome:
    alpha = min(SHAPE) / max(SHAPE)
    learned = {m: curve(m) for m in METHODS}
    given = {m: curve(m, prior_variance=ALMOST_FLAT**2) for m in GIVEN}
    printed = {
        m: np.array([shrunk(m, g, alpha) if g > threshold(m, alpha) else 0.0 for g in OBSERVED])
        for m in METHODS
    }
    error = max(np.abs(learned[m] - printed[m]).max() for m in METHODS)
    all_kept = OBSERVED > max(threshold(m, alpha) for m in METHODS)
    apart = _widest([learned[m][all_kept] for m in METHODS])
    close = _widest([given["vb"], given["pb"]])
    unlike = np.abs(given["map"] - given["vb"]).max()
    as_observed = np.abs(given["map"] - OBSERVED).max()
    return Outcome(
        (
            claim(
                "estimators",
                "Eq. 30, 32 and 34",
                f"difference {'below' if error < 1e-12 else 'above'} 1e-12",
                holds=error < 1e-12,
            ),
            claim(
                "left",
                "the three empirical estimators are similar",
                f"at most {apart:.2f} apart where all three keep a component",
                holds=apart < unlike,
            ),
            claim(
                "right, PB",
                "VB and PB behave similarly",
                f"at most {close:.1g} apart",
                holds=close < 0.1 * unlike,
            ),
            claim(
                "right, MAP",
                "MAP behaves like the maximum likelihood estimator",
                f"within {as_observed:.0e} of it, and up to {unlike:.2f} from VB",
                holds=as_observed < 1e-6,
            ),
        ),
        setting=f"L = {SHAPE[0]}, M = {SHAPE[1]}, σ² = 1; right: c_a·c_b = {ALMOST_FLAT:g}.",
        figures={
            "Estimated against observed singular values: prior learned (left), almost flat "
            "(right). VB and PB lie on top of each other.": _figure(learned, given)
        },
    )


def _widest(curves: list[np.ndarray]) -> float:
    return float(np.ptp(curves, axis=0).max())


def _figure(learned, given):
    figure, axes = panels(2)
    styles = dict(zip(GIVEN, STYLES.values(), strict=True)) | STYLES
    named = ((axes[0], learned, METHODS), (axes[1], given, GIVEN))
    for ax, curves, names in named:
        ax.plot(OBSERVED, OBSERVED, ":", color=REFERENCE, label="maximum likelihood")
        for method, values in curves.items():
            ax.plot(OBSERVED, values, styles[method], color=COLOURS[method], label=names[method])
        ax.set(xlabel="observed γ'", ylabel="estimated γ'", xlim=(0, 4), ylim=(0, 4))
        ax.legend(frameon=False)
    return figure
