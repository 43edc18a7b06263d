"""The probability of each number of components, from the singular values alone.

The model is that of probabilistic PCA: M rows of N(0, σ²(I + U diag(v) Uᵀ)), with U a random
orthonormal frame of k directions. The k components are above the detection limit, v > √(L/M): one
below it cannot be seen, however large the matrix (Baik, Ben Arous and Péché 2005). Those are
counted that are also `recoverable`: just above the limit a component shows, but the direction that
is found for it is mostly noise. The likelihood is averaged over U, over the strengths v and over
σ²; docs/rank.md has the derivation and figures.

`strengths` has the prior of components; σ² has density 1/σ². Probabilities hold if the noise is as
assumed: normal, independent, of equal variance.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr

from . import spheres
from .noise import rounding_floor, tail_sums
from .rank_rules import marchenko_pastur
from .records import FloatArray, RankPosterior, Spectrum
from .rooms import Rooms
from .spiked import SpikedSpectrum, spiked_spectrum
from .strengths import (
    SCALES,
    Ranks,
    Strengths,
    log_density,
    log_prior,
    recoverable_strength,
    strengths,
)

# Log-likelihood ratio beyond which a component is certain, whatever the others are.
SURE = 46.0
# Contested components below and above the first guess; nats below the best rank at which the
# window of ranks may end.
BEHIND, AHEAD, ENOUGH = 24, 5, 7.0
# Nats below the best rank at which a rank is impossible and larger ones are not computed.
IMPOSSIBLE = 14.0
# Largest number of contested components, and of windows tried.
MOST, WINDOWS = 48, 12
# Number of values of log σ² at which evidences are computed, how many more per unit of their range,
# and standard deviations beyond the extremes.
NODES, MORE_NODES, REACH = 9, 8, 6.0


def posterior_of_rank(
    spectrum: Spectrum,
    *,
    noise_variance: float | None = None,
    per_component: float = 0.0,
) -> RankPosterior:
    """Probability of each number of recoverable components.

    >>> import numpy as np
    >>> from bayespca import spectrum
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> gamma = np.linalg.svd(X - X.mean(0), compute_uv=False)
    >>> seen = spectrum.Spectrum(gamma, shape=(12, 99))
    >>> spectrum.posterior_of_rank(seen).probabilities[:5].round(2)
    array([0.  , 0.  , 0.  , 0.91, 0.08])

    Parameters
    ----------
    spectrum
        Singular values, shape and sum of squares. Values missing from a truncated spectrum are
        taken to follow the Marchenko–Pastur law.
    noise_variance
        σ² where it is known; otherwise it is integrated out.
    per_component
        Nats added to the log evidence for each component, up to half of all directions. They
        account for the uncertainty of row and column variances that were learned together with the
        components and by which the data were scaled (docs/rank.md).
    """
    unit = spectrum.at_unit_scale()
    given = None if noise_variance is None else noise_variance / unit.scale / unit.scale
    size = unit.singular_values.size
    exact = _exact_rank(unit, given)
    # With as many components as directions, nothing would be left to estimate the noise from.
    most = min(size, unit.full_rank - (given is None))
    if exact is not None or most < 1:
        certain = 0 if exact is None else min(exact, size)
        return of_weights({certain: (0.0, np.eye(certain + 1)[-1])}, size)
    start = min(marchenko_pastur(unit, given), most)
    most = min(most, max(unit.full_rank // 2, start + AHEAD))
    return _found(spiked_spectrum(unit, given, start, per_component), start, most, size)


def log_evidence(
    spectrum: Spectrum, rank: int, *, sure: int = 0, per_component: float = 0.0
) -> tuple[float, FloatArray]:
    """Log evidence of exactly `rank` components above the limit, σ² integrated out, in nats.

    It can be compared between spectra of the same shape: those of data whose columns and rows were
    divided by variances that belong to each number of components. `sure` says how many leading
    components count as certain (`n_sure`); a constant that depends on it alone is left out. Data
    without noise have none, −∞.
    """
    unit = spectrum.at_unit_scale()
    if _exact_rank(unit, None) is not None:
        return -np.inf, np.ones(1)
    spiked = spiked_spectrum(unit, None, rank, per_component)
    found, shares = _log_evidence(spiked, sure, rank, rank)
    evidence = float(found[-1])
    evidence += _of_sure(spiked, sure, rank) - 0.5 * spiked.L * spiked.M * spiked.log_unit
    return evidence, shares[-1]


def n_sure(spectrum: Spectrum, rank: int) -> int:
    """Number of leading components that are certain if there are about `rank` of them."""
    return max(_n_sure(spiked_spectrum(spectrum.at_unit_scale(), None, rank), rank, rank), 0)


def _of_sure(spiked: SpikedSpectrum, first: int, rank: int) -> float:
    """The part of the evidence of the first components that `_of_noise` leaves out.

    A certain direction has the precision sᵢ(gᵢ² − gⱼ²)/σ² towards the j-th singular value, or
    (sᵢ − sⱼ)(gᵢ² − gⱼ²)/σ² if that is another certain one; (1 + v)^(−M/2) is (g²/Mσ²)^(−M/2).
    """
    full, g2 = spiked.squares.full_rank, spiked.g2
    s2 = float(np.exp(spiked.log_noise(np.array([rank]))[0]))
    n_unknown = max(full - g2.size, 0)
    rest = np.full(n_unknown, spiked.squares.residual / max(n_unknown, 1))
    every = np.concatenate([g2, rest, np.zeros(max(int(spiked.L) - full, 0))])
    shares = np.maximum(1 - spiked.M * s2 / g2[:first], 0.02)
    total = spiked.M * float(np.log(g2[:first]).sum())
    for i in range(first):
        gaps = every[i] - every[i + 1 :]
        beside = (shares[i] - shares[i + 1 :]) * gaps[: first - i - 1] / (2 * s2)
        total += float(np.log1p(beside).sum() + beside.size * np.log(2 * s2 / shares[i]))
        total += float(np.log(gaps[first - i - 1 :]).sum())
    return -0.5 * total


def _exact_rank(unit: Spectrum, given: float | None) -> int | None:
    """The rank of noise-free data, beyond which only rounding is left; None for other data."""
    if given is not None:
        return None
    (L, M), tails = unit.shape, tail_sums(unit)
    k = np.arange(tails.size)
    nothing = tails <= rounding_floor(unit) * (L - k) * np.maximum(M - k, 0)
    first = int(np.argmax(nothing))
    return first if nothing.any() and first < min(unit.full_rank, tails.size) else None


# --- which ranks -------------------------------------------------------------------------------


def _found(spiked: SpikedSpectrum, start: int, cap: int, size: int) -> RankPosterior:
    """The posterior over a window of ranks, which moves until it holds all ranks that matter."""
    centre, ahead = start, AHEAD
    for _ in range(WINDOWS):
        first = _n_sure(spiked, centre, cap)
        last = min(max(centre, first) + ahead, cap, first + MOST)
        evidence, shares = _log_evidence(spiked, first, last, centre)
        last = first + evidence.size - 1
        evidence = _never_rising(evidence, max(spiked.squares.full_rank // 2 - first, 0))
        weight = evidence + log_prior(first + np.arange(evidence.size))
        best = first + int(np.argmax(weight))
        if best == first == centre - BEHIND:
            centre = max(first - BEHIND // 2, 0)
        elif last < cap and weight[-1] > weight.max() - ENOUGH:
            centre, ahead = max(best, first), ahead + (AHEAD if best < last - 1 else ahead)
        else:
            break
    flat = np.flatnonzero(np.diff(evidence) == 0)
    end = int(flat[0]) if flat.size else weight.size - 1
    known = {first + i: (float(weight[i]), shares[i]) for i in range(weight.size)}
    return of_weights(known, size, determined=best < first + end)


def _never_rising(evidence: FloatArray, beyond: int) -> FloatArray:
    """Log evidences that do not rise from the index `beyond` on, that of half of all directions.

    Where more than half of all directions would be components, and those do not stand out, the
    approximation rises although the evidence does not.
    """
    return np.append(evidence[:beyond], np.minimum.accumulate(evidence[beyond:]))


def of_weights(
    known: dict[int, tuple[float, FloatArray]], size: int, *, determined: bool = True
) -> RankPosterior:
    """The posterior of the number of recoverable components, from those of all components.

    For each number of all components, `known` has the log of prior times evidence, and the
    probabilities that 0, 1, 2, … of them are recoverable; other numbers are impossible.
    """
    log_weights = np.full(size + 1, -np.inf)
    for k, (weight, _) in known.items():
        log_weights[k] = weight
    share = np.exp(log_weights - log_weights.max())
    relative = log_weights - log_prior(np.arange(size + 1))
    relative -= relative[int(share.argmax())]
    recoverable = np.zeros(size + 1)
    for k, (_, split) in known.items():
        recoverable[: split.size] += share[k] / share.sum() * split
    return RankPosterior(recoverable, share / share.sum(), relative, determined)


def _n_sure(spiked: SpikedSpectrum, centre: int, cap: int) -> int:
    """Number of leading components that are certain.

    Each must be certain by itself at the noise of `centre` components, and together with all that
    follow it at the noise estimated without them, which may explain much in a small table.
    """
    first, last = max(centre - BEHIND, 0), min(centre + 1, cap)
    bulk = spheres.lumped(spiked.squares, first, last)
    n = last - first
    s2 = float(np.exp(spiked.log_noise(np.array([min(centre, cap)]))[0]))
    shares = spiked.shares(spiked.g2[first:last], s2)
    gaps, weights = spheres.from_each_on(bulk, n)
    averages, *_ = spheres.log_averages(shares[:, None] * gaps / (2 * s2), weights)
    dimension = spiked.L - first - np.arange(n, dtype=np.float64)
    ratio = (
        averages
        + spheres.log_constant(dimension)
        + shares * spiked.g2[first:last] / (2 * s2)
        + 0.5 * spiked.M * np.log1p(-np.minimum(shares, 1 - 1e-15))
    )
    less = np.minimum(np.arange(first, last), min(centre, cap))
    together = np.cumsum(np.where(ratio > 0, ratio, 0.0)[::-1])[::-1] - _regained(spiked, less, s2)
    unsure = (np.minimum(ratio, together) < SURE) | (dimension < 2)
    return first + (int(np.argmax(unsure)) if unsure.any() else n - 1)


def _regained(spiked: SpikedSpectrum, k: Ranks, s2: float) -> FloatArray:
    """Log-likelihood that k components gain if σ² moves from s2 to the best noise for them."""
    if spiked.given is not None:
        return np.zeros(k.shape)
    cells, tails, y = spiked.cells(k), spiked.tails[k], spiked.log_noise(k)
    return np.asarray(0.5 * (cells * (np.log(s2) - y - 1) + tails / s2))


# --- evidences ---------------------------------------------------------------------------------


def _nodes(spiked: SpikedSpectrum, ranks: Ranks) -> FloatArray:
    """Chebyshev nodes of log σ², over the range that any of the ranks can have."""
    if spiked.given is not None:
        return np.array([spiked.given])
    at, width = spiked.log_noise(ranks), REACH * spiked.width(ranks)
    low, high = float((at - width).min()), float((at + width).max())
    count = NODES + int(min(MORE_NODES * max(high - low - 0.5, 0.0), 4 * NODES))
    angles = (np.arange(count) + 0.5) / count * np.pi
    return np.asarray(0.5 * (low + high) + 0.5 * (high - low) * np.cos(angles))


def _log_evidence(
    spiked: SpikedSpectrum, first: int, last: int, centre: int
) -> tuple[FloatArray, list[FloatArray]]:
    """Log evidence of the ranks from `first` on, where the first `first` components are sure.

    It ends at `last`, or at the first rank beyond `centre` that is next to impossible. For each
    rank there are also the probabilities that 0, 1, 2, … of its components are recoverable.
    """
    ranks = np.arange(first, last + 1, dtype=np.int64)
    nodes = _nodes(spiked, ranks)
    noise = np.exp(nodes)
    n = last - first
    bulk = spheres.lumped(spiked.squares, first, last)
    largest = float(spiked.g2[first] / noise.min()) if n else 0.0
    grid = strengths(spiked.L, spiked.M, largest)
    bounds = (0.5 * float(grid.s.min()) / noise.max(), 0.5 / noise.min())
    table = spheres.sphere_table(bulk, n, spiked.L - ranks[:-1].astype(float), bounds)
    log_t = np.log(0.5 * grid.s / noise[:, None])
    t, spread = np.exp(log_t), 0.5 * spiked.M * np.log1p(grid.v)
    rooms, chain = (
        Rooms(spiked, ranks),
        _Chain(grid, nodes, _prior_of_sure(spiked, first, noise)),
    )
    orders, prior = gammaln(ranks + 1) - gammaln(first + 1), log_prior(ranks)
    orders = orders + spiked.per_component * np.minimum(ranks, spiked.squares.full_rank // 2)
    of_noise, found = _of_noise(spiked, first, nodes), np.full(n + 1, -np.inf)
    shares = []
    for i in range(n + 1):
        at_nodes = chain.by_number + (rooms.gain(i, nodes) + orders[i] + of_noise)
        likely = at_nodes.max(axis=2) > at_nodes.max() - 2 * IMPOSSIBLE
        each = np.full(likely.shape, -np.inf)
        each[likely] = _over_noise(spiked, int(ranks[i]), nodes, at_nodes[likely])
        found[i] = logsumexp(each) - np.log(len(SCALES))
        share = np.exp(each - logsumexp(each)).sum(axis=1)
        sure = _of_sure_ones(spiked, first, float(rooms.log_noise[i]))
        shares.append(np.convolve(sure, share))
        weight = found + prior
        if i == n or (ranks[i] > centre and weight[i] < weight.max() - IMPOSSIBLE):
            break
        fit = table(i, log_t) + bulk.values[i] * t - spread
        chain.add(fit + rooms.worth(i, grid, chain.larger), float(rooms.log_noise[i + 1]))
    return found[: i + 1], shares


def _of_sure_ones(spiked: SpikedSpectrum, first: int, log_noise: float) -> FloatArray:
    """Probabilities that 0, 1, … of the first components are recoverable.

    Each strength is known but for its sampling error, √(2/M) in log(1 + v).
    """
    shares = spiked.shares(spiked.g2[:first], float(np.exp(log_noise)))
    least = recoverable_strength(spiked.L, spiked.M)
    above = -np.log1p(-np.minimum(shares, 1 - 1e-15)) - np.log1p(least)
    number = np.ones(1)
    for chance in ndtr(above * np.sqrt(spiked.M / 2)):
        number = np.append(number * (1 - chance), 0.0) + np.append(0.0, number * chance)
    return number


def _of_noise(spiked: SpikedSpectrum, first: int, nodes: FloatArray) -> FloatArray:
    """Log-likelihood at each σ² without the contested components.

    A sure component has its best strength, 1 + v = γ²/Mσ²; all directions of its sphere count.
    """
    i, noise = np.arange(first), np.exp(nodes)
    free = spiked.L * spiked.M - float((spiked.M + spiked.L - i - 1).sum())
    spread = ((spiked.L - i - 1) * np.log(_shares_of_sure(spiked, first, noise))).sum(axis=1)
    return np.asarray(-0.5 * (free * nodes + spiked.tails[first] / noise + spread))


def _prior_of_sure(spiked: SpikedSpectrum, first: int, noise: FloatArray) -> FloatArray:
    """Log prior of the strengths of the sure components, for each scale and σ²."""
    shares = np.minimum(_shares_of_sure(spiked, first, noise), 1 - 1e-15)
    return np.asarray(log_density(-np.log1p(-shares), spiked.limit).sum(axis=2))


def _shares_of_sure(spiked: SpikedSpectrum, first: int, noise: FloatArray) -> FloatArray:
    return np.clip(1 - spiked.M * noise[:, None] / spiked.g2[:first], 0.02, 1.0)


def _over_noise(
    spiked: SpikedSpectrum, rank: int, nodes: FloatArray, at_nodes: FloatArray
) -> FloatArray:
    """Logs of evidences of a rank integrated over log σ², from their logs at the nodes, in rows.

    But for −½(L − k)(M − k) log σ² − (residual of k components)/2σ², they are polynomials of low
    degree.
    """
    if spiked.given is not None:
        return at_nodes[:, 0]
    k, steps = np.array([rank]), np.linspace(-REACH, REACH, 61)
    width, cells, tails = spiked.width(k), spiked.cells(k), spiked.tails[k]
    fine = spiked.log_noise(k) + width * steps

    def leading(y: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * (cells * y + tails * np.exp(-y)))

    values = leading(fine) + _interpolated(nodes, at_nodes - leading(nodes), fine)
    return np.asarray(logsumexp(values, axis=1) + np.log(width * (steps[1] - steps[0])))


def _interpolated(nodes: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """The polynomials through Chebyshev's nodes (barycentric formula), in rows."""
    k = np.arange(nodes.size)
    weights = (-1.0) ** k * np.sin((2 * k + 1) * np.pi / (2 * nodes.size))
    gaps = at[:, None] - nodes
    shares = weights / np.where(gaps == 0, 1e-300, gaps)
    return np.asarray(values @ (shares / shares.sum(axis=1, keepdims=True)).T)


