"""EM for probabilistic PCA, whose updates the note leaves out, beside the closed form.

    E: ⟨h⟩ = M⁻¹Vᵀx, ⟨hhᵀ⟩ = σ²M⁻¹ + ⟨h⟩⟨h⟩ᵀ with M = VᵀV + σ²I
    M: V ← SV(σ²I + M⁻¹VᵀSV)⁻¹, σ² ← tr(S − SVM⁻¹V_newᵀ)/d

(Tipping and Bishop, "Probabilistic principal component analysis", 1999, Eq. 29 and 30). The new
span is S times the old one: EM is the power method, and its angle to the answer falls by
λ_{s+1}/λ_s in each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from bayespca import BayesianPCA

from ..comparing import claim, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .likelihood import (
    closed_form,
    covariance,
    eigen,
    largest_angle,
    log_likelihood,
    simulated,
)

N, D, S_ = 300, 10, 3
VARIANCES = (10.0, 5.0, 0.8)
STEPS = 150
# Steps over which the rate is read: early ones are not those of the limit, late ones are rounding.
RATE = slice(20, 40)
STARTS = 5


def steps(S: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, float]]:
    """V and σ² after each step, from normal draws and σ² = 1."""
    V, s2 = np.random.default_rng(seed).normal(size=(len(S), S_)), 1.0
    while True:
        M = V.T @ V + s2 * np.eye(S_)
        SV = S @ V
        new = SV @ np.linalg.inv(s2 * np.eye(S_) + np.linalg.solve(M, V.T @ SV))
        s2 = float(np.trace(S - SV @ np.linalg.solve(M, new.T)) / len(S))
        V = new
        yield V, s2


def reproduce(run: Run) -> Outcome:
    X = simulated(N, VARIANCES, D)
    S = covariance(X)
    V, s2 = closed_form(S, S_)
    best = log_likelihood(V, s2, S, N)
    runs = [list(islice(steps(S, seed), STEPS)) for seed in range(STARTS)]
    heights = np.array([[log_likelihood(*one, S, N) for one in course] for course in runs])
    angles = np.array([[largest_angle(V, one[0]) for one in course] for course in runs])
    ends = [course[-1] for course in runs]
    model = BayesianPCA(
        "ml", n_components=S_, center=False, solver="iterative", tol=1e-13, random_state=0
    ).fit(X)
    values = eigen(S)[0]
    expected = values[S_] / values[S_ - 1]
    rates = (angles[:, RATE.stop] / angles[:, RATE.start]) ** (1 / (RATE.stop - RATE.start))
    fall = max(-np.diff(heights, axis=1).min(), 0.0)
    covariances = max(np.abs(end[0] @ end[0].T - V @ V.T).max() for end in ends)
    noises = max(abs(end[1] - s2) for end in ends)
    ours = abs(-model.free_energy_ - best)
    turned = largest_angle(V, np.asarray(model.components_).T)
    return Outcome(
        (
            claim(
                "log-likelihood",
                run.printed["rises"],
                f"largest fall in {STARTS}×{STEPS} steps: {fall:.1g} nats",
                holds=bool(fall < 1e-9),
            ),
            claim(
                "limit of EM",
                run.printed["limit"],
                f"ends {np.abs(heights[:, -1] - best).max():.1g} nats from the closed form; VVᵀ is "
                f"{covariances:.1g} apart, σ² {noises:.1g}",
                holds=bool(
                    np.abs(heights[:, -1] - best).max() < 1e-8
                    and covariances < 1e-6
                    and noises < 1e-8
                ),
            ),
            claim(
                'BayesianPCA("ml", solver="iterative")',
                run.printed["ours"],
                f"{len(model.trace_.free_energy)} sweeps, {ours:.1g} nats from the closed form; "
                f"span {turned:.1g} radians, σ² {abs(model.noise_variance_ - s2):.1g}",
                holds=bool(ours < 1e-6 and turned < 1e-3),
            ),
            shown(
                "the angle to the answer falls in a step by",
                f"{rates.min():.4f} to {rates.max():.4f}; λ₄/λ₃ = {expected:.4f}",
            ),
        ),
        setting=f"{N} rows of {D} features without a mean, variances {VARIANCES} along three "
        f"directions, and noise of variance 1; s = {S_}.",
        seed="0 (data), 0 to 4 (starts)",
        figures={
            "Nats below the closed form (left) and angle to its span (right) after each step of EM "
            "from five starts, and by BayesianPCA's iteration, whose sweeps are accelerated. "
            "Dashed: (λ₄/λ₃) to the power of the step.": _figure(
                best - heights, angles, expected, best + model.trace_.free_energy
            )
        },
    )


def _figure(short, angles, rate, ours):
    figure, (left, right) = panels(2)
    number = np.arange(1, STEPS + 1)
    for one, turned in zip(short, angles, strict=True):
        left.plot(number, np.maximum(one, 1e-12), color=REFERENCE, linewidth=1)
        right.plot(number, turned, color=REFERENCE, linewidth=1)
    left.plot(
        np.arange(1, len(ours) + 1), np.maximum(ours, 1e-12), color=COLOURS["evb"], label="ours"
    )
    right.plot(number, rate**number, "--", color=COLOURS["epb"])
    left.plot([], [], color=REFERENCE, label="EM")
    left.set(xlabel="step", ylabel="nats below the closed form", yscale="log", ylim=(1e-12, None))
    left.legend(frameon=False)
    right.set(xlabel="step", ylabel="largest angle, radians", yscale="log", ylim=(1e-16, None))
    return figure
