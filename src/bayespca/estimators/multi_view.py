"""`MultiViewPCA`: factors of several tables of the same samples, shared or not."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.types import (
    ArrayOrPair,
    FloatArray,
    Input,
    Names,
    Numbers,
    RandomState,
)
from bayespca.discrete.columns import TableColumn, as_cells, log_units
from bayespca.inference.fitting import Looping
from bayespca.inference.result import extended
from bayespca.io.packages import need
from bayespca.sources.cluster import computed, watched
from bayespca.sources.partitions import is_dask, partitioned
from bayespca.sources.records import DaskArray
from bayespca.spectrum.records import Status
from bayespca.views.data import ViewsTable, look_at_views, views_on_workers, views_table
from bayespca.views.fit import ViewsFit, ViewsModel
from bayespca.views.mixed.data import MixedViews, mixed_views
from bayespca.views.mixed.fit import MixedModel

from . import _input, _lazy, _mixed_views, _validation, _views
from ._base import BY_RANK, Estimator, Fitted, Transforming, typed
from ._options import Auto, Option, table
from ._view_noise import Noise, distant_rows, noise_of_features, rows_with_values
from ._view_predictions import PredictorOfCells, PredictorOfNumbers
from ._views import Views

BY_VIEW = "array of shape (n_components_, n_views)"


class MultiViewPCA(Transforming, Estimator[ViewsFit]):
    """Factors of several tables of the same samples: some drive all tables, some only a few.

    Row i of table v is x_vi = Σₕ aᵢₕ b_vh + μ_v + noise, with scores a that all tables share and
    loadings b of its own. The loadings of each factor have a prior variance in each view, which is
    learned; it is 0 if the factor is not in the view (group factor analysis: Klami, Virtanen,
    Leppäaho and Kaski 2015). Each view has its own noise. The fit starts from closed forms: the
    noise of each view, and the components of all views divided by it. Sweeps then rotate the
    factors to where the free energy is lowest, which makes each factor act in few views. With one
    view the model is `BayesianPCA`.

    With `likelihood`, views may also hold flags, categories, ranks and counts. Then the natural
    parameters are low-rank, as in `GeneralizedPCA`, and the likelihoods replace the noise. Factors,
    prior variances, the pattern and the rotation stay the same.

    NaN marks holes, both in `fit` and afterwards, and rows may lack whole views. Given Dask arrays,
    methods return Dask arrays, which are computed later.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import MultiViewPCA
    >>> rng = np.random.default_rng(0)
    >>> shared, own = rng.normal(size=(2, 100, 1))
    >>> genes = shared @ rng.normal(size=(1, 60)) + own @ rng.normal(size=(1, 60))
    >>> proteins = shared @ rng.normal(size=(1, 40))
    >>> views = {"genes": genes + rng.normal(size=genes.shape)}
    >>> views["proteins"] = proteins + 0.5 * rng.normal(size=proteins.shape)
    >>> model = MultiViewPCA().fit(views)
    >>> model.active_.astype(int).tolist()
    [[1, 1], [1, 0]]
    >>> model.predict_view({"genes": views["genes"]}, "proteins").shape
    (100, 40)
    """

    options = table(
        *("n_components", "checkpoint", "verbose"),
        noise=Option(
            'The noise within a view. ``"isotropic"``: one variance for the whole view. '
            '``"per-feature"``: one for each feature; `BayesianPCA` finds them in the view, up to '
            'a factor. ``"auto"``: whichever the evidence prefers, view by view.'
        ),
        likelihood=Option(
            'The kind of cells. ``"normal"``: numbers with normal noise. ``"auto"``: found from '
            "the table, column by column. Otherwise, a name from the table of `GeneralizedPCA` for "
            "all views, or a dictionary with a name for each view; views without a name hold "
            "numbers. In place of a name, a dictionary may name the likelihood of each column; "
            "those of other columns are found from the table. With likelihoods the factors "
            "describe natural parameters, and tables must be in memory. `likelihoods_` lists the "
            "result.",
            _mixed_views.LIKELIHOOD,
        ),
        max_iter="Maximum number of sweeps.",
        tol="Sweeps end when the free energy has, by estimate, less than this share of it left to "
        "gain.",
        random_state="Seed of `sample` and `sample_imputations`.",
    )

    n_components_ = Fitted("int", "Number of factors found.")
    view_names_ = Fitted("array", "Names of the views.", lambda fit: fit.names)
    active_ = Fitted(
        f"boolean {BY_VIEW}", "Which factor is in which view.", lambda fit: fit.prior > 0
    )
    active_probability_ = Fitted(
        BY_VIEW,
        "Probability that a factor is in a view, given its scores, if the noise is as assumed.",
        typed(lambda fit: fit.probability),
    )
    explained_variance_ratio_ = Fitted(
        BY_VIEW,
        "Share of the variance of each view that each factor explains. In views with likelihoods, "
        "a cell measures its natural parameter with precision ω, and the share is "
        "Σⱼωⱼbⱼₕ²/Σⱼ(1 + ωⱼΣₖbⱼₖ²): the variance of natural parameters, over that variance and the "
        "uncertainty that the cells leave, in units of the latter.",
        typed(lambda fit: fit.explained),
    )
    components_ = Fitted(
        "dict of arrays of shape (n_components_, n_features of the view)",
        "Loadings in each view, in the units of the data, for scores of variance 1. If views have "
        "likelihoods, they are loadings of natural parameters, with K − 1 columns for K "
        "categories.",
        lambda fit: fit.loadings,
    )
    mean_ = Fitted(
        "dict of arrays",
        "Means of the features of each view, or natural parameters at scores of 0.",
        lambda fit: fit.means,
    )
    likelihoods_ = Fitted(
        "dict",
        "The likelihood of each view by name; a dict by column where columns differ.",
        _mixed_views.likelihoods_by_view,
    )
    output_names_ = Fitted(
        "dict of lists or None",
        "Names of the columns that `predict_view` and `inverse_transform` return for each view "
        "with likelihoods: each level has a column of its own. None if all columns are numbers.",
        _mixed_views.output_names,
    )
    noise_variance_ = Fitted(
        "array of shape (n_views,)",
        "Noise variance of each view; the mean over its features if they differ. NaN for views "
        "without numbers.",
        typed(lambda fit: fit.noise),
    )
    free_energy_by_rank_ = Fitted("array", BY_RANK)
    n_samples_ = Fitted("int", "Number of samples, those that lack a view included.")
    sample_names_ = Fitted(
        "array or None",
        "Names of the samples, if the tables have them.",
        lambda fit: fit.samples,
    )

    n_components: int | Auto = "auto"
    _: KW_ONLY
    noise: Noise = "auto"
    likelihood: Any = "normal"
    max_iter: int = 1000
    tol: float = 1e-8
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    verbose: bool = False

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Input,
        y: object = None,
        *,
        views: Sequence[Any] | None = None,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            A dict or list of tables with one row for each sample, a MuData, or one matrix.
            DataFrames with an index, and AnnData, are joined by the names of their samples: a
            sample that a table lacks has no values there. Dask arrays stay with their workers and
            are matched row by row; NaN marks holes there, too.
        views
            For one matrix, the name of the view of each column; by default all columns are one
            view.
        callback
            As in `BayesianPCA`.

        If an error occurs, the estimator stays as it was.
        """
        start = time.perf_counter()
        self._chosen()
        looping = Looping(
            max_iter=self.max_iter, tol=self.tol, callback=callback, checkpoint=self.checkpoint
        )
        fitted, given = self._fitted(X, views, looping)
        kept = extended(
            fitted, ViewsFit, names=given.names, samples=given.samples, dtype=given.dtype
        )
        self._keep(kept, given.features)
        n, p, V = kept.n_samples, kept.n_features, kept.names.size
        energy = f"free energy {kept.free_energy:.6g} after {kept.n_iter} sweeps"
        self._report(kept, f"{n}×{p} in {V} views: {kept.n_components} factors, {energy}", start)
        return self

    def _fitted(
        self, X: Input, views: Sequence[Any] | None, looping: Looping
    ) -> tuple[ViewsFit, Views]:
        """The fit of tables, and the tables as they were read."""
        if not _mixed_views.only_numbers(self.likelihood):
            _mixed_views.refuse_dask(X)
            reader = _mixed_views.Reader(self)
            given = _views.read(self, X, views, reader)
            columns = reader.described(given, self.likelihood)
            if any(column.likelihood != "normal" for column in columns):
                return self._of_cells(reader.coded(given, columns), columns, looping)
        given = _views.read(self, X, views)
        if isinstance(self.likelihood, dict):
            _mixed_views.check_likelihood(self.likelihood, given.names)
        return self._of_numbers(given, looping), given

    def _of_numbers(self, given: Views, looping: Looping) -> ViewsFit:
        data, noise_advice = (
            self._on_workers(given) if is_dask(given.values) else self._in_memory(given)
        )
        _views.check_any_varies(data.live, data.n_samples)
        model = ViewsModel(self._most((data.n_samples, data.live.size)))
        # The passes of an iteration on Dask are too short to report.
        with watched(None):
            found = inference.fit(model, data, looping)
        return extended(found, ViewsFit, status=found.status + noise_advice + _advice(given, data))

    def _of_cells(
        self, given: Views, columns: tuple[TableColumn, ...], looping: Looping
    ) -> tuple[ViewsFit, Views]:
        """Fit views with likelihoods; views of numbers are divided by their noise."""
        of_numbers = [
            all(columns[j].likelihood == "normal" for j in given.columns(name))
            for name in given.names
        ]
        alone = [
            rows_with_values(given.values, given.columns(name)) if numbers else None
            for name, numbers in zip(given.names, of_numbers, strict=True)
        ]
        std, noise_advice = noise_of_features(alone, given, self.noise)
        columns = _mixed_views.in_units_of_noise(columns, std)
        data = mixed_views(
            as_cells(given.values, columns),
            columns,
            given.view,
            n_views=given.names.size,
            log_units=float(log_units(given.values, columns).sum()),
        )
        _views.check_any_varies(data.live, data.n_samples)
        model = MixedModel(self._most(data.cells.shape))
        found = inference.fit(model, data, looping)
        advice = found.status + noise_advice + _advice(given, data)
        return extended(found, ViewsFit, columns=columns, status=advice), given

    def _most(self, shape: tuple[int, int]) -> int:
        n, p = shape
        cap = _validation.largest_rank(self.n_components)
        most = max(min(n - 1, p), 0)
        return most if cap is None else min(cap, most)

    def _in_memory(self, given: Views) -> tuple[ViewsTable, Status]:
        """The tables, and advice on their noise."""
        values, std, status = _wide(given), None, Status()
        if self.noise != "isotropic":
            alone = [rows_with_values(values, given.columns(name)) for name in given.names]
            std, status = noise_of_features(alone, given, self.noise)
        # Tables were joined in an array that nobody else uses.
        joined = given.kind != "matrix"
        data = views_table(values, given.view, given.names.size, std, overwrite=joined)
        return data, status

    def _on_workers(self, given: Views) -> tuple[ViewsTable, Status]:
        """Same as `_in_memory`, on Dask; a PCA of each view gives even isotropic noise there."""
        blocks = partitioned(given.values, wide=False)
        if given.features.names is not None:  # messages use these names
            blocks = replace(blocks, names=tuple(map(str, given.features.names)))
        look = look_at_views(blocks, given.view, given.names.size)
        for name, rows in zip(given.names, look.rows, strict=True):
            if not rows:
                _views.refuse_empty(name)
        alone = [distant_rows(given.values, look, given.view, v) for v in range(given.names.size)]
        std, status = noise_of_features(alone, given, self.noise)
        return views_on_workers(blocks, look, given.view, std), status

    # --- scores --------------------------------------------------------------------------------

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the scores of samples; with `return_std` also standard deviations.

        It uses the views and cells that are given; a dict may hold any of the views. Scores have
        variance 1 over the samples of the fit.
        """
        given, _ = self._read(X)
        if is_dask(given.values):
            return self._lazily(given, "transform", return_std=return_std)
        T: Any = self._typed(self._predictor.scores(_wide(given)), given)
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (own or get_config()["transform_output"]) == "pandas" and given.samples is not None:
            # A dict has no index that scikit-learn could keep.
            T = need("pandas", "output as a DataFrame").DataFrame(T, index=given.samples)
        if not return_std:
            return T
        return T, self._typed(self._predictor.scores_std(_wide(given)), given)

    def inverse_transform(self, X: Input) -> Any:
        """Tables of samples with given scores, without noise: a dict by view.

        If the model was fitted to one matrix, it returns an array. Views with likelihoods get
        expected values: means, rates, and probabilities in the columns that `output_names_` names.
        """
        check_is_fitted(self)
        if is_dask(X):
            values = _lazy.scores(self, X, "_side_by_side")
        else:
            T = _input.read_scores(X, self.n_components_, np.empty(0, self.fit_.dtype))
            values = self._side_by_side(T)
        kind = "matrix" if self.fit_.names.tolist() == [_views.ONLY] else "mapping"
        features = _input.features_of(self)
        view = self._predictor.view_of_outputs
        return _views.given_back(values, Views(values, view, self.fit_.names, features, None, kind))

    def _side_by_side(self, T: Numbers) -> Numbers:
        """The columns of all views, side by side, for samples with given scores."""
        return self._predictor.at_scores(np.asarray(T, np.float64)).astype(T.dtype)

    # --- cells ---------------------------------------------------------------------------------

    def impute(self, X: Input, return_std: bool | Literal["mean"] = False) -> Any:
        """Tables with their holes filled, in the form in which they were given.

        A view that is not given is filled as a whole. With ``return_std=True`` it also returns
        standard deviations of what would be measured, noise included; with ``"mean"`` without
        noise.

        If views have likelihoods, holes are filled in the types of the tables: counts by their
        median, levels by the most probable one. Standard deviations are then arrays; levels are
        numbered 0, 1, … for them, and categories have NaN.
        """
        _validation.choose("return_std", return_std, (False, True, "mean"))
        given, reader = self._read(X)
        if is_dask(given.values):
            found = self._lazily(given, "impute", return_std=return_std)
        else:
            parts = self._predictor.filled(_wide(given), noise=return_std != "mean")
            filled, std = (self._typed(part, given) for part in parts)
            found = (filled, std) if return_std else filled
        if not return_std:
            return self._given_back(found, given, reader)
        filled, std = found
        return self._given_back(filled, given, reader), _views.given_back(
            std, given if reader is None else replace(given, frames=frozenset())
        )

    def predict_view(
        self, X: Input, view: str, return_std: bool | Literal["mean"] = False
    ) -> ArrayOrPair:
        """Predict one table from the others; values given for that table itself are not used.

        For a view with likelihoods it returns expected values in the columns that `output_names_`
        names: means of numbers, rates of counts, probabilities of levels. Standard deviations are
        as in `impute`: with ``True`` those of cells, where levels are zeros and ones, with
        ``"mean"`` those of rates and probabilities.
        """
        _validation.choose("return_std", return_std, (False, True, "mean"))
        given, _ = self._read(X)
        if view not in given.names:
            known = ", ".join(map(repr, given.names))
            raise ValueError(f"the model has no view {view!r}: its views are {known}.")
        if is_dask(given.values):
            return self._lazily(given, "predict_view", view=view, return_std=return_std)
        hidden = _wide(given).copy()
        hidden[:, given.columns(view)] = np.nan
        v = list(given.names).index(view)
        found = self._predictor.expected(hidden, v, noise=return_std != "mean")
        mean, std = (self._typed(one, given) for one in found)
        return (mean, std) if return_std else mean

    def _given_back(self, values: Numbers, given: Views, reader: _mixed_views.Reader | None) -> Any:
        """Tables in the form of the input, with levels in place of codes."""
        if reader is None:
            return _views.given_back(values, given)
        return reader.given_back(values, given)

    def sample_imputations(self, X: Input, n: int, random_state: RandomState = None) -> list[Any]:
        """n copies of the tables with their holes filled by draws, for multiple imputation."""
        given, reader = self._read(X)
        seed = self.random_state if random_state is None else random_state
        rng = _validation.generator(seed)
        if is_dask(given.values):
            blocks = partitioned(given.values, wide=False)
            drawn = _lazy.copies(blocks, n, rng, (self.posterior_, None))
            return [_views.given_back(one, given) for one in drawn]
        draws = (self._predictor.drawn(_wide(given), rng) for _ in range(n))
        return [self._given_back(self._typed(draw, given), given, reader) for draw in draws]

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Numbers:
        """Log predictive density of the known cells of each sample; a bound on it if views have
        likelihoods.
        """
        given, _ = self._read(X)
        if is_dask(given.values):
            return self._lazily(given, "score_samples")
        return self._predictor.log_density(_wide(given))

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`; computed immediately, also for Dask arrays."""
        found = self.score_samples(X).mean()
        return float(computed(found)[0] if is_dask(found) else found)

    def samples_in(self, X: Input) -> Names | None:
        """Names of the samples of tables, in the order of the rows that `transform` returns."""
        return self._read(X)[0].samples

    # --- contracts -----------------------------------------------------------------------------

    def _read(self, X: Input) -> tuple[Views, _mixed_views.Reader | None]:
        """Read tables side by side; also return their reader if views have likelihoods."""
        check_is_fitted(self)
        if not self.fit_.columns:
            return _views.read_new(self, X), None
        _mixed_views.refuse_dask(X)
        reader = _mixed_views.Reader(self, self.fit_)
        return _views.read_new(self, X, reader), reader

    @property
    def _predictor(self) -> PredictorOfCells | PredictorOfNumbers:
        return PredictorOfCells(self.fit_) if self.fit_.columns else PredictorOfNumbers(self.fit_)

    def _lazily(self, given: Views, method: str, **options: object) -> DaskArray:
        """Lazy result of a method for tables on Dask, one task per block."""
        blocks = partitioned(given.values, wide=False)
        return _lazy.applied(self, blocks, method, options)

    def _typed(self, values: Numbers, given: Views) -> Numbers:
        return np.asarray(values).astype(given.dtype)

    def _reads_holes(self) -> bool:
        return True


def _wide(given: Views) -> FloatArray:
    return np.asarray(given.values, np.float64)


def _advice(given: Views, data: ViewsTable | MixedViews) -> Status:
    """Advice about views that do not vary and take no part."""
    status = Status()
    for name, size in zip(given.names, data.sizes, strict=True):
        if not size:
            status = status.but(
                "constant-view", f"View {name!r} does not vary, so it takes no part."
            )
    return status
