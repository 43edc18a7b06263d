"""Tucker factorization from beginning to end: start, iterate, keep what the posterior needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.inference.loop import Step
from bayespca.lowrank.factors import Prior
from bayespca.spectrum.families import MAP, PB_B, VB, Family
from bayespca.spectrum.records import Status
from bayespca.spectrum.solving import borrowed_noise
from bayespca.spectrum.tolerances import LEAST_BORROWED_OF_TENSORS, LEAST_NOISE_OF_TENSORS, VANISHED

from . import posterior as read
from .data import Cells, cells, empty_slices
from .posterior import Posterior
from .start import LARGEST_CORE, Guess, guess, random, spectral, with_one_more
from .step import equations_of, stepping
from .updates import Model, State, strengths, without

# The core is B, the factors are A.
FAMILIES: dict[str, Family] = {"evb": VB, "epb": PB_B, "emap": MAP, "pb": PB_B}
CAPPED = (
    f"With this many holes the core has at most {LARGEST_CORE:,} entries to start with, and the "
    "unfoldings show more components than that: ranks may be too small."
)


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `BayesianTucker`."""

    method: str = "evb"
    ranks: tuple[int | None, ...] = ()
    noise_variance: float | str = "auto"
    prior_variance: float = 1.0
    center: bool = False
    solver: str = "auto"
    init: str = "closed"
    looping: inference.Looping = field(default_factory=inference.Looping)


@dataclass(frozen=True)
class Fit:
    """A finished fit; `core` and `factors` have as many components as were asked for."""

    posterior: Posterior
    core: FloatArray
    factors: tuple[FloatArray, ...]
    free_energy: float
    trace: inference.Trace
    converged: bool
    status: Status

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(self.core.shape)


def fit(T: Array, options: Options) -> Fit:
    """Fit a tensor of floats with NaN in its holes; of another library, on its device."""
    data = cells(T, center=options.center)
    status = _status(T, data)
    solved = _run(data, options)
    if solved.noise_is_borrowed:
        status = status.but(*borrowed_noise(options.method))
    if solved.is_capped:
        status = status.but("capped-core", CAPPED)
    return _finished(solved, options, status)


# --- what is to be fitted, and from where ------------------------------------------------------


@dataclass(frozen=True)
class Solved:
    """A run, what it fitted, whether its noise is that of EVB, and its start had to be small."""

    run: inference.Run[State]
    data: Cells
    model: Model
    noise_is_borrowed: bool
    is_capped: bool


def _run(data: Cells, options: Options) -> Solved:
    noise = _given_noise(data, options)
    borrowed = noise is None and options.method != "evb"
    is_given = options.method == "pb" and None in options.ranks
    if borrowed or is_given:
        quiet = replace(options.looping, callback=None, checkpoint=None, n_init=1)
        evb = replace(options, method="evb", solver="auto", init="closed", looping=quiet)
        found = _run(data, evb).run.state
        noise = max(found.noise_variance, LEAST_BORROWED_OF_TENSORS) if borrowed else noise
        if is_given:
            # A given prior does not choose ranks.
            options = replace(options, ranks=found.ranks)
    # Nothing but zeros has no components.
    asked = options.ranks if data.squares else (0,) * len(data.shape)
    guessed = guess(data, asked)
    data = replace(data, fills=guessed.fills)
    model = _model(data, options, noise)
    step = stepping(data, model, by_gradient=options.solver == "gradient")
    run = _looping(data, options).run(
        step,
        lambda rng: _start(data, model, options, guessed, noise, rng),
        n_init=None if options.init == "random" else 1,
    )
    if model.prunes and any(model.free):
        run = _searched(run, step, data, model, options)
    return Solved(run, data, model, borrowed, guessed.is_capped)


def _looping(data: Cells, options: Options) -> inference.Looping:
    if options.looping.checkpoint is None:
        return options.looping
    told = replace(options, looping=inference.Looping())
    arrays = [data.values] if data.seen is None else [data.values, data.seen]
    mark = inference.fingerprint(*(to_numpy(a) for a in arrays), repr(told))
    return replace(options.looping, mark=mark)


def _start(
    data: Cells,
    model: Model,
    options: Options,
    guessed: Guess,
    noise: float | None,
    rng: np.random.Generator,
) -> State:
    if options.init == "random":
        return random(data, model, guessed.ranks, 0.5 if noise is None else noise, rng)
    noise = guessed.noise_variance if noise is None else noise
    return spectral(data, model, guessed, max(noise, LEAST_NOISE_OF_TENSORS))


