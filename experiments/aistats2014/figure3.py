"""Figure 3: thresholds against α, and the Marčenko–Pastur upper limit between them."""

from __future__ import annotations

import numpy as np

from ..comparing import claim, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .formulas import METHODS, STYLES, marchenko_pastur, solved, threshold

# α = K/K̄ for every K up to K̄.
LARGER = 1000
SMALLER = range(1, LARGER + 1)


def reproduce(run: Run) -> Outcome:
    alpha = np.array(SMALLER) / LARGER
    found = {
        m: np.array([solved(m, 1.0, (K, LARGER)).threshold for K in SMALLER]) / np.sqrt(LARGER)
        for m in METHODS
    }
    printed = {m: np.array([threshold(m, a) for a in alpha]) for m in METHODS}
    limit = np.array([marchenko_pastur(a) for a in alpha])
    error = max(np.abs(found[m] / printed[m] - 1).max() for m in METHODS)
    above = np.minimum(found["evb"], found["emap"]) - limit
    return Outcome(
        (
            claim(
                "thresholds",
                "Eq. 29, 31 and 33",
                f"relative difference {'below' if error < 1e-12 else 'above'} 1e-12",
                holds=error < 1e-12,
            ),
            claim(
                "Eq. 35, left",
                "local-EPB < MPUL for any α",
                f"by {np.min(limit - found['epb']):.2g} at least",
                holds=bool(np.all(found["epb"] < limit)),
            ),
            claim(
                "Eq. 35, right",
                "MPUL ≤ EVB, local-EMAP for any α",
                f"by {above.min():.2g} at least",
                # At α = 1 local-EMAP's is 2 = MPUL.
                holds=bool(np.all(above >= -1e-12)),
            ),
            *(
                shown(f"{name} at α = 1 and α → 0", f"{found[m][-1]:.4f}, {found[m][0]:.4f}")
                for m, name in METHODS.items()
            ),
        ),
        setting=f"α from {alpha[0]:g} to 1 in steps of {alpha[0]:g}, σ² = 1, in units of "
        "√max(L, M).",
        figures={"Thresholds, and the largest singular value of noise (MPUL).": _figure(alpha)},
    )


def _figure(alpha: np.ndarray):
    figure, (ax,) = panels(1, width=6)
    for method, name in METHODS.items():
        values = [threshold(method, a) for a in alpha]
        ax.plot(alpha, values, STYLES[method], color=COLOURS[method], label=name)
    ax.plot(alpha, 1 + np.sqrt(alpha), ":", color=REFERENCE, label="MPUL")
    ax.set(xlabel="α", ylabel="threshold", xlim=(0, 1), ylim=(0.9, 2.6))
    ax.legend(frameon=False, loc="lower right")
    return figure
