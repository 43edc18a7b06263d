"""`fit`: the one way from a model and its data to a finished fit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any, Generic, TypeVar

import numpy as np

from bayespca.arrays.threads import one_blas_thread

from .digest import fingerprint
from .loop import Callback, Info, Run, run
from .looping import Looping
from .model import Model
from .result import Fit
from .search import by_rank, out_of_reach, searched

D = TypeVar("D")
S = TypeVar("S")
F = TypeVar("F", bound=Fit[Any])

# Data with so many numbers are small: their products take less time than threads to wake up.
SMALL = 2_000_000


@dataclass(frozen=True)
class Settled(Generic[D, S, F]):
    """A run that is over, with its model and data, and free energies by rank."""

    run: Run[S]
    model: Model[D, S, F]
    data: D
    energies: dict[int, float]


def fit(model: Model[D, S, F], data: D, looping: Looping) -> F:
    """Fit a model from its starts, search over ranks, and return the finished fit."""
    return finished(settle(model, data, looping))


def numbers_in(data: object) -> int:
    """How many numbers the arrays in a record hold; 0 if none is in memory here."""
    if isinstance(data, np.ndarray):
        return data.size
    if is_dataclass(data):
        data = tuple(getattr(data, part.name) for part in fields(data))
    return sum(map(numbers_in, data)) if isinstance(data, tuple | list) else 0


def finished(settled: Settled[D, S, F]) -> F:
    """The fit that a settled run ends in."""
    ended, model, data = settled.run, settled.model, settled.data
    free_energy = model.free_energy(ended, data)
    found: Fit[Any] = Fit(
        posterior=model.posterior(ended.state, data),
        free_energy=free_energy,
        free_energy_by_rank=by_rank(settled.energies),
        trace=ended.trace.in_units(model.unit(data), free_energy=free_energy),
        converged=ended.converged,
        status=model.status(ended.state, data),
    )
    return model.described(found, ended, data)


def settle(model: Model[D, S, F], data: D, looping: Looping) -> Settled[D, S, F]:
    """Run a model until nothing leads lower any more.

    The products of small data are done before the threads of BLAS have been woken up.
    """
    is_small = 0 < numbers_in(data) <= SMALL
    with one_blas_thread() if is_small else nullcontext():
        return _settled(model, data, looping)


def _settled(model: Model[D, S, F], data: D, looping: Looping) -> Settled[D, S, F]:
    lender = model.lender()
    if lender is not None:
        quiet = replace(looping, callback=None, checkpoint=None)
        model = model.lent(settle(lender, data, quiet).run.state)
    model, data = model.suited(data)
    ended = _run(model, data, _marked(looping, model, data))
    ended, model = _widened(ended, model, data, looping)
    ended = _grown(ended, model, data, looping)
    ended, energies = _searched(ended, model, data, looping)
    return Settled(_shrunk(ended, model, data, looping), model, data, energies)


def _run(model: Model[D, S, F], data: D, looping: Looping) -> Run[S]:
    starts = chain([model.first_start], repeat(model.start))
    if model.n_steps is not None:
        callback = _counting(looping.callback, model.n_steps)
        looping = replace(looping, max_iter=model.n_steps, callback=callback)
    if looping.to_beat < np.inf:
        best = looping.to_beat - model.offset(data)
        looping = replace(looping, callback=_either(looping.callback, out_of_reach(best)))
    return looping.run(
        partial(_step, model, data),
        lambda rng: next(starts)(data, rng),
        n_init=1 if model.has_one_start else None,
        chart=model.chart(data),
    )


def _either(callback: Callback | None, other: Callback) -> Callback:
    """A callback that ends a run where one of two does; both see each step."""
    if callback is None:
        return other

    def both(number: int, info: Info) -> bool:
        stops = callback(number, info) is True
        return other(number, info) is True or stops

    return both


def _counting(callback: Callback | None, n_steps: int) -> Callback | None:
    """The callback, with the number of steps added to its `Info`."""
    if callback is None:
        return None
    return lambda number, info: callback(number, replace(info, n_steps=n_steps))


def _step(model: Model[D, S, F], data: D, state: S) -> tuple[S, Info]:
    return model.step(state, data)


def _marked(looping: Looping, model: Model[D, S, F], data: D) -> Looping:
    """Add a mark that distinguishes the fit from others, if one is needed."""
    if looping.checkpoint is None:
        return looping
    return replace(looping, mark=fingerprint(repr(model), *model.digests(data)))


def _widened(
    ended: Run[S], model: Model[D, S, F], data: D, looping: Looping
) -> tuple[Run[S], Model[D, S, F]]:
    """Start again with more components, as long as all are kept.

    Only the first run has a checkpoint: it would be unclear which of several it belongs to.
    """
    looping = replace(looping, checkpoint=None)
    while ended.converged and (wider := model.wider(ended.state)) is not None:
        more = _run(wider, data, looping)
        if model.moves(data) and more.free_energy >= ended.free_energy:
            break
        ended, model = more, wider
    return ended, model


def _grown(ended: Run[S], model: Model[D, S, F], data: D, looping: Looping) -> Run[S]:
    """Add components to the state, as long as that lowers the free energy."""
    while ended.converged and (state := model.grown(ended.state, data)) is not None:
        more = _resumed(model, data, state, looping)
        if more.free_energy >= ended.free_energy:
            break
        ended = more
    return ended


def _searched(
    ended: Run[S], model: Model[D, S, F], data: D, looping: Looping
) -> tuple[Run[S], dict[int, float]]:
    """Try each of the model's moves to fewer or more components; keep those that lead lower."""
    energies: dict[int, float] = {}
    for move in model.moves(data):
        ended, energies = searched(
            ended,
            partial(_step, model, data),
            less=move.less,
            more=move.more,
            max_iter=looping.max_iter,
            tol=looping.tol,
            chart=model.chart(data),
        )
    return ended, energies


def _shrunk(ended: Run[S], model: Model[D, S, F], data: D, looping: Looping) -> Run[S]:
    """Drop components that have too little evidence."""
    while (found := model.shrunk(ended.state, data)) is not None:
        state, nats = found
        less = _resumed(model, data, state, looping)
        if less.free_energy > ended.free_energy + nats:
            break
        ended = less
    return ended


def _resumed(model: Model[D, S, F], data: D, state: S, looping: Looping) -> Run[S]:
    return run(
        partial(_step, model, data),
        state,
        max_iter=looping.max_iter,
        tol=looping.tol,
        chart=model.chart(data),
    )
