"""A sweep of draws from the posterior of natural parameters.

    x_ij ~ p(x | z_ij),  z_ij = Σₕ a_ih b_jh + μ_j,
    a_ih ~ N(0, 1),  b_jh ~ N(0, 1/αₕ),  μ_j ~ N(0, v),  αₕ and 1/v ~ Γ(1, 0.01)

with the parameters of likelihoods given. This is the model of the variational sweeps with scores of
unit variance; they learn α and v, here these are drawn. Given the variables that make cells normal
measurements of z (`Likelihood.augmented`), scores and loadings are normal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from bayespca.arrays.packing import roots
from bayespca.arrays.parallel import in_turn
from bayespca.arrays.types import FloatArray
from bayespca.inference.chains import slice_sampled

from ..cells import NaturalRegressors, columns_from, columns_precision, regressors, rows_from
from ..data import TableCells, row_blocks
from ..normals import Normals, from_precisions

# Shape and rate of the priors of α and 1/v. Unneeded loadings have variances about as large as the
# rate: with a rate of 1, ten unneeded components made predictions worse.
SHAPE, RATE = 1.0, 0.01
# The step of the slice sampler of the logarithm of a scale. Any value is exact.
LOG_SCALE_STEP = 0.1


@dataclass(frozen=True, eq=False)
class NaturalDraw:
    """One point of the posterior: scores (n, H), rows of (B, μ) (p, H + 1), α (H,) and v."""

    a: FloatArray
    b: FloatArray
    alpha: FloatArray
    spread: float

    @property
    def rank(self) -> int:
        return int(self.alpha.size)


def natural(a: FloatArray, b: FloatArray) -> FloatArray:
    """z = a·Bᵀ + μ"""
    return np.asarray(a @ b[:, :-1].T + b[:, -1])


def sweep(state: NaturalDraw, cells: TableCells, rng: np.random.Generator) -> NaturalDraw:
    """Draw everything once; each line leaves the posterior invariant."""
    state = with_rows_and_columns(state, cells, rng)
    state = moved(state, rng)
    state = stretched(state, rng)
    return with_hyperparameters(state, rng)


def with_rows_and_columns(
    state: NaturalDraw, cells: TableCells, rng: np.random.Generator
) -> NaturalDraw:
    """Draw scores given loadings, then loadings given scores, augmenting the cells before each.

    Each block of rows has its own generator, so that draws do not depend on threads.
    """
    given, blocks = sharp_regressors(state.b), row_blocks(cells)
    n = cells.shape[0]

    def work(item: tuple[slice, np.random.Generator]) -> tuple[FloatArray, FloatArray]:
        rows, own = item
        some = cells.part(rows)
        a = drawn(scores_given(state.a[rows], state.b, given, some, own, n_in_all=n), own)
        like = some.augmented(natural(a, state.b), own)
        known = sharp(a)
        return a, columns_precision(like, known, known.second_with_one)

    parts = list(in_turn(work, list(zip(blocks, rng.spawn(len(blocks)), strict=True))))
    ridge = np.append(state.alpha, 1 / state.spread)
    b = drawn(columns_from(np.sum([sums for _, sums in parts], axis=0), ridge), rng)
    return replace(state, a=np.concatenate([a for a, _ in parts]), b=b)


def scores_given(
    a: FloatArray,
    b: FloatArray,
    given: NaturalRegressors,
    cells: TableCells,
    rng: np.random.Generator,
    n_in_all: int,
) -> Normals:
    """The distribution of scores given loadings and ω, which is drawn given the scores a."""
    like = cells.augmented(natural(a, b), rng)
    return rows_from(like, given, np.ones(a.shape[1]), n_in_all)


def drawn(normals: Normals, rng: np.random.Generator) -> FloatArray:
    """One draw of each normal: (n, H)."""
    noise = rng.normal(size=normals.mean.shape)
    if not noise.size:
        return noise
    return np.asarray(normals.mean + np.einsum("nhk,nk->nh", roots(normals.matrices), noise))


def sharp(values: FloatArray) -> Normals:
    """Known values as normal distributions of variance 0."""
    n, H = values.shape
    return Normals(values, np.zeros((n, H * (H + 1) // 2)), np.zeros(n))


def sharp_regressors(b: FloatArray) -> NaturalRegressors:
    """Regressors of known columns."""
    return regressors(sharp(b))


# --- moves along which no z changes --------------------------------------------------------------
#
# Scores and loadings mix slowly because each is drawn given the other. These moves draw along the
# orbits of groups that act on both, with the Jacobian and the invariant measure (Liu and Sabatti,
# "Generalised Gibbs sampler and multigrid Monte Carlo", Biometrika 87, 2000, Theorem 1).


def moved(state: NaturalDraw, rng: np.random.Generator) -> NaturalDraw:
    """aᵢ → aᵢ − s, μ → μ + Bs: s ~ N(Q⁻¹(Σaᵢ − Bᵀμ/v), Q⁻¹), Q = nI + BᵀB/v."""
    B, mu = state.b[:, :-1], state.b[:, -1]
    Q = len(state.a) * np.eye(state.rank) + B.T @ B / state.spread
    pull = state.a.sum(axis=0) - B.T @ mu / state.spread
    s = drawn(from_precisions(Q[None], pull[None]), rng)[0]
    return replace(state, a=state.a - s, b=np.column_stack([B, mu + B @ s]))


def stretched(state: NaturalDraw, rng: np.random.Generator) -> NaturalDraw:
    """aₕ → aₕe⁻ᵘ, bₕ → bₕeᵘ of each component, α integrated out. The density of u has logarithm

    (p − n)u − ½‖aₕ‖²e⁻²ᵘ − (1 + ½p) log(0.01 + ½‖bₕ‖²e²ᵘ).

    α must be drawn again before it is used.
    """
    B = state.b[:, :-1]
    pairs = zip((state.a**2).sum(axis=0), (B**2).sum(axis=0), strict=True)
    u = np.array(
        [_log_scale(float(A2), float(B2), (len(state.a), len(B)), rng) for A2, B2 in pairs]
    )
    b = np.column_stack([B * np.exp(u), state.b[:, -1]])
    return replace(state, a=state.a * np.exp(-u), b=b)


def _log_scale(A2: float, B2: float, sizes: tuple[int, int], rng: np.random.Generator) -> float:
    n, p = sizes

    def log_density(u: float) -> float:
        of_b = (SHAPE + 0.5 * p) * log(RATE + 0.5 * B2 * exp(2 * u))
        return (p - n) * u - 0.5 * A2 * exp(-2 * u) - of_b

    return slice_sampled(log_density, rng, step=LOG_SCALE_STEP)


def with_hyperparameters(state: NaturalDraw, rng: np.random.Generator) -> NaturalDraw:
    """αₕ ~ Γ(1 + ½p, 0.01 + ½‖bₕ‖²) and 1/v ~ Γ(1 + ½p, 0.01 + ½‖μ‖²)."""
    squares = (state.b**2).sum(axis=0)
    precisions = rng.gamma(SHAPE + 0.5 * len(state.b), 1 / (RATE + 0.5 * squares))
    return replace(state, alpha=precisions[:-1], spread=float(1 / precisions[-1]))
