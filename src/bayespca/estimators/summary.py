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
from bayespca.spectrum.records import ALL_ZERO, Advice

from .wording import CONDITION, feature_names, likelihood, ordinal, percent

# A model that can be summarised, drawn and reported.
FittedPCA: TypeAlias = BaseEstimator

# A singular value this near to the threshold, relatively, could have fallen on its other side.
NEAR = 0.05
# A rank less probable than this is worth a note. The limit is not higher, because one component
# more, next to the detection limit, can hardly ever be excluded.
SURE = 0.5
# A component with this share of its squared loadings in one feature is practically that feature.
ALONE = 0.95
# Shares of the signal for which the summary counts the components needed.
SHARES = (0.8, 0.95, 0.99)
# A row or a cell with a probability above this counts as an outlier.
OUTLYING = 0.5


@dataclass(frozen=True)
class Summary:
    """The first facts that people want to know about a fitted PCA.

    `given` is True if the rank was given. `probability` is that of exactly `rank` components
    above the detection limit, if the noise is as assumed; None if it is not known.
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
    probability: float | None
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

    def as_dict(self) -> dict[str, Any]:
        """All fields as plain Python values, which JSON can hold."""
        return asdict(self) | {"notes": [note.text for note in self.notes]}


def summarize(model: FittedPCA) -> Summary:
    """The summary of a fitted `BayesianPCA` or `VariationalPCA`."""
    method = getattr(model, "method", type(model).__name__)
    is_given = rank_was_given(model)
    # If nothing varies, the rank has no probability.
    known = hasattr(model, "rank_posterior_") and not is_given and ALL_ZERO not in model.status_
    posterior = to_numpy(model.rank_posterior_) if known else np.zeros(0)
    likely = {int(k): float(posterior[k]) for k in np.flatnonzero(posterior > 1e-3)}
    return Summary(
        method=method,
        n_samples=model.n_samples_,
        n_features=model.n_features_in_,
        rank=model.n_components_,
        given=is_given,
        probability=float(posterior[model.n_components_]) if known else None,
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
        notes=_notes(model, likely),
    )


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


def _notes(model: FittedPCA, likely: dict[int, float]) -> tuple[Advice, ...]:
    return (
        *_capped(model),
        *_near_threshold(model),
        *_uncertain_rank(model, likely),
        *_single_features(model),
        *convergence(model),
        *model.status_.advice,
    )


def _capped(model: FittedPCA) -> Iterator[Advice]:
    """Advice if the cap leaves components out; probabilities cover only ranks up to the cap."""
    k, threshold = model.n_components_, float(model.threshold_)
    gamma = model.spectrum_.singular_values * model.spectrum_.scale
    if not np.isfinite(threshold) or rank_was_given(model):
        return
    if model.n_components != k or k >= gamma.size or gamma[k] <= threshold:
        return
    more = int(np.count_nonzero(gamma > threshold)) - k
    yield Advice(
        "capped",
        f"No more than {k} components were allowed; at this noise, {more} more of those seen "
        "would be kept.",
    )


def _near_threshold(model: FittedPCA) -> Iterator[Advice]:
    """Advice on the last kept and the first dropped component, if next to the threshold."""
    k, threshold = model.n_components_, float(model.threshold_)
    if not (np.isfinite(threshold) and threshold > 0):
        return
    gamma = model.spectrum_.singular_values * model.spectrum_.scale
    for index, side in ((k - 1, "above"), (k, "below")):
        if not 0 <= index < gamma.size:
            continue
        gap = abs(float(gamma[index]) / threshold - 1)
        if gap < NEAR and (gamma[index] > threshold) == (side == "above"):
            what = "kept" if side == "above" else "dropped"
            yield Advice(
                f"near-threshold-{what}",
                f"The {ordinal(index + 1)} component is within {_percent(gap)} of the threshold, "
                f"just {side} it, and was {what}.",
            )


def _uncertain_rank(model: FittedPCA, likely: dict[int, float]) -> Iterator[Advice]:
    k = model.n_components_
    if not likely or likely.get(k, 0.0) >= SURE or "other-rank" in model.status_:
        return
    others = sorted((rank for rank in likely if rank != k), key=lambda rank: -likely[rank])[:2]
    if not others:
        return
    beside = " and ".join(f"rank {rank} {likelihood(likely[rank])}" for rank in others)
    yield Advice(
        "uncertain-rank",
        f"The rank is not certain: rank {k} has probability {likelihood(likely.get(k, 0.0))}, "
        f"{beside}, {CONDITION}.",
    )


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


def convergence(model: BaseEstimator) -> list[Advice]:
    """Advice on an iteration that ended early."""
    if getattr(model, "converged_", True):
        return []
    return [
        Advice(
            "not-converged",
            f"The iteration had not settled after {model.n_iter_} steps; the result is usable.",
        )
    ]


def _percent(share: float) -> str:
    """A share in percent, rounded up so that "within 2 %" is true."""
    return f"{max(np.ceil(share * 100), 1):.0f} %"
