"""Checks of options, and of errors and weights given to `fit`, against each other and the data.

The table of each estimator has the values that an option may take by itself: see `_options`.
"""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.base import BaseEstimator

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray, RandomState
from bayespca.engines.decomposing import available_memory
from bayespca.inference.chains import Schedule
from bayespca.inference.fitting import Looping
from bayespca.inference.loop import Callback
from bayespca.lowrank.variational import Hyper
from bayespca.noise.asked import EVB
from bayespca.noise.errors import KnownErrors, taken_apart
from bayespca.sources.data import Data, Where
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.methods import METHODS

from ._options import one_of

ELSEWHERE = {
    Where.SPARSE: "sparse",
    Where.BLOCKS: "read in blocks",
    Where.PARTITIONS: "on the workers of Dask",
}
# Values of `n_components` that leave the number to the data.
FOUND = ("auto", "evb", None)
# scikit-learn's word for the number of components that Minka's evidence prefers.
MLE = "mle"
# Options of estimators that draw.
SCHEDULE = tuple(field.name for field in fields(Schedule))
ITERATED = ("evb", "epb", "emap", "vb", "pb", "pb-a", "pb-b", "map", "ml")


def largest_rank(n_components: Any) -> int | None:
    """The cap on the rank; None if there is none, as with "auto"."""
    return None if n_components in FOUND else int(n_components)


def check_method(estimator: BaseEstimator) -> None:
    """Raise if the method is a number of components, the first argument of scikit-learn's PCA."""
    given = estimator.method
    if isinstance(given, Real) or given in (None, "mle"):
        name = type(estimator).__name__
        raise ValueError(
            f"{name}({given!r}): the first argument is the method, not the number of components. "
            f"For what scikit-learn's PCA({given!r}) does write {name}('ml', "
            f"n_components={given!r}); for a number that is found, {name}()."
        )


def form_asked(estimator: BaseEstimator) -> ClosedForm:
    """The closed form for the method and the number of components."""
    method, given = METHODS[estimator.method], estimator.n_components
    noise: dict[str, Any] = {
        "noise_variance": estimator.noise_variance,
        "prior_variance": estimator.prior_variance,
    }
    if method.needs_rank:
        if given in FOUND[:-1]:
            raise ValueError(
                f"method={method.name!r} needs the number of components: give n_components, as a "
                "whole number or as a share of the variance such as 0.95."
            )
        if given == MLE:
            return ClosedForm(METHODS["laplace"], **noise)
        if isinstance(given, float | np.floating):
            return ClosedForm(method, share=float(given), **noise)
        return ClosedForm(method, EVERYTHING if given is None else int(given), **noise)
    if given == MLE or isinstance(given, float | np.floating):
        raise ValueError(
            f"n_components={given!r} is for method='ml', got method={method.name!r}, which finds "
            "the number of components itself. For Minka's evidence use method='laplace'. After a "
            "fit, `components_for(0.95)` says how many components hold 95 % of the signal."
        )
    return ClosedForm(method, largest_rank(given), **noise)


def check_rank_given(estimator: BaseEstimator, n_samples: int, n_features: int) -> None:
    """Raise for more components than there can be, if `n_components` is not just a limit."""
    given, most = estimator.n_components, min(n_samples, n_features)
    is_number = METHODS[estimator.method].needs_rank and isinstance(given, Integral)
    if is_number and int(given) > most:
        raise ValueError(
            f"n_components={given} must be between 0 and min(n_samples, n_features)={most}."
        )


def check_rank_asked(estimator: BaseEstimator) -> None:
    """Raise if options keep components that EVB drops, unless the method is EVB in closed form."""
    least = estimator.min_components
    if estimator.n_components == EVB:
        _check_other_ranks(estimator, "n_components='evb'")
    if least:
        _check_other_ranks(estimator, f"min_components={least}")
        most = largest_rank(estimator.n_components)
        if most is not None and least > most:
            raise ValueError(f"min_components={least} is more than n_components={most} allows.")


def _check_other_ranks(estimator: BaseEstimator, what: str) -> None:
    if estimator.method != "evb":
        raise ValueError(f"{what} needs method='evb', got method={estimator.method!r}.")
    if estimator.solver == "iterative":
        raise ValueError(f"{what} has a closed form: leave solver at 'auto'.")


def check_noise(estimator: BaseEstimator) -> None:
    """Raise if several noise variances lack a free energy that is bounded and comparable."""
    method, noise = estimator.method, estimator.noise
    if noise in ("auto", "isotropic"):
        return
    if method not in ("evb", "vb", "ml") or (method == "vb" and estimator.prior_variance is None):
        raise ValueError(
            f"noise={noise!r} works with method='evb', 'ml', and 'vb' with a prior_variance; "
            f"got method={method!r}, which can have noise='isotropic'."
        )
    if estimator.noise_variance != "auto":
        raise ValueError(
            f"noise={noise!r} finds its variances itself: leave noise_variance at 'auto', not "
            f"{estimator.noise_variance!r}."
        )


