"""The 7-dimensional examples: groups of 20 in two dimensions, and five dimensions of N(0, 1).

The slides show the groups and do not say where they are. These are the places in the programs of
the book that the lecture follows (Rogers and Girolami, A First Course in Machine Learning).
"""

from __future__ import annotations

import numpy as np

LINE = ((0, 0), (5, 5), (-5, -5))
SQUARE = ((0, 0), (5, 5), (5, 0), (0, 5))
SIZE, NOISE_DIMENSIONS = 20, 5
MARKS, COLOURS = "os^D", ("#c8681c", "#2e8b57", "#1f5fa8", "#374151")


def grouped(centres, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows with seven dimensions, and the group of each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(centres)), SIZE)
    structure = np.array(centres, dtype=float)[labels] + rng.standard_normal((labels.size, 2))
    return np.hstack([structure, rng.standard_normal((labels.size, NOISE_DIMENSIONS))]), labels


def share_nearest(points: np.ndarray, labels: np.ndarray) -> float:
    """How many points are nearer the mean of their own group than that of another."""
    means = np.array([points[labels == k].mean(axis=0) for k in np.unique(labels)])
    distances = np.linalg.norm(points[:, None] - means, axis=2)
    return float(np.mean(distances.argmin(axis=1) == labels))


def scatter(ax, points: np.ndarray, labels: np.ndarray, **wording: str) -> None:
    """Two dimensions of points, a mark for each group."""
    for k in np.unique(labels):
        ax.scatter(*points[labels == k].T, marker=MARKS[k], color=COLOURS[k], s=18)
    ax.set(aspect="equal", adjustable="datalim", **wording)
