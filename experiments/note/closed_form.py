"""Maximum likelihood: what the proposition says, beside BayesianPCA("ml") and a blind search.

The search knows nothing of eigenvectors: quasi-Newton steps over all entries of V and log σ², from
normal draws.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from bayespca import BayesianPCA

from ..comparing import claim
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run
from .likelihood import covariance, eigen, gradient, largest_angle, log_likelihood, simulated

N, D, S_ = 200, 8, 3
VARIANCES = (12.0, 6.0, 3.0)
STARTS, QUICK_STARTS = 20, 4


def search(S: np.ndarray, seed: int, noise: float | None = None):
    """V and σ² of the highest likelihood that a descent from normal draws finds, and its course."""
    rng = np.random.default_rng(seed)
    course: list[float] = []

    def parts(x):
        return x[:-1].reshape(D, S_), float(np.exp(x[-1])) if noise is None else noise

    def objective(x):
        V, s2 = parts(x)
        Ci = np.linalg.inv(V @ V.T + s2 * np.eye(D))
        slope = s2 * (np.trace(Ci) - np.sum(Ci @ S * Ci.T)) if noise is None else 0.0
        value = -log_likelihood(V, s2, S, N)
        course.append(-value)
        return value, N / 2 * np.append(gradient(V, s2, S), slope)

    x = np.append(rng.normal(size=D * S_), 0.0)
    found = minimize(objective, x, jac=True, options={"gtol": 1e-9, "maxiter": 5000})
    return *parts(found.x), np.maximum.accumulate(course)


def reproduce(run: Run) -> Outcome:
    X = simulated(N, VARIANCES, D)
    S = covariance(X)
    values, U = eigen(S)
    model = BayesianPCA("ml", n_components=S_, center=False).fit(X)
    s2 = float(model.noise_variance_)
    sizes = eigen(np.asarray(model.get_covariance()) - s2 * np.eye(D))[0][:S_]
    V = np.asarray(model.components_).T * np.sqrt(sizes)
    best = log_likelihood(V, s2, S, N)
    found = [search(S, seed) for seed in range(QUICK_STARTS if run.quick else STARTS)]
    reached = np.array([log_likelihood(*one[:2], S, N) for one in found])
    lines = (
        _span(run, V, U),
        _number(run, "singular values of V, squared", "sizes", sizes, values[:S_] - s2),
        _number(run, "σ²", "noise", s2, values[S_:].mean()),
        _likelihood(run, model, X, best, V, s2),
        _greatest(run, found, reached, best, V @ V.T),
        _noise_given(run, S, values, U),
        _rotated(run, V, s2, S, best),
        _inverted(run, V, s2),
    )
    return Outcome(
        lines,
        setting=f"{N} rows of {D} features without a mean: variances {VARIANCES} along three "
        "directions, and noise of variance 1.",
        seed="0 (data), 0, 1, … (starts of the search)",
        figures={
            "Eigenvalues of S and of the fitted covariance: the first s agree, the others are "
            "their mean (left). How far a blind search from normal draws is below the closed form "
            "(right).": _figure(values, s2, found, best)
        },
        remarks=(
            "The note has v₁ … v_n in the inversion formula; V has s columns.",
            "The formula asks for orthogonal columns, which V has when Q = I.",
        ),
    )


def _span(run, V, U):
    angle = largest_angle(V, U[:, :S_])
    return claim(
        "span of V",
        run.printed["span"],
        f"{angle:.1g} radians from BayesianPCA('ml')",
        holds=bool(angle < 1e-10),
    )


def _number(run, what, key, computed, by_formula):
    apart = float(np.max(np.abs(computed - by_formula)))
    return claim(
        what, run.printed[key], f"{apart:.1g} from BayesianPCA('ml')", holds=bool(apart < 1e-10)
    )


def _likelihood(run, model, X, best, V, s2):
    C = V @ V.T + s2 * np.eye(D)
    squares = np.einsum("ni,ij,nj->", X, np.linalg.inv(C), X)
    by_rows = -N * D / 2 * np.log(2 * np.pi) - N / 2 * np.linalg.slogdet(C)[1] - squares / 2
    apart = max(abs(by_rows - best), abs(N * model.score(X) - best))
    return claim(
        "log-likelihood",
        run.printed["likelihood"],
        f"{best:.4f}; both, and BayesianPCA's score, agree to {apart:.1g} nats",
        holds=bool(apart < 1e-8),
    )


def _greatest(run, found, reached, best, VV):
    above, short = reached.max() - best, best - reached.min()
    far = max(np.abs(one[0] @ one[0].T - VV).max() for one in found)
    return claim(
        "the maximum",
        run.printed["greatest"],
        f"a blind search from {len(found)} starts ends at most {max(above, 0):.1g} nats above and "
        f"{max(short, 0):.1g} below; VVᵀ is {far:.1g} apart",
        holds=bool(above < 1e-7 and short < 1e-6 and far < 1e-5),
    )


def _noise_given(run, S, values, U):
    """σ² is given, between the second and the third eigenvalue: V has rank two."""
    noise = float(np.sqrt(values[1] * values[2]))
    formula = (U[:, :2] * (values[:2] - noise)) @ U[:, :2].T
    V = max(
        (search(S, seed, noise)[0] for seed in range(3)),
        key=lambda V: log_likelihood(V, noise, S, N),
    )
    apart = np.abs(V @ V.T - formula).max()
    return claim(
        "σ² given, and above λ₃",
        run.printed["given"],
        f"the search's VVᵀ has rank 2 and is {apart:.1g} from the formula",
        holds=bool(apart < 1e-6),
    )


def _rotated(run, V, s2, S, best):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(S_, S_)))[0]
    change = abs(log_likelihood(V @ Q.T, s2, S, N) - best)
    return claim(
        "VQᵀ", run.printed["rotation"], f"changes by {change:.1g} nats", holds=bool(change < 1e-9)
    )


def _inverted(run, V, s2):
    inner = V @ np.diag(1 / (s2 + np.sum(V**2, axis=0))) @ V.T
    apart = np.abs((np.eye(D) - inner) / s2 - np.linalg.inv(V @ V.T + s2 * np.eye(D))).max()
    return claim(
        "C⁻¹", run.printed["inversion"], f"{apart:.1g} from the inverse", holds=bool(apart < 1e-12)
    )


def _figure(values, s2, found, best):
    figure, (left, right) = panels(2)
    number = np.arange(1, D + 1)
    fitted = np.where(number <= S_, values, s2)
    left.plot(number, values, "o", color=REFERENCE, label="S")
    left.plot(number, fitted, "_", color=COLOURS["epb"], markersize=16, label="VVᵀ + σ²I")
    left.axhline(s2, color=COLOURS["evb"], linewidth=1, label="σ²")
    left.set(xlabel="number", ylabel="eigenvalue", yscale="log")
    left.legend(frameon=False)
    for _, _, course in found:
        right.plot(np.maximum(best - course, 1e-12), color=COLOURS["evb"], alpha=0.5, linewidth=1)
    right.set(xlabel="evaluations", ylabel="nats below the closed form", yscale="log")
    return figure
