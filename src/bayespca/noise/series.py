"""Rows in a series: noise that is correlated between a row and the one before it.

Noise that is autoregressive along the rows with correlation ψ becomes white in the innovations

    zᵢ = (xᵢ − ψ·xᵢ₋₁)/√(1 − ψ²),   i = 2, …, n,

whose components and noise have the variances of the rows themselves. So every noise model and the
probabilities of ranks apply to them; what is said holds given the first row. ψ has the most
evidence under EVB with columns in units of their noise. One column's noise has the same ψ as
another's, and scores have it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import minimize_scalar

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, on_host
from bayespca.arrays.types import Array, FloatArray
from bayespca.lowrank.filtering import innovations
from bayespca.lowrank.noise_models import BOTH, NOISES
from bayespca.lowrank.recognising import digests
from bayespca.lowrank.records import PCAFit
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Spectrum
from bayespca.spectrum.solving import solve
from bayespca.spectrum.tolerances import RESOLUTION_OF_SQUARES

from .asked import AUTO, Asked, compares

RowsFitter: TypeAlias = Callable[[Array, ClosedForm, inference.Looping, Asked], PCAFit]

# The code of the advice that rows form a series.
SERIES = "series"
# Most cells, and longest short side, for which ψ is sought.
MOST_CELLS, LONGEST_SHORT_SIDE = 5_000_000, 2000
# Values of ψ that are compared first, and the accuracy to which the best is found.
GRID, ACCURACY = np.append(np.linspace(-0.9, 0.95, 16), (0.98, 0.99, 0.999)), 0.002
# Nats that a series must gain besides ½ log of the number of cells, which teach ψ.
CLEARLY = 3.0
# Rounds of ψ and noise in turns, and the change of ψ that ends them.
ROUNDS, SETTLED = 4, 0.01


def can_be_series(shape: tuple[int, int], form: ClosedForm, asked: Asked) -> bool:
    """Whether a series can be fitted to data in memory that look like one."""
    small = math.prod(shape) <= MOST_CELLS and min(shape) <= LONGEST_SHORT_SIDE
    free = asked.noise == AUTO and asked.errors is None and compares(form)
    return small and free and asked.center and not asked.scale


def fit_series(
    X: Array, fit_rows: RowsFitter, form: ClosedForm, looping: inference.Looping, asked: Asked
) -> PCAFit | None:
    """Fit rows in a series; None if independent rows have as much evidence.

    `fit_rows` fits independent rows, here the innovations. Single cells have no noise of their own
    in a series.
    """
    host, looping = on_host(X), looping.for_part(SERIES)
    size = host.std(axis=0)
    size, before = np.where(size > 0, size, 1.0), 0.0
    for _ in range(ROUNDS):
        psi, gain = best_correlation(host / size)
        if gain < CLEARLY + 0.5 * math.log(host.size):
            return None
        if abs(psi - before) < SETTLED:
            break
        Z = innovations(X, psi)
        fit = fit_rows(Z, form, looping, asked)
        if NOISES[fit.noise.name].cells:
            fit = fit_rows(Z, form, looping, replace(asked, noise=BOTH.name))
        if not fit.noise_variance:
            return None
        before, own = psi, fit.noise.features
        size = np.sqrt(fit.noise_variance if own is None else np.where(own > 0, own, size**2))
    return _of_rows(fit, X, before)


def best_correlation(Y: FloatArray) -> tuple[float, float]:
    """ψ with the most evidence under EVB with equal noise, and its gain over ψ = 0 in nats."""
    energy = _free_energies(Y)
    values = [energy(psi) for psi in GRID]
    i = int(np.argmin(values))
    bounds = (GRID[max(i - 1, 0)], GRID[min(i + 1, GRID.size - 1)])
    best = minimize_scalar(energy, bounds=bounds, method="bounded", options={"xatol": ACCURACY})
    return float(best.x), energy(0.0) - float(best.fun)


def _free_energies(Y: FloatArray) -> Callable[[float], float]:
    """EVB's free energy of the rows after the first as a function of ψ.

    Products of the short side are quadratic in ψ, and are summed up once.
    """
    n, p = Y.shape
    Y = Y - Y.mean(axis=0)
    now, past = (Y[1:] - Y[1:].mean(axis=0), Y[:-1] - Y[:-1].mean(axis=0))
    if p < n:
        now, past = now.T, past.T
    own, cross, before = now @ now.T, now @ past.T, past @ past.T
    cross = cross + cross.T
    shape = (p, n - 2)

    def energy(psi: float) -> float:
        values = eigvalsh(own - psi * cross + psi * psi * before)[::-1]
        gamma = np.sqrt(np.maximum(values[: min(shape)], 0.0))
        spectrum = Spectrum(gamma, shape, resolution=RESOLUTION_OF_SQUARES)
        return solve(spectrum, "evb", other_ranks=False).free_energy

    return energy


def _of_rows(fit: PCAFit, X: Array, psi: float) -> PCAFit:
    """The fit of innovations as one of all rows; the first has what the second has."""
    n = int(X.shape[0])
    rows = np.maximum(np.arange(n) - 1, 0)
    noise, posterior = replace(fit.noise, series=psi), fit.posterior
    if noise.samples is not None:
        noise = replace(noise, samples=noise.samples[rows])
    if noise.outliers is not None:
        noise = replace(noise, outliers=noise.outliers[rows])
    jacobian = 0.5 * fit.n_samples * int(X.shape[1]) * math.log1p(-psi * psi)
    known = digests(X) if posterior.learned_from.size else posterior.learned_from
    # Generalised least squares: rows at the ends tell more. The mean of the innovations would be
    # divided by 1 − ψ, which drifts can make as small as .001.
    ends = X[0, :] + X[-1, :]
    within = array_namespace(X).sum(X[1:-1, :], axis=0)
    mean = (ends + (1 - psi) * within) / (2 + (n - 2) * (1 - psi))
    return replace(
        fit,
        posterior=replace(posterior, mean=mean, learned_from=known),
        noise=noise,
        n_samples=n,
        free_energy=fit.free_energy + jacobian,
        status=fit.status.but(
            SERIES,
            f"Rows form a series: the noise of a row has a correlation of {psi:.2f} with that of "
            "the row before. The number of components and its probability account for it; shuffle "
            "the rows if their order means nothing.",
        ),
    )
