"""Sweeps over a matrix with holes: one update for every family and every prior.

    x_ij = Σₕ a_ih b_jh + μ_j + ε,  a_ih ~ N(0, cₐₕ²),  b_jh ~ N(0, c_bₕ²),  ε ~ N(0, σ²)

for the observed cells, with a flat prior on μ. The posterior is r(A)·r(B, μ), each a product over
its rows (icml2011 Eq. 13–16 with a sum over observed cells in place of all). The mean is one
more column of B whose partner in A is known to be 1. A point-estimated factor has covariance 0 in
⟨·⟩; nothing else differs, and μ is then integrated out given B.

The mean takes one row: of n complete rows the closed form sees M = n − 1. In the direction in which
all rows are equal, A is unknown and costs nothing. With holes that direction is no longer a row of
its own, so the covariance of each row counts only M/n in likelihood and KL. Without holes this
gives exactly the closed form's free energy.

After each sweep the latent space is shifted, turned and stretched to where the free energy is
lowest: A has mean zero, and ⟨AᵀA⟩ and ⟨BᵀB⟩ are diagonal (`lowrank.factors`).

The moments of columns live where the sums over rows are, on a device or on the host. Arrays of the
size of the components, or with one number per column, live on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace, device, to_numpy
from bayespca.arrays.packing import packed, turned
from bayespca.arrays.parallel import beside
from bayespca.arrays.places import at, brought
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Info, is_rounding
from bayespca.lowrank.cell_weights import squares_of_cells
from bayespca.lowrank.cells import best_cells
from bayespca.lowrank.factors import FactorMoments
from bayespca.lowrank.holes import Holes, IncompleteRows, RowWeights
from bayespca.lowrank.kernels import given_gram
from bayespca.lowrank.rows import RowMisfits, RowSums, misfits_of_rows, sums_over_rows
from bayespca.lowrank.scales import Scales
from bayespca.spectrum.tolerances import LEAST_NOISE_WITH_HOLES

from .energy import Before, Parts, Turn, with_best_noise, with_components_that_pay
from .scales import in_units
from .state import DenseProblem, DenseState, gain_of_idle, squares_of_idle, update_idle

# Largest factor by which a change of the noise is extrapolated.
FURTHEST = 16.0
# Updates of the rows' scales in each sweep; each changes the shares that the next one sees.
ROUNDS = 3
# From this many rows on there is one update only, as it takes as long as a sweep.
MANY_ROWS = 5000


def step(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> tuple[DenseState, Info]:
    """One sweep, or the old state if the change is lost in rounding errors.

    After a sweep that dropped a component, the next step also tries to drop several at once.
    """
    new = sweep(state, data, problem)
    if problem.prunes and new.rank < state.rank:
        new = replace(new, batch=max(2, state.batch // 2))
    if 1 < state.batch <= state.rank:
        less = sweep(state.without_weakest(state.batch), data, problem)
        new = replace(less, batch=2 * state.batch) if less.energy < new.energy else new
    size = float(_squares(new, new.scales.applied(data)).sum())
    if is_rounding(state.energy, new.energy, size, 1 / state.noise_variance):
        new = state
    return new, Info(new.energy, new.rank, new.noise_variance * new.scales.mean)


def _squares(
    state: DenseState, data: IncompleteRows, weights: FloatArray | None = None
) -> FloatArray:
    """Σx² of each column, for data divided by the root of the scales.

    With `weights`, the summed weights of the cells of each column, the rounding is included.
    """
    squares = data.squares
    if weights is not None and data.rounding is not None:
        squares = squares + data.rounding * weights
    columns = state.scales.columns
    return squares if columns is None else squares * columns.precision


def sweep(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> DenseState:
    """Update noise of rows and cells, rows, columns, coordinates, priors, rank and other noise."""
    state = with_best_rows(state, data, problem)
    state = with_best_cells(state, data, problem)
    data, root = state.scales.applied(data), state.scales.root
    columns = state.columns(integrated=problem.factors.family.integrates_a)
    sums = sums_over_rows(data, columns, share=data.share, root=root)
    before = Before(state, columns, sums, data)
    with beside(sums.second):
        found = _update_columns(state, data, sums, problem)
        state, parts, turn = _settled(state, found, data, sums, problem)
        state, parts = with_components_that_pay(state, parts, turn, before, problem)
        state = replace(state, reach=_reach(parts, sums, state, problem))
        state, parts = with_best_noise(state, parts, data, problem)
    energy = parts.free_energy + state.scales.energy(data)
    return replace(state, energy=energy, batch=1)


def with_best_rows(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> DenseState:
    """The state with the best noise of rows for its columns, if rows have their own.

    r(u) minimises the free energy for given columns, with A at its best for each. The mean of zᵢ
    does not depend on uᵢ, and its covariance is in units of uᵢ, so that

        F(u) = Σᵢ [½wᵢQᵢ + ½nᵢ⟨log uᵢ⟩ + shareᵢgᵢ] + KL

    with Qᵢ the misfit of a row at that mean, and gᵢ what the row tells about its scores. Given the
    shares, 1/uᵢ has a gamma distribution in which Qᵢ, corrected for the derivative of the shares,
    is the sum of nᵢ squares. Updates are repeated; one that does not lower F is discarded.
    """
    scales, rows = state.scales, state.scales.rows
    if rows is None or not problem.noise.rows:
        return state
    found = misfits_of_rows(scales.applied_to_cells(data), state.columns(), root=scales.root)
    if state.idle is not None:
        found = found._replace(gain=found.gain + gain_of_idle(state, data, problem))
    counts, least = data.row_counts, LEAST_NOISE_WITH_HOLES / state.noise_variance
    units = np.ones(data.shape[0]) if scales.row_units is None else scales.row_units
    energy = _energy_of_rows(rows, found, data)
    for _ in range(ROUNDS if counts.size < MANY_ROWS else 1):
        w = rows.precision
        slope = data.centred * (found.gain - found.gain @ w / w.sum()) / w.sum()
        squares = np.maximum(found.squares - 2 * slope, 0.1 * found.squares)
        squares = np.maximum(squares, counts * least)
        new = in_units(problem.estimate, squares, counts, units, is_free=problem.scale_is_free)
        new_energy = _energy_of_rows(new, found, data)
        if not new_energy < energy:
            break
        rows, energy = new, new_energy
    return replace(state, scales=replace(scales, rows=rows))


def _energy_of_rows(rows: Scales, found: RowMisfits, data: IncompleteRows) -> float:
    share = RowWeights.of(rows.precision, centred=data.centred).shares
    total = 0.5 * float(rows.precision @ found.squares + data.row_counts @ rows.log_variance)
    return total + float(share @ found.gain) + rows.divergence


def with_best_cells(state: DenseState, data: IncompleteRows, problem: DenseProblem) -> DenseState:
    """The state with the best noise of cells for its columns, if cells have their own."""
    scales = state.scales
    if scales.cells is None or not problem.noise.cells:
        return state
    assert isinstance(data, Holes)
    weighted = scales.applied(data)
    assert isinstance(weighted, Holes)
    squares = squares_of_cells(weighted, state.columns(), share=weighted.share, root=scales.root)
    if state.idle is not None:
        squares += squares_of_idle(state, weighted, problem)
    cells = best_cells(squares, data.mask, scales.cells, data.known)
    return replace(state, scales=replace(scales, cells=cells))


@dataclass(frozen=True, eq=False)
class _Loadings:
    """r(bⱼ, μⱼ), and Σⱼ log|·| of the covariances of what is integrated out."""

    b: Array
    b_cov: Array
    log_det: Any


def _update_columns(
    state: DenseState, data: IncompleteRows, sums: RowSums, problem: DenseProblem
) -> _Loadings:
    """Update r(bⱼ, μⱼ) given rows, by the same equations as rows given columns."""
    xp = array_namespace(sums.second)
    H, p, s2 = state.rank, state.b.shape[0], state.noise_variance
    known, joint = H + data.centred, problem.factors.family.integrates_b
    gram = packed(sums.second[:, :known, :known])
    ridge = np.append(s2 / state.prior_b, np.zeros(known - H))
    if data.centred and not data.column_counts.all():
        # The mean of a column without any value stays, with an error as large as the data.
        gram[:, -1] += s2 * at(gram, data.column_counts == 0)
    # Variance of μ given b; computed here because some kernels overwrite the Gram matrices.
    alone = s2 / gram[:, -1] if data.centred and not joint else None
    pull = xp.asarray(sums.cross[:, :known], copy=True)
    b, b_cov, log_dets = given_gram(gram.T, pull, np.arange(p + 1), ridge, s2)
    if not joint:
        b_cov, log_dets = xp.zeros_like(b_cov), 0 * log_dets
        if alone is not None:
            b_cov[:, H, H], log_dets = alone, xp.log(alone)
    if not data.centred:
        # The mean is known to be 0.
        mean, cov = b, b_cov
        b = xp.zeros((p, H + 1), dtype=mean.dtype, device=device(mean))
        b_cov = xp.zeros((p, H + 1, H + 1), dtype=mean.dtype, device=device(mean))
        b[:, :H], b_cov[:, :H, :H] = mean, cov
    return _Loadings(b, b_cov, xp.sum(log_dets))


def _settled(
    state: DenseState, found: _Loadings, data: IncompleteRows, sums: RowSums, problem: DenseProblem
) -> tuple[DenseState, Parts, Turn]:
    """The state in the best coordinates with the best priors, the parts of its free energy, and the
    change of coordinates.
    """
    xp = array_namespace(sums.second)
    p, H, family = data.shape[1], state.rank, problem.factors.family
    b = found.b[:, :H]
    # Σ⟨(x − b̃ᵀã)²⟩ − Σx² over the observed cells of each column, with b̃ at its mean.
    fitted = xp.matmul(sums.second, found.b[:, :, None])[:, :, 0]
    misfit = xp.sum((fitted - 2 * sums.cross) * found.b, axis=1)
    Sbb = b.T @ b + xp.sum(found.b_cov[:, :H, :H], axis=0)
    everything, Sbb, log_det_a, log_det_b, misfit, spread, weights = brought(
        sums.everything,
        Sbb,
        sums.log_det,
        found.log_det,
        misfit,
        xp.sum(found.b_cov * sums.second, axis=(1, 2)),
        sums.second[:, H, H],
    )
    mean = everything[:H, H] / everything[H, H] * data.centred
    Saa = everything[:H, :H] - everything[H, H] * np.outer(mean, mean)
    R, back = problem.factors.best_turn(Saa, Sbb) or (np.eye(H), np.eye(H))
    log_det = 2 * float(np.linalg.slogdet(R)[1])
    Sa, Sb = np.diag(R.T @ Saa @ R), np.diag(back @ Sbb @ back.T)
    prior_a, prior_b = problem.factors.priors(Sa, Sb)
    turn = Turn.of(R, back, mean, found.b)
    b, b_cov = found.b @ turn.of_b.T, turned(found.b_cov, turn.of_b)
    idle = None
    if state.idle is not None:
        idle = update_idle(
            state.idle, data, problem.factors, problem.most - H, state.noise_variance
        )
        spread = spread + idle.overlap
    squares = _squares(state, data, weights)
    parts = Parts(
        factors=problem.factors,
        has_mean=data.centred,
        counts=data.column_counts,
        squares=squares,
        residuals=squares + misfit + spread,
        spread=spread,
        moments=FactorMoments(
            Sa=Sa,
            Sb=Sb,
            prior_a=prior_a,
            prior_b=prior_b,
            log_det_a=float(log_det_a) + data.freedom * log_det,
            log_det_b=float(log_det_b) - p * log_det * family.integrates_b,
            n_gone=state.n_gone if problem.factors.prior.is_learned else problem.most - H,
        ),
        noise_variance=state.noise_variance,
        idle=idle,
    )
    state = replace(state, b=b, b_cov=b_cov, prior_a=prior_a, prior_b=prior_b)
    return replace(state, idle=None if idle is None else idle.b), parts, turn


def _reach(parts: Parts, sums: RowSums, state: DenseState, problem: DenseProblem) -> FloatArray:
    """1/(1 − s), with s the share of the expected squares that comes from the noise itself.

    That share is the excess over the squares at the means of rows and columns. The result is 1 if
    cells have weights. Noise of columns leaves out the uncertainty of their own loadings.
    """
    left, residuals, counts = to_numpy(sums.left), parts.residuals, parts.counts
    if state.scales.cells is not None:
        left = residuals
    if problem.noise.columns:
        residuals = residuals - parts.spread
    else:
        left, residuals, counts = (x.sum(keepdims=True) for x in (left, residuals, counts))
    made = (residuals - left) / (parts.noise_variance * np.maximum(counts, 1))
    return np.asarray(1 / (1 - np.clip(made, 0, 1 - 1 / FURTHEST)))
