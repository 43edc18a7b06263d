"""Autoregressive noise along the features, from dense covariances and by brute force."""

from __future__ import annotations

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import minimize
from scipy.signal import lfilter


def covariance(coefficients, p, reach=4000):
    """Covariance of p neighbours v_j = Σₗ aₗ·v_(j−l) + shock, from the response to one shock."""
    response = lfilter([1.0], np.r_[1.0, -np.asarray(coefficients)], np.eye(1, reach)[0])
    return toeplitz([response[: reach - d] @ response[d:] for d in range(p)])


def partial_autocorrelations(C, order):
    """κᵢ: the weight of the farthest of i neighbours in the best prediction of the next one."""
    return tuple(
        float(np.linalg.solve(C[:i, :i], C[i, :i])[0])  # from the farthest to the nearest
        for i in range(1, order + 1)
    )


def whitening(C):
    """The lower triangular L with a positive diagonal and LCLᵀ = I."""
    return np.linalg.inv(np.linalg.cholesky(C))


def coefficients(partials):
    """a₁, …, a_q, from linear equations between autocorrelations that are built up one by one."""
    r = [1.0]
    for i, kappa in enumerate(partials, 1):
        if i == 1:
            r.append(kappa)
            continue
        inner = toeplitz(r[: i - 1])
        ahead, behind = np.array(r[1:i]), np.array(r[1:i])[::-1]
        solved = np.linalg.solve(inner, ahead)
        left = 1 - ahead @ solved
        r.append(float(behind @ solved + kappa * left))
    q = len(partials)
    return np.linalg.solve(toeplitz(r[:q]), r[1:]) if q else np.empty(0)


def energy(partials, products, number):
    """½tr(LᵀL·S) − N·log|L|"""
    C = covariance(coefficients(partials), len(products))
    return 0.5 * float(np.trace(np.linalg.solve(C, products)) + number * np.linalg.slogdet(C)[1])


def best(products, number, order):
    """The lowest energy of this order, from several starts."""

    def value(theta):
        return energy(tuple(np.tanh(theta)), products, number)

    starts, bounds = [np.zeros(order), np.full(order, 0.3)], order * [(-2.5, 2.5)]
    ends = [minimize(value, start, method="L-BFGS-B", bounds=bounds) for start in starts]
    end = min(ends, key=lambda one: one.fun)
    return float(end.fun), np.tanh(end.x)
