"""Draws from the prior of the model of sampled ratings, and a comparison of two samples."""

from __future__ import annotations

import numpy as np

from bayespca.missing.sampled.drift import DriftDraw
from bayespca.missing.sampled.prior import LinearMean, NormalPrior
from bayespca.missing.sampled.step import DrawnSide, RatingsDraw


def indicators(i, j, shape):
    """Indicators of rated cells over √count, minus their means over ratings; 0 in empty rows."""
    seen = np.zeros(shape)
    seen[i, j] = 1.0
    counts = seen.sum(axis=1)
    found = seen / np.sqrt(np.maximum(counts, 1))[:, None]
    return (found - counts @ found / counts.sum()) * (counts > 0)[:, None]


def runs(i, times, levels):
    """For each level: the sorted pairs of row and time bin, and the index of each cell's pair."""
    part = (times - times.min()) / (times.max() - times.min())
    found = []
    for level in levels:
        bins = np.minimum((part * 16**level).astype(int), 16**level - 1)
        pairs = list(zip(i.tolist(), bins.tolist(), strict=True))
        there = sorted(set(pairs))
        found.append((there, [there.index(pair) for pair in pairs]))
    return found


def drawn(features, K, prior, rng, rated=(None, None), drifting=()):
    """Draw all parameters from their prior; a Wishart matrix is a sum of squares of draws."""
    sides, spread = [], np.zeros((K, K))
    for F, R in zip(features, rated, strict=True):
        size, p = F.shape
        dof = int(K + prior.excess)
        Z = rng.normal(size=(dof, K)) / np.sqrt(dof * prior.scale)
        precision = Z.T @ Z
        cov = np.linalg.inv(precision)
        mean = rng.multivariate_normal(np.zeros(K), cov / prior.beta)
        ridge = float(rng.gamma(1.0))
        B = rng.multivariate_normal(np.zeros(K), cov / ridge, p).reshape(p, K)
        linear, implicit = LinearMean(B, ridge), LinearMean.none(0, K)
        theta = F @ B + rng.multivariate_normal(mean, cov, size)
        if R is not None:
            ridge = float(rng.gamma(1.0))
            Y = rng.multivariate_normal(np.zeros(K), cov / ridge, R.shape[1])
            implicit = LinearMean(Y, ridge)
            theta = theta + R @ Y
        nu = float(rng.choice(prior.nus))
        weights = rng.gamma(0.5 * nu, 2 / nu, size)
        normal = NormalPrior(mean, precision)
        sides.append(DrawnSide(theta, weights, nu, normal, linear, implicit, spread))
    tau = float(rng.gamma(prior.a_tau, 1 / prior.b_tau))
    precision = rng.gamma(prior.a_drift, 1 / prior.b_drift, len(drifting))
    effects = [
        rng.normal(size=len(there)) / np.sqrt(p)
        for (there, _), p in zip(drifting, precision, strict=True)
    ]
    return RatingsDraw(*sides, tau, DriftDraw(tuple(effects), precision))


def ratings(draw, i, j, rng, *, biases, drifting=()):
    """Draw the ratings of some cells given the parameters."""
    a, b = draw.rows.theta, draw.columns.theta
    H = a.shape[1] - biases
    mean = np.sum(a[i, :H] * b[j, :H], axis=1)
    if biases:
        mean = mean + a[i, -1] + b[j, -1]
    for (_, places), effects in zip(drifting, draw.drift.effects, strict=True):
        mean = mean + effects[places]
    noise = 1 / (draw.tau * draw.rows.weights[i] * draw.columns.weights[j])
    return mean + np.sqrt(noise) * rng.normal(size=i.size)


def looked_at(draw):
    """Functions of every parameter to compare, transformed so that their variances exist."""
    a, b = draw.rows.theta, draw.columns.theta
    return [
        np.log(draw.tau),
        *(np.tanh(a[0]), np.tanh(b[-1])),
        *(np.tanh(a[0] * a[1]), np.tanh(b[0] * b[0])),
        np.log(np.linalg.slogdet(draw.rows.prior.precision)[1] ** 2 + 1),
        np.log(np.trace(draw.columns.prior.precision)),
        *(np.tanh(draw.rows.prior.mean), np.tanh(draw.columns.prior.mean)),
        *(np.log(draw.rows.weights[0]), np.log(draw.columns.weights[0])),
        *(np.log(draw.rows.nu), np.log(draw.columns.nu)),
        *(np.tanh(x.weights.ravel()) for x in _linear(draw)),
        *(x.ridge / (1 + x.ridge) for x in _linear(draw) if len(x.weights)),
        np.tanh(a[0, 0] * b[0, 0] + a[0, -1] + b[0, -1]),
        *(np.tanh(effects[:2]) for effects in draw.drift.effects),
        np.log(draw.drift.precision),
    ]


def _linear(draw):
    return [f for side in (draw.rows, draw.columns) for f in (side.linear, side.implicit)]


def z_scores(independent, chain, batches=20):
    """Differences of means over their standard errors; that of the chain is from batch means."""
    one, other = (np.array([np.hstack(row) for row in sample]) for sample in (independent, chain))
    means = np.array([part.mean(axis=0) for part in np.array_split(other, batches)])
    error = one.var(axis=0) / len(one) + means.var(axis=0, ddof=1) / batches
    return (other.mean(axis=0) - one.mean(axis=0)) / np.sqrt(error)
