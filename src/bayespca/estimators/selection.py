"""The number of components by cross-validation: the log-likelihood of held-out rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold, check_cv, cross_val_score

from bayespca.arrays.types import FloatArray, Input, RandomState

from . import _validation


@dataclass(frozen=True, eq=False)
class ComponentSelection:
    """Held-out log-likelihood by number of components.

    Attributes
    ----------
    n_components
        The numbers that were tried, in increasing order: (m,).
    scores
        Mean log-likelihood of a held-out row, in nats, of each number in each fold: (m, folds).
    """

    n_components: NDArray[np.int64]
    scores: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean over the folds."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the mean, from the spread of the folds."""
        folds = self.scores.shape[1]
        return np.asarray(self.scores.std(axis=1, ddof=1) / np.sqrt(folds))

    @property
    def best(self) -> int:
        """The number with the highest mean; in a tie, the smallest."""
        return int(self.n_components[np.argmax(self.mean)])

    @property
    def within_one_error(self) -> int:
        """The smallest number whose mean is within one standard error of the best."""
        top = int(np.argmax(self.mean))
        near = self.mean >= self.mean[top] - self.standard_error[top]
        return int(self.n_components[np.argmax(near)])

    def __str__(self) -> str:
        lines = [f"{'components':>10s}{'log-likelihood':>18s}{'±':>10s}"]
        marks = {self.within_one_error: " within one standard error", self.best: " best"}
        for k, mean, error in zip(self.n_components, self.mean, self.standard_error, strict=True):
            lines.append(f"{k:10d}{mean:18.4f}{error:10.2g}{marks.get(int(k), '')}")
        return "\n".join(lines)


def select_components(
    estimator: BaseEstimator,
    X: Input,
    n_components: Iterable[int],
    cv: Any = 5,
    *,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> ComponentSelection:
    """Cross-validate the number of components of a density model.

    Parameters
    ----------
    estimator
        Anything with a parameter `n_components` and a method `score_samples` or `score`, the log
        density of rows: scikit-learn's ``GaussianMixture``, our mixtures. It is not fitted itself.
    X
        The data, as the estimator takes them.
    n_components
        The numbers to try, such as ``range(1, 11)``.
    cv
        Number of folds, to which rows are assigned at random, or a splitter of scikit-learn.
    n_jobs
        Number of folds to fit in parallel, as in scikit-learn.
    random_state
        Seed of the folds; `estimator` has a seed of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> from bayespca import select_components
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) + 8 * rng.integers(2, size=(200, 1))
    >>> select_components(GaussianMixture(random_state=0), X, range(1, 4)).best
    2
    """
    given = [n_components] if isinstance(n_components, Integral) else list(n_components)
    wrong = [k for k in given if not isinstance(k, Integral) or k < 0]
    if wrong or not given:
        raise ValueError(
            "n_components must be whole numbers to try, such as range(1, 11); got "
            f"{wrong[0] if wrong else n_components!r}."
        )
    counts, name = sorted({int(k) for k in given}), type(estimator).__name__
    if "n_components" not in estimator.get_params(deep=False):
        raise ValueError(f"{name} has no parameter n_components to choose.")
    if not (hasattr(estimator, "score_samples") or hasattr(estimator, "score")):
        raise ValueError(
            f"{name} has neither score_samples nor score: there is no log-likelihood to compare."
        )
    if isinstance(cv, Integral):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv!r}.")
        # With an integer seed, the folds are the same for all numbers of components.
        seed = int(_validation.generator(random_state).integers(2**31))
        folds = KFold(int(cv), shuffle=True, random_state=seed)
    else:
        folds = check_cv(cv)
    scores = [
        cross_val_score(
            clone(estimator).set_params(n_components=count),
            X,
            scoring=_mean_log_likelihood,
            cv=folds,
            n_jobs=n_jobs,
            error_score="raise",
        )
        for count in counts
    ]
    return ComponentSelection(np.array(counts, dtype=np.int64), np.array(scores))


def _mean_log_likelihood(fitted: Any, X: Input, y: object = None) -> float:
    if hasattr(fitted, "score_samples"):
        return float(np.mean(fitted.score_samples(X)))
    return float(fitted.score(X))
