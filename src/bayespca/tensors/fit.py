"""Tucker factorization as a model: its start, its step, the ranks it tries, and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, to_numpy
from bayespca.arrays.types import Array, ArrayMatrix, ArrayTensor, ArrayVector, FloatArray
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model, Move
from bayespca.inference.result import Fit, extended
from bayespca.lowrank.factors import FactorPrior
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import Unknown
from bayespca.lowrank.posterior import Posterior
from bayespca.spectrum.families import MAP, PB_B, VB, Family
from bayespca.spectrum.methods import EVB, Method
from bayespca.spectrum.records import Status
from bayespca.spectrum.solving import borrowed_noise
from bayespca.spectrum.tolerances import LEAST_BORROWED_OF_TENSORS, LEAST_NOISE_OF_TENSORS, VANISHED

from . import noise
from . import posterior as read
from .chart import TuckerChart
from .components import is_needed, strengths, without
from .data import AllScales, TuckerCells
from .modes import outer
from .noise import all_noise, divided, expected_squares
from .posterior import TuckerPosterior
from .records import LARGEST_CORE
from .start import Guess, from_bases, guess, random, with_one_more, with_shown
from .state import TuckerProblem, TuckerState
from .step import equations_of, gradient_step, step, step_or_less

Ranks = tuple[int | None, ...]

# The core is B, the factors are A.
FAMILIES: dict[str, Family] = {"evb": VB, "epb": PB_B, "emap": MAP, "pb": PB_B}
CAPPED = (
    f"With this many holes the core starts with at most {LARGEST_CORE:,} entries, but the "
    "unfoldings show more components: ranks may be too small."
)


ISOTROPIC, PER_MODE = "isotropic", "per-mode"
# Sweeps before residuals are examined.
FIRST_SWEEPS = 10
# The fit with equal noise ends when it is this many nats behind, and would still be behind after
# this many steps like the last one.
FAR_BEHIND = 100.0
PATIENCE = 200

# Nats gained by separate variances, from sums of squares and their numbers of cells.
Gain = Callable[[FloatArray, FloatArray], float]


@dataclass(frozen=True, eq=False, kw_only=True)
class TuckerNoise:
    """The noise of a tensor: its model, and the mean noise variance of each slice of each mode,
    empty if all are equal.

    `evidence` has, in nats, the gain of each model tried over equal noise.
    """

    name: str = ISOTROPIC
    slices: tuple[ArrayVector, ...] = ()
    evidence: dict[str, float] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """The name of the model, with the evidence for it."""
        nats = self.evidence.get(self.name, 0.0)
        return f"{self.name} ({nats:+.1f} nats)" if nats else self.name


@dataclass(frozen=True, eq=False)
class TuckerFit(Fit[Any]):
    """A finished fit; `core` and `factors` have the given ranks.

    `mean` is that of the slices along the first mode, `noise_variance` the mean over all cells. A
    tensor of two modes has the posterior of a matrix, and in `unknown` the additional uncertainty
    for intervals; modes of size 1 after the first are not in it.
    """

    posterior: TuckerPosterior | Posterior | HolesPosterior
    core: ArrayTensor = field(default_factory=lambda: np.empty(0))
    factors: tuple[ArrayMatrix, ...] = ()
    mean: ArrayTensor = field(default_factory=lambda: np.empty(0))
    noise_variance: float = float("nan")
    noise: TuckerNoise = field(default_factory=TuckerNoise)
    unknown: Unknown | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self.core.shape)

    @property
    def explained_ratios(self) -> list[Array]:
        """Share of each slice in the squares of the core, for each mode."""
        xp, N = array_namespace(self.core), self.core.ndim
        squares = self.core * self.core
        total = float(xp.sum(squares)) or 1.0
        return [
            xp.sum(squares, axis=tuple(m for m in range(N) if m != n)) / total for n in range(N)
        ]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the modes."""
        return tuple(int(U.shape[0]) for U in self.factors)

    @property
    def n_features(self) -> int:
        return self.sizes[1]

    def check(self) -> None:
        """Raise ValueError unless the parts fit together."""
        ranks, sizes, found = self.ranks, self.sizes, self.posterior
        agree = ranks == tuple(U.shape[1] for U in self.factors)
        if not (agree and self.mean.shape == sizes[1:] and len(sizes) > 1):
            raise ValueError("the shapes of its core, factors and mean do not match")
        if self.noise.slices and tuple(v.shape[0] for v in self.noise.slices) != sizes:
            raise ValueError("its noise variances do not match the sizes of its modes")
        first, *kept = sizes[0], *(size for size in sizes[1:] if size > 1)
        if isinstance(found, TuckerPosterior):
            inside = [len(rows.mean) for rows in found.factors]
            agree, rank = inside == [first, *kept], found.ranks[0]
        else:
            rank, size = found.components.shape
            agree = [size] == (kept or [1])
        if not agree or rank > ranks[0]:
            raise ValueError("its posterior does not match its factors")