def _searched(
    run: inference.Run[State],
    step: Step[State],
    data: Cells,
    model: Model,
    options: Options,
) -> inference.Run[State]:
    """With one component less in some mode, or one more in all, if that is better."""

    def less(state: State, n: int) -> State | None:
        if state.ranks[n] < 2:
            return None
        weakest = np.argsort(strengths(state, n))[:1]
        found, _ = without(state, equations_of(state, data), n, weakest, model)
        return replace(found, energy=np.inf)

    def more(state: State, n: int) -> State | None:
        # All modes at once, so once is enough.
        first = n == model.free_modes[0] and math.prod(state.ranks) > 0
        return with_one_more(state, data, model) if first else None

    for n in model.free_modes:
        run, _ = inference.searched(
            run,
            step,
            less=partial(less, n=n),
            more=partial(more, n=n),
            max_iter=options.looping.max_iter,
            tol=options.looping.tol,
        )
    return run


def _model(data: Cells, options: Options, noise: float | None) -> Model:
    prior = Prior("learned")
    if options.method == "pb":
        prior = Prior("given", options.prior_variance / data.unit**2)
    free = tuple(rank is None for rank in options.ranks)
    return Model(FAMILIES[options.method], prior, data.sizes, free, noise is None)


def _given_noise(data: Cells, options: Options) -> float | None:
    """In units of `data`; None where it is to be found."""
    if options.noise_variance == "auto":
        return None
    if options.noise_variance == "0db":
        return max(0.5 * data.squares / max(data.n_cells, 1.0), LEAST_NOISE_OF_TENSORS)
    return max(float(options.noise_variance) / data.unit**2, LEAST_NOISE_OF_TENSORS)


def _status(T: Array, data: Cells) -> Status:
    """Advice on places of which nothing is known."""
    status = Status()
    if data.seen is None:
        return status
    for n, empty in empty_slices(T).items():
        shown = ", ".join(map(str, empty[:5])) + (", …" if empty.size > 5 else "")
        status = status.but(
            "empty-slices",
            f"{empty.size} place{'s' * (empty.size > 1)} along mode {n} ({shown}, counting from 0) "
            f"without any value: the prior answers for {'it' if empty.size == 1 else 'them'}.",
        )
    return status


# --- what was found ----------------------------------------------------------------------------


def _finished(solved: Solved, options: Options, status: Status) -> Fit:
    run, data, model = solved.run, solved.data, solved.model
    state = _alive(run.state, data, model)
    posterior = _posterior(state, data)
    ranks = tuple(
        found if asked is None else asked
        for found, asked in zip(state.ranks, options.ranks, strict=True)
    )
    core, factors = read.padded(posterior, ranks)
    free_energy = _free_energy(run, data, model)
    return Fit(
        posterior=posterior,
        core=core,
        factors=tuple(factors),
        free_energy=free_energy,
        trace=run.trace.in_units(data.unit, free_energy=free_energy),
        converged=run.converged,
        status=status,
    )


def _alive(state: State, data: Cells, model: Model) -> State:
    """Without components whose number was asked for, but which have come to nothing."""
    for n in range(len(state.rows)):
        gone = np.flatnonzero(strengths(state, n) <= VANISHED**2 * data.squares)
        if gone.size:
            state, _ = without(state, equations_of(state, data), n, gone, model)
    return state


def _posterior(state: State, data: Cells) -> Posterior:
    shape = data.shape[1:]
    mean, variance = np.zeros(shape), np.zeros(shape)
    if data.mean is not None:
        mean = to_numpy(data.mean) + state.shift
        counts = np.full(shape, data.shape[0]) if data.seen is None else to_numpy(data.counts)
        # As uncertain as the data where there are none.
        variance = np.where(counts > 0, state.noise_variance / np.maximum(counts, 1), 1.0)
    return read.of_state(state, unit=data.unit, mean=mean, mean_variance=variance)


def _free_energy(run: inference.Run[State], data: Cells, model: Model) -> float:
    """In the units of the data, without what components left that have gone.

    Data times u make each of N learned priors u^(1/N) times as large, and so point estimates.
    """
    state, log_unit = run.state, math.log(data.unit)
    energy = run.free_energy - state.gone + data.n_cells * log_unit
    if not model.prior.is_learned:
        return energy
    if not model.family.integrates_a:
        entries = sum(M * H for M, H in zip(data.sizes, state.ranks, strict=True))
        energy += 0.5 * entries * log_unit / len(state.rows)
    if not model.family.integrates_b:
        energy += 0.5 * math.prod(state.ranks) * log_unit
    return energy
