"""Views with columns of any kind: their likelihoods, codes of cells, and tables from codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayespca.arrays.types import FloatArray, Input, Names
from bayespca.discrete import reading
from bayespca.discrete.columns import NAMES, TableColumn
from bayespca.sources.partitions import is_dask
from bayespca.views.fit import ViewsFit

from . import _columns, _input, _tables, _views
from ._base import AnyEstimator
from ._options import Constraint, one_of
from ._tables import RawColumn, RawTable
from ._views import OF, View, Views
from .wording import feature_names

LIKELIHOOD = one_of("normal", "auto", *(name for name in NAMES if name != "normal")) | Constraint(
    ("a dictionary of such names, or of dictionaries by column, by view",),
    ("dict",),
    lambda value: isinstance(value, dict),
)


def only_numbers(likelihood: Any) -> bool:
    """Whether the option says that all views hold numbers."""
    if isinstance(likelihood, str):
        return likelihood == "normal"
    # A dictionary by column may leave some open.
    return all(isinstance(name, str) and name == "normal" for name in likelihood.values())


def check_likelihood(likelihood: Any, names: Names) -> None:
    """Raise for unknown views and unknown likelihoods."""
    if isinstance(likelihood, str):
        return
    for view, asked in likelihood.items():
        if str(view) not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(f"likelihood names the view {view!r}, but the views are {known}.")
        for name in asked.values() if isinstance(asked, Mapping) else [asked]:
            if name not in (*NAMES, "auto"):
                listed = ", ".join(map(repr, NAMES))
                raise ValueError(
                    f"likelihood of view {view!r} must be 'auto' or one of {listed}, or a "
                    f"dictionary of these by column, not {name!r}."
                )


def refuse_dask(X: Input) -> None:
    """Raise for Dask arrays, which are always taken as numbers."""
    tables = _views.tables_in(X)
    for table in [X] if tables is None else tables.values():
        if is_dask(table):
            raise ValueError(
                "likelihood is for tables in memory, and Dask arrays are taken as numbers: leave "
                "likelihood at 'normal', or call compute() on them."
            )


# --- tables ------------------------------------------------------------------------------------


@dataclass
class Reader:
    """Reads tables column by column, and keeps them by view as they came.

    With a fit, columns are put into its order.
    """

    estimator: AnyEstimator
    fit: ViewsFit | None = None
    raw: dict[str, RawTable] = field(default_factory=dict)
    samples: dict[str, Names | None] = field(default_factory=dict)

    def table(self, name: str, table: Input) -> View:
        """A view whose values are codes, or zeros before a fit, when likelihoods are unknown."""
        samples, features, table = _views.parts(table)
        if np.ndim(table) == 2 and not np.shape(table)[1]:
            raise ValueError(f"view {name!r} has no columns: leave it out.")
        if self.fit is not None:
            known, count = _input.features_of(self.estimator), int(np.shape(table)[1])
            order = _views.order_of_columns(name, features, count, self.fit, known)
            if order is not None:
                table = table.iloc[:, order] if hasattr(table, "iloc") else table[:, order]
                features = None if features is None else features[order]
        try:
            raw = _tables.read(self.estimator, table, reset=True)
        except (TypeError, ValueError) as error:
            raise type(error)(f"view {name!r}: {error}") from error
        own = np.arange(len(raw.columns)) if features is None else features
        return self._kept(name, raw, [f"{name}{OF}{one}" for one in own], samples, features)

    def matrix(self, X: Input) -> View:
        """Same as `table`, for one matrix with the columns of all views."""
        _, features, table = _views.parts(X)
        raw = _tables.read(self.estimator, table, reset=self.fit is None)
        names = [column.name for column in raw.columns]
        return self._kept(_views.ONLY, raw, names, None, features)

    def _kept(
        self,
        name: str,
        raw: RawTable,
        names: Sequence[str],
        samples: Names | None,
        features: Names | None,
    ) -> View:
        pairs = zip(raw.columns, names, strict=True)
        raw = replace(raw, columns=[replace(column, name=one) for column, one in pairs])
        self.raw[name], self.samples[name] = raw, samples
        values = np.zeros((len(raw.columns[0].holes), len(names)))
        if self.fit is not None:
            values = _columns.codes(raw, self._columns(name))
        return View(name, values, samples, features, _views.is_pandas(raw.table))

    def _columns(self, name: str) -> tuple[TableColumn, ...]:
        assert self.fit is not None
        if name not in self.fit.names:
            return self.fit.columns
        v = list(self.fit.names).index(name)
        return tuple(self.fit.columns[j] for j in np.flatnonzero(self.fit.view == v))

    # --- for a fit -----------------------------------------------------------------------------

    def described(self, given: Views, likelihood: Any) -> tuple[TableColumn, ...]:
        check_likelihood(likelihood, given.names)
        columns = [column for raw in self.raw.values() for column in raw.columns]
        for view, asked in {} if isinstance(likelihood, str) else likelihood.items():
            own = {_own(columns[j].name, str(view)) for j in given.columns(str(view))}
            for key in asked if isinstance(asked, Mapping) else ():
                if str(key) not in own:
                    raise ValueError(
                        f"likelihood names the column {key!r}, which view {view!r} does not have."
                    )
        views = [str(given.names[v]) for v in given.view]
        return tuple(
            _columns.described_column(column, _asked(likelihood, view, column.name))
            for column, view in zip(columns, views, strict=True)
        )

    def coded(self, given: Views, columns: Sequence[TableColumn]) -> Views:
        """The views with the codes of all tables, side by side."""
        found, first = [], 0
        for name, raw in self.raw.items():
            own = columns[first : first + len(raw.columns)]
            values = _columns.codes(raw, own)
            found.append(View(name, values, self.samples[name]))
            first += len(own)
        values, _ = _views.joined(found)
        return replace(given, values=values)

    # --- results -------------------------------------------------------------------------------

    def given_back(self, codes: FloatArray, given: Views) -> Any:
        """Tables with their holes filled from codes, in their original types and form."""
        assert self.fit is not None
        if given.kind == "matrix":
            raw = self.raw[_views.ONLY]
            return _tables.filled(raw, self.fit.columns, codes)
        found = {str(name): self._table(str(name), codes, given) for name in given.names}
        return list(found.values()) if given.kind == "list" else found

    def _table(self, name: str, codes: FloatArray, given: Views) -> Any:
        columns, codes = self._columns(name), codes[:, given.columns(name)]
        raw = self.raw.get(name)
        if raw is None:
            values = [
                _tables.own_values(RawColumn(column.name), column, codes[:, j])
                for j, column in enumerate(columns)
            ]
            kind = object if any(isinstance(one[0], str) for one in values) else np.float64
            return np.array(values, dtype=kind).T
        own, every = self.samples[name], given.samples
        if own is None or every is None or np.array_equal(own, every):
            return _tables.filled(raw, columns, codes)
        aligned = _tables.read(self.estimator, _aligned(raw.table, own, every), reset=True)
        same = [
            replace(column, objects=old.objects, is_flags=old.is_flags, is_whole=old.is_whole)
            for column, old in zip(aligned.columns, raw.columns, strict=True)
        ]
        found = _tables.filled(replace(aligned, columns=same), columns, codes)
        # Rows that were added have changed the types of whole numbers and flags.
        return found.astype(raw.table.dtypes) if _views.is_pandas(found) else found


def _aligned(table: Any, own: Names, every: Names) -> Any:
    """A table with a row for every sample; rows that it lacks are empty."""
    if hasattr(table, "reindex"):
        return table.reindex(list(every))
    place = {name: i for i, name in enumerate(own)}
    values = np.asarray(table)
    kind = np.float64 if values.dtype.kind in "iub" else values.dtype
    out = np.full((len(every), values.shape[1]), np.nan, dtype=kind)
    rows = [i for i, name in enumerate(every) if name in place]
    out[rows] = values[[place[every[i]] for i in rows]]
    return out


# --- likelihoods -------------------------------------------------------------------------------


def _asked(likelihood: Any, view: str, column: str) -> str | None:
    """The likelihood given for a column; None if the table is to suggest it.

    Views that are not named hold numbers.
    """
    asked = likelihood
    if isinstance(asked, Mapping):
        asked = {str(name): kind for name, kind in asked.items()}.get(view, "normal")
    if isinstance(asked, Mapping):
        asked = {str(name): kind for name, kind in asked.items()}.get(_own(column, view), "auto")
    return None if asked == "auto" else str(asked)


def _own(column: str, view: str) -> str:
    """The name of a column in its own table."""
    return column.removeprefix(f"{view}{OF}")


def in_units_of_noise(columns: Sequence[TableColumn], std: FloatArray) -> tuple[TableColumn, ...]:
    """Columns with numbers scaled by the standard deviation of their noise, where it is known."""
    return tuple(
        column if np.isnan(size) else replace(column, scale=float(size))
        for column, size in zip(columns, std, strict=True)
    )


def likelihoods_by_view(fit: ViewsFit) -> dict[str, Any]:
    """The likelihood of each view; a dictionary by column if they differ."""
    found: dict[str, Any] = {}
    for v, name in enumerate(fit.names):
        mine = [fit.columns[j] for j in np.flatnonzero(fit.view == v)] if fit.columns else []
        kinds = {_own(column.name, str(name)): column.likelihood for column in mine}
        one = {*kinds.values()} or {"normal"}
        found[str(name)] = one.pop() if len(one) == 1 else kinds
    return found


def loading_names(model: AnyEstimator) -> list[str]:
    """Names of the entries of loadings: features, and for categories their levels."""
    columns = model.fit_.columns
    return reading.cell_names(columns) if columns else feature_names(model)


def output_names(fit: ViewsFit) -> dict[str, list[str]] | None:
    """Names of the expected values in each view; None if all columns are numbers."""
    if not fit.columns:
        return None
    found: dict[str, list[str]] = {}
    for v, name in enumerate(fit.names):
        mine = [fit.columns[j] for j in np.flatnonzero(fit.view == v)]
        every = [one for column in mine for one in reading.expected_names(column)]
        found[str(name)] = [_own(one, str(name)) for one in every]
    return found