@dataclass(frozen=True)
class TuckerModel(TuckerProblem, Model[TuckerCells, TuckerState, TuckerFit]):
    """Tucker factorization with the given `ranks`, None where they are learned.

    `init` is as in `BayesianTucker`. With `by_gradient`, steps are along gradients. `lent_ranks`
    come from another model, for priors that do not choose ranks. `guess` is read from the
    unfoldings of the data by `suited`. `has_slices` says whether slices have their own noise.
    """

    method: Method = EVB
    ranks: Ranks = ()
    init: str = "closed"
    by_gradient: bool = False
    borrows_noise: bool = False
    lent_ranks: tuple[int, ...] | None = None
    has_slices: bool = False
    guess: Guess | None = field(default=None, repr=False, compare=False)

    # --- start and step ------------------------------------------------------------------------

    def suited(self, data: TuckerCells) -> tuple[Self, TuckerCells]:
        """Read the start from the unfoldings, and decide whether holes are filled."""
        ranks: Ranks = self.ranks if self.lent_ranks is None else self.lent_ranks
        # A tensor of zeros has no components.
        begun = divided(data, self._first_scales(data))
        found = guess(begun, ranks if data.squares else (0,) * len(data.shape))
        return replace(self, guess=found), replace(data, fills=found.fills)

    def _first_scales(self, data: TuckerCells) -> AllScales:
        return all_noise(data) if self.has_slices else ()

    def start(self, data: TuckerCells, rng: np.random.Generator) -> TuckerState:
        assert self.guess is not None
        noise, scales = self.fixed_noise, self._first_scales(data)
        begun = divided(data, scales)
        if self.has_one_start:
            noise = self.guess.noise_variance if noise is None else noise
            noise = max(noise, LEAST_NOISE_OF_TENSORS)
            state = from_bases(begun, self, self.guess.bases, noise)
        else:
            state = random(begun, self, self.guess.ranks, 0.5 if noise is None else noise, rng)
        return replace(state, scales=scales)

    def step(self, state: TuckerState, data: TuckerCells) -> tuple[TuckerState, Info]:
        if self.by_gradient:
            return gradient_step(state, data, self)
        sweep = partial(noise.step if self.has_slices else step, data=data, problem=self)
        if not self.prunes:
            return sweep(state)
        return step_or_less(state, sweep, partial(self._less, data=data), self.free_modes)

    def chart(self, data: TuckerCells) -> TuckerChart | None:
        """A chart under VB only: without noise, the free energy of point estimates is mostly
        rounding error.
        """
        return TuckerChart(data, self) if self.family == VB and not self.by_gradient else None

    def digests(self, data: TuckerCells) -> Sequence[object]:
        arrays = [data.values] if data.seen is None else [data.values, data.seen]
        return [to_numpy(a) for a in arrays]

    # --- noise and ranks of another model ------------------------------------------------------

    @property
    def _wants_noise(self) -> bool:
        return self.fixed_noise is None and not self.method.learns_noise

    @property
    def _wants_ranks(self) -> bool:
        """Whether ranks must be lent: a given prior does not choose them."""
        return not self.prior.is_learned and any(self.free)

    def lender(self) -> TuckerModel | None:
        if not (self._wants_noise or self._wants_ranks):
            return None
        return replace(
            self,
            method=EVB,
            family=FAMILIES[EVB.name],
            prior=FactorPrior("learned"),
            init="closed",
            by_gradient=False,
        )

    def lent(self, state: TuckerState) -> Self:
        model = self
        if self._wants_ranks:
            model = replace(model, lent_ranks=state.ranks, free=(False,) * len(self.free))
        if self._wants_noise:
            noise = max(state.noise_variance, LEAST_BORROWED_OF_TENSORS)
            model = replace(model, fixed_noise=noise, borrows_noise=True)
        return model

    # --- the search over ranks -----------------------------------------------------------------

    def moves(self, data: TuckerCells) -> Sequence[Move[TuckerState]]:
        """Moves to one component less in each free mode, to more where the residual shows them, and
        to one more in all modes.
        """
        if not self.prunes:
            return []
        less = [partial(self._less, n=n, data=data) for n in self.free_modes]
        more = [partial(self._more, data=data, by=by) for by in (with_shown, with_one_more)]
        first = [Move(one, more[0]) for one in less[:1]]
        return [*first, Move(lambda state: None, more[1]), *(Move(one) for one in less[1:])]

    def _less(self, state: TuckerState, n: int, data: TuckerCells) -> TuckerState | None:
        """Drop the weakest component of mode n; None if it is the only one, or clearly needed."""
        if state.ranks[n] < 2:
            return None
        weakest, data = np.argsort(strengths(state, n))[:1], divided(data, state.scales)
        if is_needed(state, data, n, int(weakest[0])):
            return None
        found, _ = without(state, equations_of(state, data), n, weakest, self)
        return replace(found, energy=np.inf)

    def _more(
        self, state: TuckerState, data: TuckerCells, by: Callable[..., TuckerState | None]
    ) -> TuckerState | None:
        if not math.prod(state.ranks):
            return None
        return by(state, divided(data, state.scales), self)

    # --- the result ----------------------------------------------------------------------------

    def posterior(self, state: TuckerState, data: TuckerCells) -> TuckerPosterior:
        """The posterior without components that a given rank allows but the data do not support."""
        data = divided(data, state.scales)
        for n in range(len(state.rows)):
            gone = np.flatnonzero(strengths(state, n) <= VANISHED**2 * data.squares)
            if gone.size:
                state, _ = without(state, equations_of(state, data), n, gone, self)
        mean, variance = _mean(state, data)
        return read.of_state(state, unit=data.unit, mean=mean, mean_variance=variance)

    def free_energy(self, run: Run[TuckerState], data: TuckerCells) -> float:
        """The free energy in the units of the data, without `gone`.

        Scaling the data by u scales each of N learned priors by u^(1/N), and with them the prior
        density of point estimates.
        """
        state, log_unit = run.state, math.log(data.unit)
        energy = run.free_energy - state.gone + data.n_cells * log_unit
        if not self.prior.is_learned:
            return energy
        if not self.family.integrates_a:
            entries = sum(M * H for M, H in zip(data.sizes, state.ranks, strict=True))
            energy += 0.5 * entries * log_unit / len(state.rows)
        if not self.family.integrates_b:
            energy += 0.5 * math.prod(state.ranks) * log_unit
        return energy

    def status(self, state: TuckerState, data: TuckerCells) -> Status:
        """Advice on places without values, borrowed noise and ranks that may be too small."""
        status = Status()
        for n, empty in data.empty_places.items():
            shown = ", ".join(map(str, empty[:5])) + (", …" if empty.size > 5 else "")
            have, whose = ("has", "its") if empty.size == 1 else ("have", "their")
            status = status.but(
                "empty-slices",
                f"{empty.size} place{'s' * (empty.size > 1)} along mode {n} ({shown}, counting "
                f"from 0) {have} no values: {whose} estimates come from the prior.",
            )
        if self.borrows_noise:
            status = status.but(*borrowed_noise(self.method.name))
        if self.guess is not None and self.guess.is_capped:
            status = status.but("capped-core", CAPPED)
        return status

    def described(
        self, found: Fit[TuckerPosterior], run: Run[TuckerState], data: TuckerCells
    ) -> TuckerFit:
        """Add the core and the factors; drop free energies by rank, which are over core sizes."""
        posterior = found.posterior
        ranks = tuple(
            had if asked is None else asked
            for had, asked in zip(posterior.ranks, self.ranks, strict=True)
        )
        core, factors = read.padded(posterior, ranks)
        variance = posterior.noise_variance
        slices = tuple(variance * one for one in posterior.relative_noise)
        return extended(
            found,
            TuckerFit,
            core=core,
            factors=tuple(factors),
            mean=posterior.mean,
            noise_variance=variance,
            noise=TuckerNoise(name=PER_MODE if self.has_slices else ISOTROPIC, slices=slices),
            free_energy_by_rank=np.empty(0),
        )


