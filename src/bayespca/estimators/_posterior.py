"""Methods and attributes of all estimators with a posterior over scores and loadings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import array_namespace, has_nan, to_namespace, to_numpy
from bayespca.arrays.types import Array, ArrayOrPair, Input, RandomState
from bayespca.lowrank import holes_posterior, imputing
from bayespca.lowrank import posterior as complete
from bayespca.lowrank.from_complete import general
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.imputing import Unknown, wider
from bayespca.lowrank.intervals import (
    component_std,
    covariances_of_columns,
    degrees_of_noise,
    of_new_rows,
    unknown,
)
from bayespca.lowrank.recognising import digests_of_few
from bayespca.lowrank.records import PCAFit, PCAPosterior, VariationalFit
from bayespca.sources.cluster import computed
from bayespca.sources.data import Data
from bayespca.sources.partitions import is_dask
from bayespca.spectrum.records import holding

from . import _input, _lazy, _validation
from ._base import PER_COMPONENT, PER_ENTRY, PER_FEATURE, F, Fitted, Iterating, Transforming

P = TypeVar("P", PCAFit, VariationalFit)

# A function of the module that reads a posterior, the posterior, and rows.
Reading: TypeAlias = Callable[[ModuleType, PCAPosterior, Array], ArrayOrPair]


def functions(posterior: PCAPosterior, X: Array = None) -> tuple[ModuleType, PCAPosterior]:
    """A module with `scores`, `log_density` and so on, and the posterior in the form it takes.

    Rows with holes need the general form of a posterior that was found on complete data.
    """
    if isinstance(posterior, HolesPosterior):
        return holes_posterior, posterior
    if X is not None and has_nan(X):
        return holes_posterior, general(posterior)
    return complete, posterior


def knowing_rows(data: Data, fit: P) -> P:
    """A fit that recognises the rows it was fitted to, if they are few and in memory."""
    if fit.posterior.learned_from.size or not data.where.in_memory:
        return fit
    known = replace(fit.posterior, learned_from=digests_of_few(data.values))
    return replace(fit, posterior=known)


def placed(name: str) -> Callable[[Any], Array]:
    """A reader of a record's array, with the library, device and dtype of the components."""
    return lambda fit: to_namespace(getattr(fit, name), fit.posterior.components)


