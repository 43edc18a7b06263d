"""Gaussian mixtures: EM as the slides have it, and K by cross-validation.

The data are ours: the slides show three groups in two dimensions and no numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from bayespca import select_components
from bayespca.displays import ComponentSelectionDisplay

from ..comparing import claim, percent, shown
from ..drawing import COLOURS, REFERENCE, panels
from ..records import Outcome, Run

MEANS = np.array([(-2.0, 3.0), (2.0, 3.0), (0.0, -3.0)])
COVARIANCES = np.array(
    [[(1.0, 0.6), (0.6, 1.0)], [(0.5, 0.0), (0.0, 2.0)], [(3.0, 0.0), (0.0, 0.5)]]
)
SIZE, NUMBERS = 50, range(1, 11)
FOLDS, QUICK_FOLDS = 10, 5
DATA_SETS, QUICK_DATA_SETS = 20, 2
# Random starts, as in the lecture; scikit-learn's own are by K-means.
RANDOM = {"init_params": "random_from_data", "max_iter": 1000, "random_state": 0}
SHOWN_STEPS, MOST_STEPS, SETTLED = (0, 1, 5, 7), 500, 1e-10


def three_groups(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    draws = map(rng.multivariate_normal, MEANS, COVARIANCES, [SIZE] * 3)
    return np.concatenate(list(draws))


@dataclass(frozen=True)
class Step:
    """The parameters after an M step, the log-likelihood L there, and the bound B before."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    likelihood: float
    bound: float


def em(X: np.ndarray, K: int, seed: int) -> Iterator[Step]:
    """From random means and covariances and uniform weights: E and M steps in turn."""
    rng = np.random.default_rng(seed)
    pi, mu = np.full(K, 1 / K), rng.standard_normal((K, 2))
    Sigma = rng.uniform(size=(K, 1, 1)) * np.eye(2)
    logs = _log_joint(X, pi, mu, Sigma)
    yield Step(pi, mu, Sigma, float(logsumexp(logs, axis=1).sum()), np.nan)
    while True:
        log_q = logs - logsumexp(logs, axis=1, keepdims=True)
        q = np.exp(log_q)
        totals = q.sum(axis=0)
        pi, mu = totals / len(X), q.T @ X / totals[:, None]
        from_means = X[:, None] - mu
        Sigma = np.einsum("nk,nki,nkj->kij", q, from_means, from_means) / totals[:, None, None]
        logs = _log_joint(X, pi, mu, Sigma)
        bound = float(np.sum(q * (logs - log_q)))
        yield Step(pi, mu, Sigma, float(logsumexp(logs, axis=1).sum()), bound)


def _log_joint(X, pi, mu, Sigma) -> np.ndarray:
    """log π_k p(x_n|μ_k, Σ_k): (N, K)."""
    densities = [multivariate_normal(m, S).logpdf(X) for m, S in zip(mu, Sigma, strict=True)]
    return np.log(pi) + np.transpose(densities)


def settled(X: np.ndarray, seed: int) -> list[Step]:
    """Steps until one raises L by less than a 10⁻¹⁰ of itself."""
    steps: list[Step] = []
    for step in islice(em(X, 3, seed), MOST_STEPS):
        steps.append(step)
        if len(steps) > 1:
            before = steps[-2].likelihood
            if step.likelihood - before < SETTLED * abs(before):
                break
    return steps


