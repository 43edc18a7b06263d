"""The bridge to ArviZ, versions 0.20 to 1.x: the only module that imports it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespca.arrays.types import FloatArray
from bayespca.spectrum.records import Status

ABSENT = (
    "R-hat, effective sample sizes and to_arviz() need ArviZ, which is not installed: "
    "pip install 'bayespca[bayes]'."
)


def load() -> Any:
    """The package `arviz`, or None if it is not installed."""
    try:
        with warnings.catch_warnings():
            # Version 0.23 announces version 1 once a day.
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        return None
    return arviz


def diagnostics(
    quantities: Mapping[str, FloatArray],
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """R-hat (rank-normalised, split) and bulk effective sample size of each quantity.

    Quantities are (chain, draw) or (chain, draw, k); results are floats or arrays of length k.
    Results that cannot be computed, such as R-hat of a single chain, are NaN. Returns None if ArviZ
    is not installed.
    """
    arviz = load()
    if arviz is None:
        return None
    r_hat = {name: _each(arviz.rhat, values, n_chains=2) for name, values in quantities.items()}
    ess = {name: _each(arviz.ess, values, n_chains=1) for name, values in quantities.items()}
    return r_hat, ess


def _each(function: Callable[[FloatArray], Any], values: FloatArray, *, n_chains: int) -> Any:
    """Apply a function of (chain, draw) to each entry; NaN if it needs more chains or draws."""
    if values.ndim > 2:
        each = [_each(function, v, n_chains=n_chains) for v in np.moveaxis(values, -1, 0)]
        return np.array(each, dtype=np.float64)
    if values.shape[0] < n_chains or values.shape[1] < 4:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(function(np.ascontiguousarray(values)))


def extreme(found: Mapping[str, Any], which: Any) -> tuple[str, float]:
    """Name and value of the quantity that `which`, a maximum or minimum, picks.

    Entries of a vector are counted from 1. If no value is known, the value is NaN, which exceeds no
    limit.
    """
    flat = {
        f"{name} {i + 1}" if np.ndim(values) else name: float(value)
        for name, values in found.items()
        for i, value in enumerate(np.atleast_1d(values))
    }
    known = {name: value for name, value in flat.items() if not np.isnan(value)}
    if not known:
        return "", float("nan")
    worst = float(which(list(known.values())))
    return next(name for name, value in known.items() if value == worst), worst


def mixing(r_hat: Mapping[str, Any] | None, limit: float, remedy: str) -> Status:
    """Advice if the largest R-hat is above `limit`; `remedy` names the options to raise."""
    name, value = extreme(r_hat or {}, np.nanmax)
    if not value > limit:
        return Status()
    return Status().but(
        "not-mixed",
        f"The chains have not mixed: R-hat of the {name.replace('_', ' ')} is {value:.3f}, above "
        f"{limit}. Raise {remedy}.",
    )


def warn(chains: Status) -> None:
    """Warn of all advice on chains, from a function that `fit` calls."""
    for one in chains.advice:
        warnings.warn(one.text, ConvergenceWarning, stacklevel=4)


def inference_data(
    posterior: Mapping[str, FloatArray],
    *,
    sample_stats: Mapping[str, FloatArray],
    dims: Mapping[str, list[str]],
    coords: Mapping[str, Any],
) -> Any:
    """Draws, with axes (chain, draw, …), as ArviZ's InferenceData (0.x) or DataTree (1.x)."""
    arviz = load()
    if arviz is None:
        raise ImportError(ABSENT)
    groups = {"posterior": dict(posterior), "sample_stats": dict(sample_stats)}
    axes = {"dims": dict(dims), "coords": dict(coords)}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        return arviz.from_dict(groups, **axes)
    return arviz.from_dict(**groups, **axes)
