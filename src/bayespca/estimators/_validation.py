"""Checks of options against each other and the data, and settings derived from them.

The table of each estimator has the values that an option may take by itself: see `_options`.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from bayespca.arrays.types import RandomState
from bayespca.inference.fitting import Looping
from bayespca.inference.loop import Callback
from bayespca.lowrank.variational import Hyper
from bayespca.noise.asked import EVB
from bayespca.spectrum.forms import EVERYTHING, ClosedForm
from bayespca.spectrum.methods import METHODS

from ._constraints import one_of

# Values of `n_components` that leave the number to the data.
FOUND = ("auto", "evb", None)
# scikit-learn's word for the number of components that Minka's evidence prefers.
MLE = "mle"
ITERATED = ("evb", "epb", "emap", "vb", "pb", "pb-a", "pb-b", "map", "ml")


def largest_rank(n_components: Any) -> int | None:
    """The cap on the rank; None if there is none, as with "auto"."""
    return None if n_components in FOUND else int(n_components)


def largest_rank_of_starts(estimator: BaseEstimator) -> int | None:
    """Same as `largest_rank`, but raise if several starts are wanted and none is random."""
    if estimator.init == "closed" and estimator.n_init != 1:
        raise ValueError(
            f"n_init={estimator.n_init} asks for several starts, but init='closed' has only one: "
            "use init='random', or leave n_init at 1."
        )
    return largest_rank(estimator.n_components)


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


def check_known_errors(estimator: BaseEstimator) -> None:
    """Raise if known errors are given to a method or solver without noise models."""
    if estimator.solver == "iterative" or estimator.method not in ("evb", "vb", "ml"):
        raise ValueError(
            "error_std and sample_weight work with method='evb', 'vb' and 'ml' and solver='auto'; "
            f"got method={estimator.method!r}, solver={estimator.solver!r}."
        )
    if estimator.method == "vb" and estimator.prior_variance is None:
        raise ValueError("error_std and sample_weight with method='vb' need a prior_variance.")


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


def check_engine_for_holes(estimator: BaseEstimator) -> None:
    """Raise for an engine that a fit with holes would ignore."""
    if estimator.engine != "auto":
        raise ValueError(
            f"Input X contains NaN, which are holes for engine='auto'; engine={estimator.engine!r} "
            "is for complete data: leave it at 'auto', or fill the holes first."
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


def hyperparameters(estimator: BaseEstimator) -> Hyper:
    """The constants of the priors of Bishop's model."""
    names = ("a_alpha", "b_alpha", "a_tau", "b_tau", "beta")
    asked = {name: getattr(estimator, name) for name in names}
    given: dict[str, Any] = {k: float(value) for k, value in asked.items() if value != "auto"}
    return Hyper(**given, open=tuple(name for name in names if name not in given))


def checked_clusters(n_components: Any, max_components: Any, n_rows: int) -> tuple[int, bool]:
    """Number of clusters to start with, and whether the fit chooses their number."""
    if n_components == "auto":
        return max(1, min(int(max_components), n_rows // 5)), True
    if int(n_components) > n_rows:
        raise ValueError(
            f"n_components={n_components} clusters need at least as many rows, and there are "
            f"{n_rows} (n_samples = {n_rows}) that hold a value and count: lower n_components."
        )
    return int(n_components), False


def checked_ranks(ranks: Any, method: str, n_clusters: int, choose: bool) -> tuple[int | None, ...]:
    """The rank of each cluster: the largest allowed, None for "auto"; the rank itself for "ml"."""
    if isinstance(ranks, str):
        if method == "ml":
            raise ValueError("method='ml' needs the rank of the clusters: give ranks.")
        return (None,) * n_clusters
    several = not isinstance(ranks, Integral)
    given = list(ranks) if several else [ranks] * n_clusters
    if several and (choose or len(given) != n_clusters):
        asked = "'auto'" if choose else n_clusters
        raise ValueError(
            f"ranks has {len(given)} entries, one for each cluster, but n_components is {asked}: "
            "give as many, or one number for all."
        )
    return tuple(int(one) for one in given)


def check_concentration(value: object, method: str) -> None:
    if value != "auto" and method == "ml":
        raise ValueError(
            "weight_concentration_prior is a prior of the weights, which method='ml' "
            "point-estimates: leave it at 'auto'."
        )


def check_some_weight(weights: NDArray[np.float64]) -> None:
    if not weights.any():
        raise ValueError("sample_weight is 0 for all rows: at least one must be positive.")


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