def reproduce(run: Run) -> Outcome:
    n, folds = (QUICK_DATA_SETS, QUICK_FOLDS) if run.quick else (DATA_SETS, FOLDS)
    X = three_groups(seed=0)
    steps = settled(X, seed=0)
    likelihoods = np.array([step.likelihood for step in steps])
    bounds = np.array([step.bound for step in steps[1:]])
    theirs = _scikit_learn(X, steps[0])
    training = [_training(three_groups(seed)) for seed in run.each(range(n), 0.25)]
    highest = sum(max(values) == values[-1] for values in training)
    falls = sum(b < a for values in training for a, b in pairwise(values))
    gain = np.mean([values[-1] - values[2] for values in training])
    chosen = [
        select_components(GaussianMixture(n_init=3, **RANDOM), three_groups(seed), NUMBERS, folds)
        for seed in run.each(range(n), 0.75)
    ]
    best = Counter(selection.best for selection in chosen)
    cautious = Counter(selection.within_one_error for selection in chosen)
    within = sum(count for K, count in best.items() if 3 <= K <= 8)
    return Outcome(
        (
            claim(
                "the bound",
                run.printed["bound"],
                f"B ≤ L and both rise in {len(steps) - 1} iterations",
                holds=bool(
                    np.all(bounds <= likelihoods[1:] + 1e-9)
                    and np.diff(bounds).min() > -1e-9
                    and np.diff(likelihoods).min() > -1e-9
                ),
            ),
            claim(
                "at convergence",
                run.printed["convergence"],
                f"L = {likelihoods[-1]:.4f}; scikit-learn from the same start {theirs:.4f}",
                holds=bool(abs(likelihoods[-1] - theirs) < 1e-3),
            ),
            claim(
                "likelihood and K",
                run.printed["increase"],
                f"highest at K = 10 in {highest} of {n} data sets, {gain:.0f} nats above K = 3 on "
                f"average; {falls} of {9 * n} steps fall, where EM ends in a lower maximum",
                holds=highest >= 0.9 * n,
            ),
            claim(
                "K by cross-validation",
                run.printed["choice"],
                f"3 to 8 in {within} of {n} data sets ({percent(within, n)}): {_listed(best)}",
                holds=within >= 0.9 * n,
            ),
            shown("smallest K within a standard error of the best", _listed(cautious)),
        ),
        setting=f"Three groups of {SIZE} in two dimensions with different covariances; {n} data "
        f"sets. Cross-validation with {folds} folds over K = 1 to 10, the likeliest of 3 starts; "
        "training likelihoods are the highest of 10 starts.",
        seed=f"0 to {n - 1}",
        figures={
            "EM with K = 3: components after so many iterations, ellipses at two standard "
            "deviations; on the right the bound B and the log-likelihood L.": _iterations(X, steps),
            "Log-likelihood of the data against K (left), K = 10 at convergence (middle), and of "
            "held-out rows (right).": _choice(X, training[0], chosen[0]),
        },
    )


def _listed(counts: Counter[int]) -> str:
    return ", ".join(f"K = {K}: {count}" for K, count in sorted(counts.items()))


def _scikit_learn(X: np.ndarray, start: Step) -> float:
    model = GaussianMixture(
        3,
        weights_init=start.weights,
        means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
        reg_covar=0.0,
        tol=1e-12,
        max_iter=2000,
    )
    return float(model.fit(X).score(X) * len(X))


def _training(X: np.ndarray) -> list[float]:
    """Log-likelihood of the data themselves for each K."""
    models = (GaussianMixture(K, n_init=10, **RANDOM) for K in NUMBERS)
    return [float(model.fit(X).score(X) * len(X)) for model in models]


def _ellipses(ax, means, covariances) -> None:
    """At two standard deviations."""
    circle = 2 * np.exp(1j * np.linspace(0, 2 * np.pi, 100))
    circle = np.stack([circle.real, circle.imag])
    for mean, covariance in zip(means, covariances, strict=True):
        ax.plot(*(mean[:, None] + np.linalg.cholesky(covariance) @ circle), color=COLOURS["epb"])


def _points(ax, X: np.ndarray) -> None:
    ax.plot(*X.T, ".", color=REFERENCE, markersize=3)
    ax.set(xlim=(-7, 7), ylim=(-7, 8))


def _iterations(X: np.ndarray, steps: list[Step]):
    figure, axes = panels(6, width=2.7, height=2.9)
    last = len(steps) - 1
    for ax, count in zip(axes, (*SHOWN_STEPS, last), strict=False):
        _points(ax, X)
        _ellipses(ax, steps[count].means, steps[count].covariances)
        ax.set_title(f"iteration {count}" if count else "start")
    count = np.arange(1, last + 1)
    axes[-1].plot(count, [step.bound for step in steps[1:]], color=COLOURS["vb"], label="B")
    likelihoods = [step.likelihood for step in steps[1:]]
    axes[-1].plot(count, likelihoods, "--", color=COLOURS["epb"], label="L")
    axes[-1].set(xlabel="iteration", ylabel="nats")
    axes[-1].locator_params(axis="x", integer=True)
    axes[-1].legend(frameon=False)
    return figure


def _choice(X: np.ndarray, training: list[float], selection):
    figure, (left, middle, right) = panels(3, width=3.8, height=3.4)
    left.plot(NUMBERS, training, "o-", color=REFERENCE)
    left.set(xlabel="K", ylabel="log-likelihood, nats")
    ten = GaussianMixture(10, n_init=10, **RANDOM).fit(X)
    _points(middle, X)
    _ellipses(middle, ten.means_, ten.covariances_)
    ComponentSelectionDisplay(selection).plot(ax=right)
    right.set(xlabel="K")
    return figure
