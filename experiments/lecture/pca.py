"""PCA of 7-dimensional data: the slide's algorithm beside bayespca, and the number of components.

The lecture chooses D from the eigenvalues, which "is subjective"; BayesianPCA finds it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayespca import BayesianPCA

from ..comparing import claim, percent, shown
from ..drawing import panels
from ..records import Outcome, Run
from .groups import LINE, SQUARE, grouped, scatter, share_nearest

DATA_SETS, QUICK_DATA_SETS = 300, 10


def principal(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The PCA algorithm, steps 1 to 4: eigenvalues, largest first, and directions as columns."""
    Y = Y - Y.mean(axis=0)
    eigenvalues, W = np.linalg.eigh(Y.T @ Y / len(Y))
    return eigenvalues[::-1], W[:, ::-1]


def reproduce(run: Run) -> Outcome:
    n = QUICK_DATA_SETS if run.quick else DATA_SETS
    Y, labels = grouped(LINE, seed=0)
    eigenvalues, W = principal(Y)
    model = BayesianPCA("ml", n_components=2).fit(Y)
    X = model.project(Y)
    off = np.abs(W.T @ W - np.eye(7)).max()
    variances = np.abs(X.var(axis=0) / eigenvalues[:2] - 1).max()
    turn = np.random.default_rng(0).permutation(7)
    moved = np.abs(_plane(Y[:, turn]) - _plane(Y)[np.ix_(turn, turn)]).max()
    found = {
        name: Counter(
            BayesianPCA(noise="isotropic").fit(grouped(centres, seed)[0]).n_components_
            for seed in run.each(range(n))
        )
        for name, centres in run.each((("line", LINE), ("square", SQUARE)))
    }
    return Outcome(
        (
            claim(
                "directions",
                run.printed["directions"],
                f"largest entry of |WᵀW − I| {off:.1g}",
                holds=bool(off < 1e-12),
            ),
            claim(
                "eigenvalues",
                run.printed["eigenvalues"],
                f"largest relative difference {variances:.1g}",
                holds=bool(variances < 1e-12),
            ),
            _structure(run, "three groups on a line", LINE, 1),
            _structure(run, "four groups in a square", SQUARE, 2),
            claim(
                "the order of the dimensions",
                run.printed["order"],
                f"turned about, the plane of the first two components changes by {moved:.1g}",
                holds=bool(moved < 1e-10),
            ),
            claim(
                "four groups in a square: components found",
                run.printed["structure"],
                f"2 in {found['square'][2]} of {n} data sets ({percent(found['square'][2], n)})",
                holds=found["square"][2] >= 0.95 * n,
            ),
            shown(
                "three groups on a line: components found",
                f"1 in {found['line'][1]} of {n} data sets ({percent(found['line'][1], n)})",
            ),
        ),
        setting="Groups of 20 in the first two dimensions, N(0, 1) in the other five: three around "
        f"(0, 0), (5, 5) and (−5, −5), four around the corners of a square of side 5; {n} data "
        "sets. The slides do not say where the groups are; these are the examples of the book that "
        "they follow (Rogers and Girolami, A First Course in Machine Learning).",
        seed=f"0 to {n - 1}",
        figures={
            "Three groups, with the panels of the slide: (a) first two dimensions, (b) "
            "eigenvalues, (c) projection onto the first two principal components.": _figure(
                Y, labels, eigenvalues, X
            ),
            "The same with four groups.": _figure(*_example(SQUARE)),
        },
        remarks=(
            "Labels are for colours alone; the model does not see them. Points nearer the mean of "
            f"their own group than that of another: {share_nearest(X, labels):.0%} in the "
            f"projection, {share_nearest(Y[:, :2], labels):.0%} in the first two dimensions.",
        ),
    )


def _structure(run: Run, name: str, centres, n_large: int):
    """Eigenvalues above those of noise, and how much of their directions is in dimensions 1, 2."""
    eigenvalues, W = principal(grouped(centres, seed=0)[0])
    share = np.min(np.sum(W[:2, :n_large] ** 2, axis=0))
    return claim(
        f"{name}: structure",
        run.printed["structure"],
        f"eigenvalues {', '.join(f'{value:.1f}' for value in eigenvalues)}; "
        f"{share:.1%} of the first {'two' if n_large > 1 else 'one'} in dimensions 1 and 2",
        holds=bool(share > 0.95 and eigenvalues[n_large] < eigenvalues[n_large - 1] / 2),
    )


def _plane(Y: np.ndarray) -> np.ndarray:
    """The projection onto the first two components."""
    components = BayesianPCA("ml", n_components=2).fit(Y).components_
    return components.T @ components


def _example(centres):
    Y, labels = grouped(centres, seed=0)
    X = BayesianPCA("ml", n_components=2).fit(Y).project(Y)
    return Y, labels, principal(Y)[0], X


def _figure(Y, labels, eigenvalues, X):
    figure, (left, middle, right) = panels(3, width=3.6, height=3.4)
    scatter(left, Y[:, :2], labels, xlabel="$y_1$", ylabel="$y_2$", title="(a)")
    middle.bar(range(1, 8), eigenvalues, color="#6b7280")
    middle.set(xlabel="dimension", ylabel="eigenvalue", title="(b)")
    scatter(right, X, labels, xlabel="$x_1$", ylabel="$x_2$", title="(c)")
    return figure
