"""The model without a mean, x ~ N(0, VVᵀ + σ²I): its likelihood, and data from it."""

from __future__ import annotations

import numpy as np


def simulated(n: int, variances: tuple[float, ...], d: int, seed: int = 0) -> np.ndarray:
    """n rows of d features: variances along orthogonal directions, and noise of variance 1."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(d, len(variances))))[0]
    scores = rng.normal(size=(n, len(variances))) * np.sqrt(variances)
    return scores @ directions.T + rng.normal(size=(n, d))


def covariance(X: np.ndarray) -> np.ndarray:
    """S = Σ xxᵀ/n"""
    return X.T @ X / len(X)


def eigen(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors in columns."""
    values, vectors = np.linalg.eigh(S)
    return values[::-1], vectors[:, ::-1]


def log_likelihood(V: np.ndarray, s2: float, S: np.ndarray, n: int) -> float:
    """−n/2 [d log 2π + log|C| + tr C⁻¹S] with C = VVᵀ + σ²I"""
    C = V @ V.T + s2 * np.eye(len(S))
    logs = len(S) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1]
    return float(-n / 2 * (logs + np.trace(np.linalg.solve(C, S))))


def gradient(V: np.ndarray, s2: float, S: np.ndarray) -> np.ndarray:
    """2C⁻¹V − 2C⁻¹SC⁻¹V: that of −2/n times the log-likelihood in V."""
    C = V @ V.T + s2 * np.eye(len(S))
    CV = np.linalg.solve(C, V)
    return 2 * (CV - np.linalg.solve(C, S @ CV))


def closed_form(S: np.ndarray, s: int) -> tuple[np.ndarray, float]:
    """V = U_s(Λ_s − σ²I)^½ and σ², the mean of the other eigenvalues."""
    values, U = eigen(S)
    s2 = float(values[s:].mean())
    return U[:, :s] * np.sqrt(values[:s] - s2), s2


def largest_angle(a: np.ndarray, b: np.ndarray) -> float:
    """Between the spans of the columns, in radians; by its sine, which is exact for small ones."""
    A, B = np.linalg.qr(a)[0], np.linalg.qr(b)[0]
    sine = np.linalg.norm(B - A @ (A.T @ B), ord=2)
    return float(np.arcsin(min(sine, 1.0)))
