"""Advice on noise: a model with more evidence, constant features, outlying rows."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.lowrank.noise_models import (
    AUTOREGRESSIVE,
    OUTLYING_ROWS,
    STUDENT_CELLS,
    NoiseModel,
)
from bayespca.lowrank.records import PCAFit
from bayespca.spectrum.records import Status

from .choosing import CHOICES, sides
from .signs import Signs

CODE, CONSTANT = "other-noise", "constant-neighbour"
# Least gain in nats to mention: 2 % of small tables with equal noise gain a few by chance.
WORTH_SAYING = 10.0
# Rows are outlying above this probability. Most of them to name.
OUTLYING = 0.5
NAMED_ROWS = 5


def at_least(fit: PCAFit, signs: Signs, asked: NoiseModel, why: str | None = None) -> PCAFit:
    """Add advice to a fit with a given noise model: the gain that residuals promise with another.

    `why` says why the other model was not tried.
    """
    seen = signs.seen - sides(asked)
    noise = richest(seen | sides(asked))
    gain = sum(getattr(signs, side) for side in seen & sides(noise))
    if noise == asked or gain < WORTH_SAYING:
        return fit
    return _but(fit, noise, gain, why or f"this fit used noise={asked.name!r}.")


def with_cells(fit: PCAFit, signs: Signs) -> PCAFit:
    """Add advice to a fit of rows on workers if residuals promise a gain from noise of cells."""
    if "cells" not in signs.seen:
        return fit
    why = "it needs data in memory: pass X.compute(), or fit some of the rows."
    return _but(fit, STUDENT_CELLS, signs.cells, why)


def _but(fit: PCAFit, noise: NoiseModel, gain: float, why: str) -> PCAFit:
    text = (
        f"{noise.reason}: noise={noise.name!r} would have at least {gain:,.0f} nats more evidence "
        f"in the rows examined; {why}"
    )
    return replace(fit, status=fit.status.but(CODE, text))


def richest(seen: Set[str]) -> NoiseModel:
    """The noise model that covers the most signs seen and contains nothing else."""
    return max((model for model in CHOICES if sides(model) <= seen), key=lambda m: len(sides(m)))


def with_constant(fit: PCAFit, constant: NDArray[np.intp]) -> PCAFit:
    """Add advice if constant features kept autoregressive noise from being tried."""
    if not constant.size:
        return fit
    text = (
        f"{AUTOREGRESSIVE.reason}, but noise={AUTOREGRESSIVE.name!r} was not tried because feature "
        f"{constant[0]} (counting from 0) is constant; leave out constant features."
    )
    return replace(fit, status=fit.status.but(CONSTANT, text))


def with_advice_of(fit: PCAFit, some: PCAFit) -> PCAFit:
    """Copy the advice on constant features from a fit of some of the rows."""
    said = tuple(one for one in some.status.advice if one.code == CONSTANT)
    return replace(fit, status=fit.status + Status(advice=said))


def named_rows(fit: PCAFit) -> list[int]:
    """The rows that the advice on outlying rows names."""
    if OUTLYING_ROWS not in fit.status or fit.noise.outliers is None:
        return []
    return [int(row) for row in np.flatnonzero(fit.noise.outliers > OUTLYING)[:NAMED_ROWS]]


def naming_outliers(fit: PCAFit) -> PCAFit:
    """Add advice that names outlying rows, if they are few."""
    outliers = fit.noise.outliers
    if outliers is None or outliers.ndim != 1:
        return fit
    rows = np.flatnonzero(outliers > OUTLYING)
    if not 0 < rows.size <= max(1, 0.02 * outliers.size):
        return fit
    listed = ", ".join(map(str, rows[:NAMED_ROWS])) + (", …" if rows.size > NAMED_ROWS else "")
    one = rows.size == 1
    verb, whose, get = ("is", "its", "it gets") if one else ("are", "their", "they get")
    text = (
        f"{rows.size} of {outliers.size} rows {verb} outlying ({listed}, counting from 0): {whose} "
        f"noise is probably more than three times the typical level, so {get} less weight."
    )
    return replace(fit, status=fit.status.but(OUTLYING_ROWS, text))
