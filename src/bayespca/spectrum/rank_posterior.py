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

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr

from . import spheres
from .noise import rounding_floor, tail_sums
from .rank_rules import marchenko_pastur
from .records import FloatArray, RankPosterior, Spectrum
from .spheres import Squares
from .strengths import Ranks, Strengths, log_density, log_prior, recoverable, strengths

# Log-likelihood ratio beyond which a component is certain, whatever the others are.
SURE = 46.0
# Number of sure components next to the contested ones that make room one by one.
BESIDE = 12
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
# γ²/Mσ² beyond which a component is certain, however much stronger it is.
STRONG = 1e8
# With so many cells the noise is known so well that the gain of `_Rooms` does not depend on it.
MANY_CELLS = 4000


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
    array([0.  , 0.  , 0.  , 0.64, 0.31])

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
    return _found(_problem(unit, given, start, per_component), start, most, size)


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
    problem = _problem(unit, None, rank, per_component)
    found, shares = _log_evidence(problem, sure, rank, rank)
    evidence = float(found[-1])
    evidence += _of_sure(problem, sure, rank) - 0.5 * problem.L * problem.M * problem.log_unit
    return evidence, shares[-1]


def n_sure(spectrum: Spectrum, rank: int) -> int:
    """Number of leading components that are certain if there are about `rank` of them."""
    return max(_n_sure(_problem(spectrum.at_unit_scale(), None, rank), rank, rank), 0)


def _of_sure(problem: _Problem, first: int, rank: int) -> float:
    """The part of the evidence of the first components that `_of_noise` leaves out.

    A certain direction has the precision sᵢ(gᵢ² − gⱼ²)/σ² towards the j-th singular value, or
    (sᵢ − sⱼ)(gᵢ² − gⱼ²)/σ² if that is another certain one; (1 + v)^(−M/2) is (g²/Mσ²)^(−M/2).
    """
    full, g2 = problem.squares.full_rank, problem.g2
    s2 = float(np.exp(problem.log_noise(np.array([rank]))[0]))
    n_unknown = max(full - g2.size, 0)
    rest = np.full(n_unknown, problem.squares.residual / max(n_unknown, 1))
    every = np.concatenate([g2, rest, np.zeros(max(int(problem.L) - full, 0))])
    shares = np.maximum(1 - problem.M * s2 / g2[:first], 0.02)
    total = problem.M * float(np.log(g2[:first]).sum())
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


@dataclass(frozen=True)
class _Problem:
    """Squared singular values of an L×M matrix, in units of a first guess of the noise.

    `given` is log σ² where it is known, `per_component` as in `posterior_of_rank`; `log_unit` is
    log 2π times the first guess, in the units of the data.
    """

    squares: Squares
    L: float
    M: float
    given: float | None
    per_component: float = 0.0
    log_unit: float = 0.0

    @property
    def g2(self) -> FloatArray:
        return self.squares.g2

    @property
    def limit(self) -> float:
        return float(np.sqrt(self.L / self.M))

    @cached_property
    def tails(self) -> FloatArray:
        return np.cumsum(np.append(self.g2, self.squares.residual)[::-1])[::-1]

    def cells(self, k: Ranks) -> FloatArray:
        return np.asarray((self.L - k) * (self.M - k))

    def log_noise(self, k: Ranks) -> FloatArray:
        """log σ² of the residual of k components, or the given one."""
        if self.given is not None:
            return np.full(k.shape, self.given)
        return np.log(self.tails[k] / self.cells(k))

    def width(self, k: Ranks) -> FloatArray:
        """Standard deviation of log σ² with k components."""
        return np.asarray(np.sqrt(2 / self.cells(k)))

    def shares(self, g2: FloatArray, s2: float) -> FloatArray:
        """s = v/(1 + v) of the spikes that cause these values, in decreasing order.

        A spike ℓ = σ²(1 + v) above the limit causes γ²/M ≈ ℓ(1 + (L/M)σ²/(ℓ − σ²)).
        """
        c, y = self.L / self.M, g2 / (self.M * s2)
        root = (y + 1 - c) ** 2 - 4 * y
        spike = np.where(y > (1 + np.sqrt(c)) ** 2, y + 1 - c + np.sqrt(np.maximum(root, 0)), 0.0)
        at_least = np.maximum(spike / 2, 1 + 1.1 * self.limit)
        return np.asarray(1 - 1 / np.minimum.accumulate(at_least))


