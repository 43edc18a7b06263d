"""Model files: which estimators and records they may hold, and what must be true of them.

`RECORDS` and `ESTIMATORS` are the whole list. What a file says is checked against them before an
estimator is made, so that a file that loads can be used. Names of parameters, attributes and
fields belong to the version of the format: who changes one raises `archive.VERSION`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.discrete.posterior import BinaryPosterior
from bayespca.engines.moments import RunningMoments
from bayespca.inference.loop import Trace
from bayespca.io import archive
from bayespca.io.archive import FlawError, ModelFileError
from bayespca.io.tree import Decoder, Encoder, Json, Kind, Record, check_kinds, members
from bayespca.linear.gibbs.fit import GibbsDraws
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.lowrank.posterior import Posterior
from bayespca.lowrank.rows import Columns
from bayespca.missing.ratings.posterior import RatingsFactor, RatingsPosterior
from bayespca.mixtures.bernoulli.posterior import BernoulliClusters
from bayespca.mixtures.pca.posterior import MixturePosterior
from bayespca.spectrum.records import Advice, Spectrum, Status
from bayespca.tensors.posterior import TuckerPosterior
from bayespca.tensors.records import DenseCore, KroneckerCore, TuckerRows

from ._tensors import squeezed_shape
from .bernoulli import BernoulliMixture
from .binary_pca import BinaryPCA
from .factorization import MatrixFactorization
from .gibbs import GibbsPCA
from .imputation import BayesianPCAImputer
from .mixture import PCAMixture
from .pca import BayesianPCA
from .tucker import BayesianTucker
from .variational import VariationalPCA

__all__ = ["ESTIMATORS", "RECORDS", "ModelFileError", "load", "save"]


# --- kinds of values ---------------------------------------------------------------------------


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and type(value) is not bool
    return whole and 0 <= int(value) <= archive.LARGEST_INT


def _is_array(value: Any, ndim: int, kinds: str = "f") -> bool:
    return isinstance(value, np.ndarray) and value.ndim == ndim and value.dtype.kind in kinds


def _is_floats(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _is_ranks(value: Any) -> bool:
    if isinstance(value, str):
        return value == "auto"
    return isinstance(value, list | tuple) and all(v is None or _is_whole(v) for v in value)


def _is_output_setting(value: Any) -> bool:
    known = ("default", "pandas", "polars")
    return (
        isinstance(value, dict)
        and value.keys() <= {"transform"}
        # Arrays would be compared entry by entry.
        and all(v is None or (isinstance(v, str) and v in known) for v in value.values())
    )


def _is_bounds(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(bound, int | float | np.number) for bound in value)
        and bool(value[0] <= value[1])
    )


def _is_diagnostic(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and (isinstance(v, float) or _is_array(v, 1))
        for name, v in value.items()
    )


def _instance(cls: type) -> Kind:
    return Kind(f"a {cls.__name__}", lambda value: isinstance(value, cls))


def _tuple_of(kind: Kind) -> Kind:
    return Kind(
        f"a tuple, each {kind.words}",
        lambda value: isinstance(value, tuple) and all(map(kind.fits, value)),
    )


def _or(first: Kind, second: Kind) -> Kind:
    return Kind(
        f"{first.words} or {second.words}",
        lambda value: first.fits(value) or second.fits(value),
    )


ANYTHING = Kind("anything", lambda value: True)
PLAIN = Kind(
    "None, a number or a string",
    lambda value: value is None or isinstance(value, bool | int | float | str | np.generic),
)
NOTHING = Kind("None", lambda value: value is None)
TEXT = Kind("a string", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool | np.bool_))
WHOLE = Kind("a whole number", _is_whole)
NUMBER = Kind("a number", lambda value: isinstance(value, float | np.floating))
VECTOR = Kind("a vector of numbers", lambda value: _is_array(value, 1))
COUNTS = Kind("a vector of whole numbers", lambda value: _is_array(value, 1, "iu"))
MATRIX = Kind("a matrix of numbers", lambda value: _is_array(value, 2))
MATRICES = Kind("a stack of matrices of numbers", lambda value: _is_array(value, 3))
STACKS = Kind("stacks of matrices of numbers", lambda value: _is_array(value, 4))
TENSOR = Kind("an array of numbers", _is_floats)
TENSORS = Kind(
    "a list of matrices of numbers",
    lambda value: isinstance(value, list) and all(_is_array(item, 2) for item in value),
)
RANKS = Kind("'auto', or whole numbers and None", _is_ranks)
DIAGNOSTICS = Kind("numbers and vectors by name", _is_diagnostic)
NAMES = Kind("a vector of strings", lambda value: _is_array(value, 1, "O"))
IDS = Kind("a vector of numbers or strings", lambda value: _is_array(value, 1, "biufO"))
BOUNDS = Kind("a tuple of two numbers in order", _is_bounds)
WHOLES = Kind(
    "whole numbers",
    lambda value: (
        (isinstance(value, list | tuple) and all(map(_is_whole, value)))
        or _is_array(value, 1, "iu")
    ),
)
PRECISION = Kind(
    "float32 or float64",
    lambda value: isinstance(value, np.dtype) and value in (np.dtype("f4"), np.dtype("f8")),
)
OUTPUT = Kind("a setting of set_output", _is_output_setting)


# --- records -----------------------------------------------------------------------------------


def _require(condition: Any, words: str) -> None:
    if not condition:
        raise FlawError(words)


def _check_posterior(posterior: Posterior) -> None:
    k, p = posterior.components.shape
    of_features = (posterior.mean, posterior.scale)
    of_components = (
        *(posterior.shrinkage, posterior.score_variance),
        *(posterior.loading_variance, posterior.latent_variance),
    )
    agree = {a.shape for a in of_features} == {(p,)} and {a.shape for a in of_components} == {(k,)}
    _require(agree, "the arrays of a Posterior are of different sizes")


def _check_holes_posterior(posterior: HolesPosterior) -> None:
    k, p = posterior.components.shape
    agree = posterior.mean.shape == posterior.scale.shape == (p,)
    agree &= posterior.latent_variance.shape == (k,) and posterior.basis.shape == (k, k)
    agree &= posterior.columns.b.shape == (p, k + 1)
    _require(agree, "the arrays of a HolesPosterior are of different sizes")
    in_range = 0 < posterior.unit < np.sqrt(np.finfo(np.float64).max)
    _require(in_range, "the unit of a HolesPosterior is not positive, or its square overflows")
    _require(
        np.isfinite(posterior.basis).all() and (posterior.latent_variance >= 0).all(),
        "the scores of a HolesPosterior do not follow from its basis",
    )


def _check_columns(columns: Columns) -> None:
    """Sizes, and what solving for scores needs."""
    p, width = columns.b.shape
    agree = columns.b_cov.shape == (p, width, width) and columns.prior_a.shape == (width - 1,)
    _require(agree, "the arrays of Columns are of different sizes")
    finite = np.isfinite(columns.b).all() and np.isfinite(columns.b_cov).all()
    _require(
        finite and (columns.prior_a > 0).all() and columns.noise_variance > 0,
        "the moments of Columns are not finite or its variances not positive",
    )
    variances = np.linalg.eigvalsh(columns.b_cov)
    slack = 1e-6 * np.abs(variances).max(initial=0.0)
    _require((variances >= -slack).all(), "the covariances of Columns are none")


def _check_spectrum(spectrum: Spectrum) -> None:
    """By the constructor, whose sums may differ from those in the file by rounding."""
    again = Spectrum(
        *(spectrum.singular_values, spectrum.shape),
        *(spectrum.sum_of_squares, spectrum.scale, spectrum.resolution),
    )
    _require(again.shape == spectrum.shape, "the shape of a Spectrum is not two whole numbers")
    _require(
        0 <= spectrum.residual <= spectrum.sum_of_squares,
        "the residual of a Spectrum is not between 0 and its sum of squares",
    )


def _check_draws(draws: GibbsDraws) -> None:
    chains, n, d, q = draws.W.shape
    agree = draws.alpha.shape == (chains, n, q) and draws.mu.shape == (chains, n, d)
    agree &= draws.tau.shape == draws.log_joint.shape == (chains, n)
    _require(agree and chains * n, "the arrays of GibbsDraws are empty or of different sizes")
    known = np.isfinite(draws.W).all() and np.isfinite(draws.mu).all()
    positive = np.isfinite(draws.tau).all() and (draws.tau > 0).all()
    _require(known and positive, "the draws of GibbsDraws are not finite or not positive")


def _check_factor(factor: RatingsFactor) -> None:
    """Sizes, and what predictions need."""
    n, K = factor.mean.shape
    sizes = ((n, K * (K + 1) // 2), (0, K * (K + 1) // 2))
    agree = factor.prior.shape == (K,) and factor.cov.shape in sizes
    _require(agree, "the arrays of a RatingsFactor are of different sizes")
    finite = np.isfinite(factor.mean).all() and np.isfinite(factor.cov).all()
    _require(
        finite and np.isfinite(factor.prior).all() and (factor.prior > 0).all(),
        "the moments of a RatingsFactor are not finite or its variances not positive",
    )
    with np.errstate(invalid="ignore"):
        _require((factor.std() >= 0).all(), "the covariances of a RatingsFactor are none")


def _check_ratings_posterior(posterior: RatingsPosterior) -> None:
    sizes = {posterior.rows.prior.size, posterior.columns.prior.size}
    _require(
        len(sizes) == 1 and sizes.pop() >= posterior.biases,
        "the factors of a RatingsPosterior are of different sizes",
    )
    _require(
        0 < posterior.unit < np.inf and 0 < posterior.noise_variance < np.inf,
        "the unit or the noise variance of a RatingsPosterior is not positive",
    )
    _require(
        np.isfinite(posterior.mean) and np.isfinite(posterior.location),
        "the mean of a RatingsPosterior is not finite",
    )


def _check_rows(rows: TuckerRows) -> None:
    M, H = rows.mean.shape
    _require(rows.cov.shape in ((1, H, H), (M, H, H)), "the arrays of TuckerRows do not agree")
    finite = np.isfinite(rows.mean).all() and np.isfinite(rows.cov).all()
    _require(finite and rows.count > 0, "the moments of TuckerRows are not finite")


def _check_kronecker_core(core: KroneckerCore) -> None:
    shape = core.mean.shape
    agree = core.spread.shape == shape and len(core.bases) == len(shape) >= 2
    agree = agree and all(Q.shape == (H, H) for Q, H in zip(core.bases, shape, strict=True))
    _require(agree, "the arrays of a KroneckerCore are of different sizes")
    finite = all(np.isfinite(a).all() for a in (core.mean, core.spread, *core.bases))
    _require(finite and (core.spread >= 0).all(), "the moments of a KroneckerCore are none")


def _check_dense_core(core: DenseCore) -> None:
    size = core.mean.size
    _require(
        core.mean.ndim >= 2 and core.cov.shape == (size, size),
        "the arrays of a DenseCore are of different sizes",
    )
    finite = np.isfinite(core.mean).all() and np.isfinite(core.cov).all()
    _require(finite and (np.diag(core.cov) >= 0).all(), "the moments of a DenseCore are none")


def _check_tucker_posterior(posterior: TuckerPosterior) -> None:
    factors, H = posterior.factors, posterior.precision.shape[0]
    slices = tuple(len(rows.mean) for rows in factors[1:])
    _require(
        len(factors) > 2
        and posterior.ranks == posterior.core.mean.shape
        and posterior.precision.shape == (posterior.ranks[0], H)
        and posterior.mean.shape == posterior.mean_variance.shape == slices,
        "the arrays of a TuckerPosterior are of different sizes",
    )
    finite = (posterior.precision, posterior.mean, posterior.mean_variance)
    _require(
        all(np.isfinite(a).all() for a in finite)
        and (posterior.mean_variance >= 0).all()
        and (np.linalg.eigvalsh(posterior.precision) > 0).all()
        and 0 < posterior.noise_variance < np.inf,
        "the moments of a TuckerPosterior are not finite or its variances not positive",
    )


def _check_clusters(clusters: BernoulliClusters) -> None:
    """Sizes, and what densities need."""
    shape = clusters.means.shape
    agree = clusters.weights.shape == shape[:1] and clusters.means_std.shape == shape
    _require(agree and shape[0], "the arrays of BernoulliClusters are empty or of different sizes")
    weights, means = clusters.weights, clusters.means
    known = (weights >= 0).all() and 0 < weights.sum() < np.inf
    _require(
        known and ((means >= 0) & (means <= 1)).all(),
        "the weights or the means of BernoulliClusters are no probabilities",
    )


def _check_binary_posterior(posterior: BinaryPosterior) -> None:
    """Sizes, and what solving for scores needs."""
    k, p = posterior.components.shape
    agree = posterior.b.shape == (p, k + 1) and posterior.b_cov.shape == (p, k + 1, k + 1)
    agree &= posterior.prior.shape == posterior.latent_variance.shape == (k,)
    agree &= posterior.basis.shape == (k, k)
    _require(agree, "the arrays of a BinaryPosterior are of different sizes")
    moments = (posterior.b, posterior.b_cov, posterior.basis, posterior.prior)
    finite = all(np.isfinite(a).all() for a in moments)
    _require(
        finite and (posterior.prior > 0).all() and (posterior.latent_variance >= 0).all(),
        "the moments of a BinaryPosterior are not finite or its variances not positive",
    )
    variances = np.linalg.eigvalsh(posterior.b_cov)
    slack = 1e-6 * np.abs(variances).max(initial=0.0)
    _require((variances >= -slack).all(), "the covariances of a BinaryPosterior are none")


def _check_mixture_posterior(posterior: MixturePosterior) -> None:
    sizes = {cluster.mean.size for cluster in posterior.clusters}
    _require(
        len(sizes) == 1 and posterior.weights.shape == (len(posterior.clusters),),
        "the clusters of a MixturePosterior are of different sizes",
    )
    noises = np.array([cluster.noise_variance for cluster in posterior.clusters])
    _require(
        0 < posterior.unit < np.inf and (noises > 0).all() and (posterior.weights > 0).all(),
        "the unit, a weight or a noise variance of a MixturePosterior is not positive",
    )


def _check_trace(trace: Trace) -> None:
    lengths = {trace.free_energy.size, trace.rank.size}
    lengths |= {trace.noise_variance.size, trace.seconds.size}
    _require(len(lengths) == 1, "the arrays of a Trace are of different lengths")


def _check_moments(moments: RunningMoments) -> None:
    p, scatter = moments.n_features, moments.scatter
    agree = moments.mean.shape == (p,) and {a.shape[1] for a in moments.rows} <= {p}
    agree &= getattr(scatter, "shape", None) == ((p, p) if moments.n_folded else None)
    _require(agree, "the arrays of RunningMoments are of different sizes")
    sums = (moments.mean, *moments.rows) if scatter is None else (moments.mean, scatter)
    known = all(np.isfinite(a).all() for a in (*sums, *moments.rows))
    _require(known and 0 < moments.unit < np.inf, "the sums of RunningMoments are not finite")


RECORDS: dict[str, Record] = {
    "Advice": Record(Advice, {"code": TEXT, "text": TEXT}),
    "Status": Record(Status, {"exact": FLAG, "advice": _tuple_of(_instance(Advice))}),
    "Spectrum": Record(
        Spectrum,
        {
            "singular_values": VECTOR,
            "shape": _tuple_of(WHOLE),
            "sum_of_squares": NUMBER,
            "scale": NUMBER,
            "resolution": NUMBER,
            "residual": NUMBER,
        },
        _check_spectrum,
    ),
    "Posterior": Record(
        Posterior,
        {
            "mean": VECTOR,
            "scale": VECTOR,
            "components": MATRIX,
            "shrinkage": VECTOR,
            "score_variance": VECTOR,
            "loading_variance": VECTOR,
            "latent_variance": VECTOR,
            "noise_variance": NUMBER,
        },
        _check_posterior,
    ),
    "HolesPosterior": Record(
        HolesPosterior,
        {
            "columns": _instance(Columns),
            "mean": VECTOR,
            "scale": VECTOR,
            "unit": NUMBER,
            "components": MATRIX,
            "basis": MATRIX,
            "latent_variance": VECTOR,
        },
        _check_holes_posterior,
    ),
    "Columns": Record(
        Columns,
        {
            "b": MATRIX,
            "b_cov": MATRICES,
            "prior_a": VECTOR,
            "noise_variance": NUMBER,
            "integrated": FLAG,
        },
        _check_columns,
    ),
    "GibbsDraws": Record(
        GibbsDraws,
        {"W": STACKS, "alpha": MATRICES, "tau": MATRIX, "mu": MATRICES, "log_joint": MATRIX},
        _check_draws,
    ),
    "RatingsPosterior": Record(
        RatingsPosterior,
        {
            "rows": _instance(RatingsFactor),
            "columns": _instance(RatingsFactor),
            "mean": NUMBER,
            "noise_variance": NUMBER,
            "location": NUMBER,
            "unit": NUMBER,
            "biases": FLAG,
        },
        _check_ratings_posterior,
    ),
    "MixturePosterior": Record(
        MixturePosterior,
        {"weights": VECTOR, "clusters": _tuple_of(_instance(Posterior)), "unit": NUMBER},
        _check_mixture_posterior,
    ),
    "RatingsFactor": Record(
        RatingsFactor, {"mean": MATRIX, "cov": MATRIX, "prior": VECTOR}, _check_factor
    ),
    "TuckerRows": Record(
        TuckerRows, {"mean": MATRIX, "cov": MATRICES, "count": NUMBER}, _check_rows
    ),
    "KroneckerCore": Record(
        KroneckerCore,
        {"mean": TENSOR, "bases": _tuple_of(MATRIX), "spread": TENSOR},
        _check_kronecker_core,
    ),
    "DenseCore": Record(
        DenseCore, {"mean": TENSOR, "cov": MATRIX, "log_det": NUMBER}, _check_dense_core
    ),
    "TuckerPosterior": Record(
        TuckerPosterior,
        {
            "factors": _tuple_of(_instance(TuckerRows)),
            "core": _or(_instance(KroneckerCore), _instance(DenseCore)),
            "precision": MATRIX,
            "noise_variance": NUMBER,
            "mean": TENSOR,
            "mean_variance": TENSOR,
        },
        _check_tucker_posterior,
    ),
    "BernoulliClusters": Record(
        BernoulliClusters,
        {"weights": VECTOR, "means": MATRIX, "means_std": MATRIX},
        _check_clusters,
    ),
    "BinaryPosterior": Record(
        BinaryPosterior,
        {
            "b": MATRIX,
            "b_cov": MATRICES,
            "prior": VECTOR,
            "components": MATRIX,
            "basis": MATRIX,
            "latent_variance": VECTOR,
        },
        _check_binary_posterior,
    ),
    "Trace": Record(
        Trace,
        {"free_energy": VECTOR, "rank": COUNTS, "noise_variance": VECTOR, "seconds": VECTOR},
        _check_trace,
    ),
    "RunningMoments": Record(
        RunningMoments,
        {
            "n_features": WHOLE,
            "dtype": PRECISION,
            "precision": PRECISION,
            "n_folded": WHOLE,
            "mean": VECTOR,
            "scatter": _or(MATRIX, NOTHING),
            "unit": NUMBER,
            "rows": _tuple_of(MATRIX),
        },
        _check_moments,
    ),
}


# --- estimators --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """What an estimator holds.

    `parameters` are those of the constructor; what they mean is checked where they are used.
    `fitted` attributes are all there or none is. Of the `extras` any may be there once it is
    fitted, of the `settings` any at any time. `agree` gets a fitted estimator whose attributes are
    of the right kind, and raises `FlawError`.
    """

    cls: type[Any]
    parameters: Mapping[str, Kind]
    fitted: Mapping[str, Kind]
    extras: Mapping[str, Kind]
    settings: Mapping[str, Kind]
    agree: Callable[[Any], None]

    @property
    def kinds(self) -> dict[str, Kind]:
        """Of all attributes, the parameters included."""
        return {**self.parameters, **self.fitted, **self.extras, **self.settings}


def _check_pca(model: Any) -> None:
    k, p = model.n_components_, model.n_features_in_
    of_components = (
        *(model.explained_variance_, model.explained_variance_ratio_),
        *(model.singular_values_, model.shrunk_singular_values_),
    )
    shapes = {model.components_.shape, model.components_std_.shape}
    _require(
        shapes | {model.posterior_.components.shape} == {(k, p)}
        and model.mean_.shape == (p,)
        and {a.shape for a in of_components} == {(k,)}
        and np.shape(model.noise_variance_) in ((), (p,)),
        f"its arrays are not of the sizes that {k} components in {p} features have",
    )
    spectrum = model.spectrum_
    _require(
        k <= spectrum.singular_values.size
        and spectrum.shape[0] <= p
        and spectrum.shape[1] <= model.n_samples_,
        "its spectrum does not belong to its components",
    )
    names, seen = vars(model).get("feature_names_in_"), vars(model).get("_seen")
    _require(names is None or names.shape == (p,), f"it does not name {p} features")
    _require(
        seen is None or (seen.n_features, seen.n_samples) == (p, model.n_samples_),
        "what partial_fit has seen does not belong to its components",
    )


def _check_bayesian_pca(model: Any) -> None:
    _check_pca(model)
    _require(
        model.n_components_ < model.rank_posterior_.size,
        "its components have no place among its ranks",
    )


def _check_imputer(model: Any) -> None:
    k, p = model.n_components_, model.n_features_in_
    names = vars(model).get("feature_names_in_")
    _require(
        model.posterior_.components.shape == (k, p) and (names is None or names.shape == (p,)),
        f"its arrays are not of the sizes that {k} components in {p} features have",
    )


def _check_variational_pca(model: Any) -> None:
    _check_pca(model)
    q = model.alpha_.size
    _require(
        model.weights_.shape == (model.n_features_in_, q) and model.n_components_ <= q,
        "its weights are not of the size that its components have",
    )


def _check_gibbs_pca(model: Any) -> None:
    k, p = model.n_components_, model.n_features_in_
    of_components = (
        *(model.signal_variance_, model.signal_variance_std_),
        *(model.explained_variance_, model.explained_variance_ratio_),
    )
    _require(
        model.components_.shape == model.components_std_.shape == (k, p)
        and model.mean_.shape == model.mean_std_.shape == (p,)
        and {a.shape for a in of_components} == {(k,)},
        f"its arrays are not of the sizes that {k} components in {p} features have",
    )
    q = model.draws_.W.shape[3]
    _require(
        model.draws_.W.shape[2] == p and k <= q and model.rank_posterior_.shape == (q + 1,),
        "its draws do not belong to its components",
    )
    names = vars(model).get("feature_names_in_")
    _require(names is None or names.shape == (p,), f"it does not name {p} features")


def _check_factorization(model: Any) -> None:
    n, m, H = model.users_.size, model.items_.size, model.n_components_
    posterior = model.posterior_
    width = H + posterior.biases
    sides = ((posterior.rows, n, "user"), (posterior.columns, m, "item"))
    for factor, size, name in sides:
        of_factors = (getattr(model, f"{name}_factors_"), getattr(model, f"{name}_factors_std_"))
        biases = vars(model).get(f"{name}_biases_")
        _require(
            factor.mean.shape == (size, width)
            and {a.shape for a in of_factors} == {(size, H)}
            and (biases is not None) == posterior.biases
            and (biases is None or biases.shape == (size,)),
            f"its arrays are not of the sizes that {size} {name}s with {H} components have",
        )
    starts, seen = model.seen_starts_, model.seen_items_
    agree = starts.shape == (n + 1,) and starts[0] == 0 and starts[-1] == seen.size
    agree = agree and (np.diff(starts) >= 0).all() and seen.size == model.n_ratings_
    agree = agree and 0 <= seen.min(initial=0) and seen.max(initial=0) < m
    _require(agree, "what its users have seen does not belong to its items")


def _check_tucker(model: Any) -> None:
    ranks, sizes = model.ranks_, tuple(len(U) for U in model.factors_)
    _require(
        model.core_.shape == ranks == tuple(U.shape[1] for U in model.factors_)
        and model.mean_.shape == sizes[1:]
        and len(sizes) > 1
        and model.n_features_in_ == sizes[1],
        "its core, factors and mean are not of the sizes that its ranks have",
    )
    kept = squeezed_shape(sizes)
    posterior = model.posterior_
    if isinstance(posterior, TuckerPosterior):
        inside = tuple(len(rows.mean) for rows in posterior.factors)
        agree = inside == kept and posterior.ranks[0] <= ranks[0]
    else:
        agree = len(kept) == 2 and posterior.components.shape[1] == kept[1]
        agree = agree and posterior.components.shape[0] <= ranks[0]
    _require(agree, "its posterior does not belong to its factors")
    names = vars(model).get("feature_names_in_")
    _require(names is None or names.shape == (sizes[1],), f"it does not name {sizes[1]} features")


def _check_bernoulli_mixture(model: Any) -> None:
    K, p = model.n_components_, model.n_features_in_
    clusters, names = model.posterior_, vars(model).get("feature_names_in_")
    _require(
        clusters.means.shape == model.means_.shape == model.means_std_.shape == (K, p)
        and model.weights_.shape == (K,)
        and (names is None or names.shape == (p,)),
        f"its arrays are not of the sizes that {K} clusters in {p} features have",
    )


def _check_binary_pca(model: Any) -> None:
    k, p = model.n_components_, model.n_features_in_
    names = vars(model).get("feature_names_in_")
    _require(
        model.components_.shape == model.components_std_.shape == (k, p)
        and model.posterior_.components.shape == (k, p)
        and model.mean_.shape == (p,)
        and model.explained_variance_.shape == (k,)
        and k < model.rank_posterior_.size
        and (names is None or names.shape == (p,)),
        f"its arrays are not of the sizes that {k} components in {p} features have",
    )


def _check_mixture(model: Any) -> None:
    K, p = model.n_components_, model.n_features_in_
    names, ranks = vars(model).get("feature_names_in_"), model.ranks_
    _require(
        model.weights_.shape == ranks.shape == (K,)
        and model.means_.shape == (K, p)
        and [c.shape for c in model.components_] == [(int(rank), p) for rank in ranks]
        and model.noise_variances_.shape in ((K,), (K, p)),
        f"its arrays are not of the sizes that {K} clusters in {p} features have",
    )
    posterior = model.posterior_
    _require(
        posterior.ranks.tolist() == ranks.tolist() and posterior.clusters[0].mean.shape == (p,),
        "its posterior does not belong to its clusters",
    )
    _require(names is None or names.shape == (p,), f"it does not name {p} features")


# What every PCA holds.
FITTED_PCA: dict[str, Kind] = {
    "components_": MATRIX,
    "components_std_": MATRIX,
    "mean_": VECTOR,
    "explained_variance_": VECTOR,
    "explained_variance_ratio_": VECTOR,
    "singular_values_": VECTOR,
    "shrunk_singular_values_": VECTOR,
    "noise_variance_": _or(NUMBER, VECTOR),
    "n_components_": WHOLE,
    "n_samples_": WHOLE,
    "threshold_": NUMBER,
    "free_energy_": NUMBER,
    "converged_": FLAG,
    "n_iter_": WHOLE,
    "engine_": TEXT,
    "status_": _instance(Status),
    "spectrum_": _instance(Spectrum),
    "trace_": _or(_instance(Trace), NOTHING),
    "posterior_": _or(_instance(Posterior), _instance(HolesPosterior)),
    "n_features_in_": WHOLE,
}


def _parameters(cls: type[Any]) -> dict[str, Kind]:
    """Of the constructor of an estimator; a generator has a kind of its own in a file."""
    return {name: ANYTHING if name == "random_state" else PLAIN for name in cls().get_params()}


ESTIMATORS: dict[str, Layout] = {
    "BayesianPCA": Layout(
        BayesianPCA,
        parameters=_parameters(BayesianPCA),
        fitted={**FITTED_PCA, "rank_posterior_": VECTOR, "miss_probability_": NUMBER},
        extras={"feature_names_in_": NAMES, "_seen": _instance(RunningMoments)},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_bayesian_pca,
    ),
    "BernoulliMixture": Layout(
        BernoulliMixture,
        parameters={
            **_parameters(BernoulliMixture),
            "weights_init": ANYTHING,
            "means_init": ANYTHING,
        },
        fitted={
            "weights_": VECTOR,
            "means_": MATRIX,
            "means_std_": MATRIX,
            "n_components_": WHOLE,
            "free_energy_": NUMBER,
            "lower_bound_": NUMBER,
            "trace_": _instance(Trace),
            "converged_": FLAG,
            "n_iter_": WHOLE,
            "status_": _instance(Status),
            "posterior_": _instance(BernoulliClusters),
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={},
        agree=_check_bernoulli_mixture,
    ),
    "BinaryPCA": Layout(
        BinaryPCA,
        parameters=_parameters(BinaryPCA),
        fitted={
            "components_": MATRIX,
            "components_std_": MATRIX,
            "mean_": VECTOR,
            "explained_variance_": VECTOR,
            "n_components_": WHOLE,
            "n_samples_": WHOLE,
            "rank_posterior_": VECTOR,
            "free_energy_": NUMBER,
            "trace_": _instance(Trace),
            "converged_": FLAG,
            "n_iter_": WHOLE,
            "status_": _instance(Status),
            "posterior_": _instance(BinaryPosterior),
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_binary_pca,
    ),
    "GibbsPCA": Layout(
        GibbsPCA,
        parameters=_parameters(GibbsPCA),
        fitted={
            "components_": MATRIX,
            "components_std_": MATRIX,
            "n_components_": WHOLE,
            "rank_posterior_": VECTOR,
            "noise_variance_": NUMBER,
            "noise_variance_std_": NUMBER,
            "signal_variance_": VECTOR,
            "signal_variance_std_": VECTOR,
            "mean_": VECTOR,
            "mean_std_": VECTOR,
            "explained_variance_": VECTOR,
            "explained_variance_ratio_": VECTOR,
            "n_samples_": WHOLE,
            "draws_": _instance(GibbsDraws),
            "r_hat_": _or(DIAGNOSTICS, NOTHING),
            "ess_": _or(DIAGNOSTICS, NOTHING),
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_gibbs_pca,
    ),
    "BayesianPCAImputer": Layout(
        BayesianPCAImputer,
        parameters=_parameters(BayesianPCAImputer),
        fitted={
            "posterior_": _instance(HolesPosterior),
            "n_components_": WHOLE,
            "n_iter_": WHOLE,
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_imputer,
    ),
    "MatrixFactorization": Layout(
        MatrixFactorization,
        parameters={**_parameters(MatrixFactorization), "bounds": _or(PLAIN, BOUNDS)},
        fitted={
            "users_": IDS,
            "items_": IDS,
            "n_components_": WHOLE,
            "user_factors_": MATRIX,
            "item_factors_": MATRIX,
            "user_factors_std_": MATRIX,
            "item_factors_std_": MATRIX,
            "mean_": NUMBER,
            "noise_variance_": NUMBER,
            "free_energy_": NUMBER,
            "n_ratings_": WHOLE,
            "n_duplicates_": WHOLE,
            "bounds_": _or(BOUNDS, NOTHING),
            "seen_starts_": COUNTS,
            "seen_items_": COUNTS,
            "trace_": _instance(Trace),
            "converged_": FLAG,
            "n_iter_": WHOLE,
            "status_": _instance(Status),
            "posterior_": _instance(RatingsPosterior),
        },
        extras={"user_biases_": VECTOR, "item_biases_": VECTOR},
        settings={},
        agree=_check_factorization,
    ),
    "BayesianTucker": Layout(
        BayesianTucker,
        parameters={**_parameters(BayesianTucker), "ranks": RANKS},
        fitted={
            "core_": TENSOR,
            "factors_": TENSORS,
            "ranks_": _tuple_of(WHOLE),
            "noise_variance_": NUMBER,
            "free_energy_": NUMBER,
            "mean_": TENSOR,
            "converged_": FLAG,
            "n_iter_": WHOLE,
            "trace_": _or(_instance(Trace), NOTHING),
            "status_": _instance(Status),
            "posterior_": Kind(
                "a posterior of a tensor or a matrix",
                lambda value: isinstance(value, TuckerPosterior | Posterior | HolesPosterior),
            ),
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_tucker,
    ),
    "PCAMixture": Layout(
        PCAMixture,
        parameters={**_parameters(PCAMixture), "rank": _or(PLAIN, WHOLES)},
        fitted={
            "weights_": VECTOR,
            "means_": MATRIX,
            "ranks_": COUNTS,
            "components_": _tuple_of(MATRIX),
            "noise_variances_": _or(VECTOR, MATRIX),
            "n_components_": WHOLE,
            "free_energy_": NUMBER,
            "lower_bound_": NUMBER,
            "trace_": _instance(Trace),
            "converged_": FLAG,
            "n_iter_": WHOLE,
            "status_": _instance(Status),
            "posterior_": _instance(MixturePosterior),
            "n_features_in_": WHOLE,
        },
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_mixture,
    ),
    "VariationalPCA": Layout(
        VariationalPCA,
        parameters=_parameters(VariationalPCA),
        fitted={**FITTED_PCA, "weights_": MATRIX, "alpha_": VECTOR, "lower_bound_": NUMBER},
        extras={"feature_names_in_": NAMES},
        settings={"_sklearn_output_config": OUTPUT},
        agree=_check_variational_pca,
    ),
}


# Parameters that the first model files do not have: their defaults do what was done then.
LATER = {
    "BernoulliMixture": ("checkpoint", "verbose"),
    "BinaryPCA": ("checkpoint", "verbose"),
}


# --- saving and loading ------------------------------------------------------------------------


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not, to a model file; see `load`.

    Raises TypeError for what has no place in a file, and OSError where the file cannot be written.
    """
    name = type(estimator).__name__
    if name not in ESTIMATORS or type(estimator) is not ESTIMATORS[name].cls:
        raise TypeError(f"a {name} cannot be saved: only {', '.join(ESTIMATORS)} can.")
    layout, encoder = ESTIMATORS[name], Encoder(RECORDS, to_numpy)
    _check_known(estimator, layout)
    trees = {key: encoder.encode(value, key) for key, value in sorted(vars(estimator).items())}
    meta = {
        "bayespca": _bayespca_version(),
        "class": name,
        "parameters": {key: tree for key, tree in trees.items() if key in layout.parameters},
        "attributes": {key: tree for key, tree in trees.items() if key not in layout.parameters},
    }
    try:
        _estimator(meta, encoder.arrays)
    except FlawError as flaw:
        raise ValueError(f"this {name} cannot be saved: {flaw}.") from None
    archive.write(path, meta, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file that its `save` has written.

    It is what was saved, to the last bit: parameters, attributes, and what `partial_fit` needs to
    go on. Arrays of other libraries (torch, CuPy) come back as NumPy arrays. Nothing in a file is
    ever executed, so files of unknown origin may be loaded.

    Raises
    ------
    ModelFileError
        A ValueError: the file is no model file, is damaged, or needs a newer bayespca.
    OSError
        The file is not there or cannot be read.
    """
    meta, arrays = archive.read(path)
    with archive.naming(path):
        return _estimator(meta, arrays)


def _check_known(estimator: Any, layout: Layout) -> None:
    strange = sorted(vars(estimator).keys() - layout.kinds.keys())
    if strange:
        raise TypeError(
            f"cannot save {strange[0]}: it is not an attribute of a {type(estimator).__name__}; "
            f"remove it (del model.{strange[0]}) and keep it elsewhere."
        )


def _estimator(meta: Json, arrays: Mapping[str, np.ndarray]) -> Any:
    """The estimator that the tree and the arrays of a file describe."""
    written_by, name, parameters, attributes = members(
        meta, "bayespca", "class", "parameters", "attributes"
    )
    layout = ESTIMATORS.get(name) if isinstance(name, str) else None
    if layout is None or not isinstance(written_by, str):
        raise FlawError(f"it holds an estimator of the unknown class {str(name)[:60]!r}")
    decoder = Decoder(RECORDS, arrays)
    told = _told_parameters(name, parameters, layout)
    trees = dict(zip(told, members(parameters, *told), strict=True))
    trees |= _checked_attributes(attributes, layout)
    values = {key: decoder.decode(tree) for key, tree in trees.items()}
    check_kinds(f"a {name}", values, layout.kinds)
    estimator = layout.cls()
    vars(estimator).update(values)
    if layout.fitted.keys() <= values.keys():
        layout.agree(estimator)
    if decoder.used != arrays.keys():
        raise FlawError("it holds an array that nothing refers to")
    return estimator


def _told_parameters(name: str, trees: Json, layout: Layout) -> list[str]:
    """The parameters that a file must have; those that came later may be lacking."""
    lacking = set(LATER.get(name, ())) - trees.keys() if isinstance(trees, dict) else set()
    return [parameter for parameter in layout.parameters if parameter not in lacking]


def _checked_attributes(trees: Json, layout: Layout) -> dict[str, Json]:
    """The attributes, if they are all that a fitted estimator has, or none of them."""
    if not isinstance(trees, dict):
        raise FlawError("it holds something else where attributes should be")
    there = trees.keys() - layout.settings.keys()
    unknown = sorted(there - layout.fitted.keys() - layout.extras.keys())
    missing = sorted(layout.fitted.keys() - there) if there else []
    if unknown or missing:
        raise FlawError(
            f"the attribute {unknown[0][:60]!r} is unknown"
            if unknown
            else f"the attribute {missing[0]} is missing"
        )
    return trees


def _bayespca_version() -> str:
    try:
        return metadata.version("bayespca")
    except metadata.PackageNotFoundError:
        return "unknown"
