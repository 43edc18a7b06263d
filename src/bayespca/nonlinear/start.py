"""Starting points, with noise that is held for a while.

The bound has many minima, and an unrestricted start ends in one where everything is noise. The
following start works: scores of principal components with variances of a half, so that points can
still pass each other; relevances in proportion to the variances of the components; and a signal of
a hundred times the noise until the latent space has formed.

Principal components cannot unroll a sheet that is curved in as few dimensions as the data have: a
circle in the plane, a Swiss roll. Distances along neighbours can (Isomap), and points that start
from these have small variances.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from sklearn.cluster import kmeans_plusplus
from sklearn.manifold import Isomap
from sklearn.metrics import euclidean_distances

from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.spectrum.solving import solve

from .data import GPData
from .kernels import Kernel, Latent, first_hyper
from .step import LatentPoint, corners

# Variance of each point, and relevance of the first dimension.
FIRST_VARIANCE, FIRST_RELEVANCE = 0.5, 0.3
# The same for points that start from distances along neighbours; the neighbours of each row; and
# the most rows, because the distances of all pairs are needed.
CERTAIN_VARIANCE, CERTAIN_RELEVANCE = 0.02, 3.0
NEIGHBOURS, MOST_ROWS = 5, 3000
# Least relevance at the start, as a share of the first.
LEAST_RELEVANCE = 1e-3
# Log of signal over noise that is held, and the number of steps.
HELD_RATIO, HELD = float(np.log(100.0)), 10


def start(
    data: GPData, kernel: Kernel, most: int, n_inducing: int, rng: np.random.Generator
) -> LatentPoint:
    """Start from at most `most` principal components, with inducing points among their scores."""
    scores, share = principal_scores(data, most)
    relevance = FIRST_RELEVANCE * np.maximum(share, LEAST_RELEVANCE)
    return _point(data, scores, relevance, FIRST_VARIANCE, kernel, n_inducing, rng)


def unrolled(
    data: GPData, kernel: Kernel, count: int, n_inducing: int, rng: np.random.Generator
) -> LatentPoint:
    """Start from `count` coordinates that preserve distances along neighbours (Tenenbaum et al.
    2000).

    A single coordinate preserves distances along a tree instead: neighbours close a circle, and one
    coordinate would fold its two halves onto each other; a tree is cut at the widest gap.
    """
    if count == 1:
        scores = _along_tree(data.filled)
    else:
        neighbours = min(NEIGHBOURS, len(data.filled) - 1)
        isomap = Isomap(n_neighbors=neighbours, n_components=count, eigen_solver="dense")
        with warnings.catch_warnings():
            # Isomap warns of disconnected parts, which it joins by their nearest rows.
            warnings.simplefilter("ignore")
            scores = np.asarray(isomap.fit_transform(data.filled), np.float64)
    size = np.maximum(scores.std(axis=0), 1e-12 * max(float(np.abs(scores).max()), 1e-300))
    share = np.maximum((size / size[0]) ** 2, LEAST_RELEVANCE)
    places = fixed_signs(scores.T).T / size
    return _point(
        data, places, CERTAIN_RELEVANCE * share, CERTAIN_VARIANCE, kernel, n_inducing, rng
    )


def _along_tree(values: FloatArray) -> FloatArray:
    """The coordinate that best preserves distances along the minimum spanning tree: (N, 1)."""
    distances = euclidean_distances(values)
    # SciPy takes a distance of 0 for a missing edge.
    tree = minimum_spanning_tree(np.maximum(distances, 1e-9 * distances.max()))
    squares = shortest_path(tree, directed=False) ** 2
    middle = squares.mean(axis=0)
    inner = -0.5 * (squares - middle - middle[:, None] + middle.mean())
    size, vector = eigh(inner, subset_by_index=[len(inner) - 1, len(inner) - 1])
    return np.asarray(vector * np.sqrt(np.maximum(size, 0.0)))


def _point(
    data: GPData,
    scores: FloatArray,
    relevance: FloatArray,
    spread: float,
    kernel: Kernel,
    n_inducing: int,
    rng: np.random.Generator,
) -> LatentPoint:
    """The point with given scores and variance, and inducing points among the scores.

    They are far from each other; for a linear kernel, a unit vector along each dimension. Rows
    without any cell get the prior, and stay there.
    """
    hyper = first_hyper(kernel, relevance)
    if "squared-exponential" in kernel.parts:
        seed = int(rng.integers(2**31))
        far = kmeans_plusplus(scores * np.sqrt(relevance), n_inducing, random_state=seed)[1]
        Z = scores[far]
    else:
        Z = corners(scores.shape[1], bias="bias" in kernel.parts)
    empty = data.empty_rows[:, None]
    latent = Latent(np.where(empty, 0.0, scores), np.where(empty, 1.0, spread) + 0 * scores)
    return LatentPoint(latent, Z, hyper)


def principal_scores(data: GPData, most: int) -> tuple[FloatArray, FloatArray]:
    """Scores of unit variance, and the variances of components relative to the first."""
    found = decompose(data.filled, plan=solve, center=data.center, n_needed=most)
    gamma = found.spectrum.singular_values * found.spectrum.scale
    keep = int(np.sum(gamma[:most] > 1e-7 * gamma[0])) if gamma.size else 0
    right = fixed_signs(np.asarray(found.right(max(keep, 1))))
    offset = data.filled.mean(axis=0) if data.center else 0.0
    scores = (data.filled - offset) @ right.T
    size = np.sqrt((scores**2).mean(axis=0))
    share = (size / size[0]) ** 2 if size[0] > 0 else np.ones(1)
    return scores / np.where(size > 0, size, 1.0), share[: len(right)] * np.ones(len(right))
