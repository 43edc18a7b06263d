"""Slow and obvious: evidences of numbers of components, by sampling and by plain sums.

Model: M rows of N(0, σ²(I + U diag(v) Uᵀ)), U a random orthonormal p×k frame, v the spikes in units
of σ². With s = v/(1 + v) the likelihood averaged over U is

    (σ²)^(−Mp/2) · exp(−Σg²/2σ²) · Π(1 + vᵢ)^(−M/2) · E exp(Σᵢ sᵢ uᵢᵀ diag(g²) uᵢ / 2σ²).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import gammaln, logsumexp

SCALE = 2.0


def log_sphere_average(a, n=4001):
    """log E exp(Σ aⱼuⱼ²), u uniform on the sphere: Γ(d/2)/2πi ∫ eᶻ Π(z − aⱼ)^(−½) dz.

    The parabola goes through the saddlepoint and to −∞ on both sides, where eᶻ vanishes.
    """
    a = np.asarray(a, float)
    d, top = a.size, a.max()
    if d == 1:
        return float(top)
    low, high = 0.5, d / 2 + 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if (0.5 / (middle + top - a)).sum() > 1:
            low = middle
        else:
            high = middle
    u = np.linspace(-1, 1, n) * np.sqrt(45 / high + 1)
    z = high * (1 + 1j * u) ** 2
    log_f = z - 0.5 * np.log(z[:, None] + (top - a)).sum(axis=1)
    peak = log_f.real.max()
    integral = np.trapezoid(np.exp(log_f - peak) * 2j * high * (1 + 1j * u), u) / (2j * np.pi)
    return float(gammaln(d / 2) + np.log(integral.real) + peak + top)


def log_frame_average(a, s, *, n=1000, steps=80, seed=0):
    """log E exp(Σᵢ sᵢ uᵢᵀ diag(a) uᵢ) over frames, and its standard error.

    Annealed importance sampling (Neal 2001) from uniform rotations; each move turns the plane of
    two columns by an angle from its exact conditional distribution, which is von Mises.
    """
    rng = np.random.default_rng(seed)
    a = np.asarray(a, float)
    p, k = a.size, len(s)
    shares = np.append(s, np.zeros(p - k))
    U = np.linalg.qr(rng.standard_normal((n, p, p)))[0]

    def energy():
        return np.einsum("npk,p,k->n", U[:, :, :k] ** 2, a, shares[:k])

    log_w, betas = np.zeros(n), np.linspace(0, 1, steps + 1) ** 2
    for before, now in pairwise(betas):
        log_w += (now - before) * energy()
        for _ in range(p):
            i = int(rng.integers(k))
            j = int(rng.integers(p - 1))
            j += j >= i
            x, y = U[:, :, i].copy(), U[:, :, j].copy()
            gap = now * (shares[i] - shares[j])
            cosine = gap * ((x * x - y * y) * a).sum(axis=1) / 2
            sine = gap * (x * y * a).sum(axis=1)
            angle = rng.vonmises(np.arctan2(sine, cosine), np.hypot(sine, cosine)) / 2
            c, d = np.cos(angle)[:, None], np.sin(angle)[:, None]
            U[:, :, i], U[:, :, j] = c * x + d * y, c * y - d * x
    found = logsumexp(log_w) - np.log(n)
    return float(found), float(np.exp(log_w - found).std() / np.sqrt(n))


def log_evidences(g2, p, M, largest, *, n=600, steps=80, seed=0):
    """Log evidence of each rank up to `largest`, relative to rank 0, by annealing over U and v.

    σ² is integrated out: ∫ (σ²)^(−Mp/2) e^(−Q/2σ²) dσ²/σ² = Γ(Mp/2)·(Q/2)^(−Mp/2), with Q the sum
    of squares less Σ s uᵀ diag(g²) u. Strengths over √(p/M) are half-Cauchy, cut off at 1.
    """
    rng = np.random.default_rng(seed)
    values, total, limit = np.zeros(p), float(np.sum(g2)), np.sqrt(p / M)
    values[: len(g2)] = g2
    lowest = np.arctan(1 / SCALE)
    none = -M * p / 2 * np.log(total / 2)

    def likelihood(U, angle):
        v = SCALE * np.tan(angle) * limit
        k = v.shape[1]
        rest = total - np.einsum("npk,p,nk->n", U[:, :, :k] ** 2, values, v / (1 + v))
        return -M * p / 2 * np.log(rest / 2) - M / 2 * np.log1p(v).sum(axis=1) - none

    found = [0.0]
    for k in range(1, largest + 1):
        U = np.linalg.qr(rng.standard_normal((n, p, p)))[0]
        angle = rng.uniform(lowest, np.pi / 2, (n, k))
        log_w, fit, betas = np.zeros(n), likelihood(U, angle), np.linspace(0, 1, steps + 1) ** 2
        for before, now in pairwise(betas):
            log_w += (now - before) * fit
            for move in range(2 * p):
                i = int(rng.integers(k))
                if move % 2:
                    other, turned = angle.copy(), U
                    other[:, i] += rng.normal(size=n) * rng.choice([0.05, 0.3])
                else:
                    other, turned = angle, _turned(U, i, rng)
                inside = ((other > lowest) & (other < np.pi / 2)).all(axis=1)
                new = likelihood(turned, np.clip(other, lowest, np.pi / 2 - 1e-9))
                new = np.where(inside, new, -np.inf)
                taken = np.log(rng.random(n)) < now * (new - fit)
                U = np.where(taken[:, None, None], turned, U)
                angle = np.where(taken[:, None], other, angle)
                fit = np.where(taken, new, fit)
        found.append(float(logsumexp(log_w) - np.log(n)))
    return np.array(found)


def _turned(U, i, rng):
    j = int(rng.integers(U.shape[1] - 1))
    j += j >= i
    angle = rng.normal(size=(U.shape[0], 1)) * rng.choice([0.1, 0.4, 1.5])
    c, d, turned = np.cos(angle), np.sin(angle), U.copy()
    turned[:, :, i] = c * U[:, :, i] + d * U[:, :, j]
    turned[:, :, j] = c * U[:, :, j] - d * U[:, :, i]
    return turned


def sequential(a, s):
    """The average over a frame as a product: the i-th over the sphere of the values from it on.

    A lower bound, as what the directions before it leave is more than those values.
    """
    a = np.sort(a)[::-1]
    return sum(log_sphere_average(share * a[i:]) for i, share in enumerate(s))
