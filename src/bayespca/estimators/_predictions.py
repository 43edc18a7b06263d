"""Predictions, recommendations and similar items from a fitted factorization.

Also predictions of ratings without themselves, for calibration.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import ArrayOrPair, FloatArray, Identifiers, Input, Numbers
from bayespca.missing.ratings.posterior import left_out

from . import _distant_ratings, _identifiers, _ratings, _validation
from ._base import F, Iterating

Places = NDArray[np.intp]
# Number of ids that a message lists.
SHOWN = 5
# Most ratings that are judged: enough to know shares to about a thousandth.
MOST = 100_000


class RatingsPredictor(Iterating[F]):
    """An estimator of ratings, whose record names the users and the items.

    The record is a `FactorizationFit`.
    """

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
        fit: Any = self.fit_
        if times is not None and (fit.draws is None or fit.draws.drift is None):
            raise ValueError(
                "the model was fitted without times: leave them out, or fit with them."
            )
        if _distant_ratings.is_distant(users, items):
            if times is not None:
                raise ValueError("times are for pairs in memory: compute() the columns.")
            return _distant_ratings.predicted(self, users, items, return_std)
        rows = places(users, self.users_, "users")
        columns = places(items, self.items_, "items")
        warn_of_strangers(users, rows, "user")
        warn_of_strangers(items, columns, "item")
        rows, columns = broadcast(rows, columns)
        when = None if times is None else _ratings.times_of_pairs(times, rows.shape)
        return self._predicted(fit.predictor, rows, columns, return_std, when)

    def known(self, users: Input, items: Input) -> NDArray[np.bool_]:
        """Whether both the user and the item of each pair were in the fit; arrays broadcast.

        If not, `predict` takes the prior's answer for the one that is unknown.
        """
        check_is_fitted(self)
        rows = places(users, self.users_, "users")
        columns = places(items, self.items_, "items")
        rows, columns = broadcast(rows, columns)
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
        n = checked_count(n)
        found = places(one(user), self.users_, "users")
        warn_of_strangers([user], found, "user")
        row, seen = int(found[0]), np.empty(0, dtype=np.intp)
        if exclude_seen and row >= 0:
            seen = self.seen_items_[self.seen_starts_[row] : self.seen_starts_[row + 1]]
        fit: Any = self.fit_
        return self._recommended(fit.predictor, row, seen, n, return_std)

    def similar_items(self, item: Input, n: int = 10) -> tuple[Identifiers, FloatArray]:
        """The n items most similar to one, and their similarities: cosines of factors.

        The cosine is in the metric of the prior of users: it is the correlation, over users, of
        what the factors predict for two items, and 0 for items without factors.
        """
        check_is_fitted(self)
        n = checked_count(n)
        place = int(places(one(item), self.items_, "items")[0])
        if place < 0:
            raise ValueError(f"there is no item {item!r} among the {self.items_.size} of the fit.")
        H, posterior = self.n_components_, self.posterior_
        B = posterior.columns.mean[:, :H] * np.sqrt(posterior.rows.prior[:H])
        lengths = np.sqrt(np.einsum("ih,ih->i", B, B))
        B = B / np.where(lengths > 0, lengths, 1.0)[:, None]
        cosines = np.clip(B @ B[place], -1.0, 1.0)
        order = largest(np.where(np.arange(cosines.size) == place, -np.inf, cosines), n)
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
        fit: Any = self.fit_
        new = fit.predictor.with_new(*self._new_cells(items, ratings))
        if targets is None:
            wanted = np.arange(self.items_.size)
        else:
            wanted = places(targets, self.items_, "targets")
            warn_of_strangers(targets, wanted, "item")
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
        n = checked_count(n)
        columns, values = self._new_cells(items, ratings)
        fit: Any = self.fit_
        new = fit.predictor.with_new(columns, values)
        return self._recommended(new, 0, columns if exclude_seen else columns[:0], n, return_std)

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
            fit: Any = self.fit_
            found = self._predicted(fit.predictor, rows, columns, False)
        else:
            users, items = pairs(X)
            given = _identifiers.column(y, "y")
            values = _ratings.numbers(given, "y", lambda i: f"position {i} (counting from 0)")
            if len(values) != len(users):
                raise ValueError(f"X has {len(users)} pairs, but y has {len(values)} ratings.")
            found = self.predict(users, items)
        if not values.size:
            raise ValueError("there are no ratings to compare with: at least one is needed.")
        return -float(np.sqrt(np.mean((values - found) ** 2)))

    def _recommended(
        self, source: Any, row: int, seen: Numbers, n: int, return_std: bool | str
    ) -> ArrayOrPair:
        """The n items that a row of the source should like best, except the `seen` ones."""
        predicted = source.of_all(row)
        predicted[seen] = -np.inf
        best = largest(predicted, min(n, predicted.size - seen.size))
        rated = self._predicted(source, np.full(best.size, row), best, return_std)
        return (self.items_[best], *rated) if return_std else (self.items_[best], rated)

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
        std: FloatArray | None = None
        if return_std:
            mean, std = source.predicted_with_std(rows, columns, *when, noise=return_std is True)
        else:
            mean = source.predicted(rows, columns, *when)
        if self.bounds_ is not None:
            mean = np.clip(mean, *self.bounds_)
        mean = mean.reshape(shape)[()]
        return mean if std is None else (mean, std.reshape(shape)[()])

    def _new_cells(self, items: Input, ratings: Input) -> tuple[NDArray[np.int32], FloatArray]:
        """Places of the rated items that the fit knows, each once, and their mean ratings."""
        given = _identifiers.column(ratings, "ratings")
        values = _ratings.numbers(given, "ratings", lambda i: f"position {i} (counting from 0)")
        columns = np.atleast_1d(places(items, self.items_, "items"))
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


# --- arguments: ids, pairs and counts -----------------------------------------------------------


def places(ids: Input, known: Identifiers, name: str) -> Places:
    """Places of ids among the known ones, −1 if unknown; a single id gives an array of shape ()."""
    ids = _identifiers.here(ids)
    is_one = not hasattr(ids, "__len__") or isinstance(ids, str | bytes)
    if isinstance(ids, tuple):
        is_one = known.dtype == object and any(isinstance(value, tuple) for value in known)
    if is_one:
        return _identifiers.places(_identifiers.column([ids], name), known, name).reshape(())
    return _identifiers.places(_identifiers.column(ids, name), known, name)


def broadcast(rows: Places, columns: Places) -> tuple[Places, Places]:
    """Places of users and items, broadcast to one shape."""
    try:
        rows, columns = np.broadcast_arrays(rows, columns)
    except ValueError:
        raise ValueError(
            f"users and items must be of one shape, or broadcast to one: got {rows.shape} and "
            f"{columns.shape}."
        ) from None
    return rows, columns


def strangers_sentence(ids: Input, found: Places, what: str) -> str | None:
    """A sentence about users or items that the fit did not have; None if there are none."""
    unknown = np.flatnonzero(found.ravel() < 0)
    if not unknown.size:
        return None
    given = [ids] if not found.ndim else list(np.asarray(_identifiers.column(ids, what)).ravel())
    names = list(dict.fromkeys(str(given[i]) for i in unknown.tolist()))
    some = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    count = f"1 {what} was" if len(names) == 1 else f"{len(names)} {what}s were"
    return (
        f"{count} not in the fit ({some}): predictions for an unknown {what} come from the prior, "
        "with a wide standard deviation."
    )


def warn_of_strangers(ids: Input, found: Places, what: str) -> None:
    """Warn the caller of a method of unknown ids; `what` is "user" or "item"."""
    sentence = strangers_sentence(ids, found, what)
    if sentence is not None:
        warnings.warn(f"{sentence} `known` says which.", UserWarning, stacklevel=3)


def one(value: Input) -> list[Input]:
    """A single id as a list; raise for a list or an array of ids."""
    if hasattr(value, "__len__") and not isinstance(value, str | bytes | tuple):
        raise ValueError(f"one id is expected here, got a {type(value).__name__}: call for each.")
    return [value]


def pairs(X: Input) -> tuple[Input, Input]:
    """Users and items of an array of pairs."""
    if hasattr(X, "iloc"):
        return X.iloc[:, 0], X.iloc[:, 1]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 2:
        return X[:, 0], X[:, 1]
    if isinstance(X, list | tuple) and all(len(pair) == 2 for pair in X):
        return [pair[0] for pair in X], [pair[1] for pair in X]
    raise ValueError(
        "with y, X must be pairs (user, item): an array of shape (k, 2), got "
        f"{getattr(X, 'shape', type(X).__name__)}."
    )


def checked_count(n: object) -> int:
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0:
        raise ValueError(f"n must be a whole number of at least 0, got {n!r}.")
    return int(n)


def largest(values: FloatArray, n: int) -> Places:
    """Places of the n largest values, largest first; among ties the first come first."""
    n = min(n, values.size)
    if n < values.size:
        edge = np.partition(values, values.size - n)[values.size - n] if n else np.inf
        some = np.flatnonzero(values >= edge)
    else:
        some = np.arange(values.size)
    return np.asarray(some[np.argsort(-values[some], kind="stable")][:n])


# --- predictions of ratings without themselves ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """Ratings, and the mean and standard deviation of each one's prediction without it.

    `n_fitted` of them were in the fit. They were drawn from `n_given`; `n_alone` more were drawn
    and dropped, because their predictions depend too much on themselves.
    """

    values: FloatArray
    mean: FloatArray
    std: FloatArray
    n_fitted: int
    n_given: int
    n_alone: int


def judged(model: Any, X: Input) -> Judged | None:
    """Predict each rating from all others.

    X is a matrix as in `fit`, or a tuple of users, items and ratings. Ratings that were not in the
    fit need no correction. Fitted ratings cannot be taken out of point estimates, which do not show
    how much they depend on a rating, nor out of predictions for an unknown time; if no other
    ratings are left, return None.
    """
    if isinstance(X, tuple) and len(X) == 3:
        cells = _ratings.from_columns(*X, None)
    else:
        cells = _ratings.from_matrix(X, None)
    assert cells.values is not None
    rows = _identifiers.places(cells.users, model.users_, "users")[cells.rows]
    columns = _identifiers.places(cells.items, model.items_, "items")[cells.columns]
    # Which pairs were in the fit.
    m, counts = model.items_.size, np.diff(model.seen_starts_)
    pairs = np.repeat(np.arange(counts.size, dtype=np.int64), counts) * m + model.seen_items_
    fitted = (rows >= 0) & (columns >= 0) & np.isin(rows.astype(np.int64) * m + columns, pairs)
    sides = model.posterior_.rows, model.posterior_.columns
    drifts = getattr(model.fit_.predictor, "drift", None) is not None
    if drifts or not all(len(side.cov) for side in sides):
        usable = np.flatnonzero(~fitted)
    else:
        usable = np.arange(fitted.size)
    if not usable.size:
        return None
    some = usable
    if usable.size > MOST:
        some = np.sort(np.random.default_rng(0).choice(usable, MOST, replace=False))
    mean, std = _predicted(model, rows[some], columns[some], cells.values[some], fitted[some])
    said = np.isfinite(mean)
    return Judged(
        cells.values[some][said],
        mean[said],
        std[said],
        n_fitted=int(fitted[some][said].sum()),
        n_given=usable.size,
        n_alone=int(np.sum(~said)),
    )


def _predicted(
    model: Any, rows: Places, columns: Places, values: FloatArray, fitted: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each rating, leaving it out if it was in the fit."""
    mean, std = model.fit_.predictor.predicted_with_std(rows, columns, noise=False)
    _, wide = model.fit_.predictor.predicted_with_std(rows, columns, noise=True)
    variance, noise = std**2, wide**2 - std**2
    without = left_out(mean, variance, noise, values)
    mean = np.where(fitted, without.mean, mean)
    variance = np.where(fitted, without.variance, variance)
    if model.bounds_ is not None:
        mean = np.clip(mean, *model.bounds_)
    return mean, np.sqrt(variance + noise)
