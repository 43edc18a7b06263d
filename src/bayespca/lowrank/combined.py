"""Posteriors with columns that follow from others, which no function of rows looks at.

Scores, densities and holes are those of the other columns. Rows, directions and covariances are
completed by the combinations, so they agree with these exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from bayespca.arrays.namespaces import array_namespace, has_nan, on_host, to_namespace, to_numpy
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array
from bayespca.sources.redundant import Combinations

Reader = TypeVar("Reader", bound=Callable[..., Any])
P = TypeVar("P", bound=Any)


def independent(posterior: P) -> P:
    """The posterior of the columns that do not follow from others."""
    combined: Combinations | None = posterior.combined
    if not combined:
        return posterior
    others = combined.others(posterior.components.shape[1])
    return _with_columns(posterior, lambda values: taken(values, others), None)


def expanded(posterior: P, combined: Combinations) -> P:
    """The posterior of all columns, from that of those that do not follow from others.

    Where columns are in units of their own, a combination has that of its noise.
    """
    q = posterior.components.shape[1]
    p = q + combined.columns.size
    others = combined.others(p)
    mean = combined.completed(posterior.mean[None, :], offset=True)[0, :]
    scale = np.ones(p)
    scale[others] = to_numpy(posterior.scale)
    if (scale != 1).any():
        scale[combined.columns] = combined.spread(scale[None, :])[0]

    def spread_out(values: Array) -> Array:
        found = np.zeros((p, *values.shape[1:]))
        found[others] = to_numpy(values)
        return to_namespace(found, values)

    found = _with_columns(posterior, spread_out, combined)
    if filler := getattr(posterior, "filler", None):
        found = replace(found, filler=expanded(filler, combined))
    return replace(found, mean=mean, scale=to_namespace(scale, posterior.scale))


def _with_columns(posterior: P, of: Callable[[Array], Array], combined: Combinations | None) -> P:
    """The posterior with `of` applied to all arrays whose first axis are the columns."""
    changed = {"mean": of(posterior.mean), "scale": of(posterior.scale), "combined": combined}
    if hasattr(posterior, "columns"):
        b, b_cov = of(posterior.columns.b), of(posterior.columns.b_cov)
        changed["columns"] = replace(posterior.columns, b=b, b_cov=b_cov)
    return replace(posterior, components=of(posterior.components.T).T, **changed)


def inside(posterior: P, X: Array) -> tuple[P, Array]:
    """`independent`, and rows of these columns, with holes filled that combinations determine."""
    combined: Combinations | None = posterior.combined
    if not combined:
        return posterior, X
    if has_nan(X):
        X = to_namespace(combined.solved(on_host(X)), X)
    return independent(posterior), taken(X, combined.others(X.shape[1]), axis=1)


def of_independent(read: Reader) -> Reader:
    """Decorate a function of a posterior and rows, which then gets those of `inside`."""

    @wraps(read)
    def reading(posterior: Any, X: Array, *args: Any, **options: Any) -> Any:
        return read(*inside(posterior, X), *args, **options)

    return reading  # type: ignore[return-value]


def directions(posterior: Any, components: Array) -> Array:
    """Directions of all columns, from those of `independent`."""
    if not posterior.combined:
        return components
    scale = posterior.scale
    own = taken(scale, posterior.combined.others(scale.shape[0]))
    return posterior.combined.completed(components * own) / scale


def completes(finish: Callable[[Combinations, Array], Array]) -> Callable[[Reader], Reader]:
    """Decorate a function of a posterior: `finish` takes what it says of independent columns."""

    def decorate(read: Reader) -> Reader:
        @wraps(read)
        def reading(posterior: Any, *args: Any) -> Any:
            found = read(independent(posterior), *args)
            return finish(posterior.combined, found) if posterior.combined else found

        return reading  # type: ignore[return-value]

    return decorate


def rows(combined: Combinations, values: Array) -> Array:
    """Rows of all columns."""
    return combined.completed(values, offset=True)


def squares(combined: Combinations, inner: Array) -> Array:
    """A covariance of all columns."""
    return combined.completed(combined.completed(inner).T)


def bordered(combined: Combinations, inner: Array) -> Array:
    """A matrix of all columns that is 0 for combinations."""
    p = inner.shape[0] + combined.columns.size
    others = combined.others(p)
    found = np.zeros((p, p))
    found[np.ix_(others, others)] = to_numpy(inner)
    return to_namespace(found, inner)


def spread(combined: Combinations | None, std: Array) -> Array:
    """Standard deviations (m, q) of independent columns, with those of combinations."""
    if not combined:
        return std
    p = std.shape[1] + combined.columns.size
    found = np.zeros((std.shape[0], p))
    found[:, combined.others(p)] = to_numpy(std)
    found[:, combined.columns] = combined.spread(found)
    return to_namespace(found, std)


def outside(
    posterior: Any, X: Array, filled: Array, std: Array | None = None
) -> tuple[Array, Array]:
    """Rows X with holes, filled as those of `inside` were, and the standard deviations, or 0.

    Combinations that are there hold. Errors have the noise variances of their columns.
    """
    combined: Combinations | None = posterior.combined
    std = filled * 0 if std is None else std
    if not combined:
        return filled, std
    whole, variance = (
        on_host(combined.completed(filled, offset=True)),
        on_host(posterior.scale) ** 2,
    )
    known, left = combined.given_known(on_host(X), whole, variance)
    left = left[:, combined.others(left.shape[1])] ** 0.5
    filled = to_namespace(known, filled, filled.dtype)
    std = spread(combined, std * to_namespace(left, std, std.dtype))
    xp = array_namespace(X)
    holes = xp.isnan(X)
    return xp.where(holes, filled, X), xp.where(holes, std, 0 * std)
