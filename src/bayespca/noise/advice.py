"""What a fit says of its noise in words: where another has more evidence, and outlying rows."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.lowrank.noise_models import (
    AUTOREGRESSIVE,
    NOISES,
    OUTLYING_ROWS,
    STUDENT_CELLS,
    NoiseModel,
)
from bayespca.lowrank.records import PCAFit
from bayespca.spectrum.records import Status

from .choosing import CHOICES, sides
from .signs import Signs

CODE, CONSTANT = "other-noise", "constant-neighbour"
# Nats that are worth a sentence: a few are found in 2 % of small tables with equal noise.
WORTH_SAYING = 10.0
# So many outlying rows are named.
NAMED_ROWS = 5


def against(fit: PCAFit, better: PCAFit, asked: str) -> PCAFit:
    """Advice on a fit with a given noise model, if another one has more evidence."""
    name = better.noise.name
    noise = NOISES[name]
    nats = better.noise.evidence[name] - better.noise.evidence.get(fit.noise.name, 0.0)
    if nats < WORTH_SAYING:
        return fit
    count = better.n_components
    text = (
        f"{noise.reason}: noise={name!r} has {nats:,.0f} nats more evidence and finds {count} "
        f"component{'' if count == 1 else 's'}; this fit has noise={asked!r}, which finds "
        f"{fit.n_components}."
    )
    return replace(fit, status=fit.status.but(CODE, text))


def at_least(fit: PCAFit, signs: Signs, asked: NoiseModel, why: str | None = None) -> PCAFit:
    """The same if others were not fitted: what residuals promise, and why it was not tried."""
    seen = signs.seen - sides(asked)
    noise = richest(seen | sides(asked))
    gain = sum(getattr(signs, side) for side in seen & sides(noise))
    if noise == asked or gain < WORTH_SAYING:
        return fit
    return _but(fit, noise, gain, why or f"this fit has noise={asked.name!r}.")


def with_cells(fit: PCAFit, signs: Signs) -> PCAFit:
    """A fit of rows on workers, where residuals promise something of noise of cells."""
    if "cells" not in signs.seen:
        return fit
    why = "it needs data in memory: fit X.compute(), or some of the rows."
    return _but(fit, STUDENT_CELLS, signs.cells, why)


def _but(fit: PCAFit, noise: NoiseModel, gain: float, why: str) -> PCAFit:
    text = (
        f"{noise.reason}: noise={noise.name!r} would have more evidence, by {gain:,.0f} nats or "
        f"more in the rows looked at; {why}"
    )
    return replace(fit, status=fit.status.but(CODE, text))


def richest(seen: Set[str]) -> NoiseModel:
    """The noise model with most of what was seen, and nothing else."""
    return max((model for model in CHOICES if sides(model) <= seen), key=lambda m: len(sides(m)))


def with_constant(fit: PCAFit, constant: NDArray[np.intp]) -> PCAFit:
    """A fit of features whose neighbours have noise in common, some of which do not vary."""
    if not constant.size:
        return fit
    text = (
        f"{AUTOREGRESSIVE.reason}, but noise={AUTOREGRESSIVE.name!r} was not tried because feature "
        f"number {constant[0]} (counting from 0) does not vary: leave such features out."
    )
    return replace(fit, status=fit.status.but(CONSTANT, text))


def with_advice_of(fit: PCAFit, some: PCAFit) -> PCAFit:
    """A fit with the advice on constant features that a fit of some of its rows gave."""
    said = tuple(one for one in some.status.advice if one.code == CONSTANT)
    return replace(fit, status=fit.status + Status(advice=said))


def naming_outliers(fit: PCAFit) -> PCAFit:
    """Add advice on rows that lie far from all others, if they are few."""
    outliers = fit.noise.outliers
    if outliers is None or outliers.ndim != 1:
        return fit
    rows = np.flatnonzero(outliers > 0.5)
    if not 0 < rows.size <= max(1, 0.02 * outliers.size):
        return fit
    listed = ", ".join(map(str, rows[:NAMED_ROWS])) + (", …" if rows.size > NAMED_ROWS else "")
    one = rows.size == 1
    verb, whose, carry = ("is", "its", "it carries") if one else ("are", "their", "they carry")
    text = (
        f"{rows.size} of {outliers.size} rows {verb} outlying ({listed}, counting from 0): {whose} "
        f"noise is probably more than three times the usual, so {carry} less weight."
    )
    return replace(fit, status=fit.status.but(OUTLYING_ROWS, text))