def check_order(estimator: BaseEstimator) -> None:
    """Raise if columns are declared to have an order where the noise cannot have one."""
    needed = {"method": "evb", "noise": "auto", "noise_variance": "auto"}
    chooses = all(getattr(estimator, name) == value for name, value in needed.items())
    if estimator.feature_order is True and not (chooses and estimator.solver != "iterative"):
        raise ValueError(
            "feature_order=True lets the evidence choose noise of neighbours, which needs "
            "method='evb', noise='auto', noise_variance='auto' and a solver that is not "
            "'iterative'; noise='autoregressive' takes it without a choice."
        )


def check_known_errors(estimator: BaseEstimator) -> None:
    """Raise if known errors are given to a method or solver without noise models."""
    if estimator.solver == "iterative" or estimator.method not in ("evb", "vb", "ml"):
        raise ValueError(
            "error_std and sample_weight work with method='evb', 'vb' and 'ml' and solver='auto'; "
            f"got method={estimator.method!r}, solver={estimator.solver!r}."
        )
    if estimator.method == "vb" and estimator.prior_variance is None:
        raise ValueError("error_std and sample_weight with method='vb' need a prior_variance.")
    if estimator.feature_order is True:
        raise ValueError(
            "error_std and sample_weight leave no choice of the noise, which feature_order=True "
            "needs: leave feature_order at 'auto'."
        )


def check_iterative(estimator: BaseEstimator) -> None:
    """Raise if the options rule out iteration, which needs a bounded free energy."""
    method = estimator.method
    if method not in ITERATED:
        raise ValueError(
            f"solver='iterative' works with method {', '.join(ITERATED)}; got {method!r}."
        )
    if method in ("vb", "pb", "pb-a", "pb-b", "map") and estimator.prior_variance is None:
        raise ValueError(
            f"solver='iterative' with method={method!r} needs a prior_variance: under a flat prior "
            "the free energy has no minimum."
        )
    _check_whole_number(estimator, "solver='iterative' needs")
    if estimator.noise not in ("auto", "isotropic"):
        raise ValueError(
            f"noise={estimator.noise!r} has an iteration of its own: leave solver at 'auto'."
        )


def _check_whole_number(estimator: BaseEstimator, who: str) -> None:
    """Raise for method='ml' with a share of the variance, or with all components."""
    form = form_asked(estimator)
    if form.share is not None or form.n_components == EVERYTHING:
        raise ValueError(
            f"{who} the number of components as a whole number for method='ml', got "
            f"n_components={estimator.n_components!r}."
        )


def check_for_holes(estimator: BaseEstimator) -> None:
    """Raise for options that cannot handle holes."""
    if estimator.solver == "closed":
        raise ValueError(
            "Input X contains NaN, and there is no closed form for holes: leave solver at 'auto', "
            "or fill the holes first."
        )
    if "laplace" in (estimator.method, form_asked(estimator).method.name):
        raise ValueError(
            "Input X contains NaN, and Minka's evidence (method='laplace') is for complete data: "
            "use method='evb', or fill the holes first."
        )
    if estimator.feature_order is True or estimator.sample_order is True:
        raise ValueError(
            "Input X contains NaN, and noise of neighbours is for complete data: leave "
            "feature_order and sample_order at 'auto', or fill the holes first."
        )
    _check_whole_number(estimator, "Input X contains NaN, which needs")
    flat = estimator.method == "map" and estimator.prior_variance is None
    if flat and estimator.n_components in ("auto", None):
        raise ValueError(
            "Input X contains NaN, and method='map' with a flat prior fits every observed cell "
            "exactly and says nothing about the holes: give prior_variance or n_components, or "
            "use method='evb'."
        )


def looping(estimator: BaseEstimator, callback: Callback | None) -> Looping:
    """Settings for the iterations of a fit, from the options that estimators share."""
    return Looping(
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        n_init=estimator.n_init,
        random_state=seed(estimator.random_state),
        callback=callback,
        checkpoint=estimator.checkpoint,
    )


def schedule(estimator: BaseEstimator) -> Schedule:
    """Lengths of chains, from the options of estimators that draw."""
    return Schedule(**{name: int(getattr(estimator, name)) for name in SCHEDULE})


