"""Records of a finished PCA, for data with and without holes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from bayespca.arrays.types import Counts, FloatArray, Matrix, Vector
from bayespca.inference.result import Fit
from bayespca.spectrum.records import Spectrum

from .holes_posterior import HolesPosterior, latent_variance_of_scores
from .noise_models import NOISES, NoiseModel
from .posterior import Posterior

PCAPosterior: TypeAlias = Posterior | HolesPosterior


class OfComponents:
    """A record whose posterior has k components in p features."""

    posterior: Any
    n_samples: int

    @property
    def n_counted(self) -> int:
        """Number of rows that count."""
        return self.n_samples

    @property
    def n_components(self) -> int:
        """k; columns that are switched off do not count."""
        return int(self.posterior.components.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.posterior.components.shape[1])


@dataclass(frozen=True, eq=False, kw_only=True)
class NoiseFound:
    """The noise of a fit, in the units of the data; see `noise_models`.

    Attributes
    ----------
    name
        Name of the noise model.
    features, samples
        Noise variance of each feature and of each row; None where it is the same for all.
    degrees_of_freedom
        Degrees of freedom of Student's t, for rows or cells; infinite for normal noise.
    partials
        Partial autocorrelations of the noise along the features, as many as the order of its
        autoregression; () where neighbours have no noise in common.
    series
        ψ, the correlation of the noise of a row with that of the row before.
    outliers
        Probability that the noise of a row (n,) or of a cell (n, p) is more than three times as
        large as usual; None where neither has noise of its own.
    per_component
        Nats that each component gains because variances of rows and columns were learned with it
        (`scales.nats_per_component`).
    evidence
        Nats by which the evidence of each model that was tried exceeds that of equal noise.
    """

    name: str = "isotropic"
    features: Vector | None = None
    samples: Vector | None = None
    degrees_of_freedom: float = float("inf")
    partials: tuple[float, ...] = ()
    series: float = 0.0
    outliers: FloatArray | None = None
    per_component: float = 0.0
    evidence: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_constant(cls, noise: NoiseModel, n: int, p: int) -> NoiseFound:
        """The noise of n equal rows of p features: zero everywhere."""
        return cls(
            name=noise.name,
            features=np.zeros(p) if noise.columns else None,
            samples=np.zeros(n) if noise.rows else None,
            outliers=np.zeros(n) if noise.rows else None,
        )

    @property
    def model(self) -> NoiseModel:
        """The noise model, with the order that was found for noise of neighbours."""
        return replace(NOISES[self.name], order=len(self.partials))

    @property
    def in_words(self) -> str:
        """The name, with the order if it is above one, and the nats in its favour."""
        nats, order = self.evidence.get(self.name, 0.0), len(self.partials)
        name = f"{self.name} of order {order}" if order > 1 else self.name
        return f"{name} ({nats:+.1f} nats)" if nats else name


@dataclass(frozen=True, eq=False, kw_only=True)
class PCAFit(Fit[PCAPosterior], OfComponents):
    """A finished PCA of n rows.

    `free_energy` refers to the data as given, before scaling. `noise_variance` refers to the scaled
    data, and is the mean over features where each has its own.

    Attributes
    ----------
    spectrum
        The singular values that are known; with holes, those that complete data would show.
    shrunk_singular_values
        Singular values of the posterior mean of the low-rank matrix.
    noise_variance
        Noise variance, estimated or given.
    threshold
        Singular values above it are kept; NaN where free energies decide.
    n_samples
        Rows of the data.
    first_rows
        For each row the first row that it copies or measures again, where such rows count once.
    engine
        The engine that ran; "holes" for data with holes.
    miss_probability
        Bound on the probability that a randomized engine missed a component.
    noise
        The noise model that was fitted, and its parameters.
    rank_posterior
        Probability of each number of recoverable components.
    left_out
        Strength over σ² of each component that was not kept, and its probability: (m, 2).
    """

    spectrum: Spectrum
    shrunk_singular_values: Vector
    noise_variance: float
    n_samples: int
    first_rows: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    threshold: float = float("nan")
    engine: str = "holes"
    miss_probability: float = 0.0
    noise: NoiseFound = field(default_factory=NoiseFound)
    rank_posterior: Vector = field(default_factory=lambda: np.empty(0))
    left_out: Matrix = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def n_counted(self) -> int:
        return int(np.unique(self.first_rows).size) or self.n_samples

    @property
    def singular_values(self) -> FloatArray:
        """The singular values that are known, in the units of the (scaled) data."""
        return self.spectrum.singular_values * self.spectrum.scale

    @property
    def kept_singular_values(self) -> FloatArray:
        """Singular values of the components."""
        return self.singular_values[: self.n_components]

    @property
    def explained_variance(self) -> FloatArray:
        """Sample variance along each component."""
        return self.kept_singular_values**2 / self.spectrum.shape[1]

    @property
    def explained_variance_ratio(self) -> FloatArray:
        """Share of each component in the total variance."""
        squares = self.spectrum.singular_values[: self.n_components] ** 2
        return squares / (self.spectrum.sum_of_squares or 1.0)

    @property
    def rank_probabilities(self) -> FloatArray:
        """`rank_posterior` extended to every possible rank."""
        full = max(min(self.n_features, int(self.spectrum.shape[1])), self.n_components)
        return np.append(self.rank_posterior, np.zeros(full + 1 - self.rank_posterior.size))

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        k, p = self.n_components, self.n_features
        n, found = self.n_samples, self.noise
        if found.name not in NOISES:
            raise ValueError(f"there is no noise called {found.name!r}")
        agree = found.features is None or found.features.shape == (p,)
        agree &= found.samples is None or found.samples.shape == (n,)
        agree &= self.first_rows.shape in ((0,), (n,))
        agree &= found.outliers is None or found.outliers.shape in ((n,), (n, p))
        if self.shrunk_singular_values.shape != (k,) or not agree:
            raise ValueError(f"its arrays do not have the sizes for {k} components in {p} features")
        _check_spectrum(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class VariationalFit(Fit[HolesPosterior], OfComponents):
    """A finished fit of Bishop's model to n rows.

    Attributes
    ----------
    spectrum
        The singular values that are known; with holes, those that complete data would show.
    weights
        ⟨W⟩ of all q columns (p, q), those that are on first.
    alpha
        ⟨α⟩ of these columns.
    noise_variance
        1/⟨τ⟩.
    n_samples
        Rows of the data.
    engine
        The engine that found the singular values; "holes" for data with holes.
    left_out
        Strength over σ² of each component that was not kept, and its probability: (m, 2).
    """

    spectrum: Spectrum
    weights: Matrix
    alpha: Vector
    noise_variance: float
    n_samples: int
    engine: str = "holes"
    left_out: Matrix = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def threshold(self) -> float:
        """NaN: there is no threshold, the bound alone decides which columns are on."""
        return float("nan")

    @property
    def _variances(self) -> FloatArray:
        """Variances of the noise-free scores."""
        return latent_variance_of_scores(self.posterior)

    @property
    def kept_singular_values(self) -> FloatArray:
        """Singular value of each component, signal and noise."""
        return np.sqrt(self.spectrum.shape[1] * (self._variances + self.noise_variance))

    @property
    def shrunk_singular_values(self) -> FloatArray:
        """Singular value of each component without the noise."""
        return np.sqrt(self.spectrum.shape[1] * self._variances)

    @property
    def explained_variance(self) -> FloatArray:
        """Variance along each component, signal and noise."""
        return self.kept_singular_values**2 / self.spectrum.shape[1]

    @property
    def explained_variance_ratio(self) -> FloatArray:
        """Share of each component in the total variance."""
        total = self.spectrum.sum_of_squares * self.spectrum.scale**2
        return self.kept_singular_values**2 / (total or 1.0)

    def check(self) -> None:
        """Raise ValueError unless the parts belong together."""
        k, q = self.n_components, self.alpha.size
        if self.weights.shape != (self.n_features, q) or k > q:
            raise ValueError("the size of its weights does not match its components")
        _check_spectrum(self)


def _check_spectrum(fit: PCAFit | VariationalFit) -> None:
    k, spectrum = fit.n_components, fit.spectrum
    size, (features, samples) = spectrum.singular_values.size, spectrum.shape
    if k > size or features > fit.n_features or samples > fit.n_samples:
        raise ValueError("its spectrum does not match its components")
    pairs = fit.left_out
    if pairs.shape[1] != 2 or not ((pairs >= 0).all() and np.isfinite(pairs).all()):
        raise ValueError("left_out must hold pairs of a strength and a probability")


def spectrum_as_if_complete(
    gamma: FloatArray, shape: tuple[int, int], noise_variance: float
) -> Spectrum:
    """Spectrum that a complete matrix would have shown: kept components, and noise for the rest."""
    order = np.sort(gamma)[::-1]
    rest = noise_variance * max(shape) * (min(shape) - gamma.size)
    room = (order[-1] ** 2 if order.size else np.inf) * (min(shape) - gamma.size)
    return Spectrum(order, shape, float(order @ order) + min(rest, room))
