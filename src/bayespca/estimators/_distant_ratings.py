"""Ratings in Dask columns: grouped by user, with numbered items and lazy predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.types import Identifiers, Input
from bayespca.missing.ratings.partitioned import DistantRatings, UserCells, scaled
from bayespca.sources.cluster import computed, kept
from bayespca.sources.partitions import is_dask
from bayespca.sources.records import DaskArray, Delayed
from bayespca.sources.tasks import array_of_parts, mapped_parts, reduced, total_over

from . import _identifiers, _ratings
from ._base import AnyEstimator

# A pandas or Dask table.
Frame: TypeAlias = Any

NAMES = ("user", "item", "rating")


@dataclass(frozen=True, eq=False)
class DistantCells:
    """Ratings on Dask: item ids, blocks of `UserCells` with each pair once, bounds, and the number
    of duplicates that were merged.
    """

    items: Identifiers
    blocks: tuple[Delayed, ...]
    bounds: tuple[float, float] | None
    n_duplicates: int

    def data(self, *, center: bool) -> DistantRatings:
        return scaled(self.blocks, self.items.size, center=center)


def is_distant(*columns: Input) -> bool:
    """Whether any of the columns belongs to Dask."""
    return any(map(is_dask, columns))


def from_columns(users: Input, items: Input, ratings: Input, bounds: Any) -> DistantCells:
    """Read ratings from three columns of a Dask DataFrame.

    This takes two passes: one numbers the items, the other groups the ratings by user.
    """
    frame = framed(users, items, ratings)
    parts = frame.to_delayed()
    looks = mapped_parts(_look, parts, range(len(parts)))
    look: _Look = computed(reduced(looks, _merged))[0]
    if not look.n_ratings:
        raise ValueError("there are no ratings: at least one is needed.")
    if bounds == "auto":
        bounds = (look.low, look.high) if look.values.size <= _ratings.SCALE else None
    # Tasks depend on nothing but their inputs, so they can run again when a worker is lost.
    together = frame.shuffle("user", shuffle_method="tasks").to_delayed()
    found = kept(mapped_parts(_cells, together, broadcast=[look.items]))
    counts = total_over(tuple(found), _counts)
    blocks = [block for block, n in zip(found, counts.users, strict=True) if n]
    return DistantCells(look.items, tuple(blocks), bounds, look.n_ratings - counts.n_different)


def framed(*columns: Input) -> Frame:
    """Columns of one Dask DataFrame as a DataFrame of their own, renamed to `NAMES`."""
    for name, column in zip(NAMES, columns, strict=False):
        if not (is_dask(column) and hasattr(column, "to_frame")):
            raise TypeError(
                f"{name}s is a {type(column).__name__}, but other columns are Dask's: give "
                "all of them as columns of one Dask DataFrame, or none."
            )
    first, *others = columns
    return first.to_frame(name=NAMES[0]).assign(**dict(zip(NAMES[1:], others, strict=False)))


# --- a first look ------------------------------------------------------------------------------


class _Look(NamedTuple):
    """Summary of some partitions: number of ratings, item ids, distinct ratings (at most one more
    than a scale has), and the smallest and the largest rating.
    """

    n_ratings: int
    items: Identifiers
    values: NDArray[np.float64]
    low: float
    high: float


def _look(part: Frame, i: int) -> _Look:
    where = f"of partition {i}"
    values = _numbers(part, where)
    items, _ = _identifiers.numbered(_ids(part, "item"), f"items {where}")
    _identifiers.numbered(_ids(part, "user"), f"users {where}")
    return _Look(
        len(values),
        items,
        np.unique(values)[: _ratings.SCALE + 1],
        float(values.min(initial=np.inf)),
        float(values.max(initial=-np.inf)),
    )


def _merged(first: _Look, second: _Look) -> _Look:
    parts = [look.items for look in (first, second) if look.items.size]
    items = np.concatenate(parts) if parts else first.items
    values = np.unique(np.concatenate([first.values, second.values]))
    return _Look(
        first.n_ratings + second.n_ratings,
        _identifiers.numbered(items, "items")[0],
        values[: _ratings.SCALE + 1],
        min(first.low, second.low),
        max(first.high, second.high),
    )


def _numbers(part: Frame, where: str = "") -> NDArray[np.float64]:
    values = _identifiers.column(part["rating"].to_numpy(), "ratings")
    return _ratings.numbers(values, "ratings", lambda i: f"position {i} {where} (counting from 0)")


def _ids(part: Frame, name: str) -> Identifiers:
    return _identifiers.column(part[name], f"{name}s")


# --- ratings of each user together -------------------------------------------------------------


class _Counts(NamedTuple):
    """Number of users of each block, and of distinct pairs in all blocks."""

    users: list[int]
    n_different: int


def _cells(part: Frame, items: Identifiers) -> UserCells:
    """The ratings of a partition by user; repeated ratings of an item are averaged."""
    users, rows = _identifiers.numbered(_ids(part, "user"), "users")
    columns = _identifiers.places(_ids(part, "item"), items, "items").astype(np.int32)
    shape = (users.size, items.size)
    means, _ = _ratings.averaged(rows, columns, _numbers(part), shape)
    starts, other = means.indptr.astype(np.int64), means.indices.astype(np.int32)
    return UserCells(starts, other, means.data, users)


def _counts(cells: UserCells) -> _Counts:
    return _Counts([cells.users.size], cells.values.size)


# --- after the fit -----------------------------------------------------------------------------


def in_order(users: Identifiers) -> NDArray[np.intp]:
    """Order of the users: numbers ascending, other ids as they came."""
    return np.arange(users.size) if users.dtype == object else np.argsort(users, kind="stable")


def predicted(
    estimator: AnyEstimator, users: Input, items: Input, return_std: bool | str
) -> DaskArray:
    """Predictions for the pairs of two columns, as Dask arrays with one block per partition."""
    parts = framed(users, items).to_delayed()
    like = np.empty((0, 2)) if return_std else np.empty(0)
    found = array_of_parts(parts, _predicted, estimator, return_std, like=like)
    return (found[:, 0], found[:, 1]) if return_std else found


def _predicted(part: Frame, estimator: AnyEstimator, return_std: bool | str) -> NDArray[np.float64]:
    # `predict` would warn on the workers, once per partition.
    rows = _identifiers.places(_ids(part, "user"), estimator.users_, "users")
    columns = _identifiers.places(_ids(part, "item"), estimator.items_, "items")
    found = estimator._predicted(estimator.fit_.predictor, rows, columns, return_std)
    return np.column_stack(found) if return_std else np.asarray(found)
