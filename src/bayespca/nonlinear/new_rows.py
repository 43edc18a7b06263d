"""New rows of a fitted GP-LVM: their latent points, their holes, and their density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, qmc

from bayespca.arrays.types import FloatArray, Index

from .point_rows import PointRows
from .posterior import GPPosterior, averaged, predicted
from .rowwise import Latent
from .uncertain_rows import UncertainRows

# Training rows from which a new row starts, chosen among this many nearest ones; rows at a time.
STARTS, NEAREST, ROWS = 3, 30, 512
# Draws for a density, a power of 2, and their standard deviation over that of the posterior.
DRAWS, WIDER = 64, 1.3


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
            logs[k, i] = np.where(there, cells, 0.0).sum(axis=1) + prior - _proposal(modes, X)
    return np.asarray(logsumexp(logs, axis=(0, 1)) - np.log(K * DRAWS))


def _proposal(modes: Modes, X: FloatArray) -> FloatArray:
    """Log density of points under the mixture they are drawn from: (n,)."""
    parts = [_log_normal(X - one.mean, WIDER**2 * one.variance).sum(axis=1) for one in modes.places]
    return np.asarray(logsumexp(parts, axis=0) - np.log(len(parts)))


def _log_normal(left: FloatArray, variance: FloatArray) -> FloatArray:
    return -0.5 * (np.log(2 * np.pi * variance) + left**2 / variance)
