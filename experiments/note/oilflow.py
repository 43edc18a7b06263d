"""Oil flow: three kinds of flow in a plane of two dimensions, by PCA and by a curved kernel.

Errors are those of Titsias and Lawrence (2010): rows whose nearest neighbour is of another kind.
Where the data are not there, groups on a curved sheet take their place.
"""

from __future__ import annotations

import numpy as np

from bayespca import GPLVM, BayesianPCA

from ..comparing import claim, shown
from ..data import Data, Missing
from ..drawing import panels
from ..records import Outcome, Run

N, FEATURES = 300, 12
SEEDS, QUICK_SEEDS = 4, 1
COLOURS, MARKS = ("#1f5fa8", "#c8681c", "#2e8b57"), ("o", "s", "^")


def simulated() -> tuple[np.ndarray, np.ndarray]:
    """Three groups, each along a curve of its own, by waves in random directions."""
    rng = np.random.default_rng(0)
    labels = np.arange(N) % 3
    t = rng.uniform(-1, 1, N)
    X = np.stack([2 * t, (labels - 1) + 0.6 * np.sin(3 * t)], axis=1)
    waves = np.sin(X @ rng.normal(size=(2, FEATURES)) * 1.5 + rng.uniform(0, 6, FEATURES))
    return waves + 0.03 * rng.normal(size=waves.shape), labels


def measured(data: Data) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows and their kinds, and what they are."""
    try:
        X, labels = data.table("oilflow"), data.labels("oilflow")
    except Missing:
        return *simulated(), f"Oil flow is not there: {N} simulated rows of three groups"
    return X, labels, "Oil flow, 1000 rows of 12 features and three kinds of flow"


def errors(latent: np.ndarray, labels: np.ndarray) -> int:
    """Rows whose nearest neighbour is of another kind."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(latent).kneighbors(return_distance=False)
    return int((labels[nearest[:, 0]] != labels).sum())


def reproduce(run: Run) -> Outcome:
    X, labels, what = measured(run.data)
    seeds = range(QUICK_SEEDS if run.quick else SEEDS)
    linear = np.asarray(BayesianPCA("ml", n_components=2).fit(X).transform(X))
    models = [GPLVM(random_state=seed).fit(X) for seed in seeds]
    two = [errors(np.asarray(one.embedding_)[:, :2], labels) for one in models]
    every = [errors(np.asarray(one.embedding_), labels) for one in models]
    by_plane = errors(linear, labels)
    evidence = [float(one.nonlinear_evidence_) for one in models]
    return Outcome(
        (
            claim(
                "neighbours of another kind",
                run.printed["neighbours"],
                f"{by_plane} of {len(X)} by the first two principal components, {_listed(two)} on "
                "the two most relevant dimensions of GPLVM",
                holds=max(two) < by_plane / 5,
            ),
            shown("on all dimensions", f"{_listed(every)}"),
            shown("dimensions", _listed([one.n_components_ for one in models])),
            shown(
                "curves are better by",
                f"{_listed([f'{nats:.0f}' for nats in evidence])} nats",
            ),
        ),
        setting=f"{what}. Nothing is chosen; latent points in units of length scales.",
        seed=f"0 to {len(seeds) - 1}",
        figures={
            "The three kinds of flow by the first two principal components (left) and on the two "
            "most relevant dimensions of GPLVM (right).": _figure(linear, models[0], labels)
        },
    )


def _listed(values) -> str:
    return ", ".join(map(str, values))


def _figure(linear, model, labels):
    figure, axes = panels(2, width=4.2, height=3.8)
    latent = np.asarray(model.embedding_)[:, :2]
    latent = np.pad(latent, ((0, 0), (0, 2 - latent.shape[1])))
    for ax, points, title in zip(
        axes, (linear, latent), ("principal components", "GPLVM"), strict=True
    ):
        for kind, (colour, mark) in enumerate(zip(COLOURS, MARKS, strict=True)):
            shown_here = points[labels == np.unique(labels)[kind]]
            ax.plot(*shown_here.T, mark, color=colour, markersize=3, alpha=0.7)
        ax.set(xlabel="$x_1$", ylabel="$x_2$", title=title)
    return figure
