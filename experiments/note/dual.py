"""The dual form: scores stay, loadings are integrated out, and columns are N(0, XXᵀ + σ²I).

The best X has the first eigenvectors of YYᵀ/D (Lawrence 2005): probabilistic PCA of Yᵀ. This is the
Gaussian process latent variable model with the linear kernel.
"""

from __future__ import annotations

import numpy as np

from bayespca import GPLVM, BayesianPCA

from ..comparing import claim, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .likelihood import closed_form, covariance, eigen, largest_angle, log_likelihood, simulated

N, D, S_ = 60, 25, 2
VARIANCES = (20.0, 8.0)


def reproduce(run: Run) -> Outcome:
    Y = simulated(N, VARIANCES, D)
    S = covariance(Y.T)
    X, s2 = closed_form(S, S_)
    best = log_likelihood(X, s2, S, D)
    found = GPLVM(S_, method="map", kernel="linear", center=False, tol=1e-12).fit(Y)
    transposed = BayesianPCA("ml", n_components=S_, center=False).fit(Y.T)
    latent = np.asarray(found.embedding_)
    primal = BayesianPCA("ml", n_components=S_, center=False).fit(Y)
    directions = np.asarray(primal.components_).T
    scores = Y @ directions
    values = eigen(S)[0]
    angle = largest_angle(X, latent)
    apart = abs(found.noise_variance_ / s2 - 1)
    nats = abs(found.free_energy_ + best)
    by_transposed = abs(transposed.free_energy_ + best)
    common = eigen(covariance(Y))[0] * N / D
    return Outcome(
        (
            claim(
                "span of the latent points",
                run.printed["span"],
                f"GPLVM(method='map', kernel='linear') is {angle:.1g} radians away",
                holds=bool(angle < 1e-6),
            ),
            claim(
                "noise",
                run.printed["noise"],
                f"{found.noise_variance_:.6f}, to {apart:.1g} of itself",
                holds=bool(apart < 1e-6),
            ),
            claim(
                "log-likelihood",
                run.printed["likelihood"],
                f"{best:.4f}: GPLVM is {nats:.1g} nats away, BayesianPCA of the transposed matrix "
                f"{by_transposed:.1g}",
                holds=bool(nats < 1e-8 and by_transposed < 1e-8),
            ),
            claim(
                "scores and latent points",
                run.printed["scores"],
                f"scores of PCA span the same plane to {largest_angle(scores, X):.1g} radians; "
                f"eigenvalues of YYᵀ and YᵀY agree to {np.abs(values[:D] - common).max():.1g}",
                holds=bool(
                    largest_angle(scores, X) < 1e-10 and np.abs(values[:D] - common).max() < 1e-9
                ),
            ),
            shown(
                "noise of both forms",
                f"{primal.noise_variance_:.4f} with scores integrated out, {s2:.4f} with loadings",
            ),
        ),
        setting=f"{N} rows of {D} features without a mean, variances {VARIANCES} along two "
        f"directions, and noise of variance 1; s = {S_}.",
        seed="0",
        figures={
            "Latent points by GPLVM with the linear kernel (rings), turned onto the closed form "
            "(dots), and eigenvalues of YYᵀ/D with the noise of the dual form.": _figure(
                X, latent, values, s2
            )
        },
        remarks=(
            "What the plane leaves over is divided by N(D − s) where scores are integrated out, "
            "and by D(N − s) where loadings are.",
        ),
    )


def _figure(X, latent, values, s2):
    figure, (left, right) = panels(2)
    turned = _turned(latent, X)
    left.plot(*X.T, ".", color=COLOURS["evb"], markersize=4)
    left.plot(*turned.T, "o", color=REFERENCE, markerfacecolor="none", markersize=8)
    left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    number = np.arange(1, D + 1)
    right.plot(number, values[:D], "o", color=REFERENCE, markersize=4)
    right.axhline(s2, color=COLOURS["evb"], linewidth=1, label="σ²")
    right.set(xlabel="number", ylabel="eigenvalue of YYᵀ/D", yscale="log")
    right.legend(frameon=False)
    return figure


def _turned(latent: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Rotated and scaled onto other points: neither is identified."""
    U, gamma, Vt = np.linalg.svd(latent.T @ onto)
    return latent @ (U @ Vt) * gamma.sum() / np.sum(latent**2)
