"""Probabilities that were announced, against the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayespca.spectrum import Spectrum, minka

# A probability that was announced as less counts as this much.
LEAST = 1e-12
BINS = 10
# Sampling errors are drawn so often, and their largest but this share is what chance gives.
DRAWS, TAIL = 2000, 0.05


@dataclass(frozen=True)
class Announced:
    """Probabilities of ranks, a row for each data set, and the true numbers."""

    probabilities: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, probabilities: Sequence[np.ndarray], truth: Iterable[int]) -> Announced:
        """From probabilities of as many ranks as there were."""
        known = np.fromiter(truth, int)
        size = 1 + max(int(known.max()), *(row.size for row in probabilities))
        rows = [np.append(row, np.zeros(size - row.size)) for row in probabilities]
        return cls(np.array(rows), known)

    @property
    def highest(self) -> np.ndarray:
        return self.probabilities.max(axis=1)

    @property
    def right(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1) == self.truth

    @property
    def bins(self) -> np.ndarray:
        return np.minimum((BINS * self.highest).astype(int), BINS - 1)

    @property
    def error(self) -> float:
        """Mean difference of what is announced and what is right, over bins."""
        return self._gap(self.right)

    def chance(self) -> float:
        """The error that is exceeded in 1 of 20 samples if all that is announced is true."""
        rng = np.random.default_rng(0)
        draws = rng.random((DRAWS, self.truth.size)) < self.highest
        return float(np.quantile([self._gap(right) for right in draws], 1 - TAIL))

    def _gap(self, right: np.ndarray) -> float:
        gaps = np.bincount(self.bins, self.highest - right, minlength=BINS)
        return float(np.abs(gaps).sum() / self.truth.size)

    @property
    def score(self) -> float:
        """Mean log probability of the truth."""
        own = self.probabilities[np.arange(self.truth.size), self.truth]
        return float(np.log(np.maximum(own, LEAST)).mean())

    def rows(self) -> Iterator[tuple[str, ...]]:
        """For each bin its limits, how many data sets, what is announced and what is right."""
        for b in np.unique(self.bins):
            inside = self.bins == b
            shares = (f"{x[inside].mean():.2f}" for x in (self.highest, self.right))
            yield (f"{b / BINS:.1f}–{(b + 1) / BINS:.1f}", str(inside.sum()), *shares)

    def draw(self, ax: Any) -> None:
        """The reliability diagram."""
        used = np.unique(self.bins)
        said = np.array([self.highest[self.bins == b].mean() for b in used])
        right = [self.right[self.bins == b].mean() for b in used]
        sizes = np.array([(self.bins == b).sum() for b in used])
        ax.plot([0, 1], [0, 1], color="#999999", linewidth=1)
        ax.errorbar(said, right, yerr=np.sqrt(said * (1 - said) / sizes), fmt="o")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xlabel("announced")
        ax.set_ylabel("right")


def normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def minkas(spectrum: Spectrum) -> np.ndarray:
    """Probabilities by Minka's evidence."""
    return normalised(minka(spectrum).log_evidence)
