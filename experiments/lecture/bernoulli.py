"""Clusters of binary vectors: 100 points with 10 dimensions, K = 5.

The slide does not say how its points were made. Here, as in the book's program: clusters equally
probable, the probabilities of ones uniform between 0 and 1.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayespca import BernoulliMixture

from ..comparing import claim, shown
from ..drawing import panels
from ..records import Outcome, Run

MANY, QUICK_MANY = 50_000, 20_000
DATA_SETS, QUICK_DATA_SETS = 100, 5


def binary(n: int, K: int, D: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows sorted by cluster, their clusters, and the probabilities of ones."""
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(size=(K, D))
    labels = np.sort(rng.integers(K, size=n))
    return (rng.uniform(size=(n, D)) < probabilities[labels]).astype(int), labels, probabilities


def fitted(X: np.ndarray, K: int, method: str = "ml", tol: float = 1e-6) -> BernoulliMixture:
    return BernoulliMixture(K, method=method, n_init=20, tol=tol, random_state=0).fit(X)


def matched(costs: np.ndarray) -> np.ndarray:
    """Which found cluster (column) is which true one (row)."""
    return linear_sum_assignment(costs)[1]


def share_right(found: np.ndarray, labels: np.ndarray, K: int) -> float:
    """Share of rows in the right cluster, whatever the clusters are called."""
    table = np.zeros((K, K))
    np.add.at(table, (labels, found), 1)
    return float(table[np.arange(K), matched(-table)].sum() / labels.size)


def posterior(X: np.ndarray, weights: np.ndarray, p: np.ndarray) -> np.ndarray:
    """q_nk, the slide's formula."""
    likelihood = np.prod(np.where(X[:, None, :] == 1, p, 1 - p), axis=2)
    return weights * likelihood / np.sum(weights * likelihood, axis=1, keepdims=True)


def reproduce(run: Run) -> Outcome:
    N, D, K = run.printed["N"], run.printed["D"], run.printed["K"]
    X, _, p = binary(N, K, D, seed=0)
    model = fitted(X, K, tol=1e-12)
    q = posterior(X, model.weights_, model.means_)
    again = q.T @ X / q.sum(axis=0)[:, None]
    apart = max(
        np.abs(q - model.predict_proba(X)).max(),
        np.abs(q.mean(axis=0) - model.weights_).max(),
        np.abs(again - model.means_).max(),
    )
    fall = max(np.diff(model.trace_.free_energy).max(), 0.0)
    n = QUICK_DATA_SETS if run.quick else DATA_SETS
    shares = [_shares(*binary(N, K, D, seed)) for seed in run.each(range(n), 0.9)]
    em, vb, truth = np.mean(shares, axis=0)
    many = QUICK_MANY if run.quick else MANY
    error = _error(many, K, D)
    return Outcome(
        (
            claim(
                "q_nk, π_k, p_kd",
                run.printed["updates"],
                f"another E and M step by the slides changes them by {apart:.1g}",
                holds=bool(apart < 1e-4),
            ),
            claim(
                "B",
                run.printed["bound"],
                f"largest fall of the log-likelihood in {model.n_iter_} sweeps {fall:.1g}",
                holds=bool(fall < 1e-9),
            ),
            claim(
                f"p_kd from {many} points",
                run.printed["parameters"],
                f"root mean square error {error:.3f}, clusters matched",
                holds=error < 0.02,
            ),
            shown(
                "points in the right cluster, clusters matched",
                f"{em:.0%} by EM, {vb:.0%} by VB, {truth:.0%} with the true p_kd",
            ),
        ),
        setting=f"{N} points, {D} dimensions, K = {K}, the likeliest of 20 starts. Shares are "
        f"means over {n} data sets.",
        seed=f"0 to {n - 1}",
        figures={
            f"The {N} points sorted by their true clusters (left), q_nk (middle), and p_kd as they "
            "are and as found (right).": _figure(X, model, p)
        },
        remarks=(
            "VB takes K as an upper bound and joins clusters that 100 points do not tell apart. "
            "Probabilities that are drawn at random make clusters that overlap: 100 points cannot "
            "all be told apart even with the true parameters.",
        ),
    )


def _shares(X: np.ndarray, labels: np.ndarray, p: np.ndarray) -> list[float]:
    """Shares of rows put right by EM, by VB and by the true parameters, the best there is."""
    K = len(p)
    truth = posterior(X, np.full(K, 1 / K), p).argmax(axis=1)
    found = [fitted(X, K, method).predict(X) for method in ("ml", "vb")]
    return [share_right(one, labels, K) for one in (*found, truth)]


def _error(n: int, K: int, D: int) -> float:
    X, _, p = binary(n, K, D, seed=0)
    means = BernoulliMixture(K, method="ml", n_init=5, random_state=0).fit(X).means_
    return float(np.sqrt(np.mean((means[_order(means, p)] - p) ** 2)))


def _order(means: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Which found cluster is nearest each true one."""
    return matched(np.sum((p[:, None] - means) ** 2, axis=2))


def _figure(X: np.ndarray, model: BernoulliMixture, p: np.ndarray):
    figure, axes = panels(4, width=2.9, height=3.6)
    order = _order(model.means_, p)
    images = (
        (X, "points", "dimension", "object"),
        (model.predict_proba(X)[:, order], "$q_{nk}$", "cluster", "object"),
        (p, "$p_{kd}$", "dimension", "cluster"),
        (model.means_[order], "$p_{kd}$ found", "dimension", "cluster"),
    )
    for ax, (image, title, x, y) in zip(axes, images, strict=True):
        ax.grid(visible=False)
        rows, columns = image.shape
        place = {"extent": (0.5, columns + 0.5, rows + 0.5, 0.5), "aspect": "auto"}
        ax.imshow(image, cmap="Greys", vmin=0, vmax=1, interpolation="nearest", **place)
        ax.set(title=title, xlabel=x, ylabel=y)
    return figure
