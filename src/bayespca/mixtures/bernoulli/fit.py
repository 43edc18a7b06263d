"""A mixture of Bernoulli distributions from beginning to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bayespca import inference
from bayespca.arrays.types import FloatArray
from bayespca.sources.seen import Seen, seen_in
from bayespca.spectrum.records import Status

from .data import BoolArray, Cells
from .posterior import BernoulliClusters
from .start import STARTS, with_given
from .step import Bayes, Family, State, step, without_one


@dataclass(frozen=True, eq=False)
class Options:
    """What a user may ask of a fit; names and meanings as in `BernoulliMixture`.

    `family` is `MaximumLikelihood` or `Bayes`, with its priors.
    """

    n_components: int
    family: Family
    init_params: str = "k-means++"
    weights_init: FloatArray | None = None
    means_init: FloatArray | None = None
    looping: inference.Looping = field(default_factory=inference.Looping)


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished fit."""

    posterior: BernoulliClusters
    free_energy: float
    trace: inference.Trace
    converged: bool
    status: Status


def fit(
    ones: BoolArray, seen: BoolArray | None, weights: FloatArray | None, options: Options
) -> Fit:
    """Fit rows of zeros and ones, `seen` where they are no holes, counted as `weights` say.

    Rows without any value, or without weight, take no part.
    """
    known = seen_in(seen, ones.shape)
    data = _taking_part(ones, seen, weights, known)
    sweep = partial(step, data=data, family=options.family)

    def start(rng: np.random.Generator) -> State:
        begin = STARTS[options.init_params](data, options.n_components, rng)
        return with_given(begin, data, options.weights_init, options.means_init)

    run = options.looping.run(sweep, start)
    if isinstance(options.family, Bayes):
        run, _ = inference.searched(
            run,
            sweep,
            less=partial(without_one, family=options.family),
            more=lambda state: None,
            max_iter=options.looping.max_iter,
            tol=options.looping.tol,
        )
    posterior = BernoulliClusters(*options.family.averages(run.state.sums))
    return Fit(posterior, run.free_energy, run.trace, run.converged, known.emptiness)


def _taking_part(
    ones: BoolArray, seen: BoolArray | None, weights: FloatArray | None, known: Seen
) -> Cells:
    rows = known.rows if weights is None else known.rows & (weights > 0)
    if rows.all():
        return Cells(ones, seen, weights)
    return Cells(
        ones[rows],
        None if seen is None else seen[rows],
        None if weights is None else weights[rows],
    )
