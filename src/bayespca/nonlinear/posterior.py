"""Results of a fitted GP-LVM: predictions at latent points, and latent points of new rows.

Latent coordinates are in units in which every length scale is 1: in every direction, functions
change over a distance of about 1. The prior variances of the coordinates are the relevances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from bayespca.arrays.checks import check_moments, check_sizes
from bayespca.arrays.types import FloatArray, Index, Matrices, Matrix, Vector
from bayespca.inference.descending_rows import rows_descended

from .kernels import KernelHyper, between, variance
from .rowwise import Latent, first, second, zeroth
from .statistics import of_rows, weights_of_rows

# Most steps of a new row, and the fall of its free energy that ends them.
MOST, SETTLED = 200, 1e-6
# Training rows from which a new row starts, chosen among this many nearest ones; rows at a time.
STARTS, NEAREST, ROWS = 3, 30, 512
# Least variance of a new row at its start, over that of the prior.
LEAST_SPREAD = 1e-3
# Draws for a density, a power of 2, and their standard deviation over that of the posterior.
DRAWS, WIDER = 64, 1.3


@dataclass(frozen=True, eq=False)
class GPPosterior:
    """Posterior of a GP-LVM with Q dimensions, M inducing points and D features.

    Attributes
    ----------
    mean, variance
        Latent points of the training rows: (N, Q) each.
    prior
        Prior variances of the dimensions, largest first: (Q,).
    Z
        Inducing points: (M, Q).
    w, v, b, e
        Parameters of the kernel; see `kernels.KernelHyper`.
    inverse
        K⁻¹ of the inducing points: (M, M).
    precise
        (K + sΨ₂)⁻¹, once or for each of several kinds of columns: (C, M, M).
    kind
        The kind of each column: (D,).
    weights
        Means of K⁻¹u: (M, D).
    centre
        Means of ψ₁ over the rows of each kind of column: (C, M).
    offset
        Means of the columns: (D,).
    signal, noise
        Variances of functions and of noise: (D,) each.
    mean_variance
        Variance of each mean: (D,).
    """

    mean: Matrix
    variance: Matrix
    prior: Vector
    Z: Matrix
    w: Vector
    v: Vector
    b: Vector
    e: Vector
    inverse: Matrix
    precise: Matrices
    kind: Vector
    weights: Matrix
    centre: Matrix
    offset: Vector
    signal: Vector
    noise: Vector
    mean_variance: Vector

    @property
    def hyper(self) -> KernelHyper:
        return KernelHyper(self.w, self.v, self.b, self.e)

    @property
    def latent(self) -> Latent:
        return Latent(self.mean, self.variance)

    @property
    def n_components(self) -> int:
        return int(self.prior.size)

    @property
    def n_features(self) -> int:
        return int(self.offset.size)

    @property
    def kinds(self) -> Index:
        return self.kind.astype(np.intp)

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        (M, Q), D, C = self.Z.shape, self.n_features, len(self.precise)
        agree = self.mean.shape[1] == Q and self.variance.shape == self.mean.shape
        agree &= self.prior.shape == (Q,) and self.inverse.shape == (M, M)
        agree &= self.precise.shape == (C, M, M) and self.centre.shape == (C, M)
        agree &= self.weights.shape == (M, D)
        columns = (self.kind, self.signal, self.noise, self.mean_variance)
        agree &= all(one.shape == (D,) for one in columns)
        agree &= self.w.size in (0, Q) and self.v.size in (0, Q)
        check_sizes("a GPPosterior", agree and self.b.size < 2 and self.e.size < 2)
        positive = all((one > 0).all() for one in (self.prior, self.noise))
        moments = (self.mean, self.variance, self.prior, self.weights, self.noise, self.precise)
        check_moments("a GPPosterior", *moments, positive=positive)
        if D and not (0 <= self.kind.min() and self.kind.max() < C):
            raise ValueError("a column of a GPPosterior has an unknown kind")


# --- predictions -------------------------------------------------------------------------------


def predicted(found: GPPosterior, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the functions at known latent points: (N, D) each."""
    k = between(X, found.Z, found.hyper)
    own = variance(X, found.hyper) - np.einsum("nm,mj,nj->n", k, found.inverse, k)
    mean = np.empty((len(X), found.n_features))
    spread = np.empty_like(mean)
    for c in range(len(found.precise)):
        of = found.kinds == c
        apart = k - found.centre[c]
        mean[:, of] = found.offset[of] + apart @ found.weights[:, of]
        known = np.einsum("nm,mj,nj->n", apart, found.precise[c], apart)
        spread[:, of] = np.maximum(own + known, 0.0)[:, None] * found.signal[of]
    return mean, spread + found.mean_variance