def tucker_model(
    data: TuckerCells,
    method: Method = EVB,
    *,
    ranks: Ranks | None = None,
    noise_variance: float | str = "auto",
    prior_variance: float = 1.0,
    by_gradient: bool = False,
    init: str = "closed",
    has_slices: bool = False,
) -> TuckerModel:
    """The model of a tensor; options as in `BayesianTucker`."""
    ranks = (None,) * len(data.shape) if ranks is None else ranks
    given = FactorPrior("given", prior_variance / data.unit**2)
    noise = None
    if noise_variance == "0db":
        noise = max(0.5 * data.squares / max(data.n_cells, 1.0), LEAST_NOISE_OF_TENSORS)
    elif noise_variance != "auto":
        noise = max(float(noise_variance) / data.unit**2, LEAST_NOISE_OF_TENSORS)
    return TuckerModel(
        family=FAMILIES[method.name],
        prior=given if method.takes_prior else FactorPrior("learned"),
        sizes=data.sizes,
        free=tuple(rank is None for rank in ranks),
        fixed_noise=noise,
        method=method,
        ranks=ranks,
        init=init,
        by_gradient=by_gradient,
        has_slices=has_slices,
    )


def _mean(state: TuckerState, data: TuckerCells) -> tuple[FloatArray, FloatArray]:
    """The mean of the slices along the first mode and its variance, both 0 if not centred."""
    shape = data.shape[1:]
    if data.mean is None:
        return np.zeros(shape), np.zeros(shape)
    first, others = np.ones(data.shape[0]), np.ones(())
    if data.noise is not None:
        first = data.noise.scales[0].precision
        others = outer([one.variance for one in data.noise.scales[1:]])
    weights = np.full(shape, first.sum()) if data.seen is None else to_numpy(data.weights(first))
    # In places without a value the mean is as uncertain as the data.
    known = weights > 0
    variance = np.where(known, state.noise_variance * others / np.where(known, weights, 1.0), 1.0)
    return to_numpy(data.mean) + state.shift, variance


