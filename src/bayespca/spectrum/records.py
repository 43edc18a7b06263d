"""The records that go in and come out of `solve`: frozen, and checked once when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .tolerances import ROUNDING_ERRORS, SLACK_OF_SPECTRUM

FloatArray = NDArray[np.float64]
# One axis, for `io.kinds`.
Vector = Annotated[FloatArray, 1]


def samples(n: int, center: bool) -> int:
    """M for n rows: one less if their mean is removed, which integrates it out."""
    return max(n - 1, 1) if center else n


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular values, shape and sum of squares of a matrix V of size L×M (features × samples).

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> whole = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> first = spectrum.Spectrum(gamma[:5], shape=(12, 99), sum_of_squares=(gamma**2).sum())
    >>> spectrum.solve(whole).rank, spectrum.solve(first).rank
    (3, 3)

    Parameters
    ----------
    singular_values
        The largest singular values, in decreasing order: all min(L, M) of them, or fewer.
    shape
        (L, M): number of features, number of samples (one less than the rows after centring).
        With weighted rows the number of samples need not be whole.
    sum_of_squares
        ‖V‖², needed when `singular_values` are not all of them. Singular values that are not
        given and not accounted for by `sum_of_squares` are zero.
    scale
        Singular values are in units of `scale`, the sum of squares in units of its square. For
        data so large or small that their squares leave the range of floating-point numbers.
    resolution
        Rounding error of the singular values relative to the largest: that of float64, unless
        they were computed from float32. It bounds the noise from below.
    n_values
        Number of singular values of V, min(L, M) by default. With weighted rows there may be more
        than M, but no method keeps more than M: the others are noise, and only their sum of squares
        is needed.
    """

    singular_values: Vector
    shape: tuple[int, int | float]
    sum_of_squares: float
    scale: float
    resolution: float = field(repr=False)
    residual: float = field(repr=False)

    def __init__(
        self,
        singular_values: ArrayLike,
        shape: tuple[int, float],
        sum_of_squares: float | None = None,
        scale: float = 1.0,
        resolution: float = float(np.finfo(np.float64).eps),
        n_values: int | None = None,
    ) -> None:
        L, M = _checked_shape(shape)
        full = int(min(L, M))
        values = _checked_singular_values(singular_values, limit=full)
        n_values = full if n_values is None else n_values
        known = _sum_of_squares(values)
        total = known if sum_of_squares is None else float(sum_of_squares)
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be a positive finite number, got {scale!r}.")
        residual = _checked_residual(total, known, values, n_unknown=n_values - values.size)
        values.flags.writeable = False
        object.__setattr__(self, "singular_values", values)
        object.__setattr__(self, "shape", (L, M))
        object.__setattr__(self, "sum_of_squares", known + residual)
        object.__setattr__(self, "scale", float(scale))
        object.__setattr__(self, "resolution", float(resolution))
        object.__setattr__(self, "residual", residual)

    @property
    def full_rank(self) -> int:
        """min(L, M), the number of singular values of the matrix."""
        return int(min(self.shape))

    @property
    def is_complete(self) -> bool:
        """Whether every non-zero singular value is known."""
        return self.singular_values.size == self.full_rank or self.residual == 0.0

    def at_unit_scale(self) -> Spectrum:
        """The same spectrum with its largest singular value 1 and the factor moved to `scale`."""
        largest = self.singular_values[0] if self.singular_values.size else np.sqrt(self.residual)
        if largest in (0.0, 1.0):
            return self
        values = self.singular_values / largest
        return Spectrum(
            values,
            self.shape,
            float(values @ values) + self.residual / largest / largest,
            self.scale * float(largest),
            self.resolution,
            self.shape[0],
        )

    @property
    def rounding(self) -> float:
        """The size that singular values of exactly 0 may have by rounding."""
        largest = float(self.singular_values[0]) if self.singular_values.size else 0.0
        return ROUNDING_ERRORS * self.resolution * largest

    def without_rounding(self) -> Spectrum:
        """The spectrum with 0 in place of singular values that are no larger than rounding."""
        seen = self.singular_values > self.rounding
        if seen.all() or not self.singular_values.size:
            return self
        values = np.where(seen, self.singular_values, 0.0)
        return Spectrum(
            values, self.shape, scale=self.scale, resolution=self.resolution, n_values=self.shape[0]
        )

    def with_resolution(self, resolution: float) -> Spectrum:
        """The same spectrum with another `resolution`."""
        return Spectrum(
            self.singular_values,
            self.shape,
            self.sum_of_squares,
            self.scale,
            resolution,
            self.shape[0],
        )

    def of_rounded(self, error: float) -> Spectrum:
        """The same spectrum for entries rounded by `error` or less, which bounds the noise."""
        if not self.singular_values.size or not self.singular_values[0]:
            return self
        size = error / self.scale * float(np.sqrt(self.shape).sum())
        own = size / (ROUNDING_ERRORS * float(self.singular_values[0]))
        return self if own <= self.resolution else self.with_resolution(own)

    def check(self) -> None:
        """Raise ValueError unless it could have been made by the constructor.

        The constructor's sums may differ by rounding from those of another machine.
        """
        again = Spectrum(
            *(self.singular_values, self.shape, self.sum_of_squares),
            *(self.scale, self.resolution),
        )
        if again.shape != self.shape:
            raise ValueError("the shape of a Spectrum is not two whole numbers")
        if not 0 <= self.residual <= self.sum_of_squares:
            raise ValueError("the residual of a Spectrum is not between 0 and its sum of squares")