def check_draws(estimator: BaseEstimator, numbers: int, what: str) -> None:
    """Raise if draws of so many numbers each do not fit into memory; `what` names them."""
    needed = 8.0 * estimator.n_chains * estimator.n_draws * numbers
    if needed > available_memory():
        raise ValueError(
            f"the draws of {what} would need {needed / 1e9:.1f} GB: lower n_components or n_draws "
            "(with thin to keep the length of the chains)."
        )


def hyperparameters(estimator: BaseEstimator) -> Hyper:
    """The constants of the priors of Bishop's model."""
    names = ("a_alpha", "b_alpha", "a_tau", "b_tau", "beta")
    asked = {name: getattr(estimator, name) for name in names}
    given: dict[str, Any] = {k: float(value) for k, value in asked.items() if value != "auto"}
    return Hyper(**given, open=tuple(name for name in names if name not in given))


def seed(random_state: RandomState) -> int | np.random.Generator | None:
    """A seed for NumPy's generators from scikit-learn's `random_state`."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return random_state


def generator(random_state: RandomState) -> np.random.Generator:
    return np.random.default_rng(seed(random_state))


def choose(name: str, value: object, options: tuple[object, ...]) -> None:
    """Raise unless `value` is one of the options."""
    one_of(*options).check(name, value)


# --- known errors ------------------------------------------------------------------------------


def known_errors(error_std: Any, sample_weight: Any, data: Data) -> KnownErrors | None:
    """Known errors, checked against the data; None if nothing informative was given."""
    if error_std is None and sample_weight is None:
        return None
    if data.where is not Where.DENSE:
        raise ValueError(
            "error_std and sample_weight are for dense data in memory; these are "
            f"{ELSEWHERE[data.where]}."
        )
    n, p = (int(size) for size in data.values.shape)
    found = KnownErrors() if error_std is None else _of_errors(_as_floats(error_std), n, p)
    if sample_weight is None:
        return found
    weights = _as_floats(sample_weight)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have the shape ({n},), got {weights.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights > 0)))
    if wrong.size:
        i = int(wrong[0])
        value = "zero" if weights[i] == 0 else f"{weights[i]:g}"
        advice = ": leave out rows that do not count" if weights[i] == 0 else ""
        raise ValueError(
            f"sample_weight must be positive and finite; it is {value} for row {i} (counting from "
            f"0){advice}."
        )
    weights = np.asarray(weights / weights.mean())
    if (weights == weights[0]).all():
        # Equal weights carry no information.
        return found if error_std is not None else None
    spread = 1 / np.sqrt(weights)
    rows = spread if found.rows is None else found.rows * spread
    return KnownErrors(rows, found.columns, found.cells)


def _as_floats(values: Any) -> FloatArray:
    values = values.to_numpy() if hasattr(values, "to_numpy") else values
    values = to_numpy(values) if is_array_api_obj(values) else values
    return np.asarray(values, dtype=np.float64)


def _of_errors(std: FloatArray, n: int, p: int) -> KnownErrors:
    if std.ndim == 1 and n != p and std.size in (n, p):
        # One for each row is a column, one for each column a row.
        std = std[:, None] if std.size == n else std[None, :]
    if std.ndim != 2 or std.shape not in ((n, p), (n, 1), (1, p)):
        hint = ""
        if std.ndim == 1 and n == p == std.size:
            hint = ", and with as many rows as columns its shape must say which: (n, 1) or (1, p)"
        raise ValueError(
            f"error_std must have the shape ({n}, {p}), ({n}, 1) or (1, {p}) for these data; got "
            f"{std.shape}{hint}."
        )
    wrong = np.argwhere(~(std > 0))
    if wrong.size:
        i, j = (int(k) for k in wrong[0])
        place = {(n, p): f"row {i}, column {j}", (n, 1): f"row {i}", (1, p): f"column {j}"}
        where = place.get(std.shape, "")
        raise ValueError(
            f"error_std must be positive (infinite for a cell that says nothing); it is "
            f"{std[i, j]:g}{f' in {where}' if where else ''} (counting from 0)."
        )
    if std.shape == (1, p):
        _check_finite(std[0], "column")
        return KnownErrors(columns=std[0])
    if std.shape == (n, 1):
        _check_finite(std[:, 0], "row")
        return KnownErrors(rows=std[:, 0])
    _check_finite(std.min(axis=1), "row")
    _check_finite(std.min(axis=0), "column")
    return taken_apart(std)


def _check_finite(smallest: FloatArray, what: str) -> None:
    """Raise if the errors of a whole row or column are infinite."""
    empty = np.flatnonzero(~np.isfinite(smallest))
    if empty.size:
        raise ValueError(
            f"error_std is infinite for all of {what} {int(empty[0])} (counting from 0), so "
            "nothing is known about it: leave it out."
        )
