"""What every engine returns: a spectrum, and bases on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bayespca.spectrum import Solution, Spectrum, Status

# Arrays of any namespace that the array API knows: NumPy, torch, CuPy.
Array = Any

# From a spectrum, perhaps truncated, to a solution whose status tells whether it was long enough.
Plan = Callable[[Spectrum], Solution]


@dataclass(frozen=True)
class Decomposition:
    """X − mean = U·diag(γ)·Wᵀ, as far as an engine took it; rows of X are samples.

    Attributes
    ----------
    spectrum
        Singular values, shape (features, samples less one if centred), sum of squares. Truncated
        if the engine stopped early.
    right
        `right(k)` is the k×p array of the first k right singular vectors, in the namespace, dtype
        and place of the data. Computed when asked for: nobody pays for vectors that are dropped.
    mean
        The p column means that were removed, or zeros.
    n_samples
        Rows of X.
    engine
        The name of what ran.
    miss_probability
        An upper bound on the probability that a singular value above the last known one was
        missed; 0 for engines that do not draw random numbers.
    status
        Whether rounding errors leave the answer alone, with advice.
    """

    spectrum: Spectrum
    right: Callable[[int], Array]
    mean: Array
    n_samples: int
    engine: str
    miss_probability: float = 0.0
    status: Status = field(default_factory=Status)
