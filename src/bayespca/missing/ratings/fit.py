"""Ratings from beginning to end: start, sweep, add components while all of them are needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.lowrank.factors import Factors, Prior
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import Status
from bayespca.spectrum.solving import borrowed_noise
from bayespca.spectrum.tolerances import GONE

from .data import Ratings
from .partitioned import DistantRatings
from .posterior import Factor, Posterior
from .start import random_start, start, with_one_more
from .step import Model, State, rows_of, step, without_weakest

Cells = Ratings | DistantRatings

# Components to start with where their number is to be found, and twice that where all are kept.
FIRST = 16


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `MatrixFactorization`."""

    method: str = "evb"
    n_components: int | None = None
    biases: bool = True
    noise_variance: float | None = None
    init: str = "closed"
    dtype: Any = np.float64
    looping: inference.Looping = field(default_factory=inference.Looping)


@dataclass(frozen=True)
class Fit:
    """A finished fit; `free_energy` is that of the ratings as given."""

    posterior: Posterior
    noise_variance: float
    free_energy: float
    trace: inference.Trace
    converged: bool
    status: Status


def fit(data: Cells, options: Options) -> Fit:
    """Fit ratings that have been sorted both ways, or that are on Dask.

    The free energies of the methods that point-estimate have no usable minimum over the noise: they
    take EVB's.
    """
    noise, status = options.noise_variance, _status(data)
    if noise is None and options.method != "evb":
        quiet = replace(options.looping, callback=None, checkpoint=None)
        noise = fit(data, replace(options, method="evb", looping=quiet)).noise_variance
        status = status.but(*borrowed_noise(options.method))
    model = _model(data, replace(options, noise_variance=noise))
    looping = options.looping
    if looping.checkpoint is not None:
        told = replace(options, looping=inference.Looping())
        mark = inference.fingerprint(*_digests(data), repr(told))
        looping = replace(looping, mark=mark)
    most = max(min(data.shape) - 1, 0)
    most = most if options.n_components is None else min(options.n_components, most)
    rank = min(FIRST, most) if options.n_components is None else most
    run = _run(data, model, options, rank, looping)
    # A checkpoint is of the first run: which of several it were of could not be told.
    looping = replace(looping, checkpoint=None)
    while run.converged and run.state.rank == rank < most:
        rank = min(2 * rank, most)
        more = _run(data, model, options, rank, looping)
        if model.prunes and more.free_energy >= run.free_energy:
            break
        run = more
    if model.prunes:
        run = _searched(run, data, model, looping, most)
    return _finished(run, data, model, options, status)


def _digests(data: Cells) -> list[Any]:
    """What differs where cells do."""
    if isinstance(data, DistantRatings):
        return data.digests()
    return [data.by_rows.starts, data.by_rows.other, data.by_rows.values]


def _searched(
    run: inference.Run[State], data: Cells, model: Model, looping: inference.Looping, most: int
) -> inference.Run[State]:
    """With one component less or more, if that is better."""

    def less(state: State) -> State | None:
        return without_weakest(state) if state.rank else None

    def more(state: State) -> State | None:
        if state.rank >= most:
            return None
        return with_one_more(state, data, model)

    found, _ = inference.searched(
        run,
        partial(step, data=data, model=model),
        less=less,
        more=more,
        max_iter=looping.max_iter,
        tol=looping.tol,
    )
    return found


def _status(data: Cells) -> Status:
    if data.squares:
        return Status()
    return Status().but(
        "all-equal",
        "All ratings are the same: how far others may be from them cannot be told, and predictions "
        "have no spread.",
    )


def _model(data: Cells, options: Options) -> Model:
    n, m = data.shape
    family = METHODS[options.method].prior(m, n, np.inf).family
    factors = Factors((m, n), family, Prior("learned"), GONE)
    noise = options.noise_variance
    return Model(factors, options.biases, None if noise is None else noise / data.unit**2)


def _run(
    data: Cells, model: Model, options: Options, rank: int, looping: inference.Looping
) -> inference.Run[State]:
    def begin(rng: np.random.Generator) -> State:
        if options.init == "random":
            return random_start(data, model, rank, rng)
        return start(data, model, rank)

    return looping.run(
        partial(step, data=data, model=model),
        begin,
        # From the closed form there is one start, and nothing random in it.
        n_init=None if options.init == "random" else 1,
    )


def _finished(
    run: inference.Run[State], data: Cells, model: Model, options: Options, status: Status
) -> Fit:
    state = run.state
    s2, dtype = state.noise_variance, options.dtype
    posterior = Posterior(
        rows=_rows(state, data, model, dtype),
        columns=Factor(state.b.astype(dtype), state.b_cov.astype(dtype), state.prior_b),
        mean=state.location,
        noise_variance=s2,
        location=data.location,
        unit=data.unit,
        biases=model.biases,
    )
    free_energy = _free_energy(run, data, model)
    return Fit(
        posterior=posterior,
        noise_variance=s2 * data.unit**2,
        free_energy=free_energy,
        trace=run.trace.in_units(data.unit, free_energy=free_energy),
        converged=run.converged,
        status=status,
    )


def _rows(state: State, data: Cells, model: Model, dtype: Any) -> Factor:
    """The posterior of rows that follows from a state; all of it is here."""
    if isinstance(data, DistantRatings):
        return data.factor(state, model, dtype)
    found = rows_of(state, data, model)
    return Factor(found.mean.astype(dtype), found.cov.astype(dtype), state.prior_a)


def _free_energy(run: inference.Run[State], data: Cells, model: Model) -> float:
    """In the units of the ratings, without what components leave that have been switched off.

    Both factors have the square root of the unit, biases all of it.
    """
    log_unit, family = float(np.log(data.unit)), model.factors.family
    n, m = data.shape
    points = (not family.integrates_a) * n + (not family.integrates_b) * m
    energy = run.free_energy + data.n_cells * log_unit
    energy -= run.state.n_gone * model.factors.gone_energy
    return energy + points * log_unit * (0.5 * run.state.rank + model.biases)
