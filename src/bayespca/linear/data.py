"""Decomposed complete data, to which the closed form and sweeps are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.engines.records import Decomposition
from bayespca.sources.columns import column_scales, rescaled_columns
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Spectrum


@dataclass(frozen=True, eq=False)
class Decomposed:
    """A decomposition, and the divisors of columns before it; None if they were not divided."""

    found: Decomposition
    scale: Array = None

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum at unit scale."""
        return self.found.spectrum.at_unit_scale()

    @property
    def gamma(self) -> FloatArray:
        """Singular values at unit scale."""
        return self.spectrum.singular_values

    @property
    def sum_of_squares(self) -> float:
        """‖V‖² at unit scale."""
        return self.spectrum.sum_of_squares

    @property
    def mean_square(self) -> float:
        """Mean square of the entries of V, at unit scale."""
        L, M = self.spectrum.shape
        return self.sum_of_squares / (L * M)

    @property
    def unit(self) -> float:
        """Factor that takes numbers at unit scale to the units of the data."""
        return self.spectrum.scale

    @property
    def log_scale(self) -> float:
        """Σ log of the divisors of the columns."""
        if self.scale is None:
            return 0.0
        xp = array_namespace(self.scale)
        return float(xp.sum(xp.log(self.scale)))

    def in_units(self, energy: float) -> float:
        """The free energy of the data before their columns were divided."""
        return energy + self.found.spectrum.shape[1] * self.log_scale


def decomposed(
    X: Any,
    form: ClosedForm,
    *,
    n_needed: int,
    center: bool,
    scale: bool,
    engine: str,
    random_state: int | np.random.Generator | None,
) -> Decomposed:
    """Decompose an array, a sparse matrix, a source of blocks or partitions."""
    scales = column_scales(X, center=center) if scale else None
    found = decompose(
        X if scales is None else rescaled_columns(X, scales),
        plan=form,
        center=center,
        engine=engine,
        n_needed=n_needed,
        random_state=random_state,
        dead_rows=form.sets_rows_aside,
    )
    if scales is not None:
        scales = array_namespace(scales).astype(scales, X.dtype)
    return Decomposed(found, scales)
