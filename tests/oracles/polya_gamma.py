"""Pólya–Gamma variables by their definition, and their Laplace transform."""

from __future__ import annotations

import numpy as np

TERMS = 400


def draws(c, size, rng):
    """PG(1, c) = Σₖ gₖ/((k − ½)² + c²/4π²)/2π², gₖ exponential; cut-off terms have their mean."""
    k = np.arange(1, TERMS + 1) - 0.5
    weights = 1 / (2 * np.pi**2 * (k * k + (c / (2 * np.pi)) ** 2))
    mean = 0.25 if c == 0 else np.tanh(c / 2) / (2 * c)
    return rng.exponential(size=(size, TERMS)) @ weights + mean - weights.sum()


def laplace(t, c):
    """⟨exp(−tω)⟩ = cosh(c/2)/cosh(√(c²/4 + t/2)) (Polson, Scott and Windle 2013, Section 2)."""
    return np.cosh(c / 2) / np.cosh(np.sqrt(c * c / 4 + t / 2))
