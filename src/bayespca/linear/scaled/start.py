"""The start of the search for the noise: all of the data count as noise.

A search from the fit with equal noise would stay there: components that it keeps because its noise
is wrong explain the noise that they were kept for. Small data may look like noise by chance, and
components that are lost at the start do not come back. For small data rounds therefore also start
from equal rows and from equal noise, and the lowest end wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.namespaces import on_host, to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit
from bayespca.lowrank.scales import Scales, given
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Solution, Spectrum
from bayespca.spectrum.tolerances import LEAST_NOISE_OF_FEATURES, RESOLUTION_OF_SQUARES

from .data import Near, NoisyTable, TableWithGram, Whitening
from .decomposition import BESIDE, near_to
from .squares import squares_of_columns
from .step import Rounds, ScaledState, state_near, state_of

# Turns in which rows and columns are divided by each other's variances.
TURNS = 3
# Rounds before the closed form estimates the noise itself.
ROUNDS = 2
# Most rounds of a trial, and the relative fall of the free energy that ends them; for a sample of
# the rows, whose variances are off by half a nat each, the fall in nats for each variance.
MOST_ROUNDS = 30
ENOUGH = 1e-6
ENOUGH_FOR_EACH = 0.05
# Another start wins if it ends lower by this many nats.
CLEARLY = 0.01


@dataclass(frozen=True)
class AtNoise:
    """A closed form at the current noise variance, or at the mean square if there is none yet.

    If the noise were estimated, data that are not white yet would keep hundreds of components, of
    which a round drops only a few. Components that stand out of the current noise surely exist.
    """

    form: ClosedForm
    noise_variance: float | None = None

    def __call__(self, spectrum: Spectrum, *, other_ranks: bool = True) -> Solution:
        if self.form.noise_variance != "auto" or not spectrum.sum_of_squares:
            return self.form(spectrum, other_ranks=other_ranks)
        L, M = spectrum.shape
        noise = self.noise_variance or spectrum.sum_of_squares / (L * M) * spectrum.scale**2
        return replace(self.form, noise_variance=noise)(spectrum, other_ranks=other_ranks)


def start(rounds: Rounds, other: PCAFit | None = None) -> ScaledState:
    """The first state: from a fit of other rows, a sample of many rows, or all noise."""
    data, noise, form = rounds.data, rounds.noise, rounds.form
    if other is not None:
        theirs = as_in(other, rounds)
        # Variances of the other fit come without their prior: this energy is not one to fall below.
        return replace(state_near(theirs, data, form, _near(other, data)), energy=np.inf)
    sample = data.sample
    if sample is None:
        return _beginning(rounds)
    of_sample = replace(rounds, data=sample)
    n_variances = noise.rows * sample.n_samples + noise.columns * sample.p
    enough = ENOUGH_FOR_EACH * n_variances
    state = _after_rounds(from_all_noise(of_sample), of_sample, enough)
    whitening, location = state.whitening, state.found.location + sample.mean - data.mean
    found = replace(state.found, location=location)
    if noise.rows:
        # Variances of all rows, from their residuals off the components of some of them.
        W = found.components
        left = _left_of_rows(data, whitening, W, location, found.kept)
        left /= found.solution.noise_variance
        whitening = replace(whitening, rows=_scales_of_rows(left, len(W), rounds))
    elif whitening.rows is not None:
        whitening = replace(whitening, rows=data.known_rows)
    return state_near(whitening, data, form, near_to(found, whitening.columns))


def _beginning(rounds: Rounds) -> ScaledState:
    """The state from all noise or, for small data, the best of several starts."""
    data, noise, form = rounds.data, rounds.noise, rounds.form
    if noise.order > 1:
        return from_the_filter(rounds)
    first = from_all_noise(rounds)
    if not data.is_small:
        return first
    equal = equal_noise(rounds)
    starts = [first, state_of(equal, data, form)]
    if noise.rows and noise.columns:
        mixed = replace(equal, columns=all_noise(data, noise).columns)
        starts.append(replace(state_of(mixed, data, form), energy=np.inf))
    ends = [_after_rounds(state, rounds) for state in starts]
    best = min(ends[1:], key=lambda state: state.energy)
    return best if best.energy < ends[0].energy - CLEARLY else first


def _after_rounds(state: ScaledState, rounds: Rounds, enough: float = 0.0) -> ScaledState:
    """The state after rounds, until one gains less than `enough` nats or next to nothing."""
    for _ in range(MOST_ROUNDS):
        before = state.energy
        state, _ = rounds.step(state)
        if before - state.energy < max(enough, ENOUGH * abs(before)):
            break
    return state


def _near(other: PCAFit, data: NoisyTable) -> Near:
    """Components and mean of a fit of other rows."""
    posterior = other.posterior
    assert isinstance(posterior, Posterior)
    W = on_host(posterior.components)[:, data.live]
    beside = np.random.default_rng(0).standard_normal((BESIDE, data.p))
    location = on_host(posterior.mean)[data.live] / data.units - data.mean
    scale = on_host(posterior.scale)[data.live] / data.units
    return Near(np.concatenate([W, beside]) * scale, location)


def as_in(other: PCAFit, rounds: Rounds) -> Whitening:
    """The noise of a fit of other rows, with variances of these rows that its components imply."""
    data, noise = rounds.data, rounds.noise
    posterior, columns = other.posterior, given(np.ones(data.p))
    if noise.columns and other.noise.features is not None:
        columns = _scales(other.noise.features[data.live] / data.units**2)
    partials = (other.noise.partials + white(noise))[: len(white(noise))]
    whitening = Whitening(columns, data.known_rows, partials)
    if not noise.rows:
        return whitening
    assert isinstance(posterior, Posterior)
    W = to_numpy(posterior.components)[:, data.live].astype(np.float64)
    location = to_numpy(posterior.mean)[data.live] / data.units - data.mean
    kept = to_numpy(posterior.shrinkage).astype(np.float64)
    left = _left_of_rows(data, whitening, W, location, kept) / posterior.noise_variance
    return replace(whitening, rows=_scales_of_rows(left, len(W), rounds))


def _left_of_rows(
    data: NoisyTable,
    whitening: Whitening,
    W: FloatArray,
    location: FloatArray,
    kept: FloatArray,
) -> FloatArray:
    """Residual squares of all rows, with this shrinkage of their scores."""
    weights = (kept * (2 - kept))[:, None]
    squares, explained = data.projections(whitening, W, location, weights)
    return squares - explained[:, 0]


def _scales_of_rows(left: FloatArray, k: int, rounds: Rounds) -> Scales:
    """Variances of rows, from their residuals off components that were fitted to other rows."""
    data = rounds.data
    known = np.ones(data.n_samples) if data.known is None else data.known
    counts = np.full(data.n_samples, float(max(data.p - k, 1)))
    return rounds.estimate(left / known, counts).times_each(known).at_unit_scale()


def from_all_noise(rounds: Rounds) -> ScaledState:
    """The state after a few rounds from all noise, each at the noise that the last one leaves.

    Its energy is infinite, so that the first step is always taken: all noise is no posterior.
    """
    return from_noise(all_noise(rounds.data, rounds.noise), rounds)


def from_noise(whitening: Whitening, rounds: Rounds) -> ScaledState:
    """As `from_all_noise`, from this noise."""
    data, form = rounds.data, rounds.form
    state = state_of(whitening, data, AtNoise(form))
    for _ in range(ROUNDS):
        if not state.found.solution.noise_variance:
            return state
        whitening = rounds.updated(state)
        squares, counts = squares_of_columns(state.found, state.whitening, data)
        left = float(squares @ whitening.columns.precision) / float(counts.sum())
        left *= state.found.solution.noise_variance
        state = state_of(whitening, data, AtNoise(form, left))
    return replace(state, energy=np.inf)


def from_the_filter(rounds: Rounds) -> ScaledState:
    """The lower state of two after rounds that find the filter for given columns: for equal ones,
    and for the variances that no other column predicts.

    Columns and a long filter together need many rounds: noise that is smooth in columns of the same
    size is not smooth once each is divided by a size that components have a part in. The other
    columns predict components, but not the noise of one (Guttman, "Image theory for the structure
    of quantitative variates", Psychometrika 18, 1953).
    """
    data, of_filter = rounds.data, replace(rounds, noise=replace(rounds.noise, columns=False))
    ends = []
    for columns in (equal_noise(rounds).columns, unpredicted(rounds)):
        if columns is not None:
            start = replace(all_noise(data, of_filter.noise), columns=columns)
            state = _after_rounds(from_noise(start, of_filter), of_filter)
            ends.append(state_of(state.whitening, data, rounds.form))
    return min(ends, key=lambda state: state.energy)


def unpredicted(rounds: Rounds) -> Scales | None:
    """Variances of columns given all others; None without a Gram matrix of more rows than columns.

    Regression on the others leaves squares that are one over the diagonal of its inverse.
    """
    data = rounds.data
    if not isinstance(data, TableWithGram) or data.M <= data.p:
        return None
    root = np.sqrt(data.squares)
    values, vectors = np.linalg.eigh(data.gram / np.outer(root, root))
    values = np.maximum(values, RESOLUTION_OF_SQUARES**2 * values[-1])
    left = data.squares / (vectors**2 @ (1 / values))
    return rounds.estimate(left, np.full(data.p, data.M - data.p + 1.0)).at_unit_scale()


def equal_noise(rounds: Rounds) -> Whitening:
    """Equal variances for all, as an estimate would return them."""
    data, noise, estimate = rounds.data, rounds.noise, rounds.estimate
    n, p = data.n_samples, data.p
    columns, rows = given(np.ones(p)), data.known_rows
    if noise.columns:
        columns = estimate(np.full(p, float(n)), np.full(p, float(n))).at_unit_scale()
    if noise.rows:
        known = np.ones(n) if data.known is None else data.known
        rows = estimate(np.full(n, float(p)), np.full(n, float(p))).times_each(known)
        rows = rows.at_unit_scale()
    return Whitening(columns, rows, white(noise))


def white(noise: NoiseModel) -> tuple[float, ...]:
    """Partial autocorrelations of white noise, as many as the noise model has."""
    return noise.neighbours * max(noise.order, 1) * (0.0,)


def all_noise(data: NoisyTable, noise: NoiseModel) -> Whitening:
    """The variances of the rows and columns of the data themselves."""
    n, p = data.n_samples, data.p
    known = np.ones(n) if data.known is None else data.known
    rows, columns = known, np.ones(p)
    if noise.columns:
        squares = data.squares if data.known is None else data.column_squares(1 / known)
        columns = np.where(squares > 0, squares, 1.0) / data.M
    for _ in range(noise.rows * (TURNS if noise.columns else 1)):
        left = data.row_squares(1 / columns) / data.p
        rows = np.maximum(left, LEAST_NOISE_OF_FEATURES * left.mean()) if left.any() else left + 1.0
        columns = data.column_squares(1 / rows) / data.M if noise.columns else columns
    of_rows = _scales(rows) if noise.rows else data.known_rows
    return Whitening(_scales(columns), of_rows, white(noise))


def _scales(variances: FloatArray) -> Scales:
    return given(np.where(variances > 0, variances, 1.0)).at_unit_scale()