def averaged(found: GPPosterior, latent: Latent) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the functions at normally distributed latent points: (N, D) each."""
    mean, spread = np.empty((2, latent.shape[0], found.n_features))
    for rows in _blocks(latent.shape[0], len(found.Z)):
        mean[rows], spread[rows] = _averaged(found, latent.rows(rows))
    return mean, spread


def _averaged(found: GPPosterior, latent: Latent) -> tuple[FloatArray, FloatArray]:
    psi1, psi2 = first(latent, found.Z, found.hyper), second(latent, found.Z, found.hyper)
    own = zeroth(latent, found.hyper) - np.einsum("mj,nmj->n", found.inverse, psi2)
    around = psi2 - psi1[:, :, None] * psi1[:, None, :]
    mean = np.empty((len(psi1), found.n_features))
    spread = np.empty_like(mean)
    for c in range(len(found.precise)):
        of = found.kinds == c
        apart, A = psi1 - found.centre[c], found.weights[:, of]
        mean[:, of] = found.offset[of] + apart @ A
        known = np.einsum("mj,nmj->n", found.precise[c], around)
        known += np.einsum("nm,mj,nj->n", apart, found.precise[c], apart)
        spread[:, of] = np.maximum(own + known, 0.0)[:, None] * found.signal[of]
        spread[:, of] += np.maximum(np.einsum("md,nmj,jd->nd", A, around, A, optimize=True), 0.0)
    return mean, spread + found.mean_variance


def _blocks(N: int, M: int) -> list[slice]:
    step = max((1 << 22) // (M * M), 1)
    return [slice(i, min(i + step, N)) for i in range(0, N, step)]


# --- new rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Modes:
    """Places where rows may be: K posteriors of each row, and their probabilities, (K, n).

    A row with few observed cells may fit several places equally well.
    """

    places: tuple[Latent, ...]
    weights: FloatArray

    @property
    def best(self) -> Latent:
        """The most probable place of each row."""
        choice, row = np.argmax(self.weights, axis=0), np.arange(self.weights.shape[1])
        mean = np.stack([one.mean for one in self.places])[choice, row]
        return Latent(mean, np.stack([one.variance for one in self.places])[choice, row])


def placed(found: GPPosterior, Y: FloatArray) -> Modes:
    """Latent points of new rows, given their observed cells.

    Each row starts from some of the training rows nearest to it, and from the prior, and descends
    the free energy of its own cells given the functions.
    """
    known = predicted(found, found.mean)[0]
    parts = [
        _placed(found, Y[first_row : first_row + ROWS], known)
        for first_row in range(0, len(Y), ROWS)
    ]
    places = tuple(
        Latent(
            np.concatenate([part.places[k].mean for part in parts]),
            np.concatenate([part.places[k].variance for part in parts]),
        )
        for k in range(len(parts[0].places))
    )
    return Modes(places, np.concatenate([part.weights for part in parts], axis=1))


def filled(found: GPPosterior, modes: Modes) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the functions at new rows, over all places where they may be."""
    mean, square = np.zeros((2, modes.weights.shape[1], found.n_features))
    for latent, weight in zip(modes.places, modes.weights, strict=True):
        m, v = averaged(found, latent)
        mean += weight[:, None] * m
        square += weight[:, None] * (v + m**2)
    return mean, np.maximum(square - mean**2, 0.0)


def _placed(found: GPPosterior, Y: FloatArray, known: FloatArray) -> Modes:
    rows = _RowEnergy.of(found, Y)
    wide = np.maximum(found.variance, LEAST_SPREAD * found.prior)
    starts = [Latent(found.mean[one], wide[one]) for one in _different(found, Y, known).T]
    starts.append(Latent(np.zeros_like(starts[0].mean), np.tile(found.prior, (len(Y), 1))))
    places = tuple(rows.descended(one) for one in starts)
    energies = np.stack([rows.at(one)[0] for one in places])
    # A place to which two starts have led counts once.
    for k in range(1, len(places)):
        for other in range(k):
            apart = np.abs(places[k].mean - places[other].mean) > np.sqrt(places[other].variance)
            energies[k, ~apart.any(axis=1)] = np.inf
    weights = np.exp(energies.min(axis=0) - energies)
    return Modes(places, weights / weights.sum(axis=0))


def _different(found: GPPosterior, Y: FloatArray, known: FloatArray) -> Index:
    """Training rows near each row, in units of the noise, but far from each other: (n, STARTS)."""
    there = ~np.isnan(Y)
    weight = 1 / found.noise
    values = np.where(there, Y, 0.0)
    squares = (there * weight) @ (known**2).T - 2 * (values * weight) @ known.T
    count = min(NEAREST, len(known))
    near = np.argpartition(squares, count - 1, axis=1)[:, :count]
    row = np.arange(len(Y))[:, None]
    near = near[row, np.argsort(squares[row, near], axis=1)]
    places = found.mean[near]
    chosen = np.zeros((len(Y), min(STARTS, count)), np.intp)
    far = np.full(near.shape, np.inf)
    for k in range(1, chosen.shape[1]):
        last = places[row[:, 0], chosen[:, k - 1]]
        far = np.minimum(far, ((places - last[:, None]) ** 2).sum(axis=2))
        chosen[:, k] = np.argmax(far, axis=1)
    return near[row, chosen]


