"""Complete data with noise per row and column: the free energy as a function of all variational
parameters, with each of its terms written out, and minimised by brute force.

    x_ij = μⱼ + zᵢᵀbⱼ + ε,   ε ~ N(0, σ²uᵢvⱼ),   zᵢ ~ N(0, uᵢCₐ),   bⱼ ~ N(0, vⱼC_b),   p(μⱼ) = √n,
    1/uᵢ ~ Gamma(α, β),   1/vⱼ ~ Gamma(α′, β′)

The posterior is r(z|u)r(u)·r(b, μ|v)r(v). Means are in units of the data, covariances in units of
the noise: zᵢ has uᵢSᵢ, (bⱼ, μⱼ) has vⱼTⱼ. If there is a mean, it takes up one row, so covariances
of zᵢ have weight 1 − wᵢ/Σw with wᵢ = ⟨1/uᵢ⟩.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, loggamma

LOG_2PI = np.log(2 * np.pi)
# The package's bounds on α, within which the two are compared.
BOUNDS = np.log([0.05, 1e6])
STEP = 1e-30


@dataclass(frozen=True)
class Problem:
    """Data, number of components, and whether there is a mean and noise per row and column."""

    X: np.ndarray
    k: int
    centred: bool
    rows: bool
    columns: bool

    @property
    def sizes(self):
        (n, p), k, q = self.X.shape, self.k, self.k + self.centred
        return {
            "z": (n, k),
            "z_roots": (n, k * (k + 1) // 2),
            "y": (p, q),
            "y_roots": (p, q * (q + 1) // 2),
            "s2": (1,),
            "prior_a": (k,),
            "prior_b": (k,),
            "rows": (2 * n + 2,) if self.rows else (0,),
            "columns": (2 * p + 2,) if self.columns else (0,),
        }

    def packed(self, parts):
        """All parameters as one vector, with logarithms of everything positive."""
        return np.concatenate([np.ravel(parts[name]) for name in self.sizes])

    def parts(self, theta):
        """Inverse of `packed`, for any number of vectors."""
        edges = np.cumsum([int(np.prod(size)) for size in self.sizes.values()])[:-1]
        split = np.split(theta, edges, axis=-1)
        lead = theta.shape[:-1]
        return {
            name: part.reshape(*lead, *size)
            for (name, size), part in zip(self.sizes.items(), split, strict=True)
        }

    @property
    def bounds(self):
        """Bounds of all parameters: only α of rows and of columns, the last but one, has any."""
        found = {name: np.full((*size, 2), np.inf) * [-1, 1] for name, size in self.sizes.items()}
        for name in ("rows", "columns"):
            found[name][-2:-1] = BOUNDS
        return np.concatenate([part.reshape(-1, 2) for part in found.values()])


def free_energy(problem, theta):
    """Free energy of each vector of parameters."""
    X, (n, p), k = problem.X, problem.X.shape, problem.k
    part = problem.parts(np.asarray(theta))
    s2, of_a, of_b = np.exp(part["s2"])[..., 0], np.exp(part["prior_a"]), np.exp(part["prior_b"])
    w, log_u, rows = _variances(part["rows"], n)
    t, log_v, columns = _variances(part["columns"], p)
    z, Sz = part["z"], covariances(part["z_roots"], k)
    y, Sy = part["y"], covariances(part["y_roots"], k + problem.centred)
    share = 1 - problem.centred * w / w.sum(-1, keepdims=True)

    # Expected log likelihood, cell by cell.
    one = np.concatenate([z, np.ones((*z.shape[:-1], int(problem.centred)))], axis=-1)
    b, Sb = y[..., :k], Sy[..., :k, :k]
    square = (X - np.einsum("...ih,...jh->...ij", one, y)) ** 2
    square = square * w[..., :, None] * t[..., None, :]
    of_y = np.einsum("...ig,...jgh,...ih->...ij", one, Sy, one) * w[..., :, None]
    of_z = np.einsum("...jg,...igh,...jh->...ij", b, Sz, b) * t[..., None, :]
    of_z = of_z + np.einsum("...igh,...jgh->...ij", Sz, Sb)
    cells = (square + of_y + share[..., None] * of_z) / s2[..., None, None]
    cells = cells + log_u[..., :, None] + log_v[..., None, :]
    total = cells.sum((-2, -1)) + n * p * (LOG_2PI + np.log(s2))

    # KL of the scores, whose prior variances are uᵢ·cₐ²: uᵢ cancels in the terms of covariances.
    of_scores = w[..., None] * z**2 + share[..., None] * np.einsum("...igg->...ig", Sz)
    total = total + (of_scores / of_a[..., None, :]).sum((-2, -1))
    logs = np.log(of_a).sum(-1)[..., None] - _log_det(part["z_roots"], k) - k
    total = total + (share * logs).sum(-1)

    # KL of loadings, whose prior variances are vⱼ·c_b², and of the mean, whose density is √n.
    of_loadings = t[..., None] * b**2 + np.einsum("...jgg->...jg", Sb)
    total = total + (of_loadings / of_b[..., None, :]).sum((-2, -1))
    logs = np.log(of_b).sum(-1)[..., None] - _log_det(part["y_roots"], k + problem.centred) - k
    total = total + logs.sum(-1)
    if problem.centred:
        total = total - (log_v + np.log(n) + 1 + LOG_2PI).sum(-1)
    return 0.5 * total + rows + columns


def covariances(roots, q):
    """LLᵀ from the entries of L, with logarithms on the diagonal."""
    rows, columns = np.tril_indices(q)
    L = np.zeros((*roots.shape[:-1], q, q), dtype=roots.dtype)
    L[..., rows, columns] = np.where(rows == columns, np.exp(roots), roots)
    return np.einsum("...ij,...kj->...ik", L, L)


def as_roots(S):
    """Inverse of `covariances`: the entries of L from S = LLᵀ."""
    rows, columns = np.tril_indices(S.shape[-1])
    L = np.linalg.cholesky(S)[..., rows, columns]
    return np.where(rows == columns, np.log(np.where(rows == columns, L, 1.0)), L)


def _log_det(roots, q):
    rows, columns = np.tril_indices(q)
    return 2 * (roots * (rows == columns)).sum(-1)


def _variances(theta, size):
    """⟨1/u⟩, ⟨log u⟩ and Σ KL(Gamma(s, r) ‖ Gamma(α, β)); 1, 0 and 0 without parameters."""
    if not theta.shape[-1]:
        lead = theta.shape[:-1]
        return np.ones((*lead, size)), np.zeros((*lead, size)), np.zeros(lead)
    log_s, log_r, log_a, log_b = np.split(theta, [size, 2 * size, 2 * size + 1], axis=-1)
    s, r, a, b = np.exp(log_s), np.exp(log_r), np.exp(log_a), np.exp(log_b)
    entropy = s - log_r + loggamma(s) + (1 - s) * digamma(s)
    log_prior = a * log_b - loggamma(a) + (a - 1) * (digamma(s) - log_r) - b * s / r
    return s / r, log_r - digamma(s), (-entropy - log_prior).sum(-1)


def slope(problem, theta):
    """Gradient by complex steps: exact, with nothing derived by hand."""
    steps = theta + 1j * STEP * np.eye(theta.size)
    return free_energy(problem, steps).imag / STEP


def least(problem, start, max_iter=400):
    """(F, parameters) at the minimum that brute force finds from `start`."""
    found = minimize(
        lambda theta: float(free_energy(problem, theta)),
        start,
        jac=lambda theta: slope(problem, theta),
        method="L-BFGS-B",
        bounds=problem.bounds,
        options={"maxiter": max_iter, "maxfun": 10**6, "maxcor": 40, "ftol": 1e-14, "gtol": 1e-9},
    )
    return float(found.fun), found.x


def log_evidence(problem, theta, rng, draws=200_000):
    """log p(X) at the hyperparameters of `theta`, and its standard error.

    An average over draws of u, v and b from their priors, with z and μ integrated out. In units of
    the noise, y = x/√(uv), rows are normal with covariance Σ = σ² + b·Cₐ·bᵀ and mean μ/√u.
    """
    (n, p), k, part = problem.X.shape, problem.k, problem.parts(np.asarray(theta))
    s2, of_a, of_b = np.exp(part["s2"])[0], np.exp(part["prior_a"]), np.exp(part["prior_b"])
    log_u = _log_variances(part["rows"], n, rng, draws)
    log_v = _log_variances(part["columns"], p, rng, draws)
    b = rng.normal(size=(draws, p, k)) * np.sqrt(of_b)
    r = np.exp(-0.5 * log_u)
    y = problem.X * r[:, :, None] * np.exp(-0.5 * log_v)[:, None, :]
    logs = -0.5 * (p * log_u.sum(1) + n * log_v.sum(1))
    rows = n - problem.centred
    if problem.centred:
        y = (
            y
            - r[:, :, None]
            * np.einsum("si,sij->sj", r, y)[:, None, :]
            / (r**2).sum(1)[:, None, None]
        )
        logs += 0.5 * (log_v.sum(1) + p * np.log(n / (r**2).sum(1)))
    S = s2 * np.eye(p) + np.einsum("sjh,h,skh->sjk", b, of_a, b)
    squares = np.einsum("sij,sjk,sik->s", y, np.linalg.inv(S), y)
    logs -= 0.5 * (squares + rows * (np.linalg.slogdet(S)[1] + p * LOG_2PI))
    weights = np.exp(logs - logs.max())
    return logs.max() + np.log(weights.mean()), weights.std() / weights.mean() / np.sqrt(draws)


def _log_variances(theta, size, rng, draws):
    """Draws of log variances from their prior; 0 without parameters."""
    if not theta.size:
        return np.zeros((draws, size))
    alpha, beta = np.exp(theta[-2:])
    return np.log(beta) - np.log(rng.gamma(alpha, size=(draws, size)))
