"""Evidence of each rank, by sampling and by plain sums: slow and obvious.

Model: M rows of N(0, σ²(I + U diag(v) Uᵀ)), U a random orthonormal p×k frame, v the spikes in units
of σ². With s = v/(1 + v) the likelihood averaged over U is

    (σ²)^(−Mp/2) · exp(−Σg²/2σ²) · Π(1 + vᵢ)^(−M/2) · E exp(Σᵢ sᵢ uᵢᵀ diag(g²) uᵢ / 2σ²).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import gammaln, logsumexp

SCALES, MEAN = (2.0, 8.0), 2.0


def log_sphere_average(a, n=4001):
    """log E exp(Σ aⱼuⱼ²), u uniform on the sphere: Γ(d/2)/2πi ∫ eᶻ Π(z − aⱼ)^(−½) dz.

    The path is a parabola through the saddlepoint; both ends go to −∞, where eᶻ vanishes.
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


def log_evidences(g2, p, M, largest, *, n=400, kept=0.9, seed=0):
    """Log evidence of each rank up to `largest`, relative to rank 0, by annealing over U and v.

    σ² is integrated out: ∫ (σ²)^(−Mp/2) e^(−Q/2σ²) dσ²/σ² = Γ(Mp/2)·(Q/2)^(−Mp/2), with Q the sum
    of squares minus Σ s uᵀ diag(g²) u. Strengths over √(p/M) are half-Cauchy, cut off below 1, with
    one of the scales, which are equally probable.

    Sequential Monte Carlo (Del Moral, Doucet and Jasra 2006): the likelihood is raised to powers
    from 0 to 1, with steps that keep the effective sample size at `kept` of n; after each step
    samples are redrawn by their weights and moved.
    """
    rng, values = np.random.default_rng(seed), np.zeros(p)
    values[: len(g2)] = g2
    found = [
        [_sampled(values, M, k, n, kept, rng, scale)[0] for scale in SCALES]
        for k in range(1, largest + 1)
    ]
    return np.append(0.0, logsumexp(found, axis=1) - np.log(len(SCALES)))


def shares_above(g2, p, M, k, strength, *, n=2000, kept=0.9, seed=0):
    """Probabilities that 0, 1, …, k of exactly k components are stronger than `strength`."""
    rng, values = np.random.default_rng(seed), np.zeros(p)
    values[: len(g2)] = g2
    evidences, shares = [], []
    for scale in SCALES:
        evidence, v = _sampled(values, M, k, n, kept, rng, scale)
        evidences.append(evidence)
        shares.append(np.bincount((v > strength).sum(axis=1), minlength=k + 1) / n)
    return np.exp(evidences - logsumexp(evidences)) @ shares


def log_posterior(g2, p, M, **sampling):
    """Log probability of each rank below p; the prior of the rank is Poisson with mean 2."""
    ranks = np.arange(p)
    weights = log_evidences(g2, p, M, p - 1, **sampling) + ranks * np.log(MEAN) - gammaln(ranks + 1)
    return weights - logsumexp(weights)


def log_evidence_of_one(g2, p, M, n=100):
    """Log evidence of rank 1 relative to rank 0, by sums over log σ² and over angles of v."""
    values, limit = np.zeros(p), np.sqrt(p / M)
    values[: len(g2)] = g2
    low = np.arctan(1 / np.array(SCALES))[:, None]
    angles = low + (np.pi / 2 - low) * (np.arange(n) + 0.5) / n
    v = (np.array(SCALES)[:, None] * limit * np.tan(angles)).ravel()
    noise = np.exp(np.linspace(-4, 2, 40)) * values.sum() / (p * M)
    of_noise = -M * p / 2 * np.log(noise) - values.sum() / (2 * noise)
    averages = [
        [log_sphere_average(s * values / (2 * one), 401) for s in v / (1 + v)] for one in noise
    ]
    both = of_noise[:, None] + np.array(averages) - M / 2 * np.log1p(v)
    return float(logsumexp(both) - np.log(v.size) - logsumexp(of_noise))