def _checked_shape(shape: tuple[int, float]) -> tuple[int, float]:
    """The shape, with whole entries as int: M need not be whole."""
    try:
        L, M = shape
        good = int(L) == L and L >= 1 and 0 < M < np.inf
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            "shape must be two whole numbers of at least 1, features and samples (a positive "
            f"number where rows count by weights), got {shape!r}."
        )
    return int(L), int(M) if int(M) == M else float(M)


def _checked_singular_values(singular_values: ArrayLike, limit: int) -> FloatArray:
    values = np.array(singular_values, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"singular values must be a vector, got an array of shape {values.shape}.")
    if values.size > limit:
        raise ValueError(
            f"a matrix of this shape has {limit} singular values, got {values.size}: "
            "check that shape is (features, samples)."
        )
    for what, is_wrong in (
        ("finite", lambda: ~np.isfinite(values)),
        ("non-negative", lambda: values < 0),
        ("in decreasing order", lambda: np.diff(values, prepend=values[:1]) > 0),
    ):
        wrong = is_wrong()
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"singular values must be {what}; number {first} (counting from 0) "
                f"is {float(values[first])!r}."
            )
    return values


def _sum_of_squares(values: FloatArray) -> float:
    with np.errstate(over="ignore"):
        total = float(values @ values)
    if not np.isfinite(total):
        raise ValueError(
            "the squares of the singular values overflow: divide them by a common factor and "
            "pass that factor as scale."
        )
    return total


def n_with_room(
    squares: FloatArray, total: float, n_values: int, slack: float = 0.5 * SLACK_OF_SPECTRUM
) -> int:
    """Number of leading `squares` whose remainder of `total` fits into values below them."""
    rest = total - np.cumsum(squares)
    room = (n_values - 1 - np.arange(squares.size)) * squares
    holds = rest <= room + slack * total
    return int(holds.size if holds.all() else np.argmin(holds))


def _checked_residual(total: float, known: float, values: FloatArray, n_unknown: int) -> float:
    """The part of ‖V‖² that the known singular values leave over."""
    if not (np.isfinite(total) and total >= known * (1 - SLACK_OF_SPECTRUM)):
        raise ValueError(
            f"sum_of_squares must be at least that of the singular values given, {known:.6g}; "
            f"got {total:.6g}."
        )
    residual = max(total - known, 0.0)
    smallest = float(values[-1]) if values.size else np.inf
    room = n_unknown * smallest * smallest if n_unknown else 0.0
    if residual > room + SLACK_OF_SPECTRUM * total:
        raise ValueError(
            f"sum_of_squares is {total:.6g}, but the {values.size} singular values given and the "
            f"{n_unknown} smaller ones can add up to {known + room:.6g} at most."
        )
    return min(residual, room)


@dataclass(frozen=True)
class Moments:
    """Posterior moments of each component h: aₕ ~ N(ωₐ·mean_a, variance_a·I), bₕ likewise.

    Arrays over components. A point-estimated factor has variance 0; a component that a learned
    prior switched off has everything 0. Only mean_a·mean_b and the like are identified: the model
    is unchanged when A grows by any factor and B shrinks by it. As solved, the two factors are
    balanced (equal means, equal conditional variances), which is finite even for a flat prior.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> moments = spectrum.solve(seen).moments
    >>> moments.mean_a[:4].round(1)
    array([6.8, 5.2, 3.9, 0. ])
    """

    mean_a: FloatArray
    mean_b: FloatArray
    variance_a: FloatArray
    variance_b: FloatArray
    prior_variance_a: FloatArray
    prior_variance_b: FloatArray

    def rescaled(self, factor: ArrayLike) -> Moments:
        """The same posterior, with A multiplied by `factor` and B divided by it."""
        f = np.asarray(factor, dtype=np.float64)
        return Moments(
            self.mean_a * f,
            self.mean_b / f,
            self.variance_a * f**2,
            self.variance_b / f**2,
            self.prior_variance_a * f**2,
            self.prior_variance_b / f**2,
        )

    def in_units(self, unit: float) -> Moments:
        """The moments for data multiplied by `unit`, which both factors share."""
        root = np.sqrt(unit)
        return Moments(
            self.mean_a * root,
            self.mean_b * root,
            self.variance_a * unit,
            self.variance_b * unit,
            self.prior_variance_a * unit,
            self.prior_variance_b * unit,
        )

    def with_unit_latent_prior(self) -> Moments:
        """Rescaled so that cₐ = 1: probabilistic PCA's latent variables (icml2011)."""
        return self.rescaled(1 / np.sqrt(_live(self.prior_variance_a)))

    def with_equal_priors(self) -> Moments:
        """Rescaled so that cₐ = c_b: the convention of aistats2014."""
        ratio = _live(self.prior_variance_b) / _live(self.prior_variance_a)
        return self.rescaled(np.sqrt(np.sqrt(ratio)))


