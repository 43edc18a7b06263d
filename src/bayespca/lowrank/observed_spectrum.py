"""Singular values where cells are missing, for rules that know complete data: an approximation.

A matrix without holes that tells about as much as the cells that are there: what was fitted, and
what is left over in a cell, divided by the share f of cells that are there, in the place of noise,

    Y = ⟨BAᵀ⟩ + P∘(X − ⟨BAᵀ⟩)/f,    P = 1 in cells that are there, 0 in holes,

so that components that were shrunk or dropped get back what was taken from them, and noise has the
variance σ²/f in all cells (the debiased estimate of Chen, Fan, Ma and Yan 2019). Its singular
values have the posterior of complete data, with the detection limit √(p/n)/f. Where cells count
differently, P is what they count, and f its mean; rows and columns are divided by their noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import to_namespace, to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Spectrum, samples
from bayespca.spectrum.tolerances import RESOLUTION_OF_SQUARES

from . import holes_posterior as read
from .holes import Holes, IncompleteRows
from .holes_posterior import HolesPosterior


class ObservedSpectrum(NamedTuple):
    """Singular values of Y, and the share f of cells that are there."""

    spectrum: Spectrum
    share: float


def spectrum_of_observed(
    posterior: HolesPosterior, rows: IncompleteRows, live: NDArray[np.bool_], n_samples: int
) -> ObservedSpectrum:
    """The spectrum of Y.

    `rows` are those of the data that have cells, in the columns that are `live`, as they count.
    """
    counts = rows.total(_counts) / rows.shape[0]
    p, centred = int(live.sum()), rows.centred
    product = rows.total(_products, posterior, live, counts)
    gram, sums, n = product[:p, :p], product[p, :p], product[p, p]
    gram = gram - np.outer(sums, sums) / n if centred else gram
    M = samples(n_samples, centred)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))[: min(p, M)]
    spectrum = Spectrum(values, (p, M), resolution=RESOLUTION_OF_SQUARES)
    return ObservedSpectrum(spectrum, float(counts.mean()))


def _counts(rows: Holes) -> FloatArray:
    """What the cells of each column count together."""
    return np.asarray(to_numpy(rows.mask), dtype=np.float64).sum(axis=0)


def _products(
    rows: Holes, posterior: HolesPosterior, live: NDArray[np.bool_], shares: FloatArray
) -> FloatArray:
    """Products of the columns of Y and of ones."""
    counts = np.asarray(to_numpy(rows.mask), dtype=np.float64)
    columns = np.flatnonzero(live)
    X = np.full((rows.shape[0], live.size), np.nan)
    inside = to_numpy(rows.plain_values) * rows.unit + rows.location
    X[:, columns] = np.where(counts > 0, inside, np.nan)
    there = to_namespace(X, posterior.components)
    fitted = to_numpy(read.reconstruct(posterior, read.scores(posterior, there)))[:, columns]
    # Of rows and columns with more cells more is left over: all shall have the same noise.
    share = np.sqrt(counts.mean(axis=1, keepdims=True) * shares)
    left = np.where(counts > 0, counts * (inside - fitted), 0.0) / np.where(share > 0, share, 1.0)
    filled = (fitted - to_numpy(posterior.mean)[columns] + left) / to_numpy(posterior.scale)[
        columns
    ]
    root = np.ones(rows.shape[0]) if rows.weights is None else rows.weights.root
    whole = np.column_stack([filled, np.ones(rows.shape[0])]) * root[:, None]
    return np.asarray(whole.T @ whole)
