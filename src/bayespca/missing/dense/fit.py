"""PCA of data with holes from beginning to end: start, iterate, keep what the posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank.factors import Factors
from bayespca.lowrank.factors import Prior as FactorPrior
from bayespca.lowrank.holes import Holes, Sample, Table
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.observing import observed
from bayespca.lowrank.records import PCAFit
from bayespca.lowrank.rows import Columns
from bayespca.sources.cluster import watched
from bayespca.sources.records import Partitions
from bayespca.sources.seen import seen
from bayespca.spectrum.families import MAP, PB_A, PB_B, VB
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.priors import GivenPrior, Prior
from bayespca.spectrum.records import Spectrum
from bayespca.spectrum.solving import borrowed_noise, solve
from bayespca.spectrum.tolerances import (
    GONE,
    LEAST_BORROWED,
    LEAST_NOISE_OF_ML,
    LEAST_NOISE_WITH_HOLES,
    LOG_2PI,
    WIDE,
)

from .partitioned import prepared
from .start import fill, random_start, start, start_with_all, with_one_more
from .step import (
    Model,
    State,
    has_mean,
    mean_squares_of_rows,
    step,
    with_more,
    without_component,
)


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit; names and meanings as in `BayesianPCA`."""

    method: str = "evb"
    n_components: int | None = None
    noise_variance: float | str = "auto"
    prior_variance: float | None = None
    center: bool = True
    scale: bool = False
    per_feature: bool = False
    init: str = "closed"
    engine: str = "auto"
    looping: inference.Looping = field(default_factory=inference.Looping)


def fit(X: Array, options: Options) -> PCAFit:
    """Fit a matrix of floats with NaN in its holes, where it is: in memory, on a device, on Dask.

    Rows and columns without any value take no part: the former have the prior's scores, the latter
    loadings of 0 and no mean.
    """
    # With noise of its own for each feature, its unit is arbitrary: that of its spread will do.
    scale = options.scale or options.per_feature
    if isinstance(X, Partitions):
        table = prepared(X, center=options.center, scale=scale)
    else:
        known = seen(X)
        data = observed(known.known(X), center=options.center, scale=scale)
        table = Table(data, X.shape[0], known.columns, known.status, X)
    with watched(None):
        return _finished(_run(table.data, options), table, options)


# --- what is to be fitted, and from where ------------------------------------------------------


@dataclass(frozen=True)
class Solved:
    """A run, what it fitted, free energies by rank, and whether its noise is that of EVB."""

    run: inference.Run[State]
    model: Model
    energies: dict[int, float]
    noise_is_borrowed: bool = False


def _run(data: Sample, options: Options) -> Solved:
    looping = options.looping
    if looping.checkpoint is not None:
        told = replace(options, looping=inference.Looping())
        mark = inference.fingerprint(*data.total(_digests), repr(told))
        looping = replace(looping, mark=mark)
    most = _most(data, options)
    noise, borrowed = _given_noise(data, options), False
    if noise is None and not _learns_noise(options):
        quiet = replace(options.looping, callback=None, checkpoint=None)
        evb = replace(options, method="evb", prior_variance=None, looping=quiet)
        noise, borrowed = max(_run(data, evb).run.state.noise_variance, LEAST_BORROWED), True
    model = _model(data, options, most, noise)
    run = looping.run(
        partial(step, data=data, model=model),
        partial(_start, data, model, options, noise),
        # From the closed form there is one start, and nothing random in it.
        n_init=None if options.init == "random" else 1,
    )
    if model.prunes:
        return _searched(run, data, model, looping)
    return Solved(_with_all_that_grow(run, data, model, looping), model, {}, borrowed)


def _digests(data: Holes) -> list[str]:
    """Short texts that differ where cells do."""
    return [inference.fingerprint(to_numpy(data.values), to_numpy(data.patterns))]


def _searched(
    run: inference.Run[State], data: Sample, model: Model, looping: inference.Looping
) -> Solved:
    """With one component less or more, if that is better."""

    def less(state: State) -> State | None:
        return without_component(state, state.rank - 1) if state.rank else None

    def more(state: State) -> State | None:
        return with_one_more(state, data) if state.rank < model.most else None

    run, energies = inference.searched(
        run,
        partial(step, data=data, model=model),
        less=less,
        more=more,
        max_iter=looping.max_iter,
        tol=looping.tol,
    )
    return Solved(run, model, energies)


