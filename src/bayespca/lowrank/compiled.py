"""Loops over patterns of holes that BLAS cannot do; `kernels.by_numpy` says what they compute.

Patterns are worked on side by side, one in each lane of vector instructions: every inner loop runs
over lanes. How many there are is not known to the compiler, because it would unroll short loops of
known length and no longer vectorise them. Patterns do not see each other, so that it does not
matter to the results how they are grouped.
"""

from __future__ import annotations

from contextlib import suppress

import numba
import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import FloatArray

from .kernels import OwnRows, Starts, UpdatedRows

# Lanes at most, and the numbers in all of them that stay in a core's cache.
LANES = 128
CACHED = 1 << 16

_compiled = numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")


def by_loops(
    gram: FloatArray,
    pull: FloatArray,
    starts: Starts,
    share: float,
    ridge: FloatArray,
    s2: float,
    own: OwnRows | None = None,
) -> UpdatedRows:
    """As `kernels.by_numpy`; covariances take the place of `gram`, and means that of `pull`.

    It runs on the thread that calls it, and lets others run.
    """
    m, H = starts.size - 1, ridge.size
    second = np.empty(((H + 1) * (H + 2) // 2, m))
    log_dets = np.empty(m)
    lanes = max(min(LANES, CACHED // (H * H + 1)), 8)
    shares = share * np.diff(starts) if own is None else own.shares
    known = np.empty(0) if own is None else own.last
    _update(gram, pull, starts, shares, known, ridge, s2, second, log_dets, lanes)
    return UpdatedRows(pull, gram, second, log_dets)


@_compiled
def _update(
    gram: FloatArray,
    pull: FloatArray,
    starts: Starts,
    shares: FloatArray,
    known: FloatArray,
    ridge: FloatArray,
    s2: float,
    second: FloatArray,
    log_dets: FloatArray,
    lanes: int,
) -> None:
    """One group of patterns after another, in scratch arrays that have lanes as their last axis."""
    m, H = log_dets.size, ridge.size
    C = np.empty((H, H, lanes))
    S = np.empty((second.shape[0], lanes))
    x, y = np.empty((H, lanes)), np.empty((H, lanes))
    t = np.empty(lanes)
    for first in range(0, m, lanes):
        last = min(first + lanes, m)
        begins = starts[first : last + 1]
        log_dets[first:last] = H * np.log(s2)
        _load(gram[:, first:last], ridge, C)
        _invert(C, x, y, t, log_dets[first:last])
        for l in range(last - first):
            t[l] = s2 * shares[first + l]
        _store(C, s2, t, gram[:, first:last], S)
        for l in range(last - first):
            S[-1, l] = 0.0 if known.size else begins[l + 1] - begins[l]
        _update_rows(C, begins, pull, known, x, y, t, S)
        second[:, first:last] = S[:, : last - first]


@_compiled
def _load(gram: FloatArray, ridge: FloatArray, C: FloatArray) -> None:
    """Lower triangles of the precisions times σ²."""
    H, count = ridge.size, gram.shape[1]
    at = 0
    for h in range(H):
        for k in range(h, H):
            for l in range(count):
                C[k, h, l] = gram[at, l]
            at += 1
        for l in range(count):
            C[h, h, l] += ridge[h]


@_compiled
def _invert(
    C: FloatArray, x: FloatArray, y: FloatArray, t: FloatArray, log_dets: FloatArray
) -> None:
    """Lower triangles of minus the inverses; the logarithms of their determinants are added up.

    One pivot after another is swept out. Pivots are the squares of the diagonal of Cholesky's
    factor, and the inverse is summed up from the columns of the inverse factor, so that this is as
    accurate as Cholesky's way; but it is a single loop over the triangle.
    """
    H, count = C.shape[0], log_dets.size
    for k in range(H):
        for l in range(count):
            t[l] = 1 / C[k, k, l]
        for l in range(count):
            log_dets[l] += np.log(t[l])
        for g in range(H):
            for l in range(count):
                x[g, l] = C[max(g, k), min(g, k), l]
        for g in range(H):
            if g != k:
                for l in range(count):
                    y[g, l] = x[g, l] * t[l]
                for h in range(g + 1):
                    if h != k:
                        for l in range(count):
                            C[g, h, l] -= y[g, l] * x[h, l]
                for l in range(count):
                    C[max(g, k), min(g, k), l] = y[g, l]
        for l in range(count):
            C[k, k, l] = -t[l]


@_compiled
def _store(C: FloatArray, s2: float, weights: FloatArray, cov: FloatArray, S: FloatArray) -> None:
    """Covariances, and what they are in Σ⟨ããᵀ⟩ with their weights."""
    H, count = C.shape[0], cov.shape[1]
    at = to = 0
    for h in range(H):
        for k in range(h, H):
            for l in range(count):
                C[k, h, l] = -C[k, h, l]
            for l in range(count):
                cov[at, l] = s2 * C[k, h, l]
            for l in range(count):
                S[to, l] = weights[l] * C[k, h, l]
            at, to = at + 1, to + 1
        for l in range(count):
            S[to, l] = 0.0
        to += 1


@_compiled
def _update_rows(
    C: FloatArray,
    begins: NDArray[np.intp],
    pull: FloatArray,
    known: FloatArray,
    x: FloatArray,
    y: FloatArray,
    t: FloatArray,
    S: FloatArray,
) -> None:
    """Means of the rows, which take the place of `pull`, and their squares, added to S.

    `known` are the last entries of ã, empty where all of them are 1, whose squares S has already.
    Here a lane is a row, whatever its pattern: patterns may have any number of rows.
    """
    H, lanes = x.shape
    of = np.empty(lanes, np.intp)
    pattern = 0
    for first in range(begins[0], begins[-1], lanes):
        count = min(lanes, begins[-1] - first)
        for l in range(count):
            while begins[pattern + 1] <= first + l:
                pattern += 1
            of[l] = pattern
        for l in range(count):
            for h in range(H):
                x[h, l] = pull[first + l, h]
        for h in range(H):
            for l in range(count):
                t[l] = 0.0
            for k in range(H):
                for l in range(count):
                    t[l] += C[max(h, k), min(h, k), of[l]] * x[k, l]
            for l in range(count):
                y[h, l] = t[l]
        for l in range(count):
            for h in range(H):
                pull[first + l, h] = y[h, l]
        at = 0
        for h in range(H):
            for k in range(h, H):
                for l in range(count):
                    S[at, of[l]] += y[h, l] * y[k, l]
                at += 1
            if known.size:
                for l in range(count):
                    S[at, of[l]] += y[h, l] * known[first + l]
            else:
                for l in range(count):
                    S[at, of[l]] += y[h, l]
            at += 1
        if known.size:
            for l in range(count):
                S[at, of[l]] += known[first + l] ** 2


# Where no folder can be written to, it is compiled anew in each process.
with suppress(RuntimeError):
    _update.enable_caching()
