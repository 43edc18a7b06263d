"""Binary PCA from beginning to end: start, iterate, keep what the posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bayespca import inference
from bayespca.arrays.packing import packed
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.factors import Factors, Prior
from bayespca.sources.seen import Seen, seen_in
from bayespca.spectrum.families import VB
from bayespca.spectrum.records import Status

from .data import BoolArray, Cells
from .normals import Normals
from .posterior import BinaryPosterior, from_factors
from .start import random_start, start, with_one_more
from .step import Model, State, evaluated, step, without_components

# A learned prior variance that has shrunk to this belongs to a component that is gone.
GONE = 1e-8


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `BinaryPCA`."""

    n_components: int | None = None
    init: str = "closed"
    looping: inference.Looping = field(default_factory=inference.Looping)


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit."""

    posterior: BinaryPosterior
    free_energy: float
    rank_posterior: FloatArray
    trace: inference.Trace
    converged: bool
    status: Status


def fit(ones: BoolArray, seen: BoolArray | None, options: Options) -> Fit:
    """Fit a table of zeros and ones, `seen` where they are no holes.

    Rows and columns without any value take no part: for both the prior answers.
    """
    known = seen_in(seen, ones.shape)
    data = _taking_part(ones, seen, known)
    n, p = data.shape
    most = max(min(n, p) - 1, 0)
    if options.n_components is not None:
        most = min(options.n_components, n, p)
    model = Model(Factors((p, n), VB, Prior("learned"), GONE), most)
    run, energies = _searched(_run(data, model, options), data, model, options)
    state = run.state
    columns = _for_all_columns(state, known.columns)
    return Fit(
        posterior=from_factors(state.rows, columns, state.prior),
        free_energy=run.free_energy,
        rank_posterior=inference.rank_probabilities(energies),
        trace=run.trace,
        converged=run.converged,
        status=known.emptiness,
    )


def _run(data: Cells, model: Model, options: Options) -> inference.Run[State]:
    def begin(rng: np.random.Generator) -> State:
        if options.init == "random":
            return random_start(data, model, rng)
        return start(data, model)

    # From the closed form there is one start, and nothing random in it.
    n_init = None if options.init == "random" else 1
    return options.looping.run(partial(step, data=data, model=model), begin, n_init=n_init)


def _searched(
    run: inference.Run[State], data: Cells, model: Model, options: Options
) -> tuple[inference.Run[State], dict[int, float]]:
    """With one component less or more, if that is better."""

    def less(state: State) -> State | None:
        return evaluated(without_components(state, 1), data, model) if state.rank else None

    def more(state: State) -> State | None:
        return with_one_more(state, data) if state.rank < model.most else None

    return inference.searched(
        run,
        partial(step, data=data, model=model),
        less=less,
        more=more,
        max_iter=options.looping.max_iter,
        tol=options.looping.tol,
    )


def _taking_part(ones: BoolArray, seen: BoolArray | None, known: Seen) -> Cells:
    if known.rows.all() and known.columns.all():
        return Cells(ones, seen)
    assert seen is not None
    part = np.ix_(known.rows, known.columns)
    return Cells(ones[part], seen[part])


def _for_all_columns(state: State, live: BoolArray) -> Normals:
    """Nothing is known of a column without values but its prior."""
    prior = np.append(state.prior, state.spread)
    mean = np.zeros((live.size, prior.size))
    cov = np.repeat(packed(np.diag(prior))[None, :], live.size, axis=0)
    log_dets = np.full(live.size, np.log(prior).sum())
    mean[live], cov[live] = state.columns.mean, state.columns.cov
    log_dets[live] = state.columns.log_dets
    return Normals(mean, cov, log_dets)
