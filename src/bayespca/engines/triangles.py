"""Triangles of QR factorisations, which stand for the rows they come from."""

from __future__ import annotations

import numpy as np

from bayespca.arrays.types import FloatArray


def triangle(a: FloatArray) -> FloatArray:
    """R of the QR factorisation of a tall matrix."""
    return np.asarray(np.linalg.qr(a, mode="r"))


def shortened(rows: FloatArray) -> FloatArray:
    """Rows with the same products of columns, no more of them than there are columns."""
    return triangle(rows) if len(rows) > rows.shape[1] else rows
