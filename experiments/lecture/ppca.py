"""PPCA by variational Bayes: the lecture's updates and bound, beside VariationalPCA.

The model has no mean, all columns of W have precision 1, and D = 2; a = b = 1 are the book's. Two
slips of the slides are put right: y_nm in the update of f, and ⟨log τ⟩ = ψ(e) − log f in place of
a mean over samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from bayespca import VariationalPCA

from ..comparing import claim, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .groups import SQUARE, grouped, scatter, share_nearest

D, A, B = 2, 1.0, 1.0
SWEEPS = 1000
LOG_2PI = np.log(2 * np.pi)


@dataclass(frozen=True)
class Posterior:
    """Q(X)Q(W)Q(τ): means of rows, the covariance that all share, and f."""

    mu_x: np.ndarray
    S_x: np.ndarray
    mu_w: np.ndarray
    S_w: np.ndarray
    f: float

    @property
    def e(self) -> float:
        return A + len(self.mu_x) * len(self.mu_w) / 2


def sweeps(Y: np.ndarray, seed: int) -> Iterator[Posterior]:
    """The slide "Putting it together": steps 1 to 5, from ⟨τ⟩ = a/b and ⟨w⟩ ~ N(0, I)."""
    N, M = Y.shape
    tau, mu_w = A / B, np.random.default_rng(seed).standard_normal((M, D))
    S_w = np.eye(D)
    while True:
        S_x = np.linalg.inv(np.eye(D) + tau * (M * S_w + mu_w.T @ mu_w))
        mu_x = tau * Y @ mu_w @ S_x
        S_w = np.linalg.inv(np.eye(D) + tau * (N * S_x + mu_x.T @ mu_x))
        mu_w = tau * Y.T @ mu_x @ S_w
        now = Posterior(mu_x, S_x, mu_w, S_w, B + squares(Y, mu_x, S_x, mu_w, S_w) / 2)
        tau = now.e / now.f
        yield now


def squares(Y, mu_x, S_x, mu_w, S_w) -> float:
    """Σ⟨(y_nm − w_mᵀx_n)²⟩"""
    xx = mu_x.T @ mu_x + len(mu_x) * S_x
    ww = mu_w.T @ mu_w + len(mu_w) * S_w
    return float(np.sum(Y**2) - 2 * np.sum(Y * (mu_x @ mu_w.T)) + np.sum(xx * ww))


def bound(Y: np.ndarray, now: Posterior) -> float:
    """L(X, W, τ), in the order of the slide."""
    N, M = Y.shape
    e, f = now.e, now.f
    tau, log_tau = e / f, psi(e) - np.log(f)
    error = squares(Y, now.mu_x, now.S_x, now.mu_w, now.S_w)
    return float(
        A * np.log(B) + (A - 1) * log_tau - B * tau - gammaln(A)
        - N * D / 2 * LOG_2PI - (N * np.trace(now.S_x) + np.sum(now.mu_x**2)) / 2
        - M * D / 2 * LOG_2PI - (M * np.trace(now.S_w) + np.sum(now.mu_w**2)) / 2
        - N * M / 2 * LOG_2PI + N * M / 2 * log_tau - tau / 2 * error
        - (e * np.log(f) + (e - 1) * log_tau - f * tau - gammaln(e))
        - (-N * D / 2 * LOG_2PI - N * D / 2 - N / 2 * np.linalg.slogdet(now.S_x)[1])
        - (-M * D / 2 * LOG_2PI - M * D / 2 - M / 2 * np.linalg.slogdet(now.S_w)[1])
    )  # fmt: skip


def of_fit(model: VariationalPCA, Y: np.ndarray) -> Posterior:
    """Q of a fitted model: W, its covariance and τ as they are, X by the slide's update."""
    N, M = Y.shape
    columns = model.posterior_.columns
    unit = model.posterior_.unit
    mu_w, S_w = columns.b[:, :D] * unit, columns.b_cov[0, :D, :D] * unit**2
    tau = 1 / model.noise_variance_
    S_x = np.linalg.inv(np.eye(D) + tau * (M * S_w + mu_w.T @ mu_w))
    return Posterior(tau * Y @ mu_w @ S_x, S_x, mu_w, S_w, (A + N * M / 2) / tau)


