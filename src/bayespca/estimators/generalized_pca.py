"""`GeneralizedPCA`: one low-rank model for numbers, flags, categories, ranks and counts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.types import (
    ArrayOrPair,
    DType,
    FloatArray,
    Input,
    Numbers,
    RandomState,
)
from bayespca.discrete import posterior as read
from bayespca.discrete import reading
from bayespca.discrete.columns import NAMES, as_cells, log_units
from bayespca.discrete.data import TableCells, known_table
from bayespca.discrete.fit import TableFit, general_model
from bayespca.inference.result import extended

from . import _columns, _input, _tables, _validation
from ._base import Fitted, typed
from ._natural_parameters import OPTIONS, WITH_DRAWS, NaturalPCA
from ._options import SHARE, Auto, Constraint, Option, one_of, table

BY_COLUMN = Constraint(
    ("a dictionary of such names by column",), ("dict",), lambda value: isinstance(value, dict)
)
PER_CELL = "array of shape (n_components_, n_cells)"


class GeneralizedPCA(NaturalPCA[TableFit]):
    """PCA of tables as they are: numbers, yes/no, categories, ranks and counts, with holes.

    Each column has a likelihood of its own; all share one low-rank matrix of natural
    parameters z = aᵢᵀbⱼ + μⱼ, with normal priors on scores a, loadings b and means μ, whose
    variances are learned, one for each component. Components that the data do not support
    disappear, which gives the number of components. The posterior of each row and column has a
    covariance of its own, and averages of all likelihoods over normal z are closed forms.

    =======================  =====================================================================
    ``"normal"``             x ~ N(z, s²), s² learned for each column
    ``"bernoulli"``          two levels, p(second) = σ(z)
    ``"categorical"``        levels without order: is it the most frequent one, if not, is it the
                             next one, and so on, a z for each question
    ``"ordinal"``            levels in order, p(x ≤ k) = σ(cₖ − z), cut points c learned
    ``"poisson"``            counts of mean eᶻ
    ``"negative-binomial"``  counts of mean eᶻ and variance eᶻ + e²ᶻ/r, r learned for each column
    =======================  =====================================================================

    X may be a pandas or polars DataFrame or an array, of numbers or text. None and NaN mark
    holes, both in `fit` and afterwards: only observed cells count. X may be a SciPy sparse matrix
    if all columns are counts, or zeros and ones; it has no holes, and is made dense one block of
    rows at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bayespca import GeneralizedPCA
    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=300)
    >>> X = pd.DataFrame({f"number{j}": a + 0.5 * rng.normal(size=300) for j in range(4)})
    >>> X["smokes"] = a + rng.logistic(size=300) > 0
    >>> X["visits"] = rng.poisson(np.exp(0.5 * a))
    >>> X["colour"] = np.where(a + rng.logistic(size=300) > 0, "red", "blue")
    >>> X.loc[::7, "colour"] = None
    >>> model = GeneralizedPCA().fit(X)
    >>> model.n_components_
    1
    >>> model.likelihoods_["smokes"], model.likelihoods_["colour"]
    ('bernoulli', 'bernoulli')
    >>> int(model.impute(X)["colour"].isna().sum())
    0
    """

    options = table(
        *("n_components", "max_iter", "tol", "checkpoint", "random_state", "verbose"),
        likelihood=Option(
            "The distribution of cells given z: a name from the table above for all columns, "
            "or a dictionary with names for some columns; the others are then chosen as by "
            '``"auto"``.\n'
            '``"auto"`` chooses from dtypes and values: flags, and columns with two levels or with '
            '0 and 1, are ``"bernoulli"``; text and categories are ``"categorical"``, ordered '
            'categories ``"ordinal"``; numbers with fractions or signs are ``"normal"``. Whole '
            "numbers are ranks, counts or numbers, whichever describes the column by itself best. "
            "`likelihoods_` lists the result.",
            one_of("auto", *NAMES) | BY_COLUMN,
        ),
        row_sizes=Option(
            "Whether counts are relative to the size of their row, which is the sum of its counts "
            "divided by the mean of that sum over rows: in genomics, the library size of a cell."
        ),
        **OPTIONS,
    )

    likelihoods_ = Fitted(
        "dict",
        "The likelihood of each column, by name.",
        lambda fit: {column.name: column.likelihood for column in fit.columns},
    )
    components_ = Fitted(
        PER_CELL,
        "Orthonormal directions in the space of natural parameters, which has one dimension for "
        "each column, but K − 1 for K categories; `cell_names_` names them.",
        typed(lambda fit: fit.posterior.components),
    )
    cell_names_ = Fitted(
        "list of str",
        "Names of the columns of natural parameters.",
        lambda fit: reading.cell_names(fit.columns),
    )
    output_names_ = Fitted(
        "list of str",
        "Names of the columns that `inverse_transform` returns.",
        lambda fit: [name for column in fit.columns for name in reading.expected_names(column)],
    )
    mean_ = Fitted(
        "array of shape (n_cells,)",
        "Natural parameters at scores of 0.",
        typed(lambda fit: fit.posterior.b[:, -1]),
    )
    n_components: int | Auto = "auto"
    _: KW_ONLY
    likelihood: Any = "auto"
    row_sizes: bool = False
    init: Literal["closed", "random"] = "closed"
    max_iter: int = 500
    tol: float = 1e-6

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Fit the model; `callback` is as in `BayesianPCA`.

        If an error occurs, the estimator stays as it was.
        """
        start, cap = time.perf_counter(), self._checked_cap()
        raw = _tables.read(self, X, reset=True)
        columns = _columns.described(raw, self.likelihood)
        for column in columns if self.method == "gibbs" else ():
            if column.likelihood not in WITH_DRAWS:
                raise ValueError(
                    f"method='gibbs' does not support {column.likelihood} cells, which column "
                    f"{column.name!r} has; it supports {', '.join(WITH_DRAWS)}. Use method='vb', "
                    "or another likelihood for this column."
                )
        codes = _columns.codes(raw, columns)
        data = known_table(as_cells(codes, columns, sized=self.row_sizes))
        units = float(log_units(codes, columns).sum())
        model = general_model(data, n_components=cap, init=self.init, log_units=units)
        found = inference.fit(model, data, _validation.looping(self, callback))
        about = {"columns": columns, "sized": bool(self.row_sizes)}
        fitted = extended(found, TableFit, **about, n_samples=codes.shape[0], dtype=raw.dtype)
        cells = as_cells(codes, columns, fitted.posterior.parameters)
        self._keep(self._with_draws(fitted, cells, cap), raw.features)
        n, p, k = self.n_samples_, len(columns), self.n_components_
        energy = f"free energy {self.free_energy_:.6g} after {self.n_iter_} sweeps"
        self._report(fitted, f"{n}×{p}, rank {k}, {energy}", start)
        return self

    # --- scores --------------------------------------------------------------------------------

    def inverse_transform(self, X: Input) -> Numbers:
        """Expected rows at given scores, in the columns that `output_names_` names.

        They hold means of numbers, rates of counts in rows of average size, and probabilities of
        levels.
        """
        check_is_fitted(self)
        T = _input.read_scores(X, self.n_components_, self.components_)
        z = read.natural_at_scores(self.posterior_, T)
        columns = self.fit_.columns
        cells = as_cells(
            np.full((len(T), len(columns)), np.nan), columns, self.posterior_.parameters
        )
        views = reading.views(columns, cells, z, np.zeros_like(z))
        return _beside(reading.expected(view) for view in views).astype(T.dtype)

    # --- cells ---------------------------------------------------------------------------------

    def predict_cells(self, X: Input, return_std: bool | Literal["mean"] = False) -> ArrayOrPair:
        """Expected value of every cell, given the observed cells of its row.

        Columns are those of `inverse_transform`; results average over scores, loadings and means.
        With ``return_std=True`` it also returns standard deviations of what would be measured, with
        levels as zeros and ones; with ``return_std="mean"`` those of means, rates and
        probabilities.
        """
        _validation.choose("return_std", return_std, (False, True, "mean"))
        raw, _, cells = self._read(X)
        z = read.natural(self.posterior_, cells)
        views = list(reading.views(self.fit_.columns, cells, *z))
        means = _beside(reading.expected(view) for view in views).astype(raw.dtype)
        if not return_std:
            return means
        noise = return_std != "mean"
        std = _beside(reading.deviations(view, noise=noise) for view in views)
        return means, std.astype(raw.dtype)

    def impute(self, X: Input, *, interval: float | None = None) -> Any:
        """The table with its holes filled, in its own types; other cells stay.

        Numbers are filled by their mean, counts by their median, and levels by the most probable
        one. With `interval=0.95` it also returns a dictionary of arrays with an entry for each
        hole: its ``row`` and ``column``, the ``value``, ``low`` and ``high`` of the interval that
        holds the cell with probability 0.95 (for numbers, counts and ranks), and the
        ``probability`` of the value (for levels).
        """
        if interval is not None:
            SHARE.check("interval", interval)
        raw, codes, cells = self._read(X)
        holes: list[dict[str, Any]] = []
        if not raw.is_sparse:
            m, v = read.natural(self.posterior_, cells)
            for j, view in enumerate(reading.views(self.fit_.columns, cells, m, v)):
                rows = np.flatnonzero(raw.columns[j].holes)
                guess = reading.guessed(view.at(rows), interval or 0.95)
                codes[rows, j] = guess.value
                holes.append(_described_holes(raw.columns[j], view.column, rows, guess))
        table = _tables.filled(raw, self.fit_.columns, codes)
        if interval is None:
            return table
        kinds: dict[str, Any] = dict.fromkeys(("row", "column", "value", "low", "high"), object)
        kinds |= {"row": np.intp, "probability": np.float64}
        return table, {
            key: np.array([one for part in holes for one in part[key]], dtype=kind)
            for key, kind in kinds.items()
        }

    def sample_imputations(
        self, X: Input, n_draws: int = 5, random_state: RandomState = None
    ) -> list[Any]:
        """Tables whose holes are filled by draws from the posterior: multiple imputation.

        Each table has its own draw of loadings, scores and missing cells; observed cells stay.
        """
        raw, codes, cells = self._read(X)
        rng = _validation.generator(random_state)
        if raw.is_sparse:
            return [raw.table.copy() for _ in range(n_draws)]
        tables = []
        for _ in range(n_draws):
            z = read.drawn_natural(self.posterior_, cells, rng)
            views = reading.views(self.fit_.columns, cells, z, np.zeros_like(z))
            drawn = np.stack([reading.drawn(view, rng) for view in views], axis=1)
            full = np.where(np.isnan(codes), drawn, codes)
            tables.append(_tables.filled(raw, self.fit_.columns, full))
        return tables

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Numbers:
        """Lower bound on the log density of the known cells of each row."""
        _, codes, cells = self._read(X)
        return read.log_density(self.posterior_, cells) - log_units(codes, self.fit_.columns)

    # --- reading -------------------------------------------------------------------------------

    def _read(self, X: Input) -> tuple[_tables.RawTable, FloatArray, TableCells]:
        """Read a table: return it as it came, its codes, and its cells."""
        check_is_fitted(self)
        raw = _tables.read(self, X, reset=False)
        codes = _columns.codes(raw, self.fit_.columns)
        fit, parameters = self.fit_, self.posterior_.parameters
        return raw, codes, as_cells(codes, fit.columns, parameters, sized=fit.sized)

    def _cells_of(self, X: Input) -> tuple[TableCells, DType]:
        raw, _, cells = self._read(X)
        return cells, raw.dtype

    def _reads_holes(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        kind = self.likelihood
        tags.input_tags.sparse = not isinstance(kind, str) or kind in ("auto", *_columns.OF_SPARSE)
        return tags


def _beside(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate(list(parts), axis=1)


def _described_holes(
    raw: _tables.RawColumn, column: Any, rows: Any, guess: reading.CellGuess
) -> dict[str, Any]:
    """An entry for each hole of a column, with values of the table's own types."""

    def own(codes: FloatArray) -> list[Any]:
        known = ~np.isnan(codes)
        values = iter(_tables.own_values(raw, column, codes[known]))
        return [next(values) if there else None for there in known]

    return {
        "row": rows.tolist(),
        "column": [column.name] * len(rows),
        "value": own(guess.value),
        "low": own(guess.low),
        "high": own(guess.high),
        "probability": guess.probability.tolist(),
    }