def _problem(
    unit: Spectrum, given: float | None, start: int, per_component: float = 0.0
) -> _Problem:
    L, M = unit.shape
    rest = tail_sums(unit)[start] / ((L - start) * (M - start)) if start < min(L, M) else 0.0
    guess = (given or rest) or float(np.finfo(np.float64).tiny)
    # Divide before squaring: squares of tiny numbers would be 0.
    g2 = _compressed((unit.singular_values / np.sqrt(guess)) ** 2, STRONG * M)
    squares = Squares(unit.shape, unit.full_rank, g2, unit.residual / guess, start)
    log_unit = float(np.log(2 * np.pi * guess) + 2 * np.log(unit.scale))
    return _Problem(
        squares, *squares.shape, None if given is None else 0.0, per_component, log_unit
    )


def _compressed(g2: FloatArray, most: float) -> FloatArray:
    """`g2` with values beyond `most` on a logarithmic scale.

    Log-likelihoods of 10²⁰ would leave no digits for the components whose number is in doubt.
    """
    return np.where(g2 > most, most * (1 + np.log(np.maximum(g2 / most, 1))), g2)


# --- which ranks -------------------------------------------------------------------------------


def _found(problem: _Problem, start: int, cap: int, size: int) -> RankPosterior:
    """The posterior over a window of ranks, which moves until it holds all ranks that matter."""
    centre, ahead = start, AHEAD
    for _ in range(WINDOWS):
        first = _n_sure(problem, centre, cap)
        last = min(max(centre, first) + ahead, cap, first + MOST)
        evidence, shares = _log_evidence(problem, first, last, centre)
        last = first + evidence.size - 1
        weight = _with_prior(problem, evidence, first)
        best = first + int(np.argmax(weight))
        if best == first == centre - BEHIND:
            centre = max(first - BEHIND // 2, 0)
        elif last < cap and weight[-1] > weight.max() - ENOUGH:
            centre, ahead = max(best, first), ahead + (AHEAD if best < last - 1 else ahead)
        else:
            break
    flat = np.flatnonzero(np.diff(weight) == 0)
    end = int(flat[0]) if flat.size else weight.size - 1
    known = {first + i: (float(weight[i]), shares[i]) for i in range(weight.size)}
    return of_weights(known, size, determined=best < first + end)


def _beyond(problem: _Problem, first: int) -> int:
    """Index of half of all directions in a window of ranks that begins at `first`."""
    return max(problem.squares.full_rank // 2 - first, 0)


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


def _with_prior(problem: _Problem, evidence: FloatArray, first: int) -> FloatArray:
    """Log of evidence times prior.

    Where more than half of all directions would be components, and those do not stand out, the
    approximation rises although the evidence does not. There it is not allowed to rise.
    """
    weight, beyond = evidence + log_prior(first + np.arange(evidence.size)), _beyond(problem, first)
    weight[beyond:] = np.minimum.accumulate(weight[beyond:])
    return weight


def _n_sure(problem: _Problem, centre: int, cap: int) -> int:
    """Number of leading components that are certain.

    Each must be certain by itself at the noise of `centre` components, and together with all that
    follow it at the noise estimated without them, which may explain much in a small table.
    """
    first, last = max(centre - BEHIND, 0), min(centre + 1, cap)
    bulk = spheres.lumped(problem.squares, first, last)
    n = last - first
    s2 = float(np.exp(problem.log_noise(np.array([min(centre, cap)]))[0]))
    shares = problem.shares(problem.g2[first:last], s2)
    gaps, weights = spheres.from_each_on(bulk, n)
    averages, *_ = spheres.log_averages(shares[:, None] * gaps / (2 * s2), weights)
    dimension = problem.L - first - np.arange(n, dtype=np.float64)
    ratio = (
        averages
        + spheres.log_constant(dimension)
        + shares * problem.g2[first:last] / (2 * s2)
        + 0.5 * problem.M * np.log1p(-np.minimum(shares, 1 - 1e-15))
    )
    less = np.minimum(np.arange(first, last), min(centre, cap))
    together = np.cumsum(np.where(ratio > 0, ratio, 0.0)[::-1])[::-1] - _regained(problem, less, s2)
    unsure = (np.minimum(ratio, together) < SURE) | (dimension < 2)
    return first + (int(np.argmax(unsure)) if unsure.any() else n - 1)


def _regained(problem: _Problem, k: Ranks, s2: float) -> FloatArray:
    """Log-likelihood that k components gain if σ² moves from s2 to the best noise for them."""
    if problem.given is not None:
        return np.zeros(k.shape)
    cells, tails, y = problem.cells(k), problem.tails[k], problem.log_noise(k)
    return np.asarray(0.5 * (cells * (np.log(s2) - y - 1) + tails / s2))


# --- evidences ---------------------------------------------------------------------------------


def _nodes(problem: _Problem, ranks: Ranks) -> FloatArray:
    """Chebyshev nodes of log σ², over the range that any of the ranks can have."""
    if problem.given is not None:
        return np.array([problem.given])
    at, width = problem.log_noise(ranks), REACH * problem.width(ranks)
    low, high = float((at - width).min()), float((at + width).max())
    count = NODES + int(min(MORE_NODES * max(high - low - 0.5, 0.0), 4 * NODES))
    angles = (np.arange(count) + 0.5) / count * np.pi
    return np.asarray(0.5 * (low + high) + 0.5 * (high - low) * np.cos(angles))


def _log_evidence(
    problem: _Problem, first: int, last: int, centre: int
) -> tuple[FloatArray, list[FloatArray]]:
    """Log evidence of the ranks from `first` on, where the first `first` components are sure.

    It ends at `last`, or at the first rank beyond `centre` that is next to impossible. For each
    rank there are also the probabilities that 0, 1, 2, … of its components are recoverable.
    """
    ranks = np.arange(first, last + 1, dtype=np.int64)
    nodes = _nodes(problem, ranks)
    noise = np.exp(nodes)
    n = last - first
    bulk = spheres.lumped(problem.squares, first, last)
    largest = float(problem.g2[first] / noise.min()) if n else 0.0
    grid = strengths(problem.L, problem.M, largest)
    bounds = (0.5 * float(grid.s.min()) / noise.max(), 0.5 / noise.min())
    table = spheres.sphere_table(bulk, n, problem.L - ranks[:-1].astype(float), bounds)
    log_t = np.log(0.5 * grid.s / noise[:, None])
    t, spread = np.exp(log_t), 0.5 * problem.M * np.log1p(grid.v)
    rooms, chain = _Rooms(problem, ranks), _Chain(grid, nodes)
    orders, prior = gammaln(ranks + 1) - gammaln(first + 1), log_prior(ranks)
    orders = orders + problem.per_component * np.minimum(ranks, problem.squares.full_rank // 2)
    of_noise, found = _of_noise(problem, first, nodes), np.full(n + 1, -np.inf)
    shares = []
    for i in range(n + 1):
        log_noise = float(rooms.log_noise[i])
        shares.append(
            np.convolve(_of_sure_ones(problem, first, log_noise), chain.shares(log_noise))
        )
        at_nodes = chain.log_sum + rooms.gain(i, nodes) + orders[i] + of_noise
        found[i] = _over_noise(problem, ranks[i : i + 1], nodes, at_nodes[None, :])[0]
        weight = found + prior
        if i == n or (ranks[i] > centre and weight[i] < weight.max() - IMPOSSIBLE):
            break
        fit = table(i, log_t) + bulk.values[i] * t - spread
        chain.add(fit + rooms.worth(i, grid, chain.larger), float(rooms.log_noise[i + 1]))
    return found[: i + 1], shares


def _of_sure_ones(problem: _Problem, first: int, log_noise: float) -> FloatArray:
    """Probabilities that 0, 1, … of the first components are recoverable.

    Each strength is known but for its sampling error, √(2/M) in log(1 + v).
    """
    shares = problem.shares(problem.g2[:first], float(np.exp(log_noise)))
    above = -np.log1p(-np.minimum(shares, 1 - 1e-15)) - np.log1p(recoverable(problem.L, problem.M))
    number = np.ones(1)
    for chance in ndtr(above * np.sqrt(problem.M / 2)):
        number = np.append(number * (1 - chance), 0.0) + np.append(0.0, number * chance)
    return number


def _of_noise(problem: _Problem, first: int, nodes: FloatArray) -> FloatArray:
    """Log-likelihood at each σ² without the contested components.

    A sure component has its best strength, 1 + v = γ²/Mσ²; all directions of its sphere count.
    """
    i, noise = np.arange(first), np.exp(nodes)
    free = problem.L * problem.M - float((problem.M + problem.L - i - 1).sum())
    shares = np.clip(1 - problem.M * noise[:, None] / problem.g2[:first], 0.02, 1.0)
    spread = ((problem.L - i - 1) * np.log(shares)).sum(axis=1)
    prior = log_density(-np.log1p(-np.minimum(shares, 1 - 1e-15)), problem.limit).sum(axis=1)
    return np.asarray(prior - 0.5 * (free * nodes + problem.tails[first] / noise + spread))


def _over_noise(
    problem: _Problem, ranks: Ranks, nodes: FloatArray, at_nodes: FloatArray
) -> FloatArray:
    """Log of each rank's evidence integrated over log σ², from its log at the nodes.

    But for −½(L − k)(M − k) log σ² − (residual of k components)/2σ², that log is a polynomial of
    low degree.
    """
    if problem.given is not None:
        return at_nodes[:, 0]
    steps = np.linspace(-REACH, REACH, 61)
    centre, width = problem.log_noise(ranks)[:, None], problem.width(ranks)[:, None]
    fine = centre + width * steps

    def leading(y: FloatArray) -> FloatArray:
        cells, tails = problem.cells(ranks)[:, None], problem.tails[ranks][:, None]
        return np.asarray(-0.5 * (cells * y + tails * np.exp(-y)))

    rest = at_nodes - leading(np.broadcast_to(nodes, at_nodes.shape))
    values = leading(fine) + np.array(
        [_interpolated(nodes, row, at) for row, at in zip(rest, fine, strict=True)]
    )
    top = values.max(axis=1)
    sums = np.exp(values - top[:, None]).sum(axis=1)
    return np.asarray(top + np.log(sums * width[:, 0] * (steps[1] - steps[0])))


def _interpolated(nodes: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """The polynomial through Chebyshev's nodes (barycentric formula)."""
    k = np.arange(nodes.size)
    weights = (-1.0) ** k * np.sin((2 * k + 1) * np.pi / (2 * nodes.size))
    gaps = at[:, None] - nodes
    shares = weights / np.where(gaps == 0, 1e-300, gaps)
    return np.asarray(shares @ values / shares.sum(axis=1))


class _Chain:
    """The integral over strengths v₁ > v₂ > …, one component after the other, at each node.

    It is kept apart by the number of recoverable strengths: once one is too weak to be recovered,
    all that follow it are.
    """

    def __init__(self, grid: Strengths, nodes: FloatArray) -> None:
        self.grid, self.nodes = grid, nodes
        self.log_sum = np.zeros(nodes.size)
        self.larger: tuple[FloatArray, float] | None = None
        # Log integrals with all strengths recoverable, and with 0, 1, … of them.
        self._all, self._some = np.zeros(nodes.size), np.full((0, nodes.size), -np.inf)
        # The same with the last strength above each point of the grid.
        self._above = np.zeros((nodes.size, grid.v.size - grid.strong))
        self._beyond = np.zeros((0, nodes.size, grid.strong))

    def add(self, fit: FloatArray, log_noise: float) -> None:
        """Add a component; `larger` becomes the mean share of all that exceed each strength."""
        terms, strong = fit + self.grid.log_prior, self.grid.strong
        high = terms[:, strong:] + self._above
        last = np.broadcast_to(self._all[None, :, None], (1, self.nodes.size, strong))
        low = terms[:, :strong] + np.concatenate([self._beyond, last])
        self._all, self._above = _summed(high)
        self._some, self._beyond = _summed(low)
        self.log_sum = logsumexp(np.append(self._some, self._all[None], axis=0), axis=0)
        row = self._at(log_noise)
        weights = np.append(
            np.exp(low[:, row] - self.log_sum[row]).sum(axis=0),
            np.exp(high[row] - self.log_sum[row]),
        )
        above, shares = _from_the_end(weights), _from_the_end(weights * self.grid.s)
        known = above > 1e-12 * above[0]
        mean = np.where(known, shares / np.where(known, above, 1.0), self.grid.s)
        self.larger = mean, log_noise

    def shares(self, log_noise: float) -> FloatArray:
        """Probabilities that 0, 1, … of the components so far are recoverable."""
        row = self._at(log_noise)
        return np.exp(np.append(self._some[:, row], self._all[row]) - self.log_sum[row])

    def _at(self, log_noise: float) -> int:
        return int(np.argmin(np.abs(self.nodes - log_noise)))


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


class _Rooms:
    """Log-evidence gained as directions make room for each other, for each rank of a window."""

    def __init__(self, problem: _Problem, ranks: Ranks) -> None:
        self.problem = problem
        self.first, self.n = int(ranks[0]), ranks.size - 1
        self.beside = min(self.first, BESIDE)
        self.log_noise = problem.log_noise(ranks)
        self.slopes = np.zeros(ranks.size)
        start = self.first - self.beside
        self.bulk = spheres.lumped(problem.squares, start, int(ranks[-1]))
        self.frames: list[spheres.Frame] = []

    def _frame(self, i: int) -> spheres.Frame:
        """The frame with i contested components; also sets the slope of its gain over log σ²."""
        k, y = self.beside + i, float(self.log_noise[i])
        shares = self._shares(i)
        near = self.frames[i - 1].near if i else None
        found = spheres.frame(self.bulk, shares, float(np.exp(y)), near)
        rank = np.array([self.first + i])
        if k > 1 and self.problem.given is None and self.problem.cells(rank)[0] < MANY_CELLS:
            step = float(self.problem.width(rank)[0])
            moved = np.clip(1 - np.exp(step) * (1 - shares), 0.01, 1.0)
            other = spheres.frame(self.bulk, moved, float(np.exp(y + step)), found.near)
            self.slopes[i] = (other.gain - found.gain) / step
        return found

    def _shares(self, i: int) -> FloatArray:
        noise = float(np.exp(self.log_noise[i]))
        return self.problem.shares(self.bulk.values[: self.beside + i], noise)

    def gain(self, i: int, nodes: FloatArray) -> FloatArray:
        """The gain at the nodes; call in the order of ranks: each begins where the last ended."""
        if i == len(self.frames):
            self.frames.append(self._frame(i))
        return np.asarray(self.frames[i].gain + self.slopes[i] * (nodes - self.log_noise[i]))

    def worth(self, i: int, grid: Strengths, larger: tuple[FloatArray, float] | None) -> FloatArray:
        """Log-evidence by strength of the i-th contested component, relative to `gain`."""
        k, y = self.beside + i, float(self.log_noise[i + 1])
        worth = self._of_far_ones(grid.s, y)
        if not k:
            return worth
        own = self._shares(i + 1)
        others = own[:-1, None]
        gaps = (self.bulk.values[:k, None] - self.bulk.values[k]) / (2 * np.exp(y))
        if larger is not None:
            mean, before = larger
            others = np.maximum(others, 1 - (1 - mean) * np.exp(y - before))
        x = own[:-1, None] * gaps
        less = np.clip((others - grid.s) * gaps, 0.0, x)
        at_own = (own[:-1, None] - own[-1]) * gaps
        room = spheres.log_room(self.frames[i], x, np.append(less, at_own, axis=1)).sum(axis=0)
        return np.asarray(worth + room[:-1] - room[-1])

    def _of_far_ones(self, s: FloatArray, log_noise: float) -> FloatArray:
        """The part of sure components far above, whose gaps are so large that only shares count."""
        g2 = self.problem.g2[: self.first - self.beside]
        if not g2.size:
            return np.zeros(s.size)
        shares = np.clip(1 - self.problem.M * np.exp(log_noise) / g2, 0.02, 1.0)
        return np.asarray(-0.5 * np.log1p(-np.minimum(s / shares[:, None], 0.99)).sum(axis=0))