def _start(
    data: Sample, model: Model, options: Options, noise: float | None, rng: np.random.Generator
) -> State:
    if options.init == "random":
        return random_start(data, model, noise, rng)
    filled = fill(data, most=model.most, exactly=model.keeps_all, engine=options.engine)
    per_feature = options.per_feature
    if options.method in ("evb", "ml"):
        begin = start(data, model, filled, per_feature=per_feature)
        return begin if noise is None else replace(begin, noise_variance=noise)
    plan = partial(
        solve,
        method=options.method,
        noise_variance="auto" if noise is None else noise,
        prior_variance=_prior_variance(data, options),
    )
    return start_with_all(data, model, filled, plan, per_feature=per_feature, engine=options.engine)


def _with_all_that_grow(
    run: inference.Run[State], data: Sample, model: Model, looping: inference.Looping
) -> inference.Run[State]:
    """Under VB with a given prior: more components, as long as none of them has become idle."""
    while (
        run.converged
        and model.has_idle
        and run.state.rank < model.most
        and has_mean(run.state, data, model).all()
    ):
        count = min(1 + run.state.rank // 3, model.most - run.state.rank)
        more = inference.run(
            partial(step, data=data, model=model),
            with_more(run.state, model, count),
            max_iter=looping.max_iter,
            tol=looping.tol,
        )
        if more.free_energy >= run.free_energy:
            break
        run = more
    return run


def _most(data: Sample, options: Options) -> int:
    """The largest rank."""
    n, p = data.shape
    if not data.squares.any():
        return 0
    full = min(data.freedom, p)
    # One that leaves nothing over has no noise.
    full = full if options.method not in ("evb", "ml") else max(min(n - 1, p - 1), 0)
    return full if options.n_components is None else min(options.n_components, full)


def _learns_noise(options: Options) -> bool:
    """As for complete data: a flat prior leaves VB's free energy without a minimum."""
    if options.method == "vb":
        return options.prior_variance is not None
    return options.method in ("evb", "ml")


def _unit(data: Sample, options: Options) -> float:
    """What scaled data were divided by."""
    return 1.0 if options.scale or options.per_feature else float(data.unit[0])


def _given_noise(data: Sample, options: Options) -> float | None:
    """In units of `data`; None where it is to be found."""
    if options.noise_variance == "auto":
        return None
    if options.noise_variance == "0db":
        cells = float((data.column_counts - data.centred).sum())
        return max(0.5 * float(data.squares.sum()) / max(cells, 1.0), LEAST_NOISE_WITH_HOLES)
    return float(options.noise_variance) / _unit(data, options) ** 2


def _prior_variance(data: Sample, options: Options) -> float | None:
    c2 = options.prior_variance
    return None if c2 is None else c2 / _unit(data, options) ** 2


def _model(data: Sample, options: Options, most: int, noise: float | None) -> Model:
    shape = (data.shape[1], data.freedom)
    c2 = _prior_variance(data, options)
    prior = METHODS[options.method].prior(*shape, np.inf if c2 is None else c2)
    factors = Factors(shape, prior.family, _prior(prior), GONE)
    least = LEAST_NOISE_OF_ML if options.method == "ml" else LEAST_NOISE_WITH_HOLES
    return Model(
        factors,
        most,
        least if noise is None else None,
        keeps_all=options.method == "ml",
    )


def _prior(prior: Prior) -> FactorPrior:
    """Which factor has the given variance, while the other has 1.

    The longer one of those that are integrated out is as large as its prior: it takes the 1. A flat
    prior is as it is where the posterior is proper without it, and very wide elsewhere.
    """
    if not isinstance(prior, GivenPrior):
        return FactorPrior("learned")
    c2, family = prior.prior_variance, prior.family
    l, m = family.sizes(prior.L, prior.M)
    if np.isinf(c2) and family != PB_A:
        c2 = WIDE
    return FactorPrior("given", c2, 1.0) if m >= l else FactorPrior("given", 1.0, c2)


# --- what was found ----------------------------------------------------------------------------


def _finished(
    solved: Solved,
    table: Table,
    options: Options,
) -> PCAFit:
    run, model = solved.run, solved.model
    data, n, live, status = table.data, table.n_samples, table.live, table.status
    p, state = live.size, run.state
    for h in np.flatnonzero(~has_mean(state, data, model))[::-1]:
        state = without_component(state, h)
    posterior = _posterior(state, data, model, live, options, table.like)
    noise: float | FloatArray = posterior.noise_variance
    if state.psi is not None:
        noise = np.zeros(p)
        noise[live] = state.psi * data.unit**2
    if solved.noise_is_borrowed:
        status = status.but(*borrowed_noise(options.method))
    M = max(n - options.center, 1)
    variances = read.latent_variance_of_scores(posterior)
    gamma = np.sqrt(M * (variances + posterior.noise_variance))
    free_energy = _free_energy(run, data, model, options)
    return PCAFit(
        posterior=posterior,
        spectrum=spectrum_as_if_complete(gamma, (p, M), posterior.noise_variance),
        shrunk_singular_values=np.sqrt(M * variances),
        rank_posterior=_rank_posterior(solved.energies, state.rank),
        n_samples=n,
        free_energy=free_energy,
        noise_variance=noise,
        trace=run.trace.in_units(_unit(data, options), free_energy=free_energy),
        converged=run.converged,
        status=status,
    )


def _posterior(
    state: State,
    data: Sample,
    model: Model,
    live: NDArray[np.bool_],
    options: Options,
    like: Array,
) -> HolesPosterior:
    """The posterior for all columns; those without values have the prior's loadings."""
    p, H = live.size, state.rank
    unit = _unit(data, options)
    root = np.ones(data.shape[1]) if state.psi is None else np.sqrt(state.psi)
    b = np.zeros((p, H + 1))
    b_cov = np.zeros((p, H + 1, H + 1))
    # Nothing is known of a column without values: the prior, and a mean as uncertain as the data.
    prior_b = state.prior_b if model.factors.family.integrates_b else np.zeros(H)
    b_cov[~live] = np.diag(np.append(prior_b, 1.0))
    b[live], b_cov[live] = to_numpy(state.b), to_numpy(state.b_cov)
    location, scales = np.zeros(p), np.ones(p)
    location[live] = data.location
    scales[live] = data.unit * root / unit
    integrated = model.factors.family.integrates_a
    columns = Columns(b, b_cov, state.prior_a, state.noise_variance, integrated)
    found = read.from_columns(columns, location=location, scale=scales, unit=unit, like=like)
    variance = mean_squares_of_rows(state, data, integrated=integrated)
    return replace(found, latent_variance=variance)


def _free_energy(run: inference.Run[State], data: Sample, model: Model, options: Options) -> float:
    """In the units of the data, and as the closed forms count.

    That is with cₐ = 1 and c_b = c where the prior is given, density one where it is flat, and
    nothing for components that a learned prior has switched off.
    """
    factors, (L, M) = model.factors, model.factors.shape
    energy = run.free_energy + float((data.column_counts - data.centred) @ np.log(data.unit))
    log_unit = float(np.log(_unit(data, options)))
    family, flat = factors.family, options.prior_variance is None
    if factors.prior.is_learned:
        energy -= run.state.n_gone * factors.gone_energy
        points = (not family.integrates_a) * M + (not family.integrates_b) * L
        return energy + 0.5 * points * run.state.rank * log_unit
    if family == VB:
        return np.inf if flat else energy
    if family == PB_B:
        return energy - 0.5 * model.most * M * float(np.log(factors.prior.variance_a))
    if flat:
        wide = LOG_2PI + np.log(factors.prior.variance) if family == MAP else 0.0
        return energy - 0.5 * model.most * L * wide
    return energy + model.most * L * log_unit


def spectrum_as_if_complete(
    gamma: FloatArray, shape: tuple[int, int], noise_variance: float
) -> Spectrum:
    """The kept components, the others as noise: what a complete matrix would have shown."""
    order = np.sort(gamma)[::-1]
    rest = noise_variance * max(shape) * (min(shape) - gamma.size)
    room = (order[-1] ** 2 if order.size else np.inf) * (min(shape) - gamma.size)
    return Spectrum(order, shape, float(order @ order) + min(rest, room))


# --- how sure the rank is ----------------------------------------------------------------------


def _rank_posterior(energies: dict[int, float], rank: int) -> FloatArray:
    """exp(−F) of the ranks that were seen, normalised; index = rank.

    Only empirical VB's free energies can be compared between ranks.
    """
    return inference.rank_probabilities(energies) if energies else np.append(np.zeros(rank), 1.0)