class _Chain:
    """The integral over strengths v₁ > v₂ > …, one component after the other.

    It is taken for each scale of the prior and at each node, and kept apart by the number of
    recoverable strengths: once one is too weak to be recovered, all that follow it are.
    """

    def __init__(self, grid: Strengths, nodes: FloatArray, log_prior: FloatArray) -> None:
        self.grid, self.nodes = grid, nodes
        self.larger: tuple[FloatArray, float] | None = None
        # Log integrals with all strengths recoverable, and with 0, 1, … of them.
        self._all, self._some = log_prior, np.full((0, *log_prior.shape), -np.inf)
        # The same with the last strength above each point of the grid.
        weak = np.zeros((0, *log_prior.shape, grid.strong))
        strong = np.repeat(log_prior[..., None], grid.v.size - grid.strong, axis=2)
        self._above, self._beyond = strong, weak

    def add(self, fit: FloatArray, log_noise: float) -> None:
        """Add a component; `larger` becomes the mean share of all that exceed each strength."""
        terms, strong = fit + self.grid.log_prior[:, None, :], self.grid.strong
        high = terms[..., strong:] + self._above
        last = np.broadcast_to(self._all[None, ..., None], (1, *self._all.shape, strong))
        low = terms[..., :strong] + np.concatenate([self._beyond, last])
        self._all, self._above = _summed(high)
        self._some, self._beyond = _summed(low)
        row = int(np.argmin(np.abs(self.nodes - log_noise)))
        low, high = low[:, :, row].reshape(-1, strong), high[:, row]
        top = max(low.max(), high.max())
        weights = np.append(np.exp(low - top).sum(axis=0), np.exp(high - top).sum(axis=0))
        above, shares = _from_the_end(weights), _from_the_end(weights * self.grid.s)
        known = above > 1e-12 * above[0]
        mean = np.where(known, shares / np.where(known, above, 1.0), self.grid.s)
        self.larger = mean, log_noise

    @property
    def by_number(self) -> FloatArray:
        """Log integrals with 0, 1, … of the components so far recoverable."""
        return np.append(self._some, self._all[None], axis=0)


def _summed(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logs of the sums of exp over the last axis, and of those over later points of it."""
    top = terms.max(axis=-1, keepdims=True)
    weights = np.exp(terms - top)
    with np.errstate(divide="ignore"):
        later = top + np.log(_from_the_end(weights))
    return top[..., 0] + np.log(weights.sum(axis=-1)), later


def _from_the_end(weights: FloatArray) -> FloatArray:
    """Sums over all later points, plus half of each point itself."""
    return np.asarray(np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1] - 0.5 * weights)