# --- noise="auto" --------------------------------------------------------------------------------


def choose(
    model: TuckerModel, data: TuckerCells, looping: inference.Looping, gain: Gain, least: float
) -> TuckerFit:
    """The fit with the most evidence; noise by slice is tried if it promises `least` nats.

    A few sweeps with equal noise come first. If their residuals are the same in all slices, apart
    from chance, the noise is equal. Otherwise noise by slice is fitted, and then equal noise for as
    long as it may still catch up. Both free energies are in the units of the data; each learned
    gamma prior costs ½ log of the number of its slices.
    """
    quiet = replace(looping, callback=None, checkpoint=None)
    settled = inference.settle(model, data, replace(quiet, max_iter=FIRST_SWEEPS))
    noise = settled.run.state.noise_variance
    squares = expected_squares(settled.run.state, settled.data)
    # Nats that separate variances of slices would gain.
    promised = max(
        gain(one[N > 0] / noise, N[N > 0])
        for one, N in zip(squares, settled.data.cells_along, strict=True)
    )
    if promised <= least:
        return with_evidence(inference.fit(model, data, looping), {ISOTROPIC: 0.0})
    own = inference.fit(replace(model, has_slices=True), data, looping)
    goal = own.free_energy + learned_by(data.shape) - data.n_cells * float(np.log(data.unit))
    return better(inference.fit(model, data, replace(quiet, callback=_far_behind(goal))), own)


def better(equal: TuckerFit, own: TuckerFit) -> TuckerFit:
    """The fit with more evidence, of one with equal noise and one with noise by slice."""
    gain = equal.free_energy - own.free_energy - learned_by(own.sizes)
    return with_evidence(own if gain > 0 else equal, {ISOTROPIC: 0.0, PER_MODE: gain})


def learned_by(shape: tuple[int, ...]) -> float:
    """Cost of learning a gamma prior for each mode, in nats."""
    return 0.5 * float(np.log(shape).sum())


def with_evidence(fit: TuckerFit, evidence: dict[str, float]) -> TuckerFit:
    return replace(fit, noise=replace(fit.noise, evidence=evidence))


def _far_behind(best: float) -> inference.Callback:
    """A callback that ends a run if its last step shows that it will not get near `best`."""
    last = np.inf

    def callback(number: int, info: inference.Info) -> bool:
        nonlocal last
        fall, last = last - info.free_energy, info.free_energy
        gap = last - best
        return bool(gap > FAR_BEHIND and PATIENCE * fall < gap)

    return callback
