"""Signs of other noise in the residuals of a fit, from some of the rows or from sums over all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bayespca.arrays.namespaces import on_host
from bayespca.arrays.places import taken
from bayespca.arrays.types import Array, FloatArray
from bayespca.linear.scaled.data import NoisyTable, Whitening
from bayespca.linear.scaled.squares import best_partials, products_of_columns
from bayespca.lowrank.filtering import filtered
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.records import PCAFit
from bayespca.lowrank.scales import given
from bayespca.sources.data import Where, where_of
from bayespca.spectrum.forms import ClosedForm

from .signs import (
    LEAST_CORRELATION,
    Signs,
    absorbed,
    is_far_from_equal,
    of_variances,
    signs,
    taken_in_order,
)

# Cells that are enough to recognise the noise, few compared with those that a fit reads; and the
# fewest rows or columns to keep.
CELLS = 150_000
FEWEST = 300
# Rows that a quick look reads.
GLANCE = 64
# Least share of a cell's noise that counts as left in its residual; and the share of all directions
# above which components take too much noise for residuals to show its kind.
LEAST_LEFT = 0.02
MOST_TAKEN = 0.25
# Signs that so many components may have explained away.
SIDES = frozenset({"columns", "rows", "neighbours"})
# Code of the advice that data have no noise; there are no signs then.
NOISE_FREE = "noise-free"
# A smaller noise variance has lost digits.
TINY = np.finfo(np.float64).tiny


def every_few(X: Array, p: int | None = None) -> Array:
    """Rows at equal distances, or all if they are few; as many as of a matrix with p columns."""
    n, width = X.shape
    return X[:: step_of_few(n, p or width), :]


def step_of_few(n: int, p: int) -> int:
    """Distance between the rows that `every_few` takes of n rows with p columns."""
    return max(1, n // max(CELLS // p, FEWEST))


def far_from_equal(X: Array) -> bool:
    """Whether a few rows suffice to show noise that is far from equal."""
    return is_far_from_equal(on_host(X[:: max(1, X.shape[0] // GLANCE), :]))


def of_complete(X: Array, fit: PCAFit, scores: Array = None) -> Signs:
    """Signs in the residuals of complete rows after a fit of complete data.

    `scores`, if known, are those of all rows, up to sign.
    """
    posterior = fit.posterior
    if not isinstance(posterior, Posterior):
        # Cells have noise of their own already, and no model is richer than that.
        return Signs()
    if NOISE_FREE in fit.status or min(posterior.noise_variance, fit.noise_variance) < TINY:
        return Signs()
    W, shrinkage = on_host(posterior.components), on_host(posterior.shrinkage)
    few, Z, T = _some(X, posterior, scores)
    adjacent = np.diff(few) == 1
    away = absorbed(W, T) | taken_in_order(Z, adjacent, len(W))
    few_W = W[:, few]
    E = (Z - (T * shrinkage) @ few_W) / np.sqrt(posterior.noise_variance)
    if fit.noise.samples is not None:
        logs = np.log(fit.noise.samples)
        unit = np.exp(0.5 * (logs.mean() - every_few(logs[:, None], p=X.shape[1])))
        E, T = E * unit, T * unit
    # Components absorb noise: a share of each column's, and of each row's.
    of_rows = T**2 @ (shrinkage / fit.kept_singular_values**2)
    freedom = np.subtract.outer(1 - of_rows, shrinkage @ few_W**2)
    np.maximum(freedom, LEAST_LEFT, out=freedom)
    found = signs(E, freedom, adjacent, np.sqrt(shrinkage)[:, None] * few_W)
    return replace(found, absorbed=away | _taken(W))


def _some(
    X: Array, posterior: Posterior, scores: Array = None
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Indices of varying columns, these columns of some rows, scaled and filtered, and row scores.

    Very many columns are thinned out. If scores are known, the other columns are not read.
    """
    rows, W = every_few(X), on_host(posterior.components)
    few = some_columns(*rows.shape)
    if scores is None or posterior.partials:
        Z = filtered(_scaled(rows, posterior, slice(None)), posterior.partials)
        T = Z @ W.T
        Z = Z[:, few]
    else:
        sparse = where_of(rows) is Where.SPARSE
        some = rows[:, few] if sparse else taken(rows, few, axis=1)
        Z = _scaled(some, posterior, few)
        T = on_host(every_few(scores, p=X.shape[1]))
        same = np.einsum("ih,ih->h", T, Z @ W[:, few].T)
        T = T * np.where(same < 0, -1.0, 1.0)
    live = np.einsum("ij,ij->j", Z, Z) > 0
    return (few, Z, T) if live.all() else (few[live], Z[:, live], T)


def _scaled(rows: Array, posterior: Posterior, columns: NDArray[np.intp] | slice) -> FloatArray:
    """Rows minus the mean, over the scale, of some columns; float64 on the host."""
    rows = rows.toarray() if where_of(rows) is Where.SPARSE else rows
    Z = on_host(rows) - on_host(posterior.mean)[columns]
    scale = on_host(posterior.scale)[columns]
    if (scale != 1.0).any():
        Z /= scale
    return Z


def some_columns(n: int, p: int) -> NDArray[np.intp]:
    """Indices of all columns, or of some pairs of neighbours if columns are very many."""
    step = p // max(CELLS // n, FEWEST)
    if step <= 2:
        return np.arange(p)
    return np.unique(np.minimum(np.add.outer(np.arange(0, p, 2 * step), [0, 1]), p - 1))


def of_sums(table: NoisyTable, form: ClosedForm, fit: PCAFit) -> Signs:
    """Signs from sums over all rows after a fit: for columns and neighbours, but not for rows."""
    if NOISE_FREE in fit.status or not fit.noise_variance:
        return Signs()
    variances, partials = np.ones(table.p), fit.noise.partials
    if fit.noise.features is not None:
        variances = fit.noise.features[table.live] / table.units**2
    whitening = Whitening(given(variances).at_unit_scale(), partials=partials or (0.0,))
    found = table.whitened(whitening, form)
    left = products_of_columns(found, table)
    _, by_columns = of_variances(left.pull(partials), np.full(table.p, left.number))
    rest = best_partials(left._replace(beside=left.beside[:1]), (0.0,))[0]
    gain = -0.5 * table.n_samples * (table.p - 1) * float(np.log1p(-min(rest * rest, 0.99)))
    alike = abs(rest - (partials or (0.0,))[0]) > LEAST_CORRELATION
    away = absorbed(found.components, np.zeros((0, 0)))
    return Signs(
        columns=by_columns,
        neighbours=gain if alike else 0.0,
        correlation=rest,
        absorbed=away | (_taken(found.components) - {"rows"}),
    )


def _taken(components: FloatArray) -> frozenset[str]:
    """Signs that components may have explained away because there are so many of them."""
    return SIDES if len(components) > MOST_TAKEN * components.shape[1] else frozenset()
