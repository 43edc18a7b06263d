"""Predictions, recommendations and similar items from a fitted factorization."""

from __future__ import annotations

import warnings
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import ArrayOrPair, FloatArray, Identifiers, Input, Numbers

from . import _asking, _distant_ratings, _identifiers, _ratings, _times, _validation
from ._base import F
from ._iterating import Iterating


class RatingsAnswers(Iterating[F]):
    """An estimator of ratings, whose record names the users and the items.

    The record is a `FactorizationFit`.
    """

    @property
    def _source(self) -> Any:
        """The source of predictions: the posterior, or draws from it."""
        return cast(Any, self.fit_).answering

    def predict(
        self,
        users: Input,
        items: Input,
        return_std: bool | Literal["mean"] = False,
        *,
        times: Input = None,
    ) -> ArrayOrPair:
        """Predicted ratings of items by users, clipped to `bounds_`; ids, or arrays that broadcast.

        With ``return_std=True`` it also returns the standard deviation of a rating, with ``"mean"``
        that of its mean, without the noise. Unknown users and items get the prior's answer, with a
        warning (`known` says which they are); None, NaN and ids of a type that the fit did not have
        raise an error. A tuple is one id if ids are tuples, else several ids. For two columns of a
        Dask DataFrame the results are lazy Dask arrays, without warnings.

        If the fit had `times`, give them here in the same units; without them predictions are for
        a time at which a user's drift is unknown.
        """
        check_is_fitted(self)
        _validation.choose("return_std", return_std, (False, True, "mean"))
        if times is not None:
            _times.check_known(self.fit_)
        if _distant_ratings.is_distant(users, items):
            if times is not None:
                raise ValueError("times are for pairs in memory: compute() the columns.")
            return _distant_ratings.predicted(self, users, items, return_std)
        rows = _asking.places(users, self.users_, "users")
        columns = _asking.places(items, self.items_, "items")
        _asking.warn_of_strangers((users, rows, "user"), (items, columns, "item"))
        rows, columns = _asking.broadcast(rows, columns)
        when = None if times is None else _times.broadcast(times, rows.shape)
        return self._predicted(self._source, rows, columns, return_std, when)

    def known(self, users: Input, items: Input) -> NDArray[np.bool_]:
        """Whether both the user and the item of each pair were in the fit; arrays broadcast.

        If not, `predict` takes the prior's answer for the one that is unknown.
        """
        check_is_fitted(self)
        rows = _asking.places(users, self.users_, "users")
        columns = _asking.places(items, self.items_, "items")
        rows, columns = _asking.broadcast(rows, columns)
        return np.asarray((rows >= 0) & (columns >= 0))[()]

    def recommend(
        self,
        user: Input,
        n: int = 10,
        exclude_seen: bool = True,
        return_std: bool | Literal["mean"] = False,
    ) -> ArrayOrPair:
        """The n items with the highest predictions for a user, best first, and these predictions.

        With `return_std` it also returns standard deviations, as in `predict`. Items that the user
        has rated are left out, unless ``exclude_seen=False``. An unknown user gets the items that
        are liked in general, with a warning.
        """
        check_is_fitted(self)
        n = _asking.checked_count(n)
        found = _asking.places(_asking.one(user), self.users_, "users")
        _asking.warn_of_strangers(([user], found, "user"))
        row = int(found[0])
        predicted = self._source.of_all(row)
        if exclude_seen and row >= 0:
            seen = self.seen_items_[self.seen_starts_[row] : self.seen_starts_[row + 1]]
            predicted[seen] = -np.inf
            n = min(n, predicted.size - seen.size)
        best = _asking.largest(predicted, n)
        rated = self._predicted(self._source, np.full(best.size, row), best, return_std)
        return (self.items_[best], *rated) if return_std else (self.items_[best], rated)

    def similar_items(self, item: Input, n: int = 10) -> tuple[Identifiers, FloatArray]:
        """The n items most similar to one, and their similarities: cosines of factors.

        The cosine is in the metric of the prior of users: it is the correlation, over users, of
        what the factors predict for two items, and 0 for items without factors.
        """
        check_is_fitted(self)
        n = _asking.checked_count(n)
        place = int(_asking.places(_asking.one(item), self.items_, "items")[0])
        if place < 0:
            raise ValueError(f"there is no item {item!r} among the {self.items_.size} of the fit.")
        H, posterior = self.n_components_, self.posterior_
        B = posterior.columns.mean[:, :H] * np.sqrt(posterior.rows.prior[:H])
        lengths = np.sqrt(np.einsum("ih,ih->i", B, B))
        B = B / np.where(lengths > 0, lengths, 1.0)[:, None]
        cosines = np.clip(B @ B[place], -1.0, 1.0)
        order = _asking.largest(np.where(np.arange(cosines.size) == place, -np.inf, cosines), n)
        order = order[order != place]
        return self.items_[order], cosines[order]

    def predict_new(
        self,
        items: Input,
        ratings: Input,
        targets: Input = None,
        return_std: bool | Literal["mean"] = False,
    ) -> ArrayOrPair:
        """Predict ratings of `targets` by a new user, from a few of their ratings.

        The model is not refitted: the user's posterior follows from the items'. By default
        `targets` are all `items_`. Unknown items are left out, with a warning.
        """
        check_is_fitted(self)
        _validation.choose("return_std", return_std, (False, True, "mean"))
        new = self._source.with_new(*self._new_cells(items, ratings))
        if targets is None:
            wanted = np.arange(self.items_.size)
        else:
            wanted = _asking.places(targets, self.items_, "targets")
            _asking.warn_of_strangers((targets, wanted, "item"))
        return self._predicted(new, np.zeros_like(wanted), wanted, return_std)

    def recommend_new(
        self,
        items: Input,
        ratings: Input,
        n: int = 10,
        exclude_seen: bool = True,
        return_std: bool | Literal["mean"] = False,
    ) -> ArrayOrPair:
        """`recommend` for a new user, from a few of their ratings."""
        check_is_fitted(self)
        n = _asking.checked_count(n)
        columns, values = self._new_cells(items, ratings)
        new = self._source.with_new(columns, values)
        predicted = new.of_all(0)
        if exclude_seen:
            predicted[columns] = -np.inf
            n = min(n, predicted.size - columns.size)
        best = _asking.largest(predicted, n)
        rated = self._predicted(new, np.zeros_like(best), best, return_std)
        return (self.items_[best], *rated) if return_std else (self.items_[best], rated)

    def score(self, X: Input, y: object = None) -> float:
        """Negative root mean square error of predictions: higher is better.

        X is a matrix as in `fit`, its rows and columns in the order of `users_` and `items_`; or an
        array of pairs (user, item) of shape (k, 2) with y the ratings.
        """
        check_is_fitted(self)
        if y is None:
            rows, columns, values, shape = _ratings.cells_of(X)
            if shape != (self.users_.size, self.items_.size):
                raise ValueError(
                    f"X is of shape {shape}, but the fit had {self.users_.size} users and "
                    f"{self.items_.size} items: give pairs and y instead."
                )
            found = self._predicted(self._source, rows, columns, False)
        else:
            users, items = _asking.pairs(X)
            given = _identifiers.column(y, "y")
            values = _ratings.numbers(given, "y", lambda i: f"position {i} (counting from 0)")
            if len(values) != len(users):
                raise ValueError(f"X has {len(users)} pairs, but y has {len(values)} ratings.")
            found = self.predict(users, items)
        if not values.size:
            raise ValueError("there are no ratings to compare with: at least one is needed.")
        return -float(np.sqrt(np.mean((values - found) ** 2)))

    def _predicted(
        self,
        source: Any,
        rows: Numbers,
        columns: Numbers,
        return_std: bool | str,
        times: FloatArray | None = None,
    ) -> ArrayOrPair:
        shape = rows.shape
        rows, columns = (np.ascontiguousarray(a.ravel(), dtype=np.intp) for a in (rows, columns))
        when = () if times is None else (times.ravel(),)
        if not return_std:
            return self._clipped(source.predicted(rows, columns, *when), shape)
        mean, std = source.predicted_with_std(rows, columns, *when, noise=return_std is True)
        return self._clipped(mean, shape), std.reshape(shape)[()]

    def _clipped(self, mean: FloatArray, shape: tuple[int, ...]) -> Any:
        if self.bounds_ is not None:
            mean = np.clip(mean, *self.bounds_)
        return mean.reshape(shape)[()]

    def _new_cells(self, items: Input, ratings: Input) -> tuple[NDArray[np.int32], FloatArray]:
        """Places of the rated items that the fit knows, each once, and their mean ratings."""
        given = _identifiers.column(ratings, "ratings")
        values = _ratings.numbers(given, "ratings", lambda i: f"position {i} (counting from 0)")
        columns = np.atleast_1d(_asking.places(items, self.items_, "items"))
        if columns.shape != values.shape:
            raise ValueError(
                f"items and ratings must be of one length: got {columns.size} and {values.size}."
            )
        known = columns >= 0
        if not known.all():
            unknown = int(np.sum(~known))
            are, were = ("is", "was") if unknown == 1 else ("are", "were")
            warnings.warn(
                f"{unknown} of {known.size} item{'s' * (known.size != 1)} {are} unknown to the "
                f"model and {were} left out.",
                UserWarning,
                stacklevel=3,
            )
        there = columns[known].astype(np.int32)
        shape = (1, self.items_.size)
        means, _ = _ratings.averaged(np.zeros_like(there), there, values[known], shape)
        return means.indices.astype(np.int32), means.data
