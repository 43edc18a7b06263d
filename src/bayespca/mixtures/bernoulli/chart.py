"""States of Bernoulli mixtures as vectors: logarithms of sizes, and logits of shares of ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from bayespca.arrays.types import FloatArray, Vector
from bayespca.inference.accelerating import StatePoint
from bayespca.lowrank.aligning import FURTHEST

from .data import BernoulliRows
from .family import BernoulliSums
from .step import BernoulliState

# Half a cell of each kind is added: no share is 0 or 1.
HALF = 0.5


@dataclass(frozen=True, eq=False)
class BernoulliChart:
    """log N of each cluster, the logit of the share of ones in each of its columns and, where there
    are holes, the logit of the share of its cells that are there.
    """

    data: BernoulliRows

    def point(self, state: BernoulliState, like: Vector | None) -> StatePoint:
        sums = state.sums
        vector, errors = [np.log(sums.sizes + HALF)], [1 / np.sqrt(sums.sizes + HALF)]
        pairs = [(sums.ones, sums.zeros)]
        if self.data.seen is not None:
            pairs.append((sums.seen, np.maximum(sums.sizes[:, None] - sums.seen, 0.0)))
        for ones, zeros in pairs:
            vector.append(np.log((ones + HALF) / (zeros + HALF)).ravel())
            errors.append(np.sqrt(1 / (ones + HALF) + 1 / (zeros + HALF)).ravel())
        return StatePoint(np.concatenate(vector), np.concatenate(errors))

    def at(self, state: BernoulliState, vector: Vector) -> BernoulliState:
        here = self.point(state, None).vector
        vector = np.clip(vector, here - FURTHEST, here + FURTHEST)
        K, shape = state.n_clusters, state.sums.ones.shape
        sizes, ones, *there = np.split(vector, np.cumsum([K, *[state.sums.ones.size]]))
        N = np.maximum(np.exp(sizes) - HALF, 0.0)
        N *= self.data.total / N.sum()
        all_cells = np.broadcast_to(N[:, None], shape)
        seen = _count(there[0].reshape(shape), all_cells) if there[0].size else all_cells
        return BernoulliState(
            BernoulliSums(N, _count(ones.reshape(shape), seen), seen), state.energy
        )


def _count(logits: FloatArray, of: FloatArray) -> FloatArray:
    """So many of these cells have such a logit."""
    return np.asarray(np.clip((of + 2 * HALF) * expit(logits) - HALF, 0.0, of))
