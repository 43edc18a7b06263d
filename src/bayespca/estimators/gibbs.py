"""`GibbsPCA`: Bayesian PCA by exact sampling, a standard for judging the approximations."""

from __future__ import annotations

import time
import warnings
from dataclasses import KW_ONLY, replace
from typing import Any, Self, TypeAlias

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.arrays.types import Array, ArrayOrPair, Input, RandomState
from bayespca.linear.gibbs import posterior as reading
from bayespca.linear.gibbs.fit import fit as draw
from bayespca.linear.gibbs.step import GibbsData, compress, suited
from bayespca.spectrum.records import Status

from . import _arviz, _input, _validation
from ._base import PER_COMPONENT, PER_ENTRY, PER_FEATURE, Estimator, Fitted, Transforming
from ._options import COLUMNS, Auto, Option, table, whole
from .pca import RankWarning
from .wording import in_brief

# Limits of Vehtari et al., "Rank-normalization, folding, and localization" (2021).
LARGEST_R_HAT = 1.01
LEAST_ESS_PER_CHAIN = 100
# R-hat or effective sample sizes by quantity; None without ArviZ.
Judged: TypeAlias = dict[str, Any] | None


class GibbsPCA(Transforming, Estimator[reading.GibbsFit]):
    """Bayesian PCA by Markov chain Monte Carlo: no approximation but the finite number of draws.

    The model is that of Bishop's "Variational principal components" (Bishop 1999)::

        t = Wx + μ + ε,  x ~ N(0, I),  ε ~ N(0, τ⁻¹I),
        wᵢ ~ N(0, αᵢ⁻¹I),  αᵢ ~ Γ(a_α, b_α),  μ ~ N(0, β⁻¹I),  τ ~ Γ(a_τ, b_τ).

    A sweep costs the same for any number of samples. By default the prior is broad for the data at
    hand; constants that you give are in the units of the data, and `fit` gives a `RankWarning` if
    they make it narrow. Data must be complete.

    >>> from bayespca import GibbsPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = GibbsPCA(3, n_draws=500, random_state=0).fit(X)
    >>> model.draws_.W.shape  # chains, draws, features, columns
    (4, 500, 12, 3)
    """

    options = table(
        *("a_alpha", "a_tau", "b_tau", "beta", "verbose"),
        n_components=COLUMNS,
        n_draws=Option("Number of draws to keep from each chain.", whole(1)),
        n_warmup=Option("Number of sweeps before the first draw.", whole(0)),
        n_chains=Option("Number of chains.", whole(1)),
        thin=Option("Number of sweeps for each draw.", whole(1)),
        b_alpha="Rate of the prior of αᵢ, in the units of the data squared. Columns that are "
        "switched off have ‖w‖² of at least about b_alpha, so it should be much smaller than the "
        'noise variance. ``"auto"`` takes 10⁻⁹ times the noise variance that the closed form of '
        "EVB estimates.",
        random_state="Seed; each chain gets a generator of its own, spawned from this one.",
    )

    components_ = Fitted(PER_ENTRY, "Leading eigenvectors of the posterior mean of WWᵀ.")
    components_std_ = Fitted(
        PER_ENTRY,
        "Root mean square distance of the principal axes of the draws from `components_`, after "
        "matching order and signs.",
    )
    n_components_ = Fitted("int", "The most probable number of active components.")
    rank_posterior_ = Fitted(
        "array",
        "Probability of each number of active components, index = number. In a draw, a component "
        "is active if its variance exceeds ≈ 2.5·√(d/(n − 1)) times the noise variance, where "
        "`BayesianPCA` would keep it. Below √(d/(n − 1)) nothing can be told from noise.",
    )
    noise_variance_ = Fitted("float", "Posterior mean of 1/τ.")
    noise_variance_std_ = Fitted("float", "Posterior standard deviation of 1/τ.")
    signal_variance_ = Fitted(PER_COMPONENT, "Posterior mean of the largest eigenvalues of WWᵀ.")
    signal_variance_std_ = Fitted(
        PER_COMPONENT, "Posterior standard deviation of the largest eigenvalues of WWᵀ."
    )
    mean_ = Fitted(PER_FEATURE, "Posterior mean of μ.")
    mean_std_ = Fitted(PER_FEATURE, "Posterior standard deviation of μ.")
    explained_variance_ = Fitted(PER_COMPONENT, "Sample variance along each component.")
    explained_variance_ratio_ = Fitted(
        PER_COMPONENT, "Share of the total variance along each component."
    )
    draws_ = Fitted(
        "GibbsDraws",
        "W, alpha, tau, mu and log_joint of each chain and draw, in the units of the data.",
    )
    r_hat_ = Fitted(
        "dict or None",
        "Rank-normalised split R-hat of identified quantities: noise_variance, "
        "signal_variance, total_signal_variance, mean (along the components), log_joint. ArviZ "
        "computes it; None if ArviZ is not installed.",
    )
    ess_ = Fitted("dict or None", "Bulk effective sample size of the same quantities.")
    n_samples_ = Fitted("int", "Number of rows.")

    n_components: int | Auto = "auto"
    _: KW_ONLY
    n_draws: int = 1000
    n_warmup: int = 500
    n_chains: int = 4
    thin: int = 1
    a_alpha: float = 1e-3
    b_alpha: float | Auto = "auto"
    a_tau: float = 1e-3
    b_tau: float | Auto = "auto"
    beta: float | Auto = "auto"
    random_state: Any = None
    verbose: bool = False

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Draw from the posterior.

        X is an array, a DataFrame, a sparse matrix (made dense), or the path of a file, without
        holes. If an error occurs, the estimator stays as it was.

        `callback` is called after each sweep of each chain, with its number, counting from 1, and
        an object with `free_energy` (minus the log of the joint density), `rank` (columns of W) and
        `noise_variance`. Chains run to their full length, whatever it returns.
        """
        start, asked = time.perf_counter(), self._chosen()
        schedule = _validation.schedule(self)
        prior = _validation.hyperparameters(self)
        table = _input.read(self, X, in_memory=True, dense=True, complete=True)
        data = compress(np.asarray(table.values, dtype=np.float64))
        if asked.n_components == "auto":
            q = min(data.d, data.n) - 1
        else:
            q = min(int(asked.n_components), data.d)
        self._check_size(data, q)
        prior = suited(prior, data)
        said = Status(advice=reading.prior_advice(data, prior))
        for advice in said.advice:
            warnings.warn(advice.text, RankWarning, stacklevel=2)
        rngs = _validation.generator(self.random_state).spawn(schedule.n_chains)
        draws = draw(data, q, prior=prior, schedule=schedule, rngs=rngs, callback=callback)
        found, quantities = reading.report(draws, data, table.dtype)
        r_hat, ess = _arviz.diagnostics(quantities) or (None, None)
        chains = _of_chains(r_hat, ess, schedule.n_chains)
        kept = replace(found, r_hat=r_hat, ess=ess, status=said + chains)
        self._keep(kept, table.features)
        for advice in chains.advice:
            warnings.warn(advice.text, ConvergenceWarning, stacklevel=2)
        if self.verbose:
            k = self.n_components_
            print(
                f"bayespca: {self.n_samples_}×{self.n_features_in_}, {self.n_chains} chains of "
                f"{self.n_draws} draws: rank {k} "
                f"({in_brief(k, self.rank_posterior_)}), noise variance "
                f"{self.noise_variance_:.4g}, {time.perf_counter() - start:.2f} s"
            )
        return self

    def _check_size(self, data: GibbsData, q: int) -> None:
        if not 1e-70 < data.unit < 1e70:
            raise ValueError(
                f"the scale of the data is {data.unit:.1g}, whose fourth power is out of range: "
                "divide the data by it."
            )
        _validation.check_draws(self, data.d * q, "W")

    # --- scores --------------------------------------------------------------------------------

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the scores of rows; with `return_std` also standard deviations.

        A score is a coordinate along a component of the row without its noise, μ + Wx, after
        subtracting the mean. The standard deviation includes the uncertainty of x, W, μ and τ.
        """
        check_is_fitted(self)
        X = self._read(X, "transform")
        mean, components = self._double("mean_"), self._double("components_")
        found = reading.score_map(self.draws_, components, mean)
        centred = np.asarray(X, dtype=np.float64) - mean
        scores = reading.scores(found, centred).astype(X.dtype)
        if not return_std:
            return scores
        return scores, reading.score_std(found, centred).astype(X.dtype)

    def inverse_transform(self, X: Input) -> Array:
        """Rows of data from scores; the scores that `transform` returns give denoised rows."""
        check_is_fitted(self)
        T = _input.read_scores(X, self.n_components_, self.components_)
        return T @ self.components_ + self.mean_

    # --- the distribution of a new row ---------------------------------------------------------

    def score_samples(self, X: Input) -> Array:
        """Log of the posterior predictive density of each row, averaged over all draws."""
        check_is_fitted(self)
        X = self._read(X, "score_samples")
        return reading.log_density(self.draws_, np.asarray(X, np.float64)).astype(X.dtype)

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """New rows from the posterior predictive distribution, each from a draw of its own."""
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        rows = reading.sample(self.draws_, n_samples, _validation.generator(seed))
        return rows.astype(self.components_.dtype)

    def get_covariance(self) -> Array:
        """Posterior mean of the covariance WWᵀ + τ⁻¹I of a row."""
        check_is_fitted(self)
        return reading.covariance(self.draws_).astype(self.components_.dtype)

    # --- draws ---------------------------------------------------------------------------------

    def aligned_components(self) -> Array:
        """Principal axes of each draw, order and signs matched to `components_`.

        An array of shape ``(n_chains, n_draws, n_components_, n_features)``.
        """
        check_is_fitted(self)
        return reading.aligned_axes(self.draws_, self._double("components_"))

    def aligned_loadings(self) -> Array:
        """W of each draw, rotated onto the components scaled by their standard deviations.

        An array of shape ``(n_chains, n_draws, n_features, n_components_)``.
        """
        check_is_fitted(self)
        return reading.aligned_loadings(
            self.draws_, self._double("components_"), self._double("signal_variance_")
        )

    def to_arviz(self) -> Any:
        """The draws for ArviZ: InferenceData, or a DataTree from ArviZ 1.0 on.

        They hold what is identified: noise_variance, mean, signal_variance, and components and
        loadings as `aligned_components` and `aligned_loadings` return them; the log joint density
        is `lp`.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        values = reading.signal_variances(self.draws_)[..., : self.n_components_]
        return _arviz.inference_data(
            {
                "noise_variance": 1 / self.draws_.tau,
                "mean": self.draws_.mu,
                "signal_variance": values,
                "components": self.aligned_components(),
                "loadings": self.aligned_loadings(),
            },
            sample_stats={"lp": self.draws_.log_joint},
            dims={
                "mean": ["feature"],
                "signal_variance": ["component"],
                "components": ["component", "feature"],
                "loadings": ["feature", "component"],
            },
            coords={"feature": list(names), "component": np.arange(self.n_components_)},
        )

    # --- scikit-learn --------------------------------------------------------------------------

    def _read(self, X: Input, method: str) -> Array:
        """Read rows for a method; arrays of other libraries become NumPy arrays, as in `fit`."""
        if is_array_api_obj(X) and not is_sparse(X):
            X = to_numpy(X)
        return _input.read_new(self, X, method)

    def _double(self, name: str) -> Array:
        return getattr(self, name).astype(np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _of_chains(r_hat: Judged, ess: Judged, n_chains: int) -> Status:
    """Advice on chains that have not mixed or are too short."""
    status = _arviz.mixing(r_hat, LARGEST_R_HAT, "n_warmup and n_draws")
    name, least = _arviz.extreme(ess or {}, np.nanmin)
    wanted = LEAST_ESS_PER_CHAIN * n_chains
    if least < wanted:
        status = status.but(
            "few-draws",
            f"The effective sample size of {name.replace('_', ' ')} is {least:.0f}, less than "
            f"{wanted}: intervals are rough. Raise n_draws or thin.",
        )
    return status