@dataclass(frozen=True, eq=False)
class _RowEnergy:
    """The free energy of rows: linear in their ψ statistics, with coefficients from their cells."""

    found: GPPosterior
    constant: FloatArray
    g0: FloatArray
    g1: FloatArray
    G: FloatArray

    @classmethod
    def of(cls, found: GPPosterior, Y: FloatArray) -> _RowEnergy:
        there = ~np.isnan(Y)
        s2, s = found.noise, found.signal / found.noise
        A, kinds = found.weights, found.kinds
        # Shifted so that the prediction for a cell is k·a, without a centre.
        shift = np.einsum("dm,md->d", found.centre[kinds], A)
        left = np.where(there, Y - found.offset + shift, 0.0)
        pk = np.einsum("cmj,cj->cm", found.precise, found.centre)
        kpk = np.einsum("cm,cm->c", pk, found.centre)
        constant = 0.5 * (left**2 / s2).sum(axis=1)
        constant += there @ (
            0.5 * (np.log(2 * np.pi * s2) + found.mean_variance / s2 + s * kpk[kinds])
        )
        g1 = -(left / s2) @ A.T - (there * s) @ pk[kinds]
        of_kind = np.stack([(there * s) @ (kinds == c) for c in range(len(found.centre))], axis=1)
        inner = found.precise - found.inverse
        complete = bool(there.all())
        scales = of_kind[:1] if complete else of_kind
        weights = there[:1] / s2 if complete else there / s2
        G = 0.5 * np.einsum("nc,cmj->nmj", scales, inner)
        G += 0.5 * ((A * weights[:, None, :]) @ A.T)
        G = weights_of_rows(found.Z, found.hyper, G)
        return cls(found, constant, 0.5 * (there @ s), g1, G)

    def part(self, index: Index) -> _RowEnergy:
        """The free energy of some of the rows."""
        G = self.G if len(self.G) == 1 else self.G[index]
        return _RowEnergy(self.found, self.constant[index], self.g0[index], self.g1[index], G)

    def at(self, latent: Latent) -> tuple[FloatArray, FloatArray]:
        """The free energy of each row, (n,), and its gradients with respect to means and logarithms
        of variances: (n, 2Q).
        """
        found, given = self.found, (self.g0, self.g1, self.G)
        values, gm, gS = of_rows(latent, found.Z, found.hyper, given)
        ratio = latent.variance / found.prior
        apart = 0.5 * (latent.mean**2 / found.prior + ratio - 1 - np.log(ratio)).sum(axis=1)
        gm = gm + latent.mean / found.prior
        gS = gS + 0.5 * (1 / found.prior - 1 / latent.variance)
        slopes = np.concatenate([gm, gS * latent.variance], axis=1)
        return self.constant + values + apart, slopes

    def descended(self, latent: Latent) -> Latent:
        """The latent point at which the free energy of each row is lowest, by descent."""

        def objective(x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
            return self.part(index).at(_from_logs(x))

        x = np.concatenate([latent.mean, np.log(latent.variance)], axis=1)
        return _from_logs(rows_descended(objective, x, most=MOST, settled=SETTLED))


def _from_logs(x: FloatArray) -> Latent:
    mean, logs = np.split(x, 2, axis=1)
    return Latent(mean, np.exp(np.clip(logs, -30, 12)))


def log_density(found: GPPosterior, Y: FloatArray) -> FloatArray:
    """Log predictive density of the observed cells of each row.

    It averages p(y|x), with normal functions at each x, over the latent space by importance
    sampling: the same quasi-random draws for all rows, around each place where a row may be.
    """
    modes, there = placed(found, Y), ~np.isnan(Y)
    K, Q = len(modes.places), found.n_components
    uniform = qmc.Sobol(Q, rng=np.random.default_rng(0)).random(DRAWS)
    unit = norm.ppf(np.clip(uniform, 1e-9, 1 - 1e-9))
    logs = np.empty((K, DRAWS, len(Y)))
    for k, latent in enumerate(modes.places):
        for i, draw in enumerate(unit):
            X = latent.mean + WIDER * np.sqrt(latent.variance) * draw
            mean, spread = predicted(found, X)
            cells = _log_normal(Y - mean, spread + found.noise)
            prior = _log_normal(X, found.prior).sum(axis=1)
            logs[k, i] = np.where(there, cells, 0.0).sum(axis=1) + prior - _proposal(modes, X)
    return np.asarray(logsumexp(logs, axis=(0, 1)) - np.log(K * DRAWS))


def _proposal(modes: Modes, X: FloatArray) -> FloatArray:
    """Log density of points under the mixture they are drawn from: (n,)."""
    parts = [_log_normal(X - one.mean, WIDER**2 * one.variance).sum(axis=1) for one in modes.places]
    return np.asarray(logsumexp(parts, axis=0) - np.log(len(parts)))


def _log_normal(left: FloatArray, variance: FloatArray) -> FloatArray:
    return -0.5 * (np.log(2 * np.pi * variance) + left**2 / variance)


def sampled(found: GPPosterior, n: int, rng: np.random.Generator) -> FloatArray:
    """New rows: a latent point from the prior, functions there, and noise."""
    X = rng.normal(size=(n, found.n_components)) * np.sqrt(found.prior)
    mean, spread = predicted(found, X)
    return mean + np.sqrt(spread + found.noise) * rng.normal(size=mean.shape)
