"""Where the sweeps over ratings start: shrunken means, and singular vectors of what they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from bayespca.arrays.packing import packed, unpacked
from bayespca.arrays.types import FloatArray
from bayespca.spectrum.tolerances import START_NOISE

from .cells import chunks
from .data import Ratings
from .partitioned import DistantRatings, rest_of_biases, rest_of_state, singular, squares_of_users
from .step import Model, State, rows_of

Cells = Ratings | DistantRatings

# Ratings that a mean is shrunk by.
SHRINKAGE = 5.0


def start(data: Cells, model: Model, rank: int) -> State:
    """Biases, then `rank` components of the residual matrix with zeros for what is not there."""
    begin, rest = _with_biases(data, model)
    return _with_components(begin, *_leading(rest, data, rank))


def random_start(data: Cells, model: Model, rank: int, rng: np.random.Generator) -> State:
    """Columns from normal draws as large as the data, biases as in `start`."""
    begin, _ = _with_biases(data, model)
    return _with_components(begin, rng.normal(size=(data.shape[1], rank)), np.ones(rank))


def with_one_more(state: State, data: Cells, model: Model) -> State:
    """One more component: the strongest of what is left when rows have explained their part."""
    if isinstance(data, DistantRatings):
        rest: Any = rest_of_state(data, state, model)
    else:
        rest = _rest(state, rows_of(state, data, model).mean, data)
    return _with_components(state, *_leading(rest, data, 1))


def _rest(state: State, rows: FloatArray, data: Ratings) -> FloatArray:
    """What rows and columns leave of the cells, in the order of columns."""
    side, H = data.by_columns, state.rank
    u, v = (f[:, H] if state.biases else np.zeros(len(f)) for f in (rows, state.b))
    rest = side.values - state.location - u[side.other] - np.repeat(v, side.counts)
    for cells, columns in chunks(side):
        a, b = rows[side.other[cells], :H], state.b[columns, :H]
        rest[cells] -= np.einsum("ch,ch->c", a, b)
    return rest


def _with_biases(data: Cells, model: Model) -> tuple[State, Any]:
    """A start without components, and what it leaves: of cells in memory in the order of columns,
    else what will become matrices.
    """
    n, m = data.shape
    biases = model.biases
    v = data.column_totals / (data.column_counts + SHRINKAGE) * biases
    if isinstance(data, DistantRatings):
        squares = squares_of_users(data, v, SHRINKAGE) if biases else 0.0
        rest: Any = rest_of_biases(data, v, SHRINKAGE if biases else None)
    else:
        side = data.by_columns
        rest = side.values - np.repeat(v, side.counts)
        u = np.bincount(side.other, rest, minlength=n) / (data.by_rows.counts + SHRINKAGE) * biases
        rest -= u[side.other]
        squares = float(u @ u)
    # No uncertainty yet: the first sweep finds it.
    cov = np.zeros((m if model.factors.family.integrates_b else 0, int(biases)))
    prior_a, prior_b = (np.array([x + 1e-6] * biases) for x in (squares / n, np.mean(v**2)))
    noise = model.fixed_noise or START_NOISE
    return State(v[:, None][:, :biases], cov, prior_a, prior_b, noise, biases=biases), rest


def _with_components(state: State, new: FloatArray, size: FloatArray) -> State:
    """More columns before the bias; `size` is their prior variance in A and B."""
    H, K = state.rank, state.b.shape[1] + size.size
    b = np.insert(state.b, [H] * size.size, new, axis=1)
    old = np.delete(np.arange(K), np.arange(H, H + size.size))
    cov = np.zeros((len(state.b_cov), K, K))
    cov[:, old[:, None], old] = unpacked(state.b_cov, old.size)
    return replace(
        state,
        b=b,
        b_cov=packed(cov),
        prior_a=np.insert(state.prior_a, [H] * size.size, size),
        prior_b=np.insert(state.prior_b, [H] * size.size, size),
    )


def _leading(rest: Any, data: Cells, rank: int) -> tuple[FloatArray, FloatArray]:
    """Columns b of the strongest components of the n×m matrix, and their c² with cₐ = c_b.

    Zeros in the place of cells that are not there make a component weaker by the share of those
    that are: started as weak as that, it would be switched off.
    """
    n, m = data.shape
    left, gamma = _singular(rest, data, rank)
    size = np.maximum(gamma * np.sqrt(float(n) * m) / data.n_cells, 1e-6)
    return left * np.sqrt(m * size), size


def _singular(rest: Any, data: Cells, rank: int) -> tuple[FloatArray, FloatArray]:
    """Singular vectors of columns, and singular values, largest first."""
    n, m = data.shape
    if not rank:
        return np.zeros((m, 0)), np.zeros(0)
    if isinstance(data, DistantRatings):
        return singular(rest, m, rank, np.random.default_rng(0).normal(size=m))
    side = data.by_columns
    X = scipy.sparse.csr_matrix((rest, side.other, side.starts), shape=(m, n))
    if rank >= min(n, m) - 1:
        left, gamma, _ = np.linalg.svd(X.toarray(), full_matrices=False)
        return left[:, :rank], gamma[:rank]
    begin = np.random.default_rng(0).normal(size=min(n, m))
    left, gamma, _ = scipy.sparse.linalg.svds(X, rank, v0=begin)
    order = np.argsort(gamma)[::-1]
    return np.asarray(left[:, order], np.float64), np.asarray(gamma[order], np.float64)
