"""Errors of principal axes by simulation, and their information in rows with holes."""

from __future__ import annotations

import numpy as np


def squared_distances(strengths, n, p, *, sets, seed=0):
    """Mean squared error of each entry of each sample axis, over many data sets: (k, p).

    Entries are in the basis of the population: the first k are along its axes.
    """
    rng, k = np.random.default_rng(seed), len(strengths)
    std = np.sqrt(1 + np.append(np.array(strengths), np.zeros(p - k)))
    total = np.zeros((k, p))
    for _ in range(sets):
        W = np.linalg.svd(rng.normal(size=(n, p)) * std, full_matrices=False)[2][:k]
        W *= np.sign(W[range(k), range(k)])[:, None]
        total += (W - np.eye(k, p)) ** 2
    return total / sets


def information_of_angle(strengths, pair, seen, W):
    """½tr(C⁻¹ĊC⁻¹Ċ) summed over rows: the Fisher information of turning two axes in their plane.

    `seen` is the mask (n, p), W are the axes (k, p), and C = WᵀTW + I over the observed cells.
    """
    h, l = pair
    slope = (strengths[h] - strengths[l]) * (np.outer(W[h], W[l]) + np.outer(W[l], W[h]))
    C = (W.T * strengths) @ W + np.eye(W.shape[1])
    total = 0.0
    for row in seen:
        there = np.ix_(row, row)
        ratio = np.linalg.solve(C[there], slope[there])
        total += 0.5 * np.trace(ratio @ ratio)
    return total
