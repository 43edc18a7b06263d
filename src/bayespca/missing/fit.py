"""PCA of data with holes from beginning to end: start, iterate, keep what the posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bayespca import inference
from bayespca.spectrum import Spectrum, Status

from . import posterior as read
from .data import Holes, observed
from .posterior import Posterior
from .start import start
from .vb import State, step, without_component

FloatArray = NDArray[np.float64]

# Sweeps with one component less, to see how much worse that is.
SWEEPS_WITH_LESS = 30
# Nats by which a rank is worse that need not be known more precisely.
IMPROBABLE = 30.0


@dataclass(frozen=True)
class Fit:
    """A finished fit of data with holes; names as in `linear.Fit`."""

    posterior: Posterior
    spectrum: Spectrum
    shrunk_singular_values: FloatArray
    rank_posterior: FloatArray
    n_samples: int
    free_energy: float
    noise_variance: float | FloatArray
    trace: inference.Trace
    converged: bool
    status: Status
    engine: str = "holes"
    # Which components there are is decided by the free energy alone: there is no threshold.
    threshold: float = float("nan")
    miss_probability: float = 0.0

    @property
    def singular_values(self) -> FloatArray:
        return self.spectrum.singular_values

    @property
    def n_iter(self) -> int:
        return len(self.trace)


def fit(
    X: FloatArray,
    *,
    max_rank: int | None,
    scale: bool,
    looping: inference.Looping,
    per_feature: bool = False,
    exactly: bool = False,
) -> Fit:
    """Fit a matrix of floats with NaN in its holes.

    Rows and columns without any value take no part: the former have the prior's scores, the latter
    loadings of 0 and no mean. With `exactly` the rank is `max_rank`, by maximum likelihood.
    """
    n, p = X.shape
    values = np.asarray(X, dtype=np.float64)
    live_rows, live = _with_values(values)
    # With noise of its own for each feature, its unit is arbitrary: that of its spread will do.
    data = observed(values[live_rows][:, live], center=True, scale=scale or per_feature)
    if looping.checkpoint is not None:
        mark = inference.fingerprint(values, max_rank, scale, per_feature, exactly)
        looping = replace(looping, mark=mark)
    run = looping.run(
        partial(step, data=data),
        lambda rng: start(data, max_rank=max_rank, per_feature=per_feature, exactly=exactly),
        records=[State],
        # There is one start, and nothing random in it.
        n_init=1,
    )
    state = run.state
    posterior = _posterior(state, data, live, scale=scale, dtype=X.dtype)
    noise: float | FloatArray = posterior.noise_variance
    if state.psi is not None:
        noise = np.zeros(p)
        noise[live] = state.psi * data.unit**2
    energies = _energies_by_rank(run, data)
    M = max(n - 1, 1)
    variances = read.latent_variance_of_scores(posterior)
    gamma = np.sqrt(M * (variances + posterior.noise_variance))
    shrunk = np.sqrt(M * variances)
    energy = run.free_energy + _change_of_units(data)
    return Fit(
        posterior=posterior,
        spectrum=_spectrum(gamma, (p, M), posterior.noise_variance),
        shrunk_singular_values=shrunk,
        rank_posterior=_probabilities(energies),
        n_samples=n,
        free_energy=energy,
        noise_variance=noise,
        trace=run.trace,
        converged=run.converged,
        status=_status(values, live_rows, live),
    )


def _with_values(X: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    seen = ~np.isnan(X)
    return np.asarray(seen.any(axis=1)), np.asarray(seen.any(axis=0))


def _posterior(
    state: State, data: Holes, live: NDArray[np.bool_], *, scale: bool, dtype: np.dtype
) -> Posterior:
    """The posterior for all columns; those without values have the prior's loadings."""
    p, H = live.size, state.rank
    unit = 1.0 if scale or state.psi is not None else float(data.unit[0])
    root = np.ones(data.shape[1]) if state.psi is None else np.sqrt(state.psi)
    b = np.zeros((p, H + 1))
    b_cov = np.zeros((p, H + 1, H + 1))
    # Nothing is known of a column without values: the prior, and a mean as uncertain as the data.
    b_cov[~live] = np.diag(np.append(state.prior_b, 1.0))
    b[live], b_cov[live] = state.b, state.b_cov
    location, scales = np.zeros(p), np.ones(p)
    location[live] = data.location
    scales[live] = data.unit * root / unit
    whole = State(b, b_cov, state.prior_a, state.prior_b, state.noise_variance)
    return read.from_state(whole, location=location, scale=scales, unit=unit, dtype=dtype)


def _change_of_units(data: Holes) -> float:
    """What dividing by the units took from the free energy, the flat prior of μ included."""
    return float((data.column_counts - 1) @ np.log(data.unit))


def _spectrum(gamma: FloatArray, shape: tuple[int, int], noise_variance: float) -> Spectrum:
    """The kept components, the others as noise: what a complete matrix would have shown."""
    order = np.sort(gamma)[::-1]
    rest = noise_variance * max(shape) * (min(shape) - gamma.size)
    room = (order[-1] ** 2 if order.size else np.inf) * (min(shape) - gamma.size)
    return Spectrum(order, shape, float(order @ order) + min(rest, room))


# --- how sure the rank is ----------------------------------------------------------------------


def _energies_by_rank(run: inference.Run[State], data: Holes) -> dict[int, float]:
    """The lowest free energy seen with each rank, and that with one component less."""
    found: dict[int, float] = {}
    for rank, energy in zip(run.trace.rank.tolist(), run.trace.free_energy.tolist(), strict=True):
        found[rank] = min(energy, found.get(rank, np.inf))
    rank = run.state.rank
    if rank and not run.state.is_ml:
        less = inference.run(
            partial(step, data=data),
            without_component(run.state, rank - 1),
            max_iter=SWEEPS_WITH_LESS,
            tol=1e-8,
            callback=_hopeless(run.free_energy),
        )
        found[less.state.rank] = less.free_energy
    return found


def _hopeless(best: float) -> inference.Callback:
    """Ends a run that will not come near a free energy, going by its last step."""
    seen: list[float] = []

    def callback(number: int, info: inference.Info) -> bool:
        fall = seen[-1] - info.free_energy if seen else np.inf
        seen.append(info.free_energy)
        gap = info.free_energy - best
        return bool(gap > IMPROBABLE and SWEEPS_WITH_LESS * fall < gap)

    return callback


def _probabilities(energies: dict[int, float]) -> FloatArray:
    """exp(−F), normalised; index = rank. Ranks that were never tried have probability 0."""
    out = np.full(max(energies) + 1, -np.inf)
    for rank, energy in energies.items():
        out[rank] = -energy
    weights = np.exp(out - out.max())
    return np.asarray(weights / weights.sum())


def _status(X: FloatArray, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Status:
    status = Status()
    for what, live in (("row", rows), ("column", columns)):
        empty = np.flatnonzero(~live)
        if empty.size:
            shown = ", ".join(map(str, empty[:5])) + (", …" if empty.size > 5 else "")
            status = status.but(
                f"empty-{what}s",
                f"{empty.size} {what}{'s' * (empty.size > 1)} without any value ({shown}, counting "
                "from 0): the prior answers for them.",
            )
    return status
