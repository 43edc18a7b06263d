"""Complete data with unequal noise of rows and columns, their fits, and the oracle's parameters."""

from __future__ import annotations

import numpy as np

from bayespca import inference
from bayespca.inference.fitting import settle
from bayespca.linear.scaled.fit import ScaledModel
from bayespca.linear.scaled.reading import noisy_table
from bayespca.spectrum.forms import ClosedForm
from oracles.uneven_noise import Problem, as_roots


def uneven(n, p, rank, *, rows=0.0, columns=0.0, strength=8.0, seed=0):
    """Data of known rank whose noise varies between rows and columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ (strength * rng.normal(size=(rank, p)))
    sizes = np.exp(rows * rng.normal(size=(n, 1)) + columns * rng.normal(size=(1, p)))
    return X + sizes * rng.normal(size=(n, p)) + 2 * rng.normal(size=p)


def settled(X, noise, *, center=True):
    """The last state of a fit, and its table."""
    table = noisy_table(X, center=center, rows=noise.rows)
    model, looping = ScaledModel(ClosedForm(), noise), inference.Looping(max_iter=9999, tol=1e-14)
    return settle(model, table, looping).run.state, table


def written_out(state, X, *, center=True):
    """A problem for the oracle, and all variational parameters of a state."""
    rows, columns = state.whitening.rows, state.whitening.columns
    (n, p), k, m = X.shape, state.found.solution.rank, state.found.solution.moments
    w, t = np.ones(n) if rows is None else rows.precision, columns.precision
    mean = w @ X / w.sum() if center else np.zeros(p)
    scaled = (X - mean) * np.sqrt(w)[:, None] * np.sqrt(t)
    left, _, right = np.linalg.svd(scaled, full_matrices=False)
    s2 = state.found.solution.noise_variance
    of_b = np.append(m.variance_b[:k], s2 / w.sum())[: k + center]
    means = np.c_[right[:k].T * m.mean_b[:k] / np.sqrt(t)[:, None], mean][:, : k + center]
    problem = Problem(X, k, center, rows is not None, np.isfinite(columns.shape))
    parts = {
        "z": left[:, :k] * m.mean_a[:k] / np.sqrt(w)[:, None],
        "z_roots": as_roots(np.broadcast_to(np.diag(m.variance_a[:k]), (n, k, k))),
        "y": means,
        "y_roots": as_roots(np.broadcast_to(np.diag(of_b), (p, *np.diag(of_b).shape))),
        "s2": np.log([s2]),
        "prior_a": np.log(m.prior_variance_a[:k]),
        "prior_b": np.log(m.prior_variance_b[:k]),
        "rows": _gammas(rows),
        "columns": _gammas(columns),
    }
    return problem, problem.packed(parts)


def _gammas(scales):
    """Logarithms of shapes, rates, α and β; empty if all variances are 1."""
    if scales is None or np.isinf(scales.shape):
        return np.empty(0)
    shape = scales.shape + 0.5 * np.asarray(scales.counts) + np.zeros(scales.precision.size)
    return np.log(np.r_[shape, shape / scales.precision, scales.shape, scales.rate])
