"""Data with components of known strength, under the kinds of noise of `bayespca.datasets.noisy`.

A strength is in units of the detection limit √(p/n), after the noise has been made white: cells are
divided by the standard deviations of their noise, and neighbours that are alike are filtered. Noise
with heavy tails tells more of a shift than normal noise of the same variance, by its Fisher
information I, which lowers the limit to √(p/n)/I.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from bayespca.spectrum import recoverable_strength

SHAPES = ((30, 13), (60, 20), (100, 40), (200, 15), (40, 90))
KINDS = ("white", "columns", "rows", "both", "t3", "gross", "ar", "poisson")
# Of the largest number of components, and their strengths over the limit.
MOST, STRONGEST = 5, 6.0
# Logarithms of standard deviations of rows and columns vary by this, those of exposures by less.
SPREAD, EXPOSURES = 0.7, 0.35
# Neighbours' correlation; share and standard deviation of gross errors; mean counts from and to.
PHI, SHARE, GROSS, COUNTS = 0.7, 0.01, 10.0, (5.0, 50.0)


# Data, and the same with white noise.
Drawn = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Made:
    """A data set, the kind of its noise, and how many components can be recovered.

    `white` are the same data for one who knows the noise, where it can be made white.
    """

    X: np.ndarray
    white: np.ndarray | None
    kind: str
    truth: int


@dataclass(frozen=True)
class Parts:
    """What noise is added to: orthonormal directions, and scores whose variances are strengths."""

    directions: np.ndarray
    scores: np.ndarray

    @property
    def signal(self) -> np.ndarray:
        return self.scores @ self.directions


def made(kind: str, n_sets: int) -> Iterator[Made]:
    """Data sets of five shapes in turn, with 0 to 5 components."""
    for seed in range(n_sets):
        rng = np.random.default_rng((seed, KINDS.index(kind)))
        n, p = SHAPES[seed % len(SHAPES)]
        t = rng.uniform(0, STRONGEST, int(rng.integers(MOST + 1)))
        X, white = NOISES[kind](parts_of(rng, n, p, t), rng)
        least = recoverable_strength(p, n - 1) / np.sqrt(p / (n - 1))
        # Counts have exposures besides, which are a component far above the limit.
        yield Made(X, white, kind, int((t > least).sum()) + (kind == "poisson"))


def parts_of(rng: np.random.Generator, n: int, p: int, strengths: np.ndarray) -> Parts:
    k = strengths.size
    directions = np.linalg.qr(rng.standard_normal((p, p)))[0][:k]
    scores = rng.standard_normal((n, k)) * np.sqrt(strengths * np.sqrt(p / (n - 1)))
    return Parts(directions, scores)


def uneven(
    parts: Parts, rng: np.random.Generator, *, rows: bool = False, columns: bool = False
) -> Drawn:
    """Noise whose standard deviation differs between rows, columns, or both."""
    n, p = parts.signal.shape
    of_rows = np.exp(SPREAD * rows * rng.standard_normal((n, 1)))
    of_columns = np.exp(SPREAD * columns * rng.standard_normal(p))
    # Rows with less noise show more of a component, which has its strength on average.
    signal = parts.signal / np.sqrt((of_rows**-2.0).mean())
    white = signal / of_rows + rng.standard_normal((n, p))
    return of_rows * white * of_columns, white


def student(parts: Parts, rng: np.random.Generator) -> Drawn:
    """t with three degrees of freedom, of variance 1: I = 3·(ν + 1)/(ν + 3) = 2."""
    return parts.signal / np.sqrt(2.0) + rng.standard_t(3, parts.signal.shape) / np.sqrt(3), None


def gross(parts: Parts, rng: np.random.Generator) -> Drawn:
    """One cell of a hundred has an error ten times as large besides."""
    shape = parts.signal.shape
    errors = GROSS * (rng.random(shape) < SHARE) * rng.standard_normal(shape)
    signal = parts.signal / np.sqrt(information_with_gross_errors())
    return signal + rng.standard_normal(shape) + errors, None


def information_with_gross_errors() -> float:
    """∫ f'²/f of the mixture of normal errors, and those with gross ones added."""
    wide = np.sqrt(1 + GROSS**2)

    def integrand(x: float) -> float:
        parts = (1 - SHARE) * norm.pdf(x), SHARE * norm.pdf(x, scale=wide)
        return float((x * parts[0] + x * parts[1] / wide**2) ** 2 / sum(parts))

    return 2 * quad(integrand, 0, 10 * wide, limit=500)[0]


def neighbours(parts: Parts, rng: np.random.Generator) -> Drawn:
    """x_j = φ x_{j−1} + √(1 − φ²) e_j, of the noise and, as it is filtered, of the directions."""
    white = parts.signal + rng.standard_normal(parts.signal.shape)
    X = white.copy()
    for j in range(1, X.shape[1]):
        X[:, j] = PHI * X[:, j - 1] + np.sqrt(1 - PHI**2) * white[:, j]
    return X, white


def counts(parts: Parts, rng: np.random.Generator) -> Drawn:
    """Poisson counts of rates r_i(b_j + √b_j·signal): their variance is about r_i b_j."""
    n, p = parts.signal.shape
    b = np.exp(rng.uniform(*np.log(COUNTS), p))
    r = np.exp(EXPOSURES * rng.standard_normal((n, 1)))
    # A component along √b would be one with the exposures.
    along = np.sqrt(b / b.sum())
    W = parts.directions - np.outer(parts.directions @ along, along)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    rates = r * (b + np.sqrt(b / r.mean()) * (parts.scores @ W))
    return rng.poisson(np.maximum(rates, 0.0)).astype(float), None


NOISES: dict[str, Callable[[Parts, np.random.Generator], Drawn]] = {
    "white": uneven,
    "columns": lambda parts, rng: uneven(parts, rng, columns=True),
    "rows": lambda parts, rng: uneven(parts, rng, rows=True),
    "both": lambda parts, rng: uneven(parts, rng, rows=True, columns=True),
    "t3": student,
    "gross": gross,
    "ar": neighbours,
    "poisson": counts,
}
