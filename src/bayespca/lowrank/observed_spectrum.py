"""Approximate singular values of data with missing cells, for rules that need complete data.

They are those of a matrix without holes that holds about as much information as the observed cells:
the fitted matrix, plus residuals of observed cells over their share f in place of noise,

    Y = ⟨BAᵀ⟩ + P∘(X − ⟨BAᵀ⟩)/f,    P = 1 in observed cells, 0 in holes,

so that components that were shrunk or dropped regain what they lost, and noise has the variance
σ²/f in all cells (the debiased estimate of Chen, Fan, Ma and Yan 2019). The singular values of Y
have the posterior of complete data, with the detection limit √(p/n)/f. Where cells have weights, P
are these weights, and f is their mean; rows and columns are divided by their noise.
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

# A column with a smaller share of the squares than this does not vary.
NOTHING = 1e-24


class ObservedSpectrum(NamedTuple):
    """Singular values of Y, and the share f of observed cells."""

    spectrum: Spectrum
    share: float


def spectrum_of_observed(
    posterior: HolesPosterior, rows: IncompleteRows, live: NDArray[np.bool_], n_samples: int
) -> ObservedSpectrum:
    """The spectrum of Y.

    `rows` are the rows of the data that have cells, in the `live` columns, with their weights.
    """
    counts = rows.total(_counts) / rows.shape[0]
    p, centred = int(live.sum()), rows.centred
    product = rows.total(_products, posterior, live, counts)
    gram, sums, n = product[:p, :p], product[p, :p], product[p, p]
    gram = gram - np.outer(sums, sums) / n if centred else gram
    # Columns that are constant, or have a single value, would look like an exact rank.
    size = np.diag(gram)
    cells = rows.shape[0] * (counts if counts.size == p else counts[live])
    seen = (size > NOTHING * size.max(initial=0.0)) & (cells > 1)
    # Where none varies, a column of zeros stands for them.
    gram = gram[np.ix_(seen, seen)] if seen.any() else np.zeros((1, 1))
    p, M = len(gram), samples(n_samples, centred)
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))[: min(p, M)]
    spectrum = Spectrum(values, (p, M), resolution=RESOLUTION_OF_SQUARES)
    return ObservedSpectrum(spectrum, float(counts.mean()))


def _counts(rows: Holes) -> FloatArray:
    """Sum of the weights of the cells of each column."""
    return np.asarray(to_numpy(rows.mask), dtype=np.float64).sum(axis=0)


def _products(
    rows: Holes, posterior: HolesPosterior, live: NDArray[np.bool_], shares: FloatArray
) -> FloatArray:
    """Products of the columns of Y and of a column of ones."""
    counts = np.asarray(to_numpy(rows.mask), dtype=np.float64)
    columns = np.flatnonzero(live)
    X = np.full((rows.shape[0], live.size), np.nan)
    inside = to_numpy(rows.plain_values) * rows.unit + rows.location
    X[:, columns] = np.where(counts > 0, inside, np.nan)
    there = to_namespace(X, posterior.components)
    fitted = to_numpy(read.reconstruct(posterior, read.scores(posterior, there)))[:, columns]
    # Rows and columns with more cells have larger residuals: this gives all the same noise.
    share = np.sqrt(counts.mean(axis=1, keepdims=True) * shares)
    left = np.where(counts > 0, counts * (inside - fitted), 0.0) / np.where(share > 0, share, 1.0)
    filled = (fitted - to_numpy(posterior.mean)[columns] + left) / to_numpy(posterior.scale)[
        columns
    ]
    root = np.ones(rows.shape[0]) if rows.weights is None else rows.weights.root
    whole = np.column_stack([filled, np.ones(rows.shape[0])]) * root[:, None]
    return np.asarray(whole.T @ whole)
