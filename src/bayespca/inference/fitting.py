"""`fit`: the one way from a model and its data to a finished fit; and `Looping`, its options."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from bayespca.arrays.parallel import one_blas_thread

from .accelerating import Chart
from .checkpoint import Checkpoint
from .digest import fingerprint
from .loop import Callback, Info, Run, Step, best_of, run
from .model import Model
from .result import Fit
from .search import by_rank, out_of_reach, searched

D = TypeVar("D")
S = TypeVar("S")
F = TypeVar("F", bound=Fit[Any])

# Data with so many numbers are small: their products take less time than threads to wake up.
SMALL = 2_000_000


@dataclass(frozen=True)
class Looping:
    """Options that every iteration has.

    `n_init` random starts are tried, each with its own generator from `random_state`, and the
    lowest free energy wins. With `checkpoint`, a path, an interrupted fit is resumed by the next
    one that has the same `mark`. A run is given up once it is clear that its free energy, in the
    units of the data, stays above `to_beat`.
    """

    max_iter: int = 1000
    tol: float = 1e-8
    n_init: int = 1
    random_state: int | np.random.Generator | None = None
    callback: Callback | None = None
    checkpoint: str | os.PathLike[str] | None = None
    mark: str = ""
    to_beat: float = np.inf

    def for_part(self, name: str) -> Looping:
        """These options for one of several iterations of a fit, with a checkpoint of its own.

        A resumed fit passes through the other iterations first.
        """
        if self.checkpoint is None:
            return self
        path = Path(self.checkpoint)
        return replace(self, checkpoint=path.with_name(f"{path.name}.{name}"))

    def run(
        self,
        step: Step[S],
        start: Callable[[np.random.Generator], S],
        *,
        n_init: int | None = None,
        chart: Chart[S] | None = None,
    ) -> Run[S]:
        """Run from each start and return the best run."""
        count = self.n_init if n_init is None else n_init
        runs, checkpoints = [], []
        for i, rng in enumerate(np.random.default_rng(self.random_state).spawn(count)):
            state = start(rng)
            checkpoint = None
            if self.checkpoint is not None:
                path = Path(self.checkpoint)
                path = path.with_name(f"{path.name}.{i + 1}") if i else path
                seed = self.random_state if isinstance(self.random_state, int) else None
                mark = f"{self.mark} {seed} {i}"
                checkpoint = Checkpoint(path, type(state), fingerprint=mark)
                checkpoints.append(checkpoint)
            found = run(
                step,
                state,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=self.callback,
                storage=checkpoint,
                chart=chart,
            )
            runs.append(found)
        for checkpoint in checkpoints:
            checkpoint.remove()
        return best_of(runs)


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
    if looping.checkpoint is not None:
        # The mark distinguishes the fit from others.
        looping = replace(looping, mark=fingerprint(repr(model), *model.digests(data)))
    ended = _run(model, data, looping)
    # Only the first run has a checkpoint: it would be unclear which of several it belongs to.
    looping = replace(looping, checkpoint=None)
    # Start again with more components, as long as all are kept.
    while ended.converged and (wider := model.wider(ended.state)) is not None:
        more = _run(wider, data, looping)
        if model.moves(data) and more.free_energy >= ended.free_energy:
            break
        ended, model = more, wider
    # Add components to the state, as long as that lowers the free energy.
    while ended.converged and (state := model.grown(ended.state, data)) is not None:
        more = _resumed(model, data, state, looping)
        if more.free_energy >= ended.free_energy:
            break
        ended = more
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
    # Drop components that have too little evidence.
    while (found := model.shrunk(ended.state, data)) is not None:
        state, nats = found
        less = _resumed(model, data, state, looping)
        if less.free_energy > ended.free_energy + nats:
            break
        ended = less
    return Settled(ended, model, data, energies)


def _run(model: Model[D, S, F], data: D, looping: Looping) -> Run[S]:
    starts = chain([model.first_start], repeat(model.start))
    callback, n_steps = looping.callback, model.n_steps
    if n_steps is not None:
        looping = replace(looping, max_iter=n_steps)
    best = looping.to_beat - model.offset(data) if looping.to_beat < np.inf else np.inf
    ends = out_of_reach(best)

    def watched(number: int, info: Info) -> bool:
        stops = callback is not None and callback(number, replace(info, n_steps=n_steps)) is True
        return (best < np.inf and ends(number, info) is True) or stops

    if callback is not None or best < np.inf:
        looping = replace(looping, callback=watched)
    return looping.run(
        partial(_step, model, data),
        lambda rng: next(starts)(data, rng),
        n_init=1 if model.has_one_start else None,
        chart=model.chart(data),
    )


def _step(model: Model[D, S, F], data: D, state: S) -> tuple[S, Info]:
    return model.step(state, data)


def _resumed(model: Model[D, S, F], data: D, state: S, looping: Looping) -> Run[S]:
    return run(
        partial(_step, model, data),
        state,
        max_iter=looping.max_iter,
        tol=looping.tol,
        chart=model.chart(data),
    )
