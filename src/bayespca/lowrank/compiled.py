"""Loops over patterns of holes that BLAS cannot do; `kernels.by_numpy` says what they compute.

Patterns are processed side by side, one in each lane of vector instructions: every inner loop runs
over lanes. The compiler does not know the number of lanes, because it would unroll short loops of
known length instead of vectorising them; it does know the stride between entries, so that it need
not check whether they overlap. Patterns are independent of each other: results do not depend on how
they are grouped.
"""

from __future__ import annotations

from contextlib import suppress

import numba
import numpy as np

from bayespca.arrays.types import FloatArray, Index

from .kernels import OwnRows, UpdatedRows

# Entries of a matrix are WIDTH numbers apart, one for each lane. Fewer lanes are used, but at least
# LEAST, where the triangles of all lanes would not fit in a core's cache of CACHED numbers.
WIDTH = 32
LEAST = 8
CACHED = 1 << 18
# Pivots that are swept out together, so that each number is loaded and stored a quarter as often.
TOGETHER = 4

_compiled = numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")


def by_loops(
    gram: FloatArray,
    pull: FloatArray,
    starts: Index,
    share: float,
    ridge: FloatArray,
    s2: float,
    own: OwnRows | None = None,
) -> UpdatedRows:
    """As `kernels.by_numpy`, but `gram` is overwritten by covariances and `pull` by means.

    It runs on the calling thread and releases the GIL.
    """
    m, H = starts.size - 1, ridge.size
    second = np.empty(((H + 1) * (H + 2) // 2, m))
    log_dets = np.empty(m)
    shares = share * np.diff(starts) if own is None else own.shares
    known = np.empty(0) if own is None else own.last
    _update(gram, pull, starts, shares, known, ridge, s2, second, log_dets, _lanes(H))
    return UpdatedRows(pull, gram, second, log_dets)


def _lanes(H: int) -> int:
    """Number of patterns processed side by side: a multiple of LEAST, at most WIDTH."""
    fitting = 2 * CACHED // (H * (H + 1) + 1)
    return min(max(fitting // LEAST * LEAST, LEAST), WIDTH)


@_compiled
def _update(
    gram: FloatArray,
    pull: FloatArray,
    starts: Index,
    shares: FloatArray,
    known: FloatArray,
    ridge: FloatArray,
    s2: float,
    second: FloatArray,
    log_dets: FloatArray,
    lanes: int,
) -> None:
    """Update one group of patterns after another, in scratch arrays whose last axis is the lane."""
    m, H = log_dets.size, ridge.size
    C = np.zeros((H * (H + 1) // 2) * WIDTH)
    x, y = np.zeros(TOGETHER * (H + 1) * WIDTH), np.zeros(TOGETHER * (H + 1) * WIDTH)
    root = np.zeros(16 * WIDTH)
    weights = np.zeros(WIDTH)
    for first in range(0, m, lanes):
        count = min(lanes, m - first)
        begins = starts[first : first + count + 1]
        logs, cov = log_dets[first : first + count], gram[:, first : first + count]
        found = second[:, first : first + count]
        logs[:] = H * np.log(s2)
        _load(cov, ridge, C)
        _invert(C, x, y, root, logs)
        for l in range(count):
            weights[l] = s2 * shares[first + l]
        _store(C, s2, weights, cov, found)
        if begins[count] - begins[0] == count:
            _update_single_rows(C, begins[0], pull, known, x, y, found)
        else:
            _update_rows(C, begins, pull, known, x, y, found)


@_compiled
def _load(gram: FloatArray, ridge: FloatArray, C: FloatArray) -> None:
    """Load the lower triangles of the precisions times σ² into C, row by row."""
    H, count = ridge.size, gram.shape[1]
    at = 0
    for h in range(H):
        for k in range(h, H):
            entry, given = _lane(C, k * (k + 1) // 2 + h), gram[at]
            for l in range(count):
                entry[l] = given[l]
            at += 1
        entry = _lane(C, h * (h + 3) // 2)
        for l in range(count):
            entry[l] += ridge[h]


@_compiled
def _lane(C: FloatArray, entry: int) -> FloatArray:
    return C[entry * WIDTH : (entry + 1) * WIDTH]


@_compiled
def _entry(g: int, h: int) -> int:
    """Index of an entry of the symmetric matrix in its lower triangle."""
    return g * (g + 1) // 2 + h if g > h else h * (h + 1) // 2 + g


@_compiled
def _invert(
    C: FloatArray, x: FloatArray, y: FloatArray, root: FloatArray, log_dets: FloatArray
) -> None:
    """Turn C into the lower triangles of minus the inverses, and add up log|inverse|.

    Pivots are swept out a few at a time. Their roots are the diagonal blocks of Cholesky's factor,
    and the inverse is summed up from the columns of the inverse factor. So this is as accurate as
    Cholesky's method, but a single loop over the triangle.
    """
    H = x.size // (TOGETHER * WIDTH) - 1
    whole = H - H % TOGETHER
    for k in range(0, whole, TOGETHER):
        _sweep_four(C, k, H, x, y, root, log_dets)
    for k in range(whole, H):
        _sweep_one(C, k, H, x, y, log_dets)


@_compiled
def _sweep_one(
    C: FloatArray, k: int, H: int, x: FloatArray, y: FloatArray, log_dets: FloatArray
) -> None:
    """Sweep out a pivot: C − ccᵀ/pivot; its column c becomes c/pivot, the pivot −1/pivot."""
    count, pivot = log_dets.size, _lane(C, k * (k + 3) // 2)
    for l in range(count):
        pivot[l] = 1 / pivot[l]
    for l in range(count):
        log_dets[l] += np.log(pivot[l])
    for g in range(H):
        column, c, d = _lane(C, _entry(g, k)), _lane(x, g), _lane(y, g)
        if g != k:
            for l in range(count):
                c[l] = column[l]
            for l in range(count):
                d[l] = c[l] * pivot[l]
            for l in range(count):
                column[l] = d[l]
    for g in range(H):
        if g != k:
            d = _lane(y, g)
            for h in range(g + 1):
                if h != k:
                    entry, c = _lane(C, g * (g + 1) // 2 + h), _lane(x, h)
                    for l in range(count):
                        entry[l] -= d[l] * c[l]
    for l in range(count):
        pivot[l] = -pivot[l]


@_compiled
def _sweep_four(
    C: FloatArray,
    k: int,
    H: int,
    x: FloatArray,
    y: FloatArray,
    root: FloatArray,
    log_dets: FloatArray,
) -> None:
    """Sweep out four pivots P: C − XP⁻¹Xᵀ; their columns X become XP⁻¹, the pivots −P⁻¹.

    With P⁻¹ = RᵀR and Z = XRᵀ these are C − ZZᵀ and ZR.
    """
    count = log_dets.size
    _inverse_root(C, k, root, log_dets)
    for g in range(H):
        if g < k or g >= k + TOGETHER:
            _turn_columns(C, g, k, x, y, root, count)
    for g in range(k):
        _subtract(C, g, 0, g + 1, x, count)
    for g in range(k + TOGETHER, H):
        _subtract(C, g, 0, k, x, count)
        _subtract(C, g, k + TOGETHER, g + 1, x, count)
    _put_pivots(C, k, root, count)


@_compiled
def _subtract(C: FloatArray, g: int, first: int, last: int, x: FloatArray, count: int) -> None:
    """Subtract ZZᵀ from entries `first` to `last` of row g."""
    W = WIDTH
    a = x[4 * g * W : 4 * (g + 1) * W]
    at = g * (g + 1) // 2
    for h in range(first, last):
        b = x[4 * h * W : 4 * (h + 1) * W]
        entry = C[(at + h) * W : (at + h + 1) * W]
        for l in range(count):
            entry[l] -= (
                a[l] * b[l]
                + a[W + l] * b[W + l]
                + a[2 * W + l] * b[2 * W + l]
                + a[3 * W + l] * b[3 * W + l]
            )


@_compiled
def _inverse_root(C: FloatArray, k: int, root: FloatArray, log_dets: FloatArray) -> None:
    """Lower triangles R with RᵀR = P⁻¹ for the pivots P at k, row by row; log|P⁻¹| is added up."""
    W, count = WIDTH, log_dets.size
    at = 0
    for g in range(k, k + TOGETHER):
        for h in range(k, g + 1):
            entry, to = _lane(C, g * (g + 1) // 2 + h), _lane(root, at)
            for l in range(count):
                to[l] = entry[l]
            at += 1
    for l in range(count):
        i00 = 1 / np.sqrt(root[l])
        l10, l20, l30 = root[W + l] * i00, root[3 * W + l] * i00, root[6 * W + l] * i00
        i11 = 1 / np.sqrt(root[2 * W + l] - l10 * l10)
        l21 = (root[4 * W + l] - l20 * l10) * i11
        l31 = (root[7 * W + l] - l30 * l10) * i11
        i22 = 1 / np.sqrt(root[5 * W + l] - l20 * l20 - l21 * l21)
        l32 = (root[8 * W + l] - l30 * l20 - l31 * l21) * i22
        i33 = 1 / np.sqrt(root[9 * W + l] - l30 * l30 - l31 * l31 - l32 * l32)
        i10 = -l10 * i00 * i11
        i21 = -l21 * i11 * i22
        i32 = -l32 * i22 * i33
        i20 = -(l20 * i00 + l21 * i10) * i22
        i31 = -(l31 * i11 + l32 * i21) * i33
        root[l], root[W + l], root[2 * W + l] = i00, i10, i11
        root[3 * W + l], root[4 * W + l], root[5 * W + l] = i20, i21, i22
        root[6 * W + l] = -(l30 * i00 + l31 * i10 + l32 * i20) * i33
        root[7 * W + l], root[8 * W + l], root[9 * W + l] = i31, i32, i33
    for l in range(count):
        product = root[l] * root[2 * W + l] * root[5 * W + l] * root[9 * W + l]
        log_dets[l] += 2 * np.log(product)


@_compiled
def _turn_columns(
    C: FloatArray, g: int, k: int, x: FloatArray, y: FloatArray, root: FloatArray, count: int
) -> None:
    """Row g of Z = XRᵀ, kept in x, and of ZR, which replaces the row of X."""
    W = WIDTH
    z, to = x[4 * g * W : 4 * (g + 1) * W], y[: 4 * W]
    for q in range(TOGETHER):
        column, of_x = _lane(C, _entry(g, k + q)), _lane(z, q)
        for l in range(count):
            of_x[l] = column[l]
    for l in range(count):
        a, b, c, d = z[l], z[W + l], z[2 * W + l], z[3 * W + l]
        r10, r20, r21 = root[W + l], root[3 * W + l], root[4 * W + l]
        r30, r31, r32 = root[6 * W + l], root[7 * W + l], root[8 * W + l]
        r11, r22, r33 = root[2 * W + l], root[5 * W + l], root[9 * W + l]
        d = r30 * a + r31 * b + r32 * c + r33 * d
        c = r20 * a + r21 * b + r22 * c
        b = r10 * a + r11 * b
        a = root[l] * a
        z[l], z[W + l], z[2 * W + l], z[3 * W + l] = a, b, c, d
        to[l] = root[l] * a + r10 * b + r20 * c + r30 * d
        to[W + l] = r11 * b + r21 * c + r31 * d
        to[2 * W + l] = r22 * c + r32 * d
        to[3 * W + l] = r33 * d
    for q in range(TOGETHER):
        column, of_y = _lane(C, _entry(g, k + q)), _lane(to, q)
        for l in range(count):
            column[l] = of_y[l]


@_compiled
def _put_pivots(C: FloatArray, k: int, root: FloatArray, count: int) -> None:
    """Replace the pivots by −RᵀR."""
    for g in range(TOGETHER):
        for h in range(g + 1):
            entry = _lane(C, _entry(k + g, k + h))
            for l in range(count):
                entry[l] = 0.0
            for q in range(g, TOGETHER):
                a, b = _lane(root, q * (q + 1) // 2 + g), _lane(root, q * (q + 1) // 2 + h)
                for l in range(count):
                    entry[l] -= a[l] * b[l]


@_compiled
def _store(
    C: FloatArray, s2: float, weights: FloatArray, cov: FloatArray, second: FloatArray
) -> None:
    """Store covariances, and their weighted contributions to Σ⟨ããᵀ⟩, 0 elsewhere."""
    count = cov.shape[1]
    H = int(np.sqrt(2.0 * cov.shape[0]))
    at = to = 0
    for h in range(H):
        for k in range(h, H):
            entry, of_cov, of_second = _lane(C, k * (k + 1) // 2 + h), cov[at], second[to]
            for l in range(count):
                entry[l] = -entry[l]
            for l in range(count):
                of_cov[l] = s2 * entry[l]
            for l in range(count):
                of_second[l] = weights[l] * entry[l]
            at, to = at + 1, to + 1
        second[to] = 0.0
        to += 1
    second[to] = 0.0


@_compiled
def _load_rows(pull: FloatArray, known: FloatArray, first: int, count: int, x: FloatArray) -> None:
    """Load rows into the lanes of x, followed by the last entries of ã, 1 unless `known`."""
    H = pull.shape[1]
    for l in range(count):
        x[H * WIDTH + l] = known[first + l] if known.size else 1.0
        for h in range(H):
            x[h * WIDTH + l] = pull[first + l, h]


@_compiled
def _store_rows(y: FloatArray, first: int, count: int, pull: FloatArray) -> None:
    for l in range(count):
        for h in range(pull.shape[1]):
            pull[first + l, h] = y[h * WIDTH + l]


@_compiled
def _update_single_rows(
    C: FloatArray,
    first: int,
    pull: FloatArray,
    known: FloatArray,
    x: FloatArray,
    y: FloatArray,
    second: FloatArray,
) -> None:
    """As `_update_rows` where each pattern has one row, in the same lane as its pattern."""
    H, count = pull.shape[1], second.shape[1]
    last = _lane(x, H)
    _load_rows(pull, known, first, count, x)
    for h in range(H):
        _lane(y, h)[:] = 0.0
    for h in range(H):
        xh, yh = _lane(x, h), _lane(y, h)
        for k in range(h):
            entry, xk, yk = _lane(C, h * (h + 1) // 2 + k), _lane(x, k), _lane(y, k)
            for l in range(count):
                yh[l] += entry[l] * xk[l]
            for l in range(count):
                yk[l] += entry[l] * xh[l]
        entry = _lane(C, h * (h + 3) // 2)
        for l in range(count):
            yh[l] += entry[l] * xh[l]
    _store_rows(y, first, count, pull)
    at = 0
    for h in range(H + 1):
        yh = _lane(y, h) if h < H else last
        for k in range(h, H + 1):
            yk, of_second = _lane(y, k) if k < H else last, second[at]
            for l in range(count):
                of_second[l] += yh[l] * yk[l]
            at += 1


@_compiled
def _update_rows(
    C: FloatArray,
    begins: Index,
    pull: FloatArray,
    known: FloatArray,
    x: FloatArray,
    y: FloatArray,
    second: FloatArray,
) -> None:
    """Replace `pull` by the means of the rows, and add their squares to Σ⟨ããᵀ⟩.

    `known` are the last entries of ã, empty where all of them are 1. A lane is a row here, whatever
    its pattern, because patterns may have any number of rows.
    """
    H, t, last = pull.shape[1], np.empty(WIDTH), _lane(x, pull.shape[1])
    of = np.empty(WIDTH, np.intp)
    pattern = 0
    for first in range(begins[0], begins[-1], WIDTH):
        count = min(WIDTH, begins[-1] - first)
        for l in range(count):
            while begins[pattern + 1] <= first + l:
                pattern += 1
            of[l] = pattern
        _load_rows(pull, known, first, count, x)
        for h in range(H):
            t[:count] = 0.0
            for k in range(H):
                entry, xk = _lane(C, _entry(h, k)), _lane(x, k)
                for l in range(count):
                    t[l] += entry[of[l]] * xk[l]
            _lane(y, h)[:count] = t[:count]
        _store_rows(y, first, count, pull)
        at = 0
        for h in range(H + 1):
            yh = _lane(y, h) if h < H else last
            for k in range(h, H + 1):
                yk, of_second = _lane(y, k) if k < H else last, second[at]
                for l in range(count):
                    of_second[of[l]] += yh[l] * yk[l]
                at += 1


# Without a writable cache folder, each process compiles it anew.
with suppress(RuntimeError):
    _update.enable_caching()
