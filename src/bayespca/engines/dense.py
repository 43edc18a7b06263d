"""Singular values by LAPACK's SVD of the centred matrix: the most precise way, the reference; and
triangles of QR factorisations, which stand for the rows they come from.
"""

from __future__ import annotations

import numpy as np

from bayespca.arrays.namespaces import array_namespace, device, eps, to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.spectrum.records import Spectrum, samples

from .gram import centred
from .records import Decomposition


def decompose(X: Array, *, center: bool) -> Decomposition:
    """Decompose a matrix by the thin SVD of its centred copy, in its own precision."""
    xp = array_namespace(X)
    n, p = X.shape
    if center:
        values, mean = centred(X)
    else:
        values, mean = X, xp.zeros(p, dtype=xp.float64, device=device(X))
    # LAPACK may never return if values are not finite.
    if not bool(xp.isfinite(xp.sum(values))):
        raise ValueError("the data are not finite, or their sum is not")
    left, gamma, right = xp.linalg.svd(values, full_matrices=False)
    M = samples(n, center)
    gamma = np.sort(to_numpy(gamma).astype(np.float64))[::-1][: min(p, M)]
    spectrum = Spectrum(gamma, (p, M), resolution=eps(X.dtype))
    return Decomposition(
        spectrum, lambda k: right[:k, :], mean, n, "dense", left=lambda k: left[:, :k]
    )


def triangle(a: FloatArray) -> FloatArray:
    """R of the QR factorisation of a tall matrix."""
    return np.asarray(np.linalg.qr(a, mode="r"))


def shortened(rows: FloatArray) -> FloatArray:
    """Rows with the same products of columns, no more of them than there are columns."""
    return triangle(rows) if len(rows) > rows.shape[1] else rows
