"""`PCAMixture`: clusters, each with a PCA of its own that finds its own rank."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from bayespca import inference
from bayespca.arrays.types import Input, Numbers, RandomState
from bayespca.mixtures.pca import posterior as read
from bayespca.mixtures.pca.data import prepared
from bayespca.mixtures.pca.fit import MixtureFit, MixtureModel, fit_choosing, mixture_model
from bayespca.mixtures.weights import Dirichlet, PointWeights

from . import _input, _validation
from ._base import (
    PER_COMPONENT,
    PER_ENTRY,
    ChoosesNoise,
    Fitted,
    Iterating,
    Transforming,
    typed,
)
from ._options import AUTO, Auto, Noise, Option, several, table, whole
from .pca import RankWarning

Array = Numbers


class PCAMixture(ChoosesNoise, Transforming, DensityMixin, Iterating[MixtureFit]):
    """Clusters, each with its own mean, subspace, rank and noise.

    A row of cluster k is μₖ + Bₖa + noise. Given the probability of each cluster for each row, a
    cluster is a PCA of rows weighted by these probabilities, and a closed form minimises the free
    energy from its weighted singular values: at each step every cluster finds its own rank.
    With one cluster this is `BayesianPCA`.

    NaN in X marks holes, both in `fit` and afterwards. They are integrated out: densities are those
    of the observed cells, and a cluster fills holes with their expected values and allows for their
    variance.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import PCAMixture
    >>> rng = np.random.default_rng(0)
    >>> line = np.outer(rng.normal(size=200), [3, 3, 0, 0, 0, 0])
    >>> plane = 3 * rng.normal(size=(200, 2)) @ np.eye(6)[2:4] + [9, 0, 0, 0, 0, 0]
    >>> X = np.vstack([line, plane]) + 0.3 * rng.normal(size=(400, 6))
    >>> model = PCAMixture(random_state=0).fit(X)
    >>> sorted(model.ranks_.tolist())
    [1, 2]
    """

    options = table(
        *("max_iter", "tol", "checkpoint", "verbose"),
        n_components=Option(
            'The number of clusters. ``"auto"`` starts with `max_components` and removes clusters '
            "as long as that lowers the free energy. Clusters that run out of rows are "
            "removed in any case.",
            AUTO | whole(1, "the number of clusters"),
        ),
        method='``"evb"``: empirical variational Bayes, which finds the ranks. ``"ml"``: the '
        "mixture of probabilistic PCAs of Tipping and Bishop 1999, with given ranks.",
        ranks=Option(
            "The largest rank of any cluster, or one number for each cluster; with "
            '``method="ml"`` the rank itself.',
            AUTO
            | whole(0)
            | several("one such number for each cluster", "sequence of int", whole(0)),
        ),
        noise='``"isotropic"``: one noise variance for each cluster. ``"per-feature"``: one for '
        "each feature of each cluster; densities are much better if features have scales of their "
        'own. ``"auto"``: the evidence chooses for ``method="evb"``; the fit begins with isotropic '
        "noise and goes on with noise of features if a few sweeps show that it pays. All else is "
        "isotropic.",
        max_components=Option(
            'The number of clusters that ``n_components="auto"`` starts with.',
            whole(1, "the number of clusters"),
        ),
        weight_concentration_prior="Parameter of the Dirichlet prior of the clusters' weights; "
        '``"auto"`` is 1 over the initial number of clusters. ``method="ml"`` has no such prior: '
        "its weights are point-estimated.",
        init='Where sweeps start. ``"k-means"``: the clusters of k-means, from the seeds of '
        'k-means++. ``"pruned"``: twice as many of these, and at least ten; then clusters are '
        "merged or removed one at a time. This costs a few times as much and often reaches a much "
        'lower free energy. With ``n_components="auto"`` the two are the same: clusters are '
        "removed as long as that pays.",
        n_init="Number of starts; the lowest free energy wins.",
        random_state="Seed of the starts, and of `sample`.",
    )

    weights_ = Fitted(
        PER_COMPONENT,
        "Expected share of the rows, largest first: clusters are in this order everywhere.",
        typed(lambda fit: fit.posterior.weights),
    )
    means_ = Fitted(
        PER_ENTRY,
        "The mean of each cluster.",
        lambda fit: np.array([cluster.mean for cluster in fit.posterior.clusters], fit.dtype),
    )
    ranks_ = Fitted(PER_COMPONENT, "The rank found for each cluster.")
    components_ = Fitted(
        "tuple of arrays of shape (ranks_[k], n_features)",
        'Orthonormal directions of each cluster; if `noise_` is ``"per-feature"``, those of the '
        "data divided by the standard deviation of the noise.",
        lambda fit: tuple(c.components.astype(fit.dtype) for c in fit.posterior.clusters),
    )
    noise_variances_ = Fitted(
        "array of shape (n_components_,) or (n_components_, n_features)",
        "The noise variance of each cluster, or of each of its features.",
        typed(lambda fit: fit.noise_variances),
    )
    n_components_ = Fitted("int", "The number of clusters.")
    free_energy_ = Fitted(
        "float",
        "−log of the evidence bound in nats, with all constants except that of the flat prior of "
        "one mean.",
    )
    lower_bound_ = Fitted("float", "The bound itself.")
    trace_ = Fitted(
        "Trace",
        "Free energy, sum of ranks, mean noise and time of each sweep since the last removal of a "
        "cluster at the end of a run.",
    )

    n_components: int | Auto = "auto"
    method: Literal["evb", "ml"] = "evb"
    _: KW_ONLY
    ranks: int | Auto | Sequence[int] = "auto"
    noise: Literal[Auto, Noise] = "isotropic"
    max_components: int = 10
    weight_concentration_prior: float | Auto = "auto"
    init: Literal["pruned", "k-means"] = "pruned"
    max_iter: int = 500
    tol: float = 1e-6

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Input,
        y: object = None,
        sample_weight: Input = None,
        *,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit the mixture.

        With `sample_weight` a row counts as often as its weight says. Rows without any value do
        not count. `callback` is called after each sweep, as in `BayesianPCA.fit`, but not for
        trial sweeps with fewer clusters. If an error occurs, the estimator stays as it was.
        """
        start = time.perf_counter()
        concentration = self._chosen().weight_concentration_prior
        if concentration != "auto" and self.method == "ml":
            raise ValueError(
                "weight_concentration_prior is a prior of the weights, which method='ml' "
                "point-estimates: leave it at 'auto'."
            )
        data = _input.read_with_holes(self, X, reset=True)
        _input.check_any_value(data)
        _input.check_every_column(data)
        values = data.values
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_non_negative": True, "copy": True}
        weights = _check_sample_weight(sample_weight, values, **checks)
        if not weights.any():
            raise ValueError("sample_weight is 0 for all rows: at least one must be positive.")
        n_rows = int(np.count_nonzero((weights > 0) & ~np.isnan(values).all(axis=1)))
        K, choose = self._clusters(n_rows)
        ranks, rows = self._ranks(K, choose), prepared(values, weights)
        prior = Dirichlet(1 / K if concentration == "auto" else concentration)

        def model(per_feature: bool) -> MixtureModel:
            return mixture_model(
                rows,
                ranks=ranks,
                method=self.method,
                weights=PointWeights() if self.method == "ml" else prior,
                per_feature=per_feature,
                choose=choose,
                prune=self.init == "pruned" and not choose,
            )

        looping = _validation.looping(self, callback)
        if self.noise == "auto" and self.method == "evb":
            fitted = fit_choosing(model, rows, looping)
        else:
            per_feature = self.noise == "per-feature"
            fitted = inference.fit(model(per_feature), rows, looping)
            fitted = replace(fitted, per_feature=per_feature)
        self._keep(replace(fitted, dtype=np.dtype(data.dtype)), data.features)
        (n, p), each = values.shape, fitted.posterior.ranks
        found = "1 cluster of rank" if len(each) == 1 else f"{len(each)} clusters of ranks"
        energy = f"free energy {fitted.free_energy:.6g} after {fitted.n_iter} sweeps"
        listed = ", ".join(map(str, each))
        self._report(fitted, f"{n}×{p}, {self.method}: {found} {listed}, {energy}", start)
        if "all-clusters" in fitted.status:
            warnings.warn(str(fitted.status), RankWarning, stacklevel=2)
        return self

    def fit_predict(self, X: Input, y: object = None, sample_weight: Input = None) -> Array:
        """Fit the mixture and return the most probable cluster of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def _clusters(self, n_rows: int) -> tuple[int, bool]:
        """Number of clusters to start with, and whether the fit chooses their number."""
        if self.n_components == "auto":
            return max(1, min(int(self.max_components), n_rows // 5)), True
        if int(self.n_components) > n_rows:
            raise ValueError(
                f"n_components={self.n_components} clusters need at least as many rows, and there "
                f"are {n_rows} (n_samples = {n_rows}) that hold a value and count: lower "
                "n_components."
            )
        return int(self.n_components), False

    def _ranks(self, K: int, choose: bool) -> tuple[int | None, ...]:
        """The largest rank of each of K clusters, None for "auto"; the rank itself for "ml"."""
        if isinstance(self.ranks, str):
            if self.method == "ml":
                raise ValueError("method='ml' needs the rank of the clusters: give ranks.")
            return (None,) * K
        if not isinstance(self.ranks, Sequence | np.ndarray):
            return (int(self.ranks),) * K
        given = [int(rank) for rank in self.ranks]
        if choose or len(given) != K:
            asked = "'auto'" if choose else K
            raise ValueError(
                f"ranks has {len(given)} entries, one for each cluster, but n_components is "
                f"{asked}: give as many, or one number for all."
            )
        return tuple(given)

    # --- clusters ------------------------------------------------------------------------------

    def predict(self, X: Input) -> Array:
        """The most probable cluster of each row."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))

    def predict_proba(self, X: Input) -> Array:
        """The probability of each cluster for each row; a row without any value gets `weights_`."""
        wide, dtype = _input.read_wide(self, X)
        return read.probabilities(self.posterior_, wide).astype(dtype)

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Array:
        """Log posterior predictive density of the known cells of each row."""
        wide, dtype = _input.read_wide(self, X)
        return read.log_density(self.posterior_, wide).astype(dtype)

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`."""
        return float(np.mean(self.score_samples(X), dtype=np.float64))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """New rows from the posterior predictive distribution, and their clusters, in order."""
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples!r}.")
        seed = self.random_state if random_state is None else random_state
        rng = _validation.generator(seed)
        X, labels = read.sample(self.posterior_, int(n_samples), rng)
        return X.astype(self.means_.dtype), labels

    # --- rows ----------------------------------------------------------------------------------

    def transform(self, X: Input, cluster: int | None = None) -> Array:
        """Scores of each row in its most probable cluster, with zeros beyond that cluster's rank.

        There are as many columns as the largest rank. Scores are posterior means, in the
        coordinates of the cluster's `components_`. With `cluster`, it returns the scores of all
        rows in that cluster instead, one column for each of its components.
        """
        wide, dtype = _input.read_wide(self, X)
        if cluster is None:
            labels = np.argmax(read.probabilities(self.posterior_, wide), axis=1)
            return read.local_scores(self.posterior_, wide, labels).astype(dtype)
        _validation.choose("cluster", cluster, tuple(range(self.n_components_)))
        return read.scores(self.posterior_, wide, int(cluster)).astype(dtype)

    def denoise(self, X: Input) -> Array:
        """Posterior mean of rows without their noise, in their most probable cluster."""
        wide, dtype = _input.read_wide(self, X)
        labels = np.argmax(read.probabilities(self.posterior_, wide), axis=1)
        T = read.local_scores(self.posterior_, wide, labels)
        return read.reconstruct(self.posterior_, T, labels).astype(dtype)

    def impute(self, X: Input) -> Array:
        """Rows with their holes (NaN) filled by their posterior mean over all clusters."""
        wide, dtype = _input.read_wide(self, X)
        filled = read.impute(self.posterior_, wide)
        return np.where(np.isnan(wide), filled, wide).astype(dtype)

    # --- contracts -----------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.ranks_.max())

    def _reads_holes(self) -> bool:
        return True
