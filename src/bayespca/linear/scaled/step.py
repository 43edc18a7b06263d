"""Updates of the noise of complete data, in turns with the closed form of the whitened data.

Given the variances uᵢ and vⱼ, and the filter L, the posterior of the low-rank part is that of the
closed form for whitened data, its noise variance included. Given the posterior, the best variances
follow from the expected squared residuals of each row and each column, and L from the products of
neighbours. The free energy is that of the whitened data plus

    ½p Σᵢ⟨log uᵢ⟩ + ½p log Σᵢ⟨1/uᵢ⟩/n + ½M Σⱼ⟨log vⱼ⟩ − M log|L| + KL,

where the second term belongs to the mean, which is that of the rows weighted by their precision.
The prior of a row's scores is in units of the row's noise, and that of a column's loadings in units
of the column's noise; so are their posteriors given the noise (`squares`), so that log u and log v
cancel in their divergence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayespca.arrays.types import FloatArray
from bayespca.inference.loop import Info
from bayespca.lowrank import filtering
from bayespca.lowrank.noise_models import NoiseModel
from bayespca.lowrank.scales import Scales, learned
from bayespca.spectrum.forms import ClosedForm

from .acceleration import Round, extrapolated, hastened, remembered
from .data import Near, NoisyTable, Solve, Whitened, Whitening
from .decomposition import BESIDE, near_to
from .squares import (
    beside_neighbours,
    best_partials,
    products_of_columns,
    squares_of_columns,
    squares_of_rows,
)

# Relative fall of the free energy that counts as hardly any: then all candidates are tried.
HARDLY = 1e-9
# Most rounds that refine components, and the part of the free energy that may be left to gain when
# they end: a share of the tolerance, but at least ENOUGH.
MOST_ROUNDS = 30
SHARE, ENOUGH = 0.5, 1e-9
# The next fall is expected to be at least this part of the last one: the large falls of the first
# rounds say nothing about later ones.
FASTEST = 0.01
# Returns variances from Rᵢ and Nᵢ.
Estimate = Callable[[FloatArray, FloatArray], Scales]
Ends = tuple[Whitening, Whitening]


@dataclass(frozen=True, eq=False)
class ScaledState:
    """The noise, the fit that results from it, and the rounds that led to it.

    `settled` says whether rounds that refine components have ended here.
    """

    whitening: Whitening
    found: Whitened
    energy: float
    rounds: tuple[Round, ...] = ()
    settled: bool = False


def state_of(whitening: Whitening, data: NoisyTable, solve: Solve) -> ScaledState:
    """The state that results from a given noise."""
    found = data.whitened(whitening, solve)
    return ScaledState(whitening, found, free_energy(whitening, found, data))


def state_near(whitening: Whitening, data: NoisyTable, solve: Solve, near: Near) -> ScaledState:
    """As `state_of`, but with components refined from nearby ones where that takes less time."""
    if not data.can_refine(whitening, len(near.directions)):
        return state_of(whitening, data, solve)
    found = data.refined(whitening, solve, near)
    if not found.solution.noise_variance:
        return state_of(whitening, data, solve)
    return ScaledState(whitening, found, free_energy(whitening, found, data))


@dataclass(frozen=True, eq=False)
class Rounds:
    """Everything that a round needs besides the state it starts from.

    After rounds that refine components, `tol` of the free energy may be left to gain.
    """

    data: NoisyTable
    noise: NoiseModel
    form: ClosedForm
    estimate: Estimate = learned
    tol: float = 0.0

    @property
    def enough(self) -> float:
        """The part of the free energy that may be left to gain."""
        return max(SHARE * self.tol, ENOUGH)

    def step(self, state: ScaledState) -> tuple[ScaledState, Info]:
        """Update the noise given the posterior, then the posterior given the noise.

        Candidates for the noise are tried in turn: where the rounds are heading, where many rounds
        like this one would lead, where this one leads; then rows, columns or the filter alone if
        these lower the free energy by hardly anything. The state stays if none lowers it. Small
        data skip the second candidate, because haste may lose components. Rounds that refine
        components are one step.
        """
        data = self.data
        if state.found.solution.noise_variance and not state.settled:
            refines = self.can_refine(state)
            state = self.refined(state) if refines else self.next(state, self.found)
        rank, noise = state.found.solution.rank, mean_noise(state, data.known)
        return state, Info(state.energy, rank, noise)

    def updated(self, state: ScaledState) -> Whitening:
        """The best variances and filter at the posterior of a state."""
        data, noise, whitening = self.data, self.noise, state.whitening
        found = data.scored(state.found, whitening)
        rows, columns, partials = whitening.rows, whitening.columns, whitening.partials
        if noise.rows and rows is not None:
            squares, counts = squares_of_rows(found, rows, columns, data)
            known = np.ones(data.n_samples) if data.known is None else data.known
            rows = self.estimate(squares / known, counts).times_each(known).at_unit_scale()
        if noise.columns:
            columns = self.estimate(*squares_of_columns(found, whitening, data))
        if noise.neighbours:
            left = products_of_columns(found, data)
            if noise.columns:
                columns = beside_neighbours(whitening.columns, columns, left, partials)
            partials = best_partials(left, partials)
        return Whitening(columns.at_unit_scale() if noise.columns else columns, rows, partials)

    def found(self, whitening: Whitening) -> ScaledState:
        """The state that results from a given noise."""
        return state_of(whitening, self.data, self.form)

    def next(self, state: ScaledState, look: Callable[[Whitening], ScaledState]) -> ScaledState:
        """The first candidate with a clearly lower energy, or the lowest if none is clearly lower;
        the state itself if none is lower.
        """
        ends, rounds = self._ends(state)
        best = state
        for whitening in _candidates(state, ends, rounds, self.noise):
            new = look(whitening)
            if new.energy <= best.energy:
                changed = new.found.solution.rank != state.found.solution.rank
                best = replace(new, rounds=() if changed else rounds)
            fall = state.energy - best.energy
            if fall > HARDLY * abs(best.energy) or (best is not state and whitening is ends[1]):
                break
        return best

    def _ends(self, state: ScaledState) -> tuple[Ends, tuple[Round, ...]]:
        """The end of a round, prolonged and as it is, and the rounds with this one added."""
        state = replace(state, found=self.data.scored(state.found, state.whitening))
        end = self.updated(state)
        further = end if self.data.is_small else hastened(state.found, state.whitening, end)
        return (further, end), remembered(state.rounds, state.whitening, further)

    def can_refine(self, state: ScaledState) -> bool:
        return self.data.can_refine(state.whitening, state.found.solution.rank + BESIDE)

    def refined(self, state: ScaledState) -> ScaledState:
        """Refine components in rounds until they settle, then decompose the data in full."""
        now, falls = self.approached(state)
        exact = state.found.basis is None
        if exact and now is state:
            return replace(state, settled=True)
        promising = now.whitening
        if falls[-1]:
            promising = next(_candidates(now, *self._ends(now), self.noise))
        end = self.found(promising)
        if end.energy > now.energy:
            end = self.found(now.whitening)
        if exact and end.energy > state.energy:
            return replace(state, settled=True)
        # Where nothing lowered the energy, the refined components may have been too rough.
        falls.append(now.energy - end.energy if falls[-1] else np.inf)
        return replace(end, settled=_ahead(falls) <= self.enough * abs(end.energy))

    def approached(self, state: ScaledState) -> tuple[ScaledState, list[float]]:
        """The state after rounds that refine components, until one more would leave next to nothing
        to gain; and the gain of each.
        """
        now, falls = state, [np.inf]
        for _ in range(MOST_ROUNDS):
            before = now
            now = self.next(before, partial(self.near, before))
            falls.append(before.energy - now.energy)
            left = _ahead([falls[-1], _ahead(falls)])
            if not self.can_refine(now) or left <= self.enough * abs(now.energy):
                break
        return now, falls

    def near(self, state: ScaledState, whitening: Whitening) -> ScaledState:
        """As `found`, but with components refined from those of a state."""
        other = near_to(state.found, state.whitening.columns)
        return state_near(whitening, self.data, self.form, other)


def _ahead(falls: list[float]) -> float:
    """Expected gain of the next round: the last gain times its ratio to the one before, which is
    clipped to between `FASTEST` and 1.
    """
    before, last = falls[-2:]
    return last * float(np.clip(last / before, FASTEST, 1.0)) if 0 < before < np.inf else last


def mean_noise(state: ScaledState, known: FloatArray | None = None) -> float:
    """Mean noise variance over rows and columns, relative to `known` variances of rows if any."""
    rows, columns = state.whitening.rows, state.whitening.columns
    own = np.ones(1) if rows is None else rows.variance
    own = own if known is None else own / known
    return stationary(state) * float(own.mean()) * float(columns.variance.mean())


def stationary(state: ScaledState) -> float:
    """Noise variance before the filter."""
    return state.found.solution.noise_variance * filtering.stationary(state.whitening.partials)


def _candidates(
    state: ScaledState,
    ends: Ends,
    rounds: tuple[Round, ...],
    noise: NoiseModel,
) -> Iterator[Whitening]:
    """Candidates for the noise, the most promising first."""
    further, end = ends
    heading = extrapolated(rounds, further)
    if heading is not None:
        yield heading
    yield further
    if further is not end:
        yield end
    old = state.whitening
    if sum((noise.rows, noise.columns, noise.neighbours)) > 1:
        yield replace(old, rows=end.rows)
        yield replace(old, columns=end.columns)
        yield replace(old, partials=end.partials)


def free_energy(whitening: Whitening, found: Whitened, data: NoisyTable) -> float:
    """The free energy in the units of the table; infinite where that of the closed form is."""
    rows, columns = whitening.rows, whitening.columns
    energy = found.solution.free_energy - data.M * filtering.log_det(whitening.partials, data.p)
    energy += 0.5 * data.M * float(columns.log_variance.sum()) + columns.divergence
    if rows is not None:
        energy += 0.5 * data.p * float(rows.log_variance.sum()) + rows.divergence
        if data.centred:
            energy += 0.5 * data.p * float(np.log(rows.precision.mean()))
    return float(energy)