class PosteriorReader(Transforming, Iterating[F]):
    """Scores, densities and filled holes, all read from `posterior_`.

    For records like `PCAFit` and `VariationalFit`.
    """

    components_ = Fitted(
        PER_ENTRY,
        "Orthonormal directions; the entry of largest magnitude in each is positive. If "
        "neighbouring features have noise in common, they are orthonormal for data without it.",
        lambda fit: fit.posterior.directions,
    )
    components_std_ = Fitted(
        PER_ENTRY,
        "Standard deviation of each entry, that is, of its distance from the principal axis of "
        "the population that the rows come from. That axis may lean out of the subspace that was "
        "found, and turn within it.",
        component_std,
    )
    n_components_ = Fitted("int", "Number of components found.")
    mean_ = Fitted(PER_FEATURE, "Posterior mean of each feature.", lambda fit: fit.posterior.mean)
    noise_variance_ = Fitted(
        "float",
        "Estimated or given noise variance of the (scaled) data; the mean over features if each "
        "has its own.",
    )
    singular_values_ = Fitted(
        PER_COMPONENT,
        "Singular values of the centred data; with holes, those that complete data would show.",
        placed("kept_singular_values"),
    )
    shrunk_singular_values_ = Fitted(
        PER_COMPONENT,
        "Singular values of the posterior mean of the low-rank matrix.",
        placed("shrunk_singular_values"),
    )
    threshold_ = Fitted(
        "float", "Singular values above it are kept; NaN if the free energy alone decides."
    )
    explained_variance_ = Fitted(
        PER_COMPONENT, "Sample variance along each component.", placed("explained_variance")
    )
    explained_variance_ratio_ = Fitted(
        PER_COMPONENT,
        "Share of the total variance along each component.",
        placed("explained_variance_ratio"),
    )
    n_samples_ = Fitted("int", "Number of rows.")
    engine_ = Fitted("str", 'The engine that ran; ``"holes"`` for data with holes.')
    spectrum_ = Fitted(
        "Spectrum",
        "All known singular values, also those that were dropped, with shape and sum of squares.",
    )

    def components_for(self, share: float = 0.95) -> int:
        """Number of components that together hold a given share of the signal.

        The signal is Σγ̂², the sum of squares of the denoised data, in units of the noise if that
        differs between features or samples. Large data have many components that are real but
        small; use this to find how many matter.
        """
        check_is_fitted(self)
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share!r}.")
        return holding(to_numpy(self.shrunk_singular_values_), share)

    # --- scores --------------------------------------------------------------------------------

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the scores of rows; with `return_std` also standard deviations.

        Scores are coordinates along the orthonormal components: on the training data,
        ``inverse_transform(transform(X))`` is the posterior mean of the low-rank matrix. Each
        coordinate is the projection times γ̂/γ, which removes its noise. For the scores of
        scikit-learn's PCA, which are not shrunk, use `project`. The scores of a row with holes
        (NaN) come from its observed cells, with a larger standard deviation.

        All methods that take rows are lazy on Dask collections and return Dask arrays.
        """

        def scores(read: ModuleType, posterior: PCAPosterior, X: Array) -> Array:
            return read.scores(posterior, X) / self._unit()

        found = self._scores_and_std if return_std else scores
        return self._of_rows(X, "transform", found, return_std=return_std)

    def _scores_and_std(
        self, read: ModuleType, posterior: PCAPosterior, X: Array
    ) -> tuple[Array, Array]:
        fit: Any = self.fit_
        known: dict[str, Any] = {"new_rows": of_new_rows(fit)}
        if isinstance(posterior, HolesPosterior):
            known["covariances"] = covariances_of_columns(fit, posterior)
        T, std = read.scores_and_std(posterior, X, **known)
        return T / self._unit(), std * wider(self._degrees()) ** 0.5 / self._unit()

    def inverse_transform(self, X: Input) -> Array:
        """Rows of data from scores; the scores that `transform` returns give denoised rows."""
        check_is_fitted(self)
        if is_dask(X):
            _input.check_same_place(self, np.empty(0), "inverse_transform")
            return _lazy.scores(self, X, "inverse_transform")
        T = _input.read_scores(X, self.n_components_, self.components_)
        read, posterior = functions(self.posterior_)
        return read.reconstruct(posterior, T * self._unit())

    def project(self, X: Input) -> Array:
        """Coordinates of rows along the components, without shrinkage, as in ordinary PCA."""
        return self._of_rows(X, "project", lambda read, *known: read.project(*known))

    def denoise(self, X: Input) -> Array:
        """Posterior mean of rows without their noise."""

        def denoised(read: ModuleType, posterior: PCAPosterior, X: Array) -> Array:
            return read.reconstruct(posterior, read.scores(posterior, X))

        return self._of_rows(X, "denoise", denoised)

    def _of_rows(self, X: Input, method: str, found: Reading, **options: object) -> ArrayOrPair:
        """Check rows and apply `found` to them, with the posterior and the module that reads it.

        For Dask collections, `method` is called with these options on each block.
        """
        check_is_fitted(self)
        if is_dask(X):
            return _lazy.rows(self, X, method, **options)
        X = _input.read_new(self, X, method)
        read, posterior = functions(self.posterior_, X)
        return found(read, posterior, X)

    # --- holes ---------------------------------------------------------------------------------

    def impute(self, X: Input, return_std: bool | Literal["mean"] = False) -> ArrayOrPair:
        """Rows with their holes (NaN) filled by the posterior mean; other cells stay as they are.

        With ``return_std=True`` it also returns the standard deviation of what would be measured in
        each hole, noise included; with ``return_std="mean"`` that of the filled value itself,
        without noise, which allows for components that may be real but were not kept. Cells that
        are there have standard deviation 0.

        If rows or cells have noise of their own, components are those of the quiet rows. A second
        fit has those of all rows, with noise of columns alone. Each row is filled by the mean of
        both, weighted by how well they predict the cells of that row, and standard deviations allow
        for it.
        """
        check_is_fitted(self)
        _validation.choose("return_std", return_std, (False, True, "mean"))
        if is_dask(X):
            return _lazy.rows(self, X, "impute", return_std=return_std)
        X = _input.read_new(self, X, "impute")
        posterior, unknown = self.uncertain_posterior()
        noise = return_std != "mean"
        filled, std = imputing.impute(posterior, X, noise=noise, unknown=unknown)
        return (filled, std) if return_std else filled

    def sample_imputations(self, X: Input, n: int, random_state: RandomState = None) -> Array:
        """n copies of X with their holes filled by draws, for multiple imputation: (n, rows, p).

        Each copy has its own draw of scores, loadings, means, noise and noise variance. On Dask
        collections the result is lazy, and the draws also depend on where blocks begin.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        rng = _validation.generator(seed)
        if is_dask(X):
            return _lazy.imputations(self, X, n, rng)
        X = _input.read_new(self, X, "sample_imputations")
        posterior, unknown = self.uncertain_posterior()
        draws = [imputing.sample_imputation(posterior, X, rng, unknown=unknown) for _ in range(n)]
        xp = array_namespace(X)
        return xp.stack(draws) if draws else xp.empty((0, *X.shape), dtype=X.dtype)

    def general_posterior(self) -> HolesPosterior:
        """The posterior in the form that rows with holes need."""
        found = self.posterior_
        return found if isinstance(found, HolesPosterior) else general(found)

    def uncertain_posterior(self) -> tuple[HolesPosterior, Unknown]:
        """The general posterior, and the uncertainty that intervals add to it."""
        fit: Any = self.fit_
        posterior = self.general_posterior()
        return posterior, unknown(fit, posterior, self._degrees())

    def _degrees(self) -> float:
        """Degrees of freedom of the noise variance; infinite if it was given."""
        fit: Any = self.fit_
        given = getattr(self, "noise_variance", "auto")
        return degrees_of_noise(fit) if isinstance(given, str) else np.inf

    def _unit(self) -> Array:
        """The divisor of scores: their standard deviations if whitened, else 1."""
        read, posterior = functions(self.posterior_)
        return read.latent_std(posterior) if self._is_whitened() else 1.0

    # --- the distribution of a new row ---------------------------------------------------------

    def score_samples(self, X: Input) -> Array:
        """Log density of each row under the posterior predictive distribution."""
        return self._of_rows(X, "score_samples", lambda read, *known: read.log_density(*known))

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`; computed immediately, also for Dask collections."""
        densities = self.score_samples(X)
        if is_dask(densities):
            return float(computed(densities.mean())[0])
        return float(array_namespace(densities).mean(densities))

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """New rows from the posterior predictive distribution."""
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        read, posterior = functions(self.posterior_)
        return read.sample(posterior, n_samples, _validation.generator(seed))

    def get_covariance(self) -> Array:
        """Covariance of a new row: components, noise, and the uncertainty of the directions."""
        check_is_fitted(self)
        read, posterior = functions(self.posterior_)
        return read.covariance(posterior)

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`, without inverting a matrix."""
        check_is_fitted(self)
        read, posterior = functions(self.posterior_)
        return read.precision(posterior)

    # --- scikit-learn --------------------------------------------------------------------------

    def _reads_holes(self) -> bool:
        """Whether NaN marks a hole in new rows."""
        return True

    def _is_whitened(self) -> bool:
        """Whether scores are divided by their standard deviations."""
        return False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
