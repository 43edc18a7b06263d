"""`BayesianPCA`: PCA that finds its own number of components and says how sure it is."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import KW_ONLY, field, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from bayespca import inference
from bayespca.arrays.namespaces import to_namespace, to_numpy
from bayespca.checks.rows import ORDERED, SORTED
from bayespca.engines import moments, streaming
from bayespca.linear import fit as closed
from bayespca.linear.fit import Decomposed, with_ranks
from bayespca.linear.sweeps import fit as sweeps
from bayespca.lowrank.noise_models import NOISES
from bayespca.lowrank.records import PCAFit
from bayespca.noise.asked import EVB, Asked, by_likelihood
from bayespca.noise.errors import KnownErrors
from bayespca.noise.fitting import fit_complete, fit_with_holes
from bayespca.noise.number import numbered
from bayespca.noise.series import can_be_series, fit_series
from bayespca.sources.checks import IncompleteData
from bayespca.sources.data import Data, Where
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import ALL_ZERO, AT_LEAST, NOT_DETERMINED, holding

from . import _input, _validation
from ._base import PER_FEATURE, ChoosesNoise, Fitted, warn
from ._checks import checked
from ._options import AUTO, NONE, SHARE, Engine, Option, current, table, whole, word
from ._posterior import PosteriorReader, knowing_rows, placed
from ._redundant import Reduced, completed, reduced
from .summary import rank_was_given
from .wording import ENOUGH, in_brief, undetermined

# Advice that also gives a warning, besides its place in `status_`.
WARNED = (
    *("near-rank-bound", "cut-off", "near-rounding"),
    *("empty-rows", "empty-columns", "single-columns"),
)

NO_COLUMN = (
    "No component stands out from the noise, so `transform` returns 0 columns, which most "
    "steps of a pipeline refuse. With min_components=1 the strongest direction is kept."
)

NO_SERIES = (
    "sample_order=True needs complete data in memory, of at most 5,000,000 cells and 2,000 rows or "
    "columns, with method='evb', noise='auto', noise_variance='auto', center=True and scale=False, "
    "and without error_std and sample_weight: change these, or leave sample_order at 'auto'."
)

# The names in `spectrum.methods.METHODS`.
Learned = Literal["evb", "epb", "emap", "global-epb", "global-emap"]
Method = Literal[Learned, "vb", "pb", "pb-a", "pb-b", "map", "ml", "laplace"]


# The names in `lowrank.noise_models.NOISES`.
OfCells = Literal["student", "student-cells", "autoregressive"]
Noise = Literal["auto", "isotropic", "per-feature", "per-sample", "both", OfCells]


class RankWarning(UserWarning):
    """The rank or the noise variance is less certain than usual; the message says why."""


def _feature_noise(fit: PCAFit) -> Any:
    """Noise variance of each feature: the mean over rows, known errors of rows included."""
    own, rows = fit.noise.features, fit.noise.samples
    found = fit.noise_variance * to_numpy(fit.posterior.scale) ** 2 if own is None else own.copy()
    combined = fit.posterior.combined
    if combined:
        found[combined.columns] = 0.0
    if rows is not None and found.any():
        # Constant columns have no noise, and no part in the noise of rows.
        found = found * (rows.mean() / found[found > 0].mean())
    if combined:
        found[combined.columns] = combined.spread(np.sqrt(found)[None, :])[0] ** 2
    return to_namespace(found, fit.posterior.components)


def _sample_noise(fit: PCAFit) -> Any:
    """Noise variance of each row: the mean over columns, in the units of the data."""
    own = fit.noise.samples
    found = np.full(fit.n_samples, to_numpy(_feature_noise(fit)).mean()) if own is None else own
    return to_namespace(found, fit.posterior.components)


def _adds_up(estimator: Any) -> bool:
    if estimator.scale or estimator.noise not in ("auto", "isotropic"):
        raise AttributeError("partial_fit needs scale=False and noise='isotropic' or 'auto'.")
    if True in (estimator.feature_order, estimator.sample_order):
        raise AttributeError("partial_fit needs feature_order and sample_order that are not True.")
    return True


class BayesianPCA(ChoosesNoise, PosteriorReader[PCAFit]):
    """Principal component analysis that finds its own number of components.

    The model is V = B Aᵀ + noise, where each column of V is a row of X (Nakajima and Sugiyama 2014,
    Eq. 1–3). On complete data every method has a closed form in the singular values of X, the noise
    variance included. The fit gives the rank, its probability, and a standard deviation for each
    loading and score; 0 components is a legal answer.

    >>> from bayespca import BayesianPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = BayesianPCA().fit(X)
    >>> model.n_components_, model.transform(X).shape
    (3, (100, 3))
    """

    options = table(
        *("engine", "checkpoint", "verbose"),
        method="How the factors and their prior are treated.\n\n"
        '* ``"evb"``: both factors integrated out, prior variances learned (empirical variational '
        "Bayes; global minimum, Nakajima and Sugiyama 2014, Proposition 1). The one to use.\n"
        '* ``"epb"``, ``"emap"``: one or both factors point-estimated, prior variances learned; '
        "the local minima of Nakajima and Sugiyama 2014, Theorems 1 and 2 (the global ones are "
        "zero).\n"
        '* ``"vb"``, ``"pb"``, ``"pb-a"``, ``"pb-b"``, ``"map"``: prior variance given '
        "(Nakajima, Sugiyama and Babacan 2011, Theorems 1–3, Proposition 2).\n"
        '* ``"ml"``: probabilistic PCA by maximum likelihood with exactly `n_components` '
        "components.\n"
        '* ``"laplace"``: the same, with the rank that Minka\'s evidence prefers.',
        n_components=Option(
            '``"auto"`` keeps the most probable number of `rank_posterior_` with ``method="evb"``. '
            "Where the data do not determine the number, and for other methods, it is that of the "
            'method. ``"evb"`` keeps the number with the lowest free energy of EVB. '
            "A whole number is the largest number allowed. "
            'With ``method="ml"`` it is the number itself or, as in '
            "scikit-learn's PCA, a share of the variance, None for all components, or "
            '``"mle"`` for the number that ``"laplace"`` finds.',
            AUTO | word("evb") | word("mle") | NONE | whole(0) | SHARE,
        ),
        min_components=Option(
            "Smallest number of components to keep, even if EVB would keep fewer: set it to 1 in a "
            "pipeline whose next step needs a column. The components are those of EVB with that "
            "rank. With holes or a given `noise_variance`, EVB may have no such solution; the "
            "components of maximum likelihood then take their place, and `status_` says so. Only "
            "data without any variance have none.",
            whole(0),
        ),
        noise_variance='Variance of the noise (of the scaled data, if `scale`); ``"auto"`` for the '
        'method\'s own estimate, ``"0db"`` for half the mean square of the data. The methods whose '
        'free energy has no usable minimum over the noise (``"epb"``, ``"emap"``, ``"pb"``, '
        '``"map"``, and ``"vb"`` with a flat prior) take that of ``"evb"``.',
        noise="Which rows, columns or cells have a noise variance of their own. These variances "
        "have a gamma prior that is learned, which keeps small groups of cells from overfitting; "
        "it makes the noise of rows and cells Student's t.\n\n"
        '* ``"auto"``: the model that the evidence prefers; others than isotropic are tried only '
        'if the residuals show signs of them. It applies to ``method="evb"`` if the noise '
        "variance is not given; everything else is isotropic. Data read in blocks of rows show "
        "only noise of columns and of neighbours.\n"
        '* ``"isotropic"``: one variance for all cells.\n'
        '* ``"per-feature"``, ``"per-sample"``: one variance for each column, or for each row. '
        '``"student"`` is another name for the latter.\n'
        '* ``"both"``: the product of one factor for the row and one for the column.\n'
        '* ``"student-cells"``: one variance for each column and heavy tails cell by cell: gross '
        "errors lose their weight.\n"
        '* ``"autoregressive"``: one variance for each column and correlated noise in '
        "neighbouring columns, for complete spectra and series.",
        feature_order=Option(
            "Whether neighbouring columns may have noise in common, as in spectra: "
            '``"auto"`` if their names are numbers that rise, such as wavelengths, or if the order '
            "of the columns explains their likeness better than random orders; True tries it in "
            "any case, False never does. Data with holes have no such noise."
        ),
        sample_order=Option(
            'Whether rows may form a series: ``"auto"`` if residuals of rows next to each other '
            "are alike; True tries it in any case, and False says that their order means nothing. "
            "Data with holes are no series."
        ),
        prior_variance="c² = cₐ²c_b² for the methods with a given prior; None for a flat one.",
        center="Whether to remove the column means. The mean is then integrated out under a flat "
        "prior, which costs one sample: n rows count as n − 1.",
        scale="Whether to divide columns by their standard deviations: a choice of units. If each "
        "column has a noise variance of its own, scaling does not change what counts as noise.",
        whiten=Option(
            "Whether to divide the scores by the standard deviation of each component's signal. "
            "They are posterior means of variables of variance 1, so their own variance is a "
            "little below 1."
        ),
        solver=Option(
            '``"auto"`` and ``"closed"`` use the closed form; if rows or columns have noise '
            'variances of their own, it alternates with these. ``"iterative"`` solves the same '
            "problem by sweeps "
            "(Nakajima, Sugiyama and Babacan 2011, Eq. 13–16; Nakajima and Sugiyama 2014, Section "
            '5; expectation–maximization for ``"ml"``), which end '
            "at the closed form, or in a worse local minimum."
        ),
        init='Where ``solver="iterative"`` starts: normal draws, or the closed form.',
        max_iter='Maximum number of steps of an iteration: ``solver="iterative"``, noise that is '
        "not isotropic, or data with holes.",
        tol="These steps end when the free energy has, by estimate, less than this share of it "
        "left to gain.",
        n_init='Number of random starts of ``solver="iterative"``; the lowest free energy wins.',
        random_state="Seed of the randomized engine, whose answer depends on it only by rounding "
        "errors, and of `sample`.",
    )

    _seen: moments.RunningMoments = field(init=False)

    rank_posterior_ = Fitted(
        "array",
        "Probability of each number of components (index = number), if the noise is as assumed; "
        "averaged over directions, strengths and noise. A component counts if it can be recovered: "
        "more than half of the direction that is found for it is right. None where the data do not "
        "determine the number: if the evidence rises up to the largest number that can be told "
        "apart from noise, or residuals contradict the noise model.",
        lambda fit: placed("rank_probabilities")(fit) if fit.rank_posterior.size else None,
    )
    free_energy_by_rank_ = Fitted(
        "array",
        "Lowest free energy with each number of components (index = number), in nats above the "
        "lowest of all; infinite if there is no solution with that number. Empty if free energies "
        "cannot be compared.",
        placed("free_energy_by_rank"),
    )
    miss_probability_ = Fitted(
        "float",
        "Bound on the probability that the randomized engine missed a component; 0 for the others.",
    )

    feature_noise_variance_ = Fitted(
        PER_FEATURE,
        "Noise variance of each feature, in the units of the data: the mean over rows. It leaves "
        "out what `error_std` says about single cells.",
        _feature_noise,
    )
    sample_noise_variance_ = Fitted(
        "array of shape (n_samples,)",
        "Noise variance of each row of the training data, in their units: the mean over columns. "
        "It leaves out what `error_std` says about single cells.",
        _sample_noise,
    )
    outlier_probability_ = Fitted(
        "array of shape (n_samples,), or (n_samples, n_features), or None",
        "Probability that the noise of a row, or of a cell, is more than three times the usual; "
        "None if neither rows nor cells have noise of their own.",
        lambda fit: fit.noise.outliers,
    )
    degrees_of_freedom_ = Fitted(
        "float",
        "Degrees of freedom of Student's t, for rows or cells; infinite for normal noise.",
        lambda fit: fit.noise.degrees_of_freedom,
    )

    method: Method = "evb"
    _: KW_ONLY
    n_components: int | float | Literal["auto", "evb", "mle"] | None = "auto"
    min_components: int = 0
    noise_variance: float | Literal["auto", "0db"] = "auto"
    prior_variance: float | None = None
    center: bool = True
    scale: bool = False
    whiten: bool = False
    noise: Noise = "auto"
    feature_order: Literal["auto", True, False] = "auto"
    sample_order: Literal["auto", True, False] = "auto"
    solver: Literal["auto", "closed", "iterative"] = "auto"
    init: Literal["random", "closed"] = "random"
    engine: Engine = "auto"

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        error_std: Any = None,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit the model.

        X is an array (NumPy, torch, CuPy), a DataFrame, a sparse matrix (zeros are zeros), a memory
        map, the path of an .npy, Parquet or CSV file, an iterator over blocks of rows, or a Dask
        array or DataFrame. Memory maps, files, iterators and Dask collections are read a block at a
        time; Dask's workers read theirs, and with ``engine="dask"`` also Parquet and CSV files,
        whose path may have wildcards. If an error occurs, the estimator stays as it was.

        NaN in X, pandas' NA, polars' null and masked cells are holes. Every method but
        ``"laplace"`` accepts them in data in memory or on Dask, and finds the mean, the noise and
        the rank by sweeps over the observed cells. Then `engine_` is ``"holes"``,
        `threshold_` is NaN, `singular_values_` are those that complete data would show, and for
        methods other than ``"evb"``, `rank_posterior_` is 1 at the rank found. ``"map"`` needs a
        `prior_variance` or a number of components: with neither it fits every cell exactly and
        says nothing about the holes. Cells are assumed to be missing at random, not because of
        their own values; `status_` warns if holes lie where values should be high, or low
        (docs/checks.md). `engine` applies to the first decomposition, of the matrix filled with
        means, and `init` to the start of ``solver="iterative"``.

        `error_std` gives known standard deviations of the measurements: for each
        cell, (n_samples, n_features), for each row, (n_samples, 1), or for each column,
        (1, n_features); infinite for a cell that carries no information. The estimated noise
        variance multiplies their squares, so it is 1 if they are right; with ``noise="auto"`` there
        is no other. `sample_weight` gives precisions of the rows: a row of weight 2 has half the
        noise variance. It does not count copies. Both need data in memory.

        In an iteration, `callback` is called after each step with its number, counting
        from 1, and an object with `free_energy`, `rank`, `noise_variance` and `to_gain`, the
        estimate of what the free energy still has to gain, which ends the fit. If it returns True,
        the iteration ends. It is not called for trial steps that test another rank.
        """
        start = time.perf_counter()
        form = self._form()
        looping = self._looping(callback)
        # The noise model may need all rows at once, or meet holes in a file.
        whole = self.noise not in ("auto", "isotropic")
        whole = whole and (NOISES[self.noise].needs_rows or isinstance(X, str | os.PathLike))
        in_memory = whole or self._engine not in ("auto", "streaming")
        data = _input.read(self, X, in_memory=in_memory, dask=True, twice=self.scale)
        errors = _validation.known_errors(error_std, sample_weight, data)
        averages = self.noise_variance == "auto"
        known = reduced(data, errors, keeps=self.method == "ml", averages=averages)
        fitted = self._fitted(known.data, form, looping, known.errors)
        fitted = self._in_order(checked(known.data, fitted, known.rows), known, form, looping)
        fitted = knowing_rows(known.data, fitted)
        fitted = completed(fitted, known, data.features)
        _validation.check_rank_given(self, fitted.n_samples, data.features.count)
        self._keep(fitted, data.features)
        fitted, noise = self.fit_, self.fit_.noise.in_words
        k, size = fitted.n_components, f"{fitted.n_samples}×{fitted.n_features}"
        found = f"rank {k} ({in_brief(k, fitted.rank_posterior)}), noise {noise}"
        line = f"{size}, {self.method}, engine {fitted.engine}: {found}"
        line += f", free energy {fitted.free_energy:.6g}"
        self._report(fitted, line, start, advice=WARNED, category=RankWarning)
        return self

    def _fitted(
        self,
        data: Data,
        form: ClosedForm,
        looping: inference.Looping,
        errors: KnownErrors | None,
    ) -> PCAFit:
        """Fit by closed form if data are complete; on Dask, only the workers can tell."""
        asked = self._asked(errors, data)
        if not data.holes:
            counted = replace(form, n_features=data.features.count)
            try:
                return self._fitted_complete(data.values, counted, looping, asked)
            except IncompleteData:
                if data.where is not Where.PARTITIONS:
                    raise
        _input.check_any_value(data)
        _validation.check_for_holes(self)
        return fit_with_holes(data.values, form, looping, asked)

    def _in_order(
        self, fitted: PCAFit, known: Reduced, form: ClosedForm, looping: inference.Looping
    ) -> PCAFit:
        """The fit of rows as a series, if they look like one or are declared to be one."""
        if self.sample_order is False:
            return replace(fitted, status=fitted.status.without(ORDERED, SORTED))
        declared = self.sample_order is True
        if not (declared or (ORDERED in fitted.status and not known.data.holes)):
            return fitted
        asked, data = self._asked(known.errors, known.data), known.data
        fits = self.solver != "iterative" and data.where is Where.DENSE and not data.holes
        if not (fits and can_be_series(data.values.shape, form, asked)):
            if declared:
                raise ValueError(NO_SERIES)
            return fitted
        form = replace(form, n_features=data.features.count)
        series = fit_series(data.values, fit_complete, form, looping, asked)
        return fitted if series is None else checked(data, series, known.rows)

    def _fitted_complete(
        self, X: Any, form: ClosedForm, looping: inference.Looping, asked: Asked
    ) -> PCAFit:
        if self.solver == "iterative":
            how: dict[str, Any] = {"center": self.center, "scale": self.scale}
            fitted = sweeps.fit(X, form, looping, init=self.init, engine=self._engine, **how)
            return with_ranks(fitted, form.ranks(fitted.spectrum, fitted.noise_variance))
        return fit_complete(X, form, looping, asked)

    def _asked(self, errors: KnownErrors | None, data: Data) -> Asked:
        in_order = True if data.features.rise else None
        if self.feature_order != "auto":
            in_order = bool(self.feature_order)
        if errors is not None:
            _validation.check_known_errors(self)
        return Asked(
            errors=errors,
            noise=self.noise,
            center=self.center,
            scale=self.scale,
            engine=self._engine,
            init=self.init if self.solver == "iterative" else "closed",
            number=self._number,
            least=self.min_components,
            in_order=in_order,
        )

    @property
    def _number(self) -> str:
        """The rule for the number of components; one that is given is a cap for "auto"."""
        return EVB if self.n_components == EVB else "auto"

    @available_if(_adds_up)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a block of rows to those seen so far, and fit all of them.

        This needs ``scale=False`` and one noise variance: then sums over blocks are enough.
        """
        form = self._form()
        seen = getattr(self, "_seen", None)
        data = _input.read_block(self, X, first=seen is None)
        block, form = data.values, replace(form, n_features=data.features.count)
        # Blocks are not seen again, so their products are summed in double precision.
        fresh = moments.start(block.shape[1], block.dtype, precision=np.dtype(np.float64))
        seen = moments.add(seen or fresh, block)
        found = streaming.finish(seen, center=self.center, plan=form)
        fitted = self._of_sums(Decomposed(found), form)
        self._keep(fitted, data.features)
        self._seen = seen
        warn(fitted, WARNED, RankWarning)
        return self

    def _of_sums(self, data: Decomposed, form: ClosedForm) -> PCAFit:
        def again(k: int) -> PCAFit:
            return closed.from_decomposition(data, replace(form, exactly=k))

        def likeliest(k: int) -> PCAFit:
            return closed.from_decomposition(data, by_likelihood(form, k))

        fitted = closed.from_decomposition(data, form)
        ranks = form.ranks(fitted.spectrum, fitted.noise_variance)
        number = self._number if self.method == "evb" else EVB
        fitted = numbered(with_ranks(fitted, ranks), number, None, again)
        return closed.with_at_least(fitted, self.min_components, again, likeliest)

    def _form(self) -> ClosedForm:
        """The closed form to use, once all options have been checked."""
        _validation.check_method(self)
        self._chosen()
        _validation.check_rank_asked(self)
        form = _validation.form_asked(self)
        _validation.check_noise(self)
        _validation.check_order(self)
        if self.solver == "iterative":
            _validation.check_iterative(self)
        return form

    @property
    def _engine(self) -> str:
        return str(current(self, "engine"))

    def _looping(self, callback: inference.Callback | None) -> inference.Looping:
        seed = _validation.seed(self.random_state)
        return replace(_validation.looping(self, callback), random_state=seed)

    # --- scikit-learn --------------------------------------------------------------------------

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit the model and return the scores of its rows; warn if no component was found."""
        scores = super().fit_transform(X, y, **options)
        if not self.n_components_:
            warnings.warn(NO_COLUMN, RankWarning, stacklevel=3)
        return scores

    def _keep(self, fit: Any, features: Any = None) -> Self:
        k = fit.n_components
        asked = any(code in fit.status for code in (ALL_ZERO, AT_LEAST))
        if not (fit.rank_posterior.size or rank_was_given(self) or asked or k == self.n_components):
            needed = holding(to_numpy(fit.shrunk_singular_values), ENOUGH)
            status = fit.status.but(NOT_DETERMINED, undetermined(k, needed))
            fit = replace(fit, status=status)
        return super()._keep(fit, features)

    def _check_kept(self) -> None:
        super()._check_kept()
        seen = vars(self).get("_seen")
        if seen and (seen.n_features, seen.n_samples) != (self.n_features_in_, self.n_samples_):
            raise ValueError("its partial_fit state does not match its samples and features")

    def _is_whitened(self) -> bool:
        return bool(self.whiten)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags
