"""Figure 3: a Hinton diagram of W by maximum likelihood, Eq. 6."""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA
from bayespca.displays import HintonDisplay

from ..comparing import claim, number
from ..drawing import panels
from ..records import Outcome, Run
from .example import SETTING, N, Q, norms, points

NON_ZERO = 1e-3


def reproduce(run: Run) -> Outcome:
    T = points(seed=0)
    # S is a mean over N (Eq. 1); a model that finds the mean itself counts N − 1.
    model = BayesianPCA("ml", n_components=Q, center=False).fit(T - T.mean(axis=0))
    W = weights(model)
    eigenvalues, vectors = np.linalg.eigh(np.cov(T.T, ddof=0))
    printed = vectors[:, :0:-1] * np.sqrt(eigenvalues[:0:-1] - eigenvalues[0])
    apart = np.abs(W @ W.T - printed @ printed.T).max()
    sizes = norms(W)
    return Outcome(
        (
            claim(
                "W",
                "Eq. 6",
                f"largest difference in an entry of WWᵀ {apart:.1g}",
                holds=bool(apart < 1e-10),
            ),
            claim(
                "order",
                run.printed["order"],
                f"norms of columns {', '.join(f'{size:.2f}' for size in sizes)}",
                holds=bool(np.all(np.diff(sizes) < 0)),
            ),
            claim(
                "the first four columns",
                run.printed["first"],
                f"norms at least {sizes[3]:.2f}, the others' at most {sizes[4]:.2f}",
                holds=bool(sizes[3] > sizes[4]),
            ),
            number(
                "columns after the fourth with non-zero entries",
                run.printed["last"],
                np.count_nonzero(sizes[4:] > NON_ZERO * sizes[0]),
            ),
        ),
        setting=f"{SETTING} q = {Q}.",
        seed="0",
        figures={"W of the maximum likelihood solution.": hinton(W)},
    )


def weights(model: BayesianPCA) -> np.ndarray:
    """Eq. 6 from a fitted model: U·√(Λ − σ²), with Λ the eigenvalues of S, a mean over N."""
    eigenvalues = model.singular_values_**2 / N
    return model.components_.T * np.sqrt(eigenvalues - model.noise_variance_)


def hinton(*matrices: np.ndarray, titles: tuple[str, ...] = ()):
    """Diagrams side by side, each in a scale of its own."""
    figure, axes = panels(len(matrices), width=3.2, height=3.3)
    for ax, W in zip(axes, matrices, strict=True):
        ax.grid(visible=False)
        HintonDisplay(W).plot(ax=ax)
    for ax, title in zip(axes, titles, strict=False):
        ax.set_title(title, pad=14)
    return figure
