"""Table 2: which methods select dimensions, allow empirical Bayes, and have a closed form.

A mark is given by a computation:

* dimensionality selection: pure noise under an almost flat prior. ○ if many of its components
  are dropped whatever the shape, △ if nearly all are kept in one shape, × if all are in any;
* empirical Bayes: ○ if the free energy of a strong component is bounded below as the prior
  shrinks to zero, × if it falls without bound;
* analytic solution: ○ if a closed form ends where the iteration does.
"""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA, spectrum

from ..comparing import Comparison, claim, value
from ..drawing import COLOURS, panels
from ..records import Outcome, Run
from .figure2 import STYLES

SHAPES = ((20, 200), (200, 20))
METHODS = {"VB": "vb", "simple-VB": "vb", "PB": "pb", "PB-A": "pb-a", "MAP": "map"}
ALMOST_FLAT = 1e3
# A component twice as strong as the largest of noise, and priors that go to zero.
STRONG = 2.0
DEVIATIONS = np.geomspace(1e-12, 10, 131)
GOOD, WEAK, NONE = "○", "△", "×"


def reproduce(run: Run) -> Outcome:
    lines: list[Comparison] = []
    for name, method in METHODS.items():
        selection, bayes, analytic = run.printed[name]
        solver = "iterative" if name == "VB" else "closed"
        shares = [_share_kept(method, solver, shape) for shape in SHAPES]
        lines.append(
            _marked(
                f"{name}: dimensionality selection",
                selection,
                _selection_mark(shares),
                f"keeps {shares[0]:.0%} of pure noise if M > L, {shares[1]:.0%} if M < L",
            )
        )
        fall = _fall_per_decade(method)
        lines.append(
            _marked(
                f"{name}: empirical Bayes",
                bayes,
                NONE if fall > 1 else GOOD,
                f"F falls by {fall:.3g} per decade as c → 0",
            )
        )
        apart = max(_apart(method, shape) for shape in SHAPES)
        lines.append(
            _marked(
                f"{name}: analytic solution",
                analytic,
                GOOD if apart < 1e-6 else NONE,
                f"closed form and iteration {apart:.1g} apart in F",
            )
        )
    return Outcome(
        tuple(lines),
        setting=f"Normal noise, (L, M) = {SHAPES[0]} and {SHAPES[1]}, σ² = 1, "
        f"c_b = {ALMOST_FLAT:g}; for the closed form three strong components and c_b = 1.",
        seed="0",
        figures={
            "The free energy of a strong component (γ twice the edge of noise, L = 20, M = 50) as "
            "the prior shrinks: bounded for VB alone.": _figure()
        },
    )


def _marked(what: str, printed: str, mark: str, reason: str) -> Comparison:
    if printed == mark:
        return claim(what, printed, f"{mark} ({reason})", holds=True)
    return value(what, printed, mark)


def _noise(shape: tuple[int, int]) -> np.ndarray:
    """Samples × features."""
    L, M = shape
    return np.random.default_rng(0).standard_normal((M, L))


def _fitted(X: np.ndarray, method: str, solver: str, c: float) -> BayesianPCA:
    model = BayesianPCA(
        method,
        prior_variance=c**2,
        noise_variance=1.0,
        center=False,
        solver=solver,
        tol=1e-12,
        random_state=0,
    )
    return model.fit(X)


def _share_kept(method: str, solver: str, shape: tuple[int, int]) -> float:
    return _fitted(_noise(shape), method, solver, ALMOST_FLAT).n_components_ / min(shape)


def _selection_mark(shares: list[float]) -> str:
    if min(shares) == 1:
        return NONE
    return GOOD if max(shares) < 0.9 else WEAK


def _energies(method: str, deviations: np.ndarray, L: int = 20, M: int = 50) -> np.ndarray:
    """F against c, for a matrix with one strong component and no other."""
    strong = spectrum.Spectrum([STRONG * (np.sqrt(L) + np.sqrt(M))], (L, M))
    return np.array(
        [
            spectrum.solve(
                strong,
                method,
                noise_variance=1.0,
                prior_variance=c**2,
                max_rank=1,
                other_ranks=False,
            ).free_energy
            for c in deviations
        ]
    )


def _fall_per_decade(method: str) -> float:
    first, second = _energies(method, np.array([1e-11, 1e-12]))
    return float(first - second)


def _apart(method: str, shape: tuple[int, int]) -> float:
    """How far the free energy of the closed form is from where the iteration ends, relatively."""
    rng = np.random.default_rng(0)
    L, M = shape
    X = rng.standard_normal((M, 3)) @ rng.standard_normal((3, L)) * 2 + _noise(shape)
    closed, iterated = (
        _fitted(X, method, solver, 1.0).free_energy_ for solver in ("closed", "iterative")
    )
    return abs(iterated / closed - 1)


def _figure():
    figure, (ax,) = panels(1, width=6)
    for name, method in METHODS.items():
        if name != "VB":
            energies = _energies(method, DEVIATIONS)
            ax.semilogx(DEVIATIONS, energies, STYLES[method], color=COLOURS[method], label=name)
    ax.set(xlabel="c", ylabel="F, nats")
    ax.legend(frameon=False)
    return figure
