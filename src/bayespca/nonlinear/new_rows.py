"""New rows of a fitted GP-LVM: their latent points, their holes, and their density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from bayespca.arrays.types import FloatArray, Index
from bayespca.inference.descent import rows_descended

from .kernels import Latent
from .posterior import GPPosterior, averaged, predicted, slopes
from .statistics import of_rows, weights_of_rows

# Training rows from which a new row starts, chosen among this many nearest ones; rows at a time.
STARTS, NEAREST, ROWS = 3, 30, 512
# Draws for a density, a power of 2, and their standard deviation over that of the posterior.
DRAWS, WIDER = 64, 1.3
# Most steps of a row, and the fall of its free energy that ends them.
MOST, SETTLED = 200, 1e-6
# Least variance of a row at its start, over that of the prior.
LEAST_SPREAD = 1e-3


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
    parts = [_placed(found, Y[start : start + ROWS], known) for start in range(0, len(Y), ROWS)]
    places = tuple(
        Latent(
            np.concatenate([one.mean for one in same]),
            np.concatenate([one.variance for one in same]),
        )
        for same in zip(*(part.places for part in parts), strict=True)
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
    rows = PointRows(found, Y) if found.has_points else UncertainRows.of(found, Y)
    starts = [found.latent.rows(one) for one in _different(found, Y, known).T]
    starts.append(Latent(np.zeros_like(starts[0].mean), np.tile(found.prior, (len(Y), 1))))
    places, values = zip(*(rows.descended(one) for one in starts), strict=True)
    energies = np.stack(values)
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
            # The density of the mixture that points are drawn from.
            around = [
                _log_normal(X - one.mean, WIDER**2 * one.variance).sum(axis=1)
                for one in modes.places
            ]
            proposal = logsumexp(around, axis=0) - np.log(K)
            logs[k, i] = np.where(there, cells, 0.0).sum(axis=1) + prior - proposal
    return np.asarray(logsumexp(logs, axis=(0, 1)) - np.log(K * DRAWS))


def _log_normal(left: FloatArray, variance: FloatArray) -> FloatArray:
    return -0.5 * (np.log(2 * np.pi * variance) + left**2 / variance)


# --- uncertain latent points ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UncertainRows:
    """The free energy of rows under the variational model, where each has its own normal posterior
    given the functions: linear in their ψ statistics, with coefficients from their cells.
    """

    found: GPPosterior
    constant: FloatArray
    g0: FloatArray
    g1: FloatArray
    G: FloatArray

    @classmethod
    def of(cls, found: GPPosterior, Y: FloatArray) -> UncertainRows:
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

    def part(self, index: Index) -> UncertainRows:
        """The free energy of some of the rows."""
        G = self.G if len(self.G) == 1 else self.G[index]
        return UncertainRows(self.found, self.constant[index], self.g0[index], self.g1[index], G)

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

    def descended(self, start: Latent) -> tuple[Latent, FloatArray]:
        """Latent points at which the free energy is lowest, by descent, and its values there."""

        def objective(x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
            return self.part(index).at(_from_logs(x))

        spread = np.maximum(start.variance, LEAST_SPREAD * self.found.prior)
        x = np.concatenate([start.mean, np.log(spread)], axis=1)
        latent = _from_logs(rows_descended(objective, x, most=MOST, settled=SETTLED))
        return latent, self.at(latent)[0]


def _from_logs(x: FloatArray) -> Latent:
    mean, logs = np.split(x, 2, axis=1)
    return Latent(mean, np.exp(np.clip(logs, -30, 12)))


# --- point estimates -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PointRows:
    """Rows (n, D), with NaN for holes, of a model with point-estimated latent points.

    The density of a row at x is that of a Gaussian process, N(m(x), V(x)) with V the variance of
    the functions and the noise (Lawrence 2005). Its product with the prior of x is approximated by
    a normal density around its maximum (Laplace), with the Fisher information for curvature:

        H = Σ m'm'ᵀ/V + ½ Σ V'V'ᵀ/V² + diag(prior)⁻¹

    summed over observed cells. Nothing here is a difference of large numbers. ψ statistics would
    be: where functions vary 10⁹ times as much as the noise, as they do if the data are nearly
    linear, all digits of the free energy would be lost.
    """

    found: GPPosterior
    Y: FloatArray

    def descended(self, start: Latent) -> tuple[Latent, FloatArray]:
        """The most probable latent points, from a start, with their variances.

        The second array has −log of each row's density, which Laplace's approximation gives.
        """
        # In units of the standard deviations at the start, so that no step leads to another place.
        unit = 1 / np.sqrt(np.einsum("nqq->nq", self.information(start.mean)))

        def objective(x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
            energy, gradient = self.at(start.mean[index] + x * unit[index], index)
            return energy, gradient * unit[index]

        moved = rows_descended(objective, np.zeros_like(unit), most=MOST, settled=SETTLED)
        return self._described(start.mean + moved * unit)

    def _described(self, x: FloatArray) -> tuple[Latent, FloatArray]:
        """Normal posteriors around the most probable points, and −log of the rows' densities."""
        Q, unit = x.shape[1], np.sqrt(self.found.prior)
        L = np.linalg.cholesky(self.information(x) * np.outer(unit, unit))
        inverse = np.linalg.solve(L, np.broadcast_to(np.eye(Q), L.shape))
        variance = unit**2 * np.square(inverse).sum(axis=1)
        volume = np.log(np.einsum("nqq->nq", L)).sum(axis=1) - np.log(unit).sum()
        energy = self.at(x, np.arange(len(x)))[0] + volume - 0.5 * Q * np.log(2 * np.pi)
        return Latent(x, variance), energy

    def at(self, x: FloatArray, index: Index) -> tuple[FloatArray, FloatArray]:
        """−log p(row, x) of some of the rows, and its gradients with respect to x: (m,), (m, Q)."""
        prior, Y = self.found.prior, self.Y[index]
        mean, V, precision = self._cells(x, Y)
        left = np.where(precision > 0, Y - mean, 0.0)
        energy = 0.5 * (left**2 * precision + np.log(2 * np.pi * V) * (precision > 0)).sum(axis=1)
        energy += 0.5 * (x**2 / prior + np.log(2 * np.pi * prior)).sum(axis=1)
        dm, dV = slopes(self.found, x)
        by_mean, by_variance = -left * precision, 0.5 * precision * (1 - left**2 * precision)
        gradient = np.einsum("nqd,nd->nq", dm, by_mean) + np.einsum("nqd,nd->nq", dV, by_variance)
        return energy, gradient + x / prior

    def information(self, x: FloatArray) -> FloatArray:
        """H of each row: (n, Q, Q)."""
        precision = self._cells(x, self.Y)[2][:, None]
        dm, dV = slopes(self.found, x)
        dm, dV = dm * np.sqrt(precision), dV * precision
        known = dm @ dm.transpose(0, 2, 1) + 0.5 * dV @ dV.transpose(0, 2, 1)
        return np.asarray(known + np.diag(1 / self.found.prior))

    def _cells(self, x: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """m, V and 1/V of each cell; 1/V is 0 for holes."""
        mean, spread = predicted(self.found, x)
        V = spread + self.found.noise
        return mean, V, np.where(np.isnan(Y), 0.0, 1 / V)
