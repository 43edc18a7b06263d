"""`MultiViewPCA`: several tables of the same samples, and which factors are in which of them."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.places import columns_of
from bayespca.arrays.types import (
    ArrayOrPair,
    Counts,
    FloatArray,
    Input,
    Names,
    Numbers,
    RandomState,
)
from bayespca.inference.looping import Looping
from bayespca.inference.result import extended
from bayespca.lowrank import holes_posterior as read
from bayespca.lowrank import imputing
from bayespca.sources.cluster import computed, watched
from bayespca.sources.partitions import is_dask, partitioned
from bayespca.sources.records import DaskArray
from bayespca.spectrum.records import Status
from bayespca.views.data import ViewsTable, views_table
from bayespca.views.fit import ViewsFit, ViewsModel
from bayespca.views.partitioned import look_at_views, views_on_workers
from bayespca.views.posterior import latent_std

from . import _input, _lazy, _validation, _views
from ._base import Estimator, Fitted, typed
from ._distant_views import rows_of_view
from ._options import Auto, Option, table
from ._transforming import Transforming
from ._views import Views
from ._warnings import warn
from .pca import BayesianPCA

Noise: TypeAlias = Literal["auto", "isotropic", "per-feature"]
BY_VIEW = "array of shape (n_components_, n_views)"
# Noise models of BayesianPCA in which samples or cells have noise of their own.
OF_SAMPLES = ("per-sample", "both", "student", "student-cells")


class MultiViewPCA(Transforming, Estimator[ViewsFit]):
    """Factors of several tables of the same samples: which drive all tables, and which only some.

    Row i of table v is x_vi = Σₕ aᵢₕ b_vh + μ_v + noise, with scores a that all tables share and
    loadings b of its own. The loadings of each factor have a prior variance in each view, which is
    learned; it is 0 where the factor is not in the view (group factor analysis: Klami, Virtanen,
    Leppäaho and Kaski 2015). Each view has its own noise. The fit starts from closed forms: the
    noise of each view, and the components of all views divided by it. Sweeps then turn the factors
    to where the free energy is lowest, which is where they are in few views. One view alone is
    `BayesianPCA`.

    NaN are holes, at `fit` and afterwards, and rows may lack whole views. What methods return for
    Dask arrays are Dask arrays, which are computed later.

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
            'What has a noise variance of its own besides each view. ``"isotropic"``: nothing. '
            '``"per-feature"``: each feature; the variances are those that `BayesianPCA` finds in '
            'the view, up to a factor. ``"auto"``: whichever the evidence prefers, view by view.'
        ),
        max_iter="Largest number of sweeps.",
        tol="Share of the free energy that may be left to gain, by estimate, when sweeps end.",
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
        "Share of the variance of each view that each factor explains.",
        typed(lambda fit: fit.explained),
    )
    components_ = Fitted(
        "dict of arrays of shape (n_components_, n_features of the view)",
        "Loadings in each view, in the units of the data, for scores of variance 1.",
        lambda fit: fit.loadings,
    )
    mean_ = Fitted("dict of arrays", "Means of the features of each view.", lambda fit: fit.means)
    noise_variance_ = Fitted(
        "array of shape (n_views,)",
        "Noise variance of each view; the mean over its features where these differ.",
        typed(lambda fit: fit.noise),
    )
    rank_posterior_ = Fitted(
        "array", "exp(−free energy) of the numbers of factors that were tried, normalised."
    )
    n_samples_ = Fitted("int", "Number of samples, those that lack a view included.")
    sample_names_ = Fitted(
        "array or None",
        "Names of the samples, where the tables have them.",
        lambda fit: fit.samples,
    )

    n_components: int | Auto = "auto"
    _: KW_ONLY
    noise: Noise = "auto"
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
            sample that a table lacks has no values there. Dask arrays stay with their workers:
            their rows belong together by place, and NaN are holes there, too.
        views
            For one matrix, the name of the view of each column; by default all are one view.
        callback
            As in `BayesianPCA`.

        If anything goes wrong the estimator is left as it was.
        """
        start = time.perf_counter()
        self._chosen()
        given = _views.read(self, X, views)
        data, noise_advice = (
            self._on_workers(given) if is_dask(given.values) else self._in_memory(given)
        )
        _views.check_any_varies(data.live, data.n_samples)
        model = ViewsModel(self._most((data.n_samples, data.live.size)))
        # The passes of an iteration on Dask are too small to be shown.
        with watched(None):
            fitted = inference.fit(model, data, self._looping(callback))
        kept = extended(
            fitted,
            ViewsFit,
            names=given.names,
            samples=given.samples,
            status=fitted.status + noise_advice + _advice(given, data),
            dtype=given.dtype,
        )
        self._keep(kept, given.features)
        self._report(kept, time.perf_counter() - start)
        return self

    def _most(self, shape: tuple[int, int]) -> int:
        n, p = shape
        cap = _validation.largest_rank(self.n_components)
        most = max(min(n - 1, p), 0)
        return most if cap is None else min(cap, most)

    def _looping(self, callback: inference.Callback | None) -> Looping:
        return Looping(
            max_iter=self.max_iter, tol=self.tol, callback=callback, checkpoint=self.checkpoint
        )

    def _in_memory(self, given: Views) -> tuple[ViewsTable, Status]:
        """The tables, and advice on their noise."""
        values, std, status = _wide(given), None, Status()
        if self.noise != "isotropic":
            alone = [_alone(values, given.columns(name)) for name in given.names]
            std, status = self._noise_of_features(alone, given)
        # Several tables were joined: what they were joined in is of no use to anyone else.
        joined = given.kind != "matrix"
        data = views_table(values, given.view, given.names.size, std, overwrite=joined)
        return data, status

    def _on_workers(self, given: Views) -> tuple[ViewsTable, Status]:
        """The same on Dask, where noise of one variance is that of the PCA of a view as well."""
        blocks = partitioned(given.values, wide=False)
        if given.features.names is not None:  # by which messages call columns
            blocks = replace(blocks, names=tuple(map(str, given.features.names)))
        look = look_at_views(blocks, given.view, given.names.size)
        for name, rows in zip(given.names, look.rows, strict=True):
            if not rows:
                _views.refuse_empty(name)
        alone = [rows_of_view(given.values, look, given.view, v) for v in range(given.names.size)]
        std, status = self._noise_of_features(alone, given)
        return views_on_workers(blocks, look, given.view, std), status

    def _noise_of_features(
        self, alone: Sequence[Input | None], given: Views
    ) -> tuple[FloatArray, Status]:
        """Standard deviations of the noise of each feature, by a PCA of its view alone; NaN where
        there is none.
        """
        std, status = np.full(given.view.size, np.nan), Status()
        for name, values in zip(given.names, alone, strict=True):
            if values is None:
                continue
            found, js = _pca(values, self.noise), given.columns(name)
            std[js] = _noise_std(found, js.size)
            if found.noise_ in OF_SAMPLES:
                status = status.but(
                    "noise-of-samples",
                    f"Samples or cells of view {name!r} differ in noise ({found.noise_}): this "
                    "model gives all samples of a view the same noise.",
                )
        return std, status

    def _report(self, fitted: ViewsFit, seconds: float) -> None:
        warn(fitted)
        if self.verbose:
            n, p, V = fitted.n_samples, fitted.n_features, fitted.names.size
            print(
                f"bayespca: {n}×{p} in {V} views: {fitted.n_components} factors, free energy "
                f"{fitted.free_energy:.6g} after {fitted.n_iter} sweeps, {seconds:.2f} s"
            )

    # --- scores --------------------------------------------------------------------------------

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the scores of samples, and their standard deviations if asked for.

        From the views and cells that are there: a dict may hold any of the views. Scores have
        variance 1 over the samples of the fit.
        """
        given = self._read(X)
        if is_dask(given.values):
            return self._lazily(given, "transform", return_std=return_std)
        T = self._typed(read.scores(self.posterior_, _wide(given)), given)
        if not return_std:
            return T
        return T, self._typed(latent_std(self.posterior_, _wide(given)), given)

    def inverse_transform(self, X: Input) -> Any:
        """Tables of samples with given scores, without noise: a dict by view.

        An array where the model was fitted to one matrix.
        """
        check_is_fitted(self)
        if is_dask(X):
            values = _lazy.scores(self, X, "_side_by_side")
        else:
            T = _input.read_scores(X, self.n_components_, np.empty(0, self.fit_.dtype))
            values = self._side_by_side(T)
        kind = "matrix" if self.fit_.names.tolist() == [_views.ONLY] else "mapping"
        features = _input.features_of(self)
        like = Views(values, self.fit_.view, self.fit_.names, features, None, kind)
        return _views.given_back(values, like)

    def _side_by_side(self, T: Numbers) -> Numbers:
        """The columns of all views of samples with given scores."""
        return read.reconstruct(self.posterior_, np.asarray(T, np.float64)).astype(T.dtype)

    # --- cells ---------------------------------------------------------------------------------

    def impute(self, X: Input, return_std: bool | Literal["mean"] = False) -> Any:
        """Tables with their holes filled, in the form in which they were given.

        A view that is not given is filled as a whole. With ``return_std=True`` also standard
        deviations of what would be measured, noise included; with ``"mean"`` without noise.
        """
        _validation.choose("return_std", return_std, (False, True, "mean"))
        given = self._read(X)
        if is_dask(given.values):
            found = self._lazily(given, "impute", return_std=return_std)
        else:
            found = self._filled(given, noise=return_std != "mean")
            found = found if return_std else found[0]
        if not return_std:
            return _views.given_back(found, given)
        return tuple(_views.given_back(one, given) for one in found)

    def predict_view(
        self, X: Input, view: str, return_std: bool | Literal["mean"] = False
    ) -> ArrayOrPair:
        """One table from the others: what was given for it is not used.

        Standard deviations as in `impute`.
        """
        _validation.choose("return_std", return_std, (False, True, "mean"))
        given = self._read(X)
        if view not in given.names:
            known = ", ".join(map(repr, given.names))
            raise ValueError(f"the model has no view {view!r}: its views are {known}.")
        if is_dask(given.values):
            return self._lazily(given, "predict_view", view=view, return_std=return_std)
        js, values = given.columns(view), given.values.copy()
        values[:, js] = np.nan
        hidden = Views(values, given.view, given.names, given.features, None, given.kind)
        filled, std = self._filled(hidden, noise=return_std != "mean")
        return (filled[:, js], std[:, js]) if return_std else filled[:, js]

    def _filled(self, given: Views, *, noise: bool) -> tuple[Numbers, Numbers]:
        filled, std = imputing.impute(self.posterior_, _wide(given), noise=noise)
        return self._typed(filled, given), self._typed(std, given)

    def sample_imputations(self, X: Input, n: int, random_state: RandomState = None) -> list[Any]:
        """n copies of the tables with their holes filled by draws, for multiple imputation."""
        given = self._read(X)
        seed = self.random_state if random_state is None else random_state
        rng = _validation.generator(seed)
        if is_dask(given.values):
            blocks = partitioned(given.values, wide=False)
            drawn = _lazy.copies(blocks, n, rng, (self.posterior_, None))
            return [_views.given_back(one, given) for one in drawn]
        draws = (imputing.sample_imputation(self.posterior_, _wide(given), rng) for _ in range(n))
        return [_views.given_back(self._typed(draw, given), given) for draw in draws]

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Numbers:
        """Log predictive density of each sample, of the cells that are there."""
        given = self._read(X)
        if is_dask(given.values):
            return self._lazily(given, "score_samples")
        return np.asarray(read.log_density(self.posterior_, _wide(given)))

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`; computed at once, for Dask arrays too."""
        found = self.score_samples(X).mean()
        return float(computed(found)[0] if is_dask(found) else found)

    def samples_in(self, X: Input) -> Names | None:
        """Names of the samples of tables, in the order of the rows that `transform` gives."""
        return self._read(X).samples

    # --- contracts -----------------------------------------------------------------------------

    def _read(self, X: Input) -> Views:
        check_is_fitted(self)
        return _views.read_new(self, X)

    def _lazily(self, given: Views, method: str, **options: object) -> DaskArray:
        """What a method returns for tables on Dask, block by block, when it is computed."""
        blocks = partitioned(given.values, wide=False)
        return _lazy.applied(self, blocks, method, options)

    def _typed(self, values: Numbers, given: Views) -> Numbers:
        return np.asarray(values).astype(given.dtype)

    def _reads_holes(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _wide(given: Views) -> FloatArray:
    return np.asarray(given.values, np.float64)


def _alone(values: FloatArray, js: Counts) -> FloatArray | None:
    """The rows that have values in a view; None where these do not vary."""
    values = columns_of(values, js)
    some = ~np.isnan(values).all(axis=1)
    values = values if some.all() else values[some]
    return values if len(values) > 1 and _varies(values).any() else None


def _pca(values: Input, noise: Noise) -> BayesianPCA:
    """The PCA of a view alone, from which the noise of its features is taken."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BayesianPCA(noise=noise, random_state=0).fit(values)


def _noise_std(found: BayesianPCA, p: int) -> FloatArray:
    """Standard deviations of the noise of p features; NaN where all of them are without noise."""
    variance = np.full(p, found.noise_variance_)
    if found.noise_ != "isotropic" and hasattr(found, "feature_noise_variance_"):
        variance = np.asarray(found.feature_noise_variance_)
    some = variance > 0
    usual = variance[some].mean() if some.any() else np.nan
    return np.sqrt(np.where(some, variance, usual))


def _varies(values: FloatArray) -> NDArray[np.bool_]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmax(values, axis=0) > np.nanmin(values, axis=0))


def _advice(given: Views, data: ViewsTable) -> Status:
    """What to say about views that take no part."""
    status = Status()
    for name, size in zip(given.names, data.sizes, strict=True):
        if not size:
            status = status.but(
                "constant-view", f"View {name!r} does not vary, so it takes no part."
            )
    return status
