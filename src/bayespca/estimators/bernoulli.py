"""`BernoulliMixture`: clusters of rows of zeros and ones."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY
from numbers import Integral
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bayespca import inference
from bayespca.arrays.types import FloatArray, Input, Numbers, RandomState
from bayespca.inference.result import extended
from bayespca.mixtures.bernoulli import posterior as read
from bayespca.mixtures.bernoulli.data import bernoulli_rows
from bayespca.mixtures.bernoulli.family import Bayes, BernoulliFamily, MaximumLikelihood
from bayespca.mixtures.bernoulli.fit import BernoulliFit, BernoulliModel

from . import _binary, _validation
from ._base import PER_COMPONENT, PER_ENTRY, Fitted
from ._options import AUTO, NONE, POSITIVE, Auto, Option, current, several, table, whole


def _has_likelihood(estimator: BernoulliMixture) -> bool:
    if current(estimator, "method") != "ml":
        raise AttributeError(
            "aic and bic penalise a maximum of the likelihood, which only method='ml' finds: "
            "compare free_energy_, or use select_components."
        )
    return True


def _seen_before(name: str, what: str) -> Option:
    """The option for a parameter of the Beta priors."""
    return Option(
        f"{name} of the Beta priors: the number of {what} that each cell of each cluster counts as "
        'already seen; ``"auto"`` is 1. Only with ``method="vb"``.',
        AUTO | POSITIVE,
    )


class BernoulliMixture(DensityMixin, _binary.BinaryReader[BernoulliFit]):
    """A mixture of products of Bernoulli distributions, for tables of zeros and ones with holes.

    A row belongs to cluster k with probability π_k, and its cells are then 1 with probabilities
    p_kd, independently of each other. NaN marks holes, both in `fit` and afterwards: only observed
    cells count. Most parameters have the names that scikit-learn's mixtures use.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import BernoulliMixture
    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat([0, 1], 50)
    >>> X = (rng.random((100, 10)) < np.array([[0.9], [0.1]])[kind]).astype(int)
    >>> model = BernoulliMixture(5, random_state=0).fit(X)
    >>> model.n_components_
    2
    >>> sorted(model.means_.mean(axis=1).round(1).tolist())
    [0.1, 0.9]
    """

    options = table(
        *("max_iter", "tol", "binarize", "checkpoint", "verbose"),
        n_components=Option(
            'Number of clusters. With ``method="vb"`` it is an upper bound: clusters that the data '
            "do not support disappear.",
            whole(1),
        ),
        method=Option(
            '``"ml"`` is maximum likelihood; ``"vb"`` has a Dirichlet prior on the weights and '
            "Beta priors on the probabilities, so values that were never seen keep a probability.",
        ),
        n_init="Number of starts; the lowest free energy wins.",
        init='How sweeps start. ``"k-means++"`` assigns rows to the nearest of seeds drawn far '
        'from each other, ``"random_from_data"`` to the nearest of rows drawn at random; '
        '``"random"`` draws responsibilities at random.',
        weights_init=Option(
            "Initial weights of the clusters.",
            NONE | several("one number for each cluster", "array of shape (n_components,)"),
        ),
        means_init=Option(
            "Initial probabilities of 1.",
            NONE
            | several(
                "one row of probabilities for each cluster",
                "array of shape (n_components, n_features)",
            ),
        ),
        weight_concentration_prior='α₀ of the Dirichlet prior, ``"auto"`` for 1/n_components; '
        'smaller ones favour fewer clusters. Only with ``method="vb"``.',
        ones_prior=_seen_before("a₀", "ones"),
        zeros_prior=_seen_before("b₀", "zeros"),
        random_state="Seed of the starts, and of `sample`.",
    )

    weights_ = Fitted(
        PER_COMPONENT,
        "Weights of the clusters, largest first unless `weights_init` or `means_init` gives "
        'another order; posterior means with ``method="vb"``.',
        lambda fit: fit.posterior.weights,
    )
    means_ = Fitted(
        PER_ENTRY, "Probability of 1 in each cell of each cluster.", lambda fit: fit.posterior.means
    )
    means_std_ = Fitted(
        PER_ENTRY,
        'Posterior standard deviation of these probabilities; 0 with ``method="ml"``.',
        lambda fit: fit.posterior.means_std,
    )
    n_components_ = Fitted("int", "Number of clusters that are left.")
    free_energy_ = Fitted(
        "float",
        '−log of the evidence bound with ``method="vb"``, −log likelihood with '
        '``method="ml"``, in nats.',
    )
    lower_bound_ = Fitted(
        "float",
        "Negative of `free_energy_`: a sum over rows, where scikit-learn's is a mean over rows.",
    )

    n_components: int = 1
    _: KW_ONLY
    method: Literal["vb", "ml"] = "vb"
    tol: float = 1e-6
    init: Literal["k-means++", "random_from_data", "random"] = "k-means++"
    weights_init: Any = None
    means_init: Any = None
    weight_concentration_prior: float | Auto = "auto"
    ones_prior: float | Auto = "auto"
    zeros_prior: float | Auto = "auto"
    binarize: float | None = None

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Input,
        y: object = None,
        sample_weight: Input = None,
        *,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit the mixture. A row with weight w counts as w rows.

        `callback` is as in `BayesianPCA`. If an error occurs, the estimator stays as it was.
        """
        start, asked = time.perf_counter(), self._chosen()
        data = _binary.read(self, X, reset=True)
        weights: FloatArray | None = None
        if sample_weight is not None:
            checks: dict[str, Any] = {"dtype": np.float64, "ensure_non_negative": True}
            weights = np.asarray(_check_sample_weight(sample_weight, data.ones, **checks))
            if not weights.any():
                raise ValueError("sample_weight is 0 for every row: at least one must count.")
        counted = np.ones(data.shape[0], dtype=np.bool_) if weights is None else weights > 0
        if data.seen is not None:
            counted &= data.seen.any(axis=1)
        K, most = int(asked.n_components), int(counted.sum())
        if most < K:
            raise ValueError(
                f"n_components={K} is more than the rows of X that have a value and a weight "
                f"(n_samples={most}): give at most {most}."
            )
        model = BernoulliModel(
            n_components=K,
            family=_family(asked, K),
            init=asked.init,
            weights_init=_checked_weights_init(asked.weights_init, K),
            means_init=_checked_means_init(asked.means_init, (K, data.shape[1])),
        )
        looping = _validation.looping(self, callback)
        fitted = inference.fit(model, bernoulli_rows(data, weights), looping)
        self._keep(extended(fitted, BernoulliFit), data.features)
        (n, p), K = data.shape, self.n_components_
        found = f"{n}×{p}, {asked.method}: {K} cluster{'s' * (K != 1)}"
        energy = f"free energy {fitted.free_energy:.6g} after {fitted.n_iter} sweeps"
        self._report(fitted, f"{found}, {energy}", start)
        return self

    def fit_predict(
        self, X: Input, y: object = None, sample_weight: Input = None
    ) -> NDArray[np.intp]:
        """Fit the mixture and return the most probable cluster of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    # --- clusters ------------------------------------------------------------------------------

    def predict_proba(self, X: Input) -> FloatArray:
        """Probability of each cluster for each row, given its observed cells."""
        data = self._read(X)
        return read.responsibilities(self.posterior_, data)

    def predict(self, X: Input) -> NDArray[np.intp]:
        """The most probable cluster of each row."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def impute(self, X: Input, kind: Literal["probability", "value"] = "probability") -> Numbers:
        """Rows with their holes (NaN) filled by the probability of 1; other cells stay.

        With ``kind="value"`` holes are filled by 0 or 1, whichever is more probable.
        """
        data = self._read(X)
        found = read.probabilities(self.posterior_, data)
        return _binary.filled(data, found, kind)

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> FloatArray:
        """Log probability of the known cells of each row.

        With ``method="vb"`` it is that of the posterior predictive distribution.
        """
        data = self._read(X)
        return read.log_density(self.posterior_, data)

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(
        self, n_samples: int = 1, random_state: RandomState = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """New rows, and their clusters."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, got {n_samples!r}.")
        seed = self.random_state if random_state is None else random_state
        return read.sample(self.posterior_, int(n_samples), _validation.generator(seed))

    @available_if(_has_likelihood)  # type: ignore[untyped-decorator]
    def bic(self, X: Input) -> float:
        """Bayesian information criterion on X, smaller is better; with ``method="ml"``."""
        densities = self.score_samples(X)
        return float(-2 * densities.sum() + self._n_parameters() * np.log(densities.size))

    @available_if(_has_likelihood)  # type: ignore[untyped-decorator]
    def aic(self, X: Input) -> float:
        """Akaike's information criterion on X, smaller is better; with ``method="ml"``."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())

    def _n_parameters(self) -> int:
        return int(self.means_.size + self.weights_.size - 1)


def _family(asked: SimpleNamespace, K: int) -> BernoulliFamily:
    defaults = {"weight_concentration_prior": 1 / K, "ones_prior": 1.0, "zeros_prior": 1.0}
    given = {name: value for name in defaults if (value := getattr(asked, name)) != "auto"}
    if asked.method == "vb":
        return Bayes(*(float(value) for value in (defaults | given).values()))
    for name in given:
        raise ValueError(
            f"{name} is a prior, which method='ml' does not have: leave it at 'auto', or use "
            "method='vb'."
        )
    return MaximumLikelihood()


def _checked_weights_init(weights: Any, K: int) -> FloatArray | None:
    if weights is None:
        return None
    found = np.asarray(weights, dtype=np.float64)
    fits = found.shape == (K,) and (found > 0).all() and abs(found.sum() - 1) < 1e-6
    if not fits:
        raise ValueError(
            f"weights_init must be {K} positive numbers that sum to 1, one for each cluster; got "
            f"an array of shape {found.shape} with sum {found.sum():.6g}."
        )
    return found


def _checked_means_init(means: Any, shape: tuple[int, int]) -> FloatArray | None:
    if means is None:
        return None
    found = np.asarray(means, dtype=np.float64)
    if found.shape != shape or not ((found >= 0) & (found <= 1)).all():
        raise ValueError(
            f"means_init must be probabilities from 0 to 1 of shape {shape}, clusters × features; "
            f"got an array of shape {found.shape} with values from {found.min():.3g} to "
            f"{found.max():.3g}."
        )
    return found