def _sampled(values, M, k, n, kept, rng, scale):
    """Log evidence of rank k, relative to rank 0, and strengths drawn from their posterior."""
    p = values.size
    limit = np.sqrt(p / M)
    U = np.linalg.qr(rng.standard_normal((n, p, p)))[0]
    v = limit * scale * np.tan(rng.uniform(np.arctan(1 / scale), np.pi / 2, (n, k)))

    def log_likelihood():
        rest = _unexplained(values, U, v)
        return -M * p / 2 * np.log(rest / values.sum()) - M / 2 * np.log1p(v).sum(axis=1)

    power, total = 0.0, 0.0
    while power < 1:
        fit = log_likelihood()
        step = _step(fit, 1 - power, kept * n)
        total += logsumexp(step * fit) - np.log(n)
        power = min(power + step, 1.0)
        weights = np.exp(step * (fit - fit.max()))
        chosen = (np.arange(n) + rng.random()) / n * weights.sum()
        again = np.minimum(np.searchsorted(np.cumsum(weights), chosen), n - 1)
        U, v = U[again], v[again]
        # σ² is drawn only for the moves: given it, angles have known distributions.
        rate = power / 2 * _unexplained(values, U, v)
        precision = rng.gamma(power * M * p / 2, 1 / rate)
        _turn(U, v / (1 + v), power * precision / 2, values, rng)
        for width in (0.1, 0.3, 1.0, 3.0):
            factors = power * M / 2, power * precision / 2
            _strengthen(v, U, factors, values, (limit, scale), width, rng)
    return total, v


def _unexplained(values, U, v):
    """Q = Σ_j uⱼᵀ diag(g²) uⱼ/(1 + vⱼ), a sum without cancellation."""
    squares = np.einsum("npk,p->nk", U**2, values)
    squares[:, : v.shape[1]] /= 1 + v
    return squares.sum(axis=1)


def _step(fit, most, wanted):
    """Largest step up to `most` at which the effective sample size is at least `wanted`."""

    def count(step):
        return np.exp(2 * logsumexp(step * fit) - logsumexp(2 * step * fit))

    if count(most) >= wanted:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if count(middle) >= wanted else (low, middle)
    return low


def _turn(U, s, factor, values, rng):
    """Turn each pair of directions by an angle from its conditional law, a von Mises."""
    p, k = U.shape[1], s.shape[1]
    for i in range(k):
        for j in range(i + 1, p):
            x, y = U[:, :, i].copy(), U[:, :, j].copy()
            gap = factor * (s[:, i] - (s[:, j] if j < k else 0.0))
            cosine = gap * ((x * x - y * y) * values).sum(axis=1) / 2
            sine = gap * (x * y * values).sum(axis=1)
            angle = rng.vonmises(np.arctan2(sine, cosine), np.hypot(sine, cosine)) / 2
            c, d = np.cos(angle)[:, None], np.sin(angle)[:, None]
            U[:, :, i], U[:, :, j] = c * x + d * y, c * y - d * x


def _strengthen(v, U, factors, values, prior, width, rng):
    """Metropolis moves of log v; all entries are independent given U and σ²."""
    (spread, pull), (limit, scale) = factors, prior
    squares = pull[:, None] * np.einsum("npk,p->nk", U[:, :, : v.shape[1]] ** 2, values)

    def log_density(v):
        of_prior = np.log(v) - np.log1p((v / (scale * limit)) ** 2)
        return of_prior - spread * np.log1p(v) + squares * v / (1 + v)

    other = v * np.exp(width * rng.standard_normal(v.shape))
    ratio = log_density(other) - log_density(v)
    taken = (other > limit) & (np.log(rng.random(v.shape)) < ratio)
    v[taken] = other[taken]


def sequential(a, s):
    """Log average over a frame as a sum of sphere averages, the i-th over the values from i on.

    A lower bound, because the directions before the i-th leave more than those values.
    """
    a = np.sort(a)[::-1]
    return sum(log_sphere_average(share * a[i:]) for i, share in enumerate(s))