def reproduce(run: Run) -> Outcome:
    Y, labels = grouped(SQUARE, seed=0)
    model = VariationalPCA(
        D, prior="unit", center=False, a_tau=A, b_tau=B, tol=1e-14, random_state=0
    ).fit(Y)
    found = of_fit(model, Y)
    apart = abs(bound(Y, found) - model.lower_bound_)
    own = [now for now, _ in zip(sweeps(Y, seed=0), range(SWEEPS), strict=False)]
    bounds = np.array([bound(Y, now) for now in own])
    ours = -np.array(model.trace_.free_energy)
    falls = [max(-np.diff(values).min(), 0.0) for values in (bounds, ours)]
    below = ours[-1] - bounds[-1]
    latent = found.mu_x
    return Outcome(
        (
            claim(
                "L(X, W, τ)",
                "the slide's formula",
                f"{apart:.1g} nats from what the model reports",
                holds=bool(apart < 1e-9),
            ),
            claim(
                "the bound",
                run.printed["bound"],
                f"largest falls: {falls[0]:.1g} nats by the slide's updates, {falls[1]:.1g} by "
                "VariationalPCA",
                holds=bool(max(falls) < 1e-9),
            ),
            claim(
                "convergence",
                run.printed["convergence"],
                f"{SWEEPS} sweeps of the slide's updates end {abs(below):.1g} nats from "
                f"VariationalPCA's {len(ours)}",
                holds=bool(abs(below) < 1e-6),
            ),
            claim(
                "⟨log τ⟩",
                run.printed["sampling"],
                f"exactly {psi(found.e) - np.log(found.f):.4f}; by 1000 samples "
                f"{_sampled_log(found):.4f}",
                holds=bool(abs(psi(found.e) - np.log(found.f) - _sampled_log(found)) < 0.01),
            ),
            shown(
                "points nearer the mean of their own group than that of another",
                f"{share_nearest(latent, labels):.1%} of latent means, "
                f"{share_nearest(Y[:, :2], labels):.1%} of the first two dimensions",
            ),
        ),
        setting=f"Four groups of 20 at the corners of a square of side 5, and five dimensions of "
        f"N(0, 1); not centred. D = {D}, a = b = 1.",
        seed="0 (data and starts)",
        figures={
            "The panels of the slide: (a) first two dimensions, (b) evolution of the bound, (c) "
            "posterior mean of the latent variables.": _figure(Y, labels, bounds, ours, latent)
        },
        remarks=(
            "VariationalPCA turns the latent space after every sweep, which is why it takes fewer.",
        ),
    )


def _sampled_log(found: Posterior) -> float:
    """The lecture's own estimate, from 1000 samples of τ."""
    rng = np.random.default_rng(0)
    return float(np.mean(np.log(rng.gamma(found.e, 1 / found.f, size=1000))))


def _figure(Y, labels, bounds, ours, latent):
    figure, (left, middle, right) = panels(3, width=3.6, height=3.4)
    scatter(left, Y[:, :2], labels, xlabel="$y_1$", ylabel="$y_2$", title="(a)")
    for values, colour, name in (
        (bounds, REFERENCE, "the slide's updates"),
        (ours, COLOURS["vb"], "VariationalPCA"),
    ):
        middle.plot(np.arange(1, len(values) + 1), values, color=colour, label=name)
    middle.set(xlabel="sweep", ylabel="bound, nats", xlim=(0, 40), title="(b)")
    middle.legend(frameon=False, loc="lower right")
    scatter(right, latent, labels, xlabel="$⟨x_1⟩$", ylabel="$⟨x_2⟩$", title="(c)")
    return figure
