"""A fitted PCA in a few numbers and sentences, for the command, the report and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import FloatArray
from bayespca.lowrank.noise_models import ISOTROPIC, NOISES, NoiseModel
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import ALL_ZERO, AT_LEAST, NOT_DETERMINED, Advice

from .wording import feature_names, headline, in_brief, percent

# A model that can be summarised, drawn and reported.
FittedPCA: TypeAlias = BaseEstimator

# A component with this share of its squared loadings in one feature is practically that feature.
ALONE = 0.95
# Shares of the signal for which the summary counts the components needed.
SHARES = (0.8, 0.95, 0.99)
# A row or a cell with a probability above this counts as an outlier.
OUTLYING = 0.5


@dataclass(frozen=True)
class Summary:
    """The first facts that people want to know about a fitted PCA.

    `given` is True if the rank was given, or is a bound that was given and has no probability.
    `at_least` and `exactly` are the probabilities of at least, and of exactly, `rank` components
    that can be recovered, if the noise is as assumed, and `most_probable` the most probable number;
    each is None if the data do not determine it. `how_sure` has these figures in words,
    and `sentence` is the result in one sentence.
    `noise_variance` is the mean over features if each has its own. `noise` is the noise model, and
    `noise_evidence` the nats by which the evidence of each model that was tried exceeds that
    of equal noise. `feature_noise` is the smallest and the largest noise variance of a feature,
    `outliers` the number of rows or cells that are probably outliers; each is None if all have the
    same noise. `components_for` says how many components hold 80, 95 and 99 % of the signal.
    `explained` is the share of the total variance along the components. `notes` are
    codes with sentences in plain words.
    """

    method: str
    n_samples: int
    n_features: int
    rank: int
    given: bool
    at_least: float | None
    exactly: float | None
    most_probable: int | None
    how_sure: str
    rank_probabilities: dict[int, float]
    noise_variance: float
    noise: str
    noise_evidence: dict[str, float]
    feature_noise: tuple[float, float] | None
    outliers: int | None
    components_for: dict[float, int]
    explained: float
    threshold: float
    free_energy: float
    engine: str
    n_iter: int
    converged: bool
    exact: bool
    notes: tuple[Advice, ...]
    determined: bool

    @property
    def sentence(self) -> str:
        """The number of components, and how many hold 95 % of the signal."""
        return headline(self)

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain Python values, which JSON can hold."""
        notes = [note.text for note in self.notes]
        return asdict(self) | {"sentence": self.sentence, "notes": notes}


def summarize(model: FittedPCA) -> Summary:
    """The summary of a fitted `BayesianPCA` or `VariationalPCA`."""
    method = getattr(model, "method", type(model).__name__)
    # If nothing varies, the rank has no probability.
    known = not rank_was_given(model) and ALL_ZERO not in model.status_
    posterior = getattr(model, "rank_posterior_", None) if known else None
    posterior = np.zeros(0) if posterior is None else to_numpy(posterior)
    k, known = model.n_components_, posterior.size > 0
    is_given = rank_was_given(model) or (not known and _reaches_a_bound(model))
    likely = {int(k): float(posterior[k]) for k in np.flatnonzero(posterior > 1e-3)}
    return Summary(
        method=method,
        n_samples=model.n_samples_,
        n_features=model.n_features_in_,
        rank=model.n_components_,
        given=is_given,
        at_least=float(posterior[k:].sum()) if known else None,
        exactly=float(posterior[k]) if known else None,
        most_probable=int(posterior.argmax()) if known else None,
        how_sure="as requested" if is_given else _how_sure(model, posterior),
        rank_probabilities=likely,
        noise_variance=model.noise_variance_,
        noise=noise_model(model).name,
        noise_evidence=dict(getattr(model, "noise_evidence_", {})),
        feature_noise=_range(feature_noise(model)),
        outliers=_n_outliers(outlier_probability(model)),
        components_for={share: model.components_for(share) for share in SHARES},
        explained=float(to_numpy(model.explained_variance_ratio_).sum()),
        threshold=float(model.threshold_),
        free_energy=float(model.free_energy_),
        engine=model.engine_,
        n_iter=model.n_iter_,
        converged=bool(model.converged_),
        exact=model.status_.exact,
        notes=_notes(model),
        determined=NOT_DETERMINED not in model.status_,
    )


def _how_sure(model: FittedPCA, posterior: FloatArray) -> str:
    if posterior.size or NOT_DETERMINED in model.status_:
        return in_brief(model.n_components_, posterior)
    return "nothing varies" if ALL_ZERO in model.status_ else "found, without a probability"


def noise_model(model: FittedPCA) -> NoiseModel:
    """The noise model of a fitted PCA."""
    return NOISES[getattr(model, "noise_", ISOTROPIC.name)]


def feature_noise(model: FittedPCA) -> FloatArray | None:
    """Noise variance of each feature; None if all have the same."""
    if not noise_model(model).columns:
        return None
    return np.asarray(to_numpy(model.feature_noise_variance_), dtype=np.float64)


def outlier_probability(model: FittedPCA) -> FloatArray | None:
    """Probability that a row, or a cell, is an outlier; None if neither has its own noise."""
    found = getattr(model, "outlier_probability_", None)
    return None if found is None else np.asarray(to_numpy(found), dtype=np.float64)


def _range(variances: FloatArray | None) -> tuple[float, float] | None:
    """The smallest and the largest variance among features that vary."""
    own = None if variances is None else variances[variances > 0]
    return None if own is None or not own.size else (float(own.min()), float(own.max()))


def _n_outliers(probability: FloatArray | None) -> int | None:
    return None if probability is None else int(np.count_nonzero(probability > OUTLYING))


def rank_was_given(model: BaseEstimator) -> bool:
    """Whether the user gave the rank, so the data say nothing about it."""
    method = METHODS.get(getattr(model, "method", ""))
    return method is not None and method.needs_rank


def _reaches_a_bound(model: FittedPCA) -> bool:
    """Whether the number is the largest that was allowed, or the least that was asked for."""
    bounded = model.n_components == model.n_components_ or AT_LEAST in model.status_
    return bounded and hasattr(model, "rank_posterior_")


def _notes(model: FittedPCA) -> tuple[Advice, ...]:
    return (
        *_capped(model),
        *_single_features(model),
        # The headline says that.
        *(advice for advice in model.status_.advice if advice.code != NOT_DETERMINED),
    )


def _capped(model: FittedPCA) -> Iterator[Advice]:
    """Advice if the cap is below the most probable number."""
    k, known = model.n_components_, getattr(model, "rank_posterior_", None)
    if known is None or rank_was_given(model) or model.n_components != k:
        return
    if int(to_numpy(known).argmax()) > k:
        yield Advice("capped", f"No more than {k} components were allowed; there are more.")


def _single_features(model: FittedPCA) -> Iterator[Advice]:
    """Advice if the first component is a single feature, as happens with different units."""
    share = to_numpy(model.components_) ** 2
    if (
        getattr(model, "scale", False)
        # With noise variances of columns, units make no difference.
        or noise_model(model).columns
        or share.shape[1] < 3
        or not share.size
        or share[0].max() < ALONE
    ):
        return
    j = int(share[0].argmax())
    name = feature_names(model)[j]
    name = repr(name) if hasattr(model, "feature_names_in_") else name
    yield Advice(
        "single-feature",
        f"The 1st component is {name} almost alone ({percent(float(share[0, j]))} of its "
        "squared loadings). If the columns have different units, scale them.",
    )
