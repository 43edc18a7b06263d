"""Recall and nDCG of the first ten recommended items, against cmfrec and implicit."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from timing import heading

from bayespca import MatrixFactorization

Cells = tuple[np.ndarray, np.ndarray, np.ndarray]
# Maps known ratings and the shape of the table to the score of each item for each user.
Ranker = Callable[[Cells, tuple[int, int]], np.ndarray]

FIRST, LIKED = 10, 4.0


def ours(method: str, cells: Cells, shape: tuple[int, int], **options: bool) -> np.ndarray:
    model = MatrixFactorization(method, random_state=0, bounds=None, **options)
    model.fit_ratings(*cells)
    grid = np.full(shape, -np.inf)
    users, items = model.users_, model.items_
    grid[np.ix_(users, items)] = model.predict(users[:, None], items[None, :])
    return grid


def popular(cells: Cells, shape: tuple[int, int]) -> np.ndarray:
    """Scores that rank items by the number of users who have rated them."""
    counts = np.bincount(cells[1], minlength=shape[1]).astype(float)
    return np.broadcast_to(counts, shape)


def by_cmfrec(cells: Cells, shape: tuple[int, int]) -> np.ndarray:
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame(dict(zip(("UserId", "ItemId", "Rating"), cells, strict=True)))
    model = CMF(k=10, verbose=False, nthreads=2).fit(frame)
    users, items = np.unique(cells[0]), np.unique(cells[1])
    grid = np.full(shape, -np.inf)
    pairs = np.repeat(users, items.size), np.tile(items, users.size)
    grid[np.ix_(users, items)] = model.predict(*pairs).reshape(users.size, items.size)
    return grid


def by_implicit(cells: Cells, shape: tuple[int, int]) -> np.ndarray:
    """Scores of implicit, fitted as is usual: to liked items only, weighted by their ratings."""
    import scipy.sparse as sp
    from implicit.als import AlternatingLeastSquares

    users, items, ratings = cells
    liked = ratings >= LIKED
    seen = sp.csr_matrix((ratings[liked], (users[liked], items[liked])), shape=shape)
    model = AlternatingLeastSquares(factors=64, random_state=0, num_threads=2)
    model.fit(seen.astype(np.float32), show_progress=False)
    return np.asarray(model.user_factors @ model.item_factors.T)


def first_ten(cells: Cells, rankers: dict[str, Ranker]) -> None:
    """Print how well each ranker orders one of five folds, in two ways.

    Among all items that a user has not rated, it should find the liked ones that were held out;
    among the user's held-out ratings, it should put the best first.
    """
    heading(f"The first {FIRST} items of each user, one of five folds")
    shape = int(cells[0].max()) + 1, int(cells[1].max()) + 1
    test = np.array_split(np.random.default_rng(0).permutation(cells[2].size), 5)[0]
    train = np.setdiff1d(np.arange(cells[2].size), test)
    known, hidden = (tuple(column[part] for column in cells) for part in (train, test))
    for name, ranker in rankers.items():
        start = time.process_time()
        try:
            scores = np.array(ranker(known, shape), dtype=float)
        except ImportError as absent:
            print(f"    {name}: {absent}")
            continue
        seconds = time.process_time() - start
        among_all = _among_unrated(scores, known, hidden)
        among_rated = _among_rated(scores, hidden)
        print(
            f"    {name}: among all items recall {among_all[0]:.3f}, nDCG {among_all[1]:.3f}; "
            f"among rated ones nDCG {among_rated:.3f}; {seconds:.1f} s"
        )


def _among_unrated(scores: np.ndarray, known: Cells, hidden: Cells) -> tuple[float, float]:
    """Recall and nDCG of liked items that were held out, averaged over users."""
    scores = scores.copy()
    scores[known[0], known[1]] = -np.inf
    liked = np.zeros(scores.shape, bool)
    chosen = hidden[2] >= LIKED
    liked[hidden[0][chosen], hidden[1][chosen]] = True
    users = np.flatnonzero(liked.any(axis=1))
    best = np.argsort(-scores[users], axis=1, kind="stable")[:, :FIRST]
    hits = np.take_along_axis(liked[users], best, axis=1)
    count = np.minimum(liked[users].sum(axis=1), FIRST)
    worth = 1 / np.log2(np.arange(FIRST) + 2)
    ideal = np.cumsum(worth)[count - 1]
    return float(np.mean(hits.sum(axis=1) / count)), float(np.mean(hits @ worth / ideal))


def _among_rated(scores: np.ndarray, hidden: Cells) -> float:
    """The mean nDCG over users who have at least two held-out ratings that differ."""
    found = []
    for user in np.unique(hidden[0]):
        mine = hidden[0] == user
        stars, order = hidden[2][mine], np.argsort(-scores[user, hidden[1][mine]], kind="stable")
        if np.ptp(stars) > 0:
            found.append(_gain(stars[order]) / _gain(np.sort(stars)[::-1]))
    return float(np.mean(found))


def _gain(stars: np.ndarray) -> float:
    first = stars[:FIRST]
    return float(((2**first - 1) / np.log2(np.arange(first.size) + 2)).sum())
