"""GMM with K = 2 on data that are hard for K-means: two stretched groups.

A ball inside a ring is hard for both, for a ring is no Gaussian either.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from ..comparing import claim, shown
from ..drawing import panels
from ..records import Outcome, Run
from .groups import scatter

SIZE = 100
DATA_SETS, QUICK_DATA_SETS = 20, 5


def stretched(rng: np.random.Generator) -> np.ndarray:
    """Two long groups side by side."""
    X = rng.standard_normal((2 * SIZE, 2)) * (5.0, 0.5)
    X[SIZE:, 1] += 4
    return X


def ringed(rng: np.random.Generator) -> np.ndarray:
    """A ball, and a ring around it."""
    angle, radius = rng.uniform(0, 2 * np.pi, SIZE), 4 + 0.3 * rng.standard_normal(SIZE)
    ring = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([0.8 * rng.standard_normal((SIZE, 2)), ring])


LABELS = np.repeat([0, 1], SIZE)


def by_means(X: np.ndarray) -> np.ndarray:
    return KMeans(2, n_init=10, random_state=0).fit_predict(X)


def by_mixture(X: np.ndarray) -> np.ndarray:
    """From random starts, as in the lecture; scikit-learn's own start is K-means."""
    start = {"init_params": "random_from_data", "max_iter": 1000, "tol": 1e-6}
    return GaussianMixture(2, n_init=10, random_state=0, **start).fit_predict(X)


def right(labels: np.ndarray) -> float:
    """Share of rows in the right group, whatever the groups are called."""
    share = float(np.mean(labels == LABELS))
    return max(share, 1 - share)


def average(shape, cluster, seeds: Iterable[int]) -> float:
    """Share of rows in the right group over the data sets of these seeds."""
    shares = [right(cluster(shape(np.random.default_rng(seed)))) for seed in seeds]
    return float(np.mean(shares))


def reproduce(run: Run) -> Outcome:
    n = QUICK_DATA_SETS if run.quick else DATA_SETS
    ways = [(shape, cluster) for shape in (stretched, ringed) for cluster in (by_means, by_mixture)]
    means, mixture, ring_means, ring_mixture = (
        average(shape, cluster, run.each(range(n))) for shape, cluster in run.each(ways)
    )
    return Outcome(
        (
            claim(
                "two stretched groups",
                run.printed["hard"],
                f"rows in the right group on average: K-means {means:.0%}, GMM {mixture:.0%}",
                holds=mixture > 0.95 and means < 0.8,
            ),
            shown(
                "a ball inside a ring",
                f"K-means {ring_means:.0%}, GMM {ring_mixture:.0%}",
            ),
        ),
        setting=f"Two groups of {SIZE}, K = 2, the best of 10 starts; {n} data sets of each kind. "
        "The data are ours: the slide gives no numbers.",
        seed=f"0 to {n - 1}",
        figures={
            "Two stretched groups.": _figure(stretched(np.random.default_rng(0))),
            "A ball inside a ring.": _figure(ringed(np.random.default_rng(0))),
        },
    )


def _figure(X: np.ndarray):
    figure, axes = panels(2, width=3.6, height=3.2)
    for ax, name, cluster in zip(axes, ("K-means", "GMM"), (by_means, by_mixture), strict=True):
        scatter(ax, X, cluster(X), title=name)
    return figure
