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
    k, status, was_given = model.n_components_, model.status_, rank_was_given(model)
    found = getattr(model, "rank_posterior_", None)
    # If nothing varies, the rank has no probability.
    has_none = found is None or was_given or ALL_ZERO in status
    posterior = np.zeros(0) if has_none else to_numpy(found)
    known = posterior.size > 0
    # A number that is the largest allowed, or the least asked for, is given, too.
    bounded = model.n_components == k or AT_LEAST in status
    is_given = was_given or (not known and bounded and hasattr(model, "rank_posterior_"))
    if is_given:
        how_sure = "as requested"
    elif known or NOT_DETERMINED in status:
        how_sure = in_brief(k, posterior)
    else:
        how_sure = "nothing varies" if ALL_ZERO in status else "found, without a probability"
    notes: list[Advice] = []
    capped = found is not None and not was_given and model.n_components == k
    if capped and int(to_numpy(found).argmax()) > k:
        text = f"No more than {k} components were allowed; there are more."
        notes.append(Advice("capped", text))
    notes += _single_features(model)
    # The headline says that.
    notes += (advice for advice in status.advice if advice.code != NOT_DETERMINED)
    variances, outlying = feature_noise(model), outlier_probability(model)
    varying = np.zeros(0) if variances is None else variances[variances > 0]
    return Summary(
        method=getattr(model, "method", type(model).__name__),
        n_samples=model.n_samples_,
        n_features=model.n_features_in_,
        rank=k,
        given=is_given,
        at_least=float(posterior[k:].sum()) if known else None,
        exactly=float(posterior[k]) if known else None,
        most_probable=int(posterior.argmax()) if known else None,
        how_sure=how_sure,
        rank_probabilities={int(h): float(posterior[h]) for h in np.flatnonzero(posterior > 1e-3)},
        noise_variance=model.noise_variance_,
        noise=noise_model(model).name,
        noise_evidence=dict(getattr(model, "noise_evidence_", {})),
        feature_noise=(float(varying.min()), float(varying.max())) if varying.size else None,
        outliers=None if outlying is None else int(np.count_nonzero(outlying > OUTLYING)),
        components_for={share: model.components_for(share) for share in SHARES},
        explained=float(to_numpy(model.explained_variance_ratio_).sum()),
        threshold=float(model.threshold_),
        free_energy=float(model.free_energy_),
        engine=model.engine_,
        n_iter=model.n_iter_,
        converged=bool(model.converged_),
        exact=status.exact,
        notes=tuple(notes),
        determined=NOT_DETERMINED not in status,
    )


def noise_model(model: FittedPCA) -> NoiseModel:
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


def rank_was_given(model: BaseEstimator) -> bool:
    """Whether the user gave the rank, so the data say nothing about it."""
    method = METHODS.get(getattr(model, "method", ""))
    return method is not None and method.needs_rank


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
