"""The bridge to ArviZ, for versions 0.20 to 1.x: the only place that knows it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespca.arrays.types import FloatArray

ABSENT = (
    "R-hat, effective sample sizes and to_arviz() need ArviZ, which is not installed: "
    "pip install 'bayespca[bayes]'."
)


def load() -> Any:
    """The package, or None where it is not installed."""
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
    """R-hat (rank-normalised, split) and bulk effective sample size of each quantity, or None.

    Quantities are (chain, draw) or (chain, draw, k); the answers floats or arrays of length k.
    What cannot be known, such as R-hat of a single chain, is NaN.
    """
    arviz = load()
    if arviz is None:
        return None
    r_hat = {name: _each(arviz.rhat, values, n_chains=2) for name, values in quantities.items()}
    ess = {name: _each(arviz.ess, values, n_chains=1) for name, values in quantities.items()}
    return r_hat, ess


def _each(function: Callable[[FloatArray], Any], values: FloatArray, *, n_chains: int) -> Any:
    """A function of (chain, draw) for each entry, NaN where it needs more chains or draws."""
    if values.ndim > 2:
        each = [_each(function, v, n_chains=n_chains) for v in np.moveaxis(values, -1, 0)]
        return np.array(each, dtype=np.float64)
    if values.shape[0] < n_chains or values.shape[1] < 4:
        return float("nan")
    with np.errstate(all="ignore"):
        return float(function(np.ascontiguousarray(values)))


def extreme(found: Mapping[str, Any], which: Any) -> tuple[str, float]:
    """The quantity with the extreme value and that value; NaN, which compares to nothing, if none.

    Entries of a vector are counted from 1.
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


def warn_of_mixing(r_hat: Mapping[str, Any] | None, limit: float, remedy: str) -> None:
    """Warn of chains that are in different places; `remedy` names the options to raise."""
    name, value = extreme(r_hat or {}, np.nanmax)
    if value > limit:
        words = name.replace("_", " ")
        warnings.warn(
            f"the chains have not mixed: R-hat of the {words} is {value:.3f}, above {limit}. Raise "
            f"{remedy}.",
            ConvergenceWarning,
            stacklevel=4,
        )


def inference_data(
    posterior: Mapping[str, FloatArray],
    *,
    sample_stats: Mapping[str, FloatArray],
    dims: Mapping[str, list[str]],
    coords: Mapping[str, Any],
) -> Any:
    """ArviZ's InferenceData (0.x) or DataTree (1.x) of draws whose first axes are chain, draw."""
    arviz = load()
    if arviz is None:
        raise ImportError(ABSENT)
    groups = {"posterior": dict(posterior), "sample_stats": dict(sample_stats)}
    axes = {"dims": dict(dims), "coords": dict(coords)}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        return arviz.from_dict(groups, **axes)
    return arviz.from_dict(**groups, **axes)
