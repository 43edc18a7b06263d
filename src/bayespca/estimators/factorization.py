"""`MatrixFactorization`: predicted ratings of items by users, with their uncertainty."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import Tags

from bayespca import inference
from bayespca.arrays.types import Array, Input
from bayespca.engines.decomposing import available_memory
from bayespca.missing.ratings.data import RatingsCells, sorted_both_ways
from bayespca.missing.ratings.fit import RatingsModel, ratings_model
from bayespca.missing.ratings.posterior import RatingsFactor
from bayespca.missing.sampled.data import FeaturedRatings, with_features
from bayespca.missing.sampled.fit import MORE, SampledModel
from bayespca.missing.sampled.prior import SampledPrior
from bayespca.spectrum.methods import EVB, METHODS

from . import _arviz, _distant_ratings, _features, _ratings, _validation
from ._base import Fitted, warn
from ._factorization import FactorizationFit, check_storable, duplicates_sentence, mixing, record
from ._options import AUTO, INTERVAL, NONE, POSITIVE, Auto, Option, table, whole
from ._predictions import RatingsPredictor

# Values that "auto" stands for, with ``method="gibbs"``.
SCHEDULE = {"n_draws": 100, "n_warmup": 20, "n_chains": 2}
IN_UNITS = "In units of ratings; only with `biases`."


def _of_both(
    shape: str,
    read: Callable[[FactorizationFit, RatingsFactor], Array],
    of_users: str,
    of_items: str = "The same for items.",
) -> tuple[Fitted, Fitted]:
    """A pair of attributes: one reads the factor of users, the other that of items."""
    kind = f"array of shape {shape}"
    return (
        Fitted(kind.format("users"), of_users, lambda fit: read(fit, fit.posterior.rows)),
        Fitted(kind.format("items"), of_items, lambda fit: read(fit, fit.posterior.columns)),
    )


class MatrixFactorization(RatingsPredictor[FactorizationFit]):
    """Factorization of a matrix of ratings that is mostly empty; finds its number of components.

    A rating of item j by user i is

        xᵢⱼ = m + uᵢ + vⱼ + aᵢᵀbⱼ + noise,

    with normal priors on the factors a, b and on the biases u, v, whose variances are learned, one
    for each component (Nakajima and Sugiyama 2014, Eq. 1–3, with the observed cells alone as in
    Section 4.1). Sweeps find the posterior r(A, u)·r(B, v) (Nakajima, Sugiyama and Babacan 2011,
    Eq. 13–16, with sums over the observed cells). Each user and each item has a covariance of its
    own, so the standard deviation of a prediction reflects how many ratings are behind it. Users
    and items that were never seen get the prior's answer.

    ``method="gibbs"`` draws users, items and the priors of both from the posterior, with full
    covariances in these priors (Salakhutdinov and Mnih 2008) and noise variances for users and
    items. The means of the priors are linear in the set of ratings that exist (`implicit`, after
    Koren 2008) and in features. Predictions are averages over draws.

    >>> from bayespca import MatrixFactorization
    >>> users = ["ann", "ann", "bob", "bob", "cid", "cid"]
    >>> items = ["tea", "jam", "tea", "ale", "jam", "ale"]
    >>> model = MatrixFactorization().fit_ratings(users, items, [5, 4, 4, 2, 5, 1])
    >>> mean, std = model.predict(["ann"], ["ale"], return_std=True)
    >>> mean.shape, std.shape
    ((1,), (1,))
    """

    options = table(
        *("max_iter", "tol", "checkpoint", "random_state", "verbose"),
        method="Which factors are integrated out: both, one of them, or none. The free energies of "
        '``"epb"`` and ``"emap"`` have no usable minimum over the noise, so these methods take the '
        'noise variance that ``"evb"`` finds. ``"gibbs"`` draws from the posterior, starting at '
        "the answer of EVB: it predicts best, and takes several times as long.",
        n_components='The largest rank allowed; with ``"gibbs"`` the rank itself, where ``"auto"`` '
        "takes four more than EVB finds.",
        noise=Option(
            'The noise model for ``"gibbs"``. ``"isotropic"``: one variance. ``"both"``: users and '
            'items have noise of their own. ``"auto"``: both, unless `noise_variance` is given.'
        ),
        n_draws=Option(
            'Number of draws to keep from each chain, with ``"gibbs"``; ``"auto"`` is 100.',
            AUTO | whole(1),
        ),
        n_warmup=Option(
            'Number of sweeps before the first draw, with ``"gibbs"``; ``"auto"`` is 20.',
            AUTO | whole(0),
        ),
        n_chains=Option('Number of chains, with ``"gibbs"``; ``"auto"`` is 2.', AUTO | whole(1)),
        implicit=Option(
            "Whether to learn from which items a user has rated, and from which users have rated "
            'an item, whatever the ratings. ``"auto"``: only with ``"gibbs"``.'
        ),
        biases=Option(
            "Whether users and items have biases, and all ratings a mean. Without them ratings are "
            "aᵀb alone."
        ),
        noise_variance=AUTO | POSITIVE,
        bounds=Option(
            'Range to which predictions are clipped. ``"auto"`` takes the smallest and the largest '
            "rating if there are at most 101 different ones, else no bounds.",
            AUTO | NONE | INTERVAL,
        ),
        init="Where sweeps start: at a decomposition of the matrix, or at normal draws.",
        dtype=Option("Type of the stored arrays; float32 takes half the memory."),
        n_init='Number of random starts, with ``init="random"``; the lowest free energy wins.',
    )

    users_ = Fitted("array of shape (n_users,)", "Ids in the order of the factors.")
    items_ = Fitted("array of shape (n_items,)", "Ids in the order of the factors.")
    n_components_ = Fitted("int", "Number of components found; 0 is a legal answer.")
    user_factors_, item_factors_ = _of_both(
        "(n_{}, n_components_)",
        FactorizationFit.factors,
        "Posterior means; ``user_factors_ @ item_factors_.T`` plus biases and `mean_` gives the "
        "predictions before clipping.",
    )
    user_factors_std_, item_factors_std_ = _of_both(
        "(n_{}, n_components_)",
        FactorizationFit.factors_std,
        "Posterior standard deviations, 0 if a factor is point-estimated.",
    )
    user_biases_, item_biases_ = _of_both("(n_{},)", FactorizationFit.biases, IN_UNITS, IN_UNITS)
    mean_ = Fitted(
        "float",
        "m, the expected rating of an unknown item by an unknown user; 0 without `biases`. It is "
        "below `mean_rating_`, because items that are rated often are liked more than others.",
    )
    mean_rating_ = Fitted("float", "Mean of the ratings; only with `biases`.")
    noise_variance_ = Fitted(
        "float",
        "Estimated or given variance of the noise, in units of ratings squared; the geometric mean "
        "over users and items if these have noise of their own.",
    )
    n_ratings_ = Fitted("int", "Number of different pairs of a user and an item.")
    n_duplicates_ = Fitted("int", "Number of repeated ratings, which were averaged.")
    bounds_ = Fitted("(low, high) or None", "Range to which predictions are clipped.")
    draws_ = Fitted("RatingsDraws or None", 'Draws from the posterior, with ``method="gibbs"``.')
    r_hat_ = Fitted(
        "dict or None",
        "Rank-normalised split R-hat of the noise variance and of the variance that "
        "factors explain, computed by ArviZ; None without draws, or without ArviZ.",
    )
    ess_ = Fitted("dict or None", "Bulk effective sample size of the same quantities.")
    seen_starts_ = Fitted("array of shape (n_users + 1,)", "Where the items of each user begin.")
    seen_items_ = Fitted(
        "array of shape (n_ratings_,)",
        "``seen_items_[seen_starts_[i] : seen_starts_[i + 1]]`` are the positions in `items_` of "
        "the items that user i has rated.",
    )

    method: Literal["evb", "epb", "emap", "gibbs"] = "evb"
    _: KW_ONLY
    n_components: int | Auto = "auto"
    biases: bool = True
    noise: Literal["auto", "isotropic", "both"] = "auto"
    implicit: Literal["auto", True, False] = "auto"
    noise_variance: float | Auto = "auto"
    bounds: tuple[float, float] | Auto | None = "auto"
    init: Literal["closed", "random"] = "closed"
    dtype: Literal["float64", "float32"] = "float64"
    n_draws: int | Auto = "auto"
    n_warmup: int | Auto = "auto"
    n_chains: int | Auto = "auto"
    max_iter: int = 500
    tol: float = 1e-5

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Input,
        y: object = None,
        *,
        user_features: Input = None,
        item_features: Input = None,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit a matrix of users × items.

        X is a sparse matrix, whose stored entries, zeros included, are ratings and whose other
        cells are unknown; or an array or DataFrame with NaN in the unknown cells. Ids
        are the labels of a DataFrame, else the numbers of rows and columns. For ratings on Dask use
        `fit_ratings`.

        Features are as in `fit_ratings`; an array or a sparse matrix has one row for each row, or
        for each column, of X. `callback` is as in `BayesianPCA`. If an error occurs, the
        estimator stays as it was.
        """
        self._chosen()
        self._check_sampled(user_features, item_features)
        start, bounds = time.perf_counter(), _ratings.as_bounds(self.bounds)
        cells = _ratings.from_matrix(X, bounds)
        cells, *features = _features.joined(cells, user_features, item_features, ordered=True)
        fitted = self._fitted(self._sorted(cells), callback, *features)
        return self._stored(fitted, cells, start)

    def fit_ratings(
        self,
        users: Input,
        items: Input,
        ratings: Input,
        *,
        user_features: Input = None,
        item_features: Input = None,
        times: Input = None,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit ratings in three columns of one length: lists, arrays, Series, Arrow columns.

        Ids may be any hashable values: numbers, strings, tuples. Repeated ratings of an item by
        the same user are averaged, with a warning.

        With ``method="gibbs"`` users and items may have features. Give a DataFrame with ids as its
        index (in polars as its first column) and columns of numbers or text. Each value of a text
        column becomes a feature, and so does each word of a list or of text like Action|Comedy.
        In an array or a sparse matrix, which stays sparse, row i has the features of id i. The
        means of the priors are linear in features, so users and items without any rating still get
        predictions of their own. With `times` of the ratings, numbers of any unit or dates, users
        may drift: they have biases in bins of time of several widths, whose variances are learned
        (after Koren 2009).

        Columns of one Dask DataFrame are fitted on the workers, which bring the ratings of each
        user together once and sweep over them. The finished model is in local memory: the posterior
        of each user, and the items they have rated.
        """
        self._chosen()
        self._check_sampled(user_features, item_features, times=times)
        start, bounds = time.perf_counter(), _ratings.as_bounds(self.bounds)
        if _distant_ratings.is_distant(users, items, ratings):
            if self.method == "gibbs":
                raise ValueError(
                    "method='gibbs' draws from ratings in memory: compute() the columns, or use "
                    "method='evb' on Dask."
                )
            distant = _distant_ratings.from_columns(users, items, ratings, bounds)
            fitted, cells = self._fitted_elsewhere(distant, callback)
        else:
            cells = _ratings.from_columns(users, items, ratings, bounds, times)
            cells, *features = _features.joined(cells, user_features, item_features)
            fitted = self._fitted(self._sorted(cells), callback, *features, times=cells.times)
        return self._stored(fitted, cells, start)

    def _fitted(
        self,
        data: Any,
        callback: inference.Callback | None,
        *features: Any,
        times: Array = None,
    ) -> Any:
        is_sampled = self.method == "gibbs"
        model = ratings_model(
            data,
            EVB if is_sampled else METHODS[self.method],
            n_components=_validation.largest_rank(self.n_components),
            noise_variance=None if self.noise_variance == "auto" else float(self.noise_variance),
            biases=bool(self.biases),
            init=self.init,
            dtype=np.dtype(self.dtype).name,
        )
        looping = _validation.looping(self, callback)
        if is_sampled:
            implicit = self.implicit is not False
            featured = with_features(data, *features, implicit=implicit, times=times)
            return inference.fit(self._sampled(model, featured), featured, looping)
        return inference.fit(model, data, looping)

    def _check_sampled(self, *features: Any, times: Any = None) -> None:
        """Raise if options of the sampler, features or times are given with another method."""
        if self.method == "gibbs":
            return
        if any(some is not None for some in features):
            raise ValueError(
                f"features of users and items are for method='gibbs', and the method is "
                f"{self.method!r}."
            )
        if times is not None:
            raise ValueError(
                f"times of ratings are for method='gibbs', and the method is {self.method!r}."
            )
        # These values state what other methods do, so they are allowed.
        without = {"noise": "isotropic", "implicit": False}
        for name in (*SCHEDULE, *without):
            value = getattr(self, name)
            if value not in ("auto", without.get(name)):
                raise ValueError(
                    f"{name}={value!r} needs method='gibbs', but the method is {self.method!r}: "
                    "leave it at 'auto'."
                )

    def _sampled(self, begun: RatingsModel, data: FeaturedRatings) -> SampledModel:
        """The model for chains that start at `begun`; raise if their draws exceed memory."""
        asked: dict[str, Any] = {
            name: default if getattr(self, name) == "auto" else int(getattr(self, name))
            for name, default in SCHEDULE.items()
        }
        own = self.noise == "both" or (self.noise == "auto" and begun.fixed_noise is None)
        model = SampledModel(
            prior=SampledPrior() if own else SampledPrior(nus=()),
            biases=begun.biases,
            fixed_noise=begun.fixed_noise,
            begun=begun,
            rank=None if self.n_components == "auto" else int(self.n_components),
            **asked,
        )
        n, m = data.shape
        # Without a given rank, the draws count with `MORE` components.
        K = (MORE if model.rank is None else model.rank) + 1
        needed = 4.0 * model.n_chains * model.n_draws * (n + m * (1 + data.implicit)) * K
        if needed > available_memory():
            raise ValueError(
                f"the draws would need {needed / 1e9:.1f} GB: lower n_draws, n_chains or "
                "n_components."
            )
        return model

    def _sorted(self, cells: _ratings.Cells) -> RatingsCells:
        assert cells.values is not None
        return sorted_both_ways(
            cells.rows, cells.columns, cells.values, cells.shape, center=bool(self.biases)
        )

    def _fitted_elsewhere(
        self, distant: _distant_ratings.DistantCells, callback: inference.Callback | None
    ) -> tuple[Any, _ratings.Cells]:
        """A fit on Dask, and its cells without the ratings, both with users in order."""
        data = distant.data(center=bool(self.biases))
        fitted = self._fitted(data, callback)
        users, starts, seen = data.who()
        order = _distant_ratings.in_order(users)
        rows = fitted.posterior.rows.taken(order)
        posterior = replace(fitted.posterior, rows=rows)
        counts = np.diff(starts)[order]
        edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        place = np.arange(seen.size) + np.repeat(starts[:-1][order] - edges[:-1], counts)
        cells = _ratings.Cells(
            users[order],
            distant.items,
            edges,
            seen[place],
            None,
            distant.n_duplicates,
            distant.bounds,
        )
        return replace(fitted, posterior=posterior), cells

    def _stored(self, fitted: Any, cells: _ratings.Cells, start: float) -> Self:
        """Keep a fit and report it; only `fit` and `fit_ratings` call this, for stack levels."""
        self._keep(record(fitted, cells))
        warn(fitted, ("all-equal",))
        _arviz.warn(mixing(self.r_hat_))
        if cells.n_duplicates:
            warnings.warn(duplicates_sentence(cells.n_duplicates), UserWarning, stacklevel=3)
        if self.verbose:
            n, m = cells.shape
            print(
                f"bayespca: {cells.columns.size} ratings of {m} items by {n} users, {self.method}: "
                f"rank {self.n_components_}, noise variance {self.noise_variance_:.4g}, free "
                f"energy {self.free_energy_:.6g}, {len(fitted.trace)} sweeps, "
                f"{time.perf_counter() - start:.2f} s"
            )
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, fitted or not, to a file that `bayespca.load` reads.

        Ids must be numbers or strings. The file lists the items that each user has rated, but not
        the ratings.
        """
        if self.__sklearn_is_fitted__():
            check_storable(self.fit_)
        super().save(path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