def _live(prior_variance: FloatArray) -> FloatArray:
    """Prior variances, with 1 in place of the 0 of switched-off components."""
    return np.where(prior_variance > 0, prior_variance, 1.0)


# Code of the advice on components that min_components keeps and EVB would drop.
AT_LEAST = "at-least"
# Code of the advice that the data do not determine the number of components.
NOT_DETERMINED = "not-determined"
ALL_ZERO = "all-zero"


@dataclass(frozen=True)
class Advice:
    """One thing the user should know about an answer: a code to test for, a sentence to read.

    >>> from bayespca.spectrum import Advice
    >>> Advice("zero-one", "All values are 0 or 1: BinaryPCA has the right likelihood.").code
    'zero-one'
    """

    code: str
    text: str


@dataclass(frozen=True)
class Status:
    """Reliability of an answer, with advice. `exact` is False when more data could change it.

    >>> from bayespca.spectrum import Status
    >>> status = Status().but("zero-one", "All values are 0 or 1.")
    >>> print(status, "zero-one" in status)
    All values are 0 or 1. True
    """

    exact: bool = True
    advice: tuple[Advice, ...] = ()

    def but(self, code: str, text: str, *, exact: bool = True) -> Status:
        """This status with one more piece of advice."""
        return replace(self, exact=self.exact and exact, advice=(*self.advice, Advice(code, text)))

    def without(self, *codes: str) -> Status:
        """This status without advice of these codes."""
        return replace(self, advice=tuple(item for item in self.advice if item.code not in codes))

    def __add__(self, other: Status) -> Status:
        """The advice of both; exact if both are."""
        return Status(self.exact and other.exact, self.advice + other.advice)

    def __contains__(self, code: object) -> bool:
        return any(item.code == code for item in self.advice)

    def __str__(self) -> str:
        return " ".join(item.text for item in self.advice) or "exact"


@dataclass(frozen=True)
class Solution:
    """The answer of a method for a spectrum.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> answer = spectrum.solve(seen)
    >>> answer.rank, round(answer.noise_variance, 2)
    (3, 0.97)

    Attributes
    ----------
    method, family_name
        The method, and the posterior family that it used (PB decides by shape).
    rank
        Number of components kept.
    noise_variance
        σ², given or estimated, in the units of the data squared.
    threshold
        Singular values above it are kept; ∞ where the method keeps none, 0 where it has none.
    shrunk_singular_values
        γ̂ of the kept components: the posterior mean of the low-rank matrix is Σ γ̂ₕ ω_b ω_aᵀ.
    moments
        Posterior moments of every component whose singular value is known and within `max_rank`.
    free_energy
        F in nats with all constants: −log evidence bound. Point-estimated factors count through
        the density of their prior, without the entropy of their pseudo-Dirac posterior.
        ∞ when both factors are integrated out and no proper prior was given.
    rank_free_energies
        Fₖ − min F for each rank k = 0, 1, …: the lowest free energy with exactly k components
        kept. ∞ where no such solution exists. exp(−Fₖ) is no probability, as the bound is looser
        for larger ranks: `posterior_of_rank` gives probabilities.
    status
        Whether the answer is exact, with advice.
    """

    method: str
    family_name: str
    rank: int
    noise_variance: float
    threshold: float
    shrunk_singular_values: FloatArray
    moments: Moments
    free_energy: float
    rank_free_energies: FloatArray
    status: Status


def holding(singular_values: Vector, share: float) -> int:
    """Number of leading singular values that hold a share of the sum of all squares."""
    if not singular_values.size:
        return 0
    held = np.cumsum((singular_values / singular_values[0]) ** 2)
    return int(np.searchsorted(held, share * held[-1])) + 1


@dataclass(frozen=True)
class RankPosterior:
    """Probability of each number of recoverable components.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> found = spectrum.posterior_of_rank(seen)
    >>> found.rank, found.probabilities[:5].round(2)
    (3, array([0.  , 0.  , 0.  , 0.91, 0.08]))

    Attributes
    ----------
    probabilities
        Index = number of components whose direction can be recovered (`recoverable_strength`).
    detectable
        The same for all components above the detection limit √(L/M), recoverable or not. Numbers
        far from the most probable one are 0.
    log_evidence
        Log evidence of each number of detectable components, in nats, relative to that of the most
        probable one; −∞ far from it.
    determined
        Whether the evidence falls beyond some number. Where it rises up to the largest number that
        can be told apart from noise, as in spectra without a gap, the probabilities mean nothing.
    """

    probabilities: FloatArray
    detectable: FloatArray
    log_evidence: FloatArray
    determined: bool = True

    @property
    def rank(self) -> int:
        """The most probable number of components."""
        return int(np.argmax(self.probabilities))
