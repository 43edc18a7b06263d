"""The findings of any model in words and numbers, for the command, the report and notebooks.

`summary` says more about a PCA with singular values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.missing.sampled.fit import MORE
from bayespca.spectrum.records import Advice

from ._base import AnyEstimator
from .summary import summarize
from .wording import (
    KINDS,
    counted,
    headline,
    noise_level,
    percent,
    plural,
    significant,
)

# Values of `n_components` that leave the number to the data.
CHOSEN = ("auto", "evb")
# The origin of a number of components that a search over numbers has found.
LOWEST = "with the lowest free energy of those tried"


@dataclass(frozen=True)
class Fact:
    """A finding: its name, its value in words, and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Story:
    """The findings of a model, and how certain they are.

    `size` says what the model was fitted to, `numbers` holds the facts as plain values for JSON,
    and `parts` are facts about single clusters, modes, dimensions or factors.
    """

    headline: str
    lead: str
    size: str
    facts: tuple[Fact, ...]
    numbers: dict[str, Any]
    notes: tuple[Advice, ...]
    parts: tuple[Fact, ...] = ()


def story(model: AnyEstimator) -> Story:
    """The story of a fitted model of any kind."""
    if hasattr(model, "spectrum_"):
        return _of_pca(model)
    return STORIES.get(type(model).__name__, _of_any)(model)


def _story(model: AnyEstimator, words: tuple[str, str, str], *facts: Fact, **numbers: Any) -> Story:
    """A story with the numbers and notes that all models share."""
    said, lead, size = words
    common = {"class": type(model).__name__, "headline": said}
    known = {"free_energy": np.nan, "converged": True, "n_iter": 0}
    ended = {name: getattr(model, f"{name}_", default) for name, default in known.items()}
    notes = model.status_.advice if hasattr(model, "status_") else ()
    texts = {"notes": [note.text for note in notes]}
    return Story(said, lead, size, facts, common | numbers | ended | texts, notes)


# --- one for each kind of model ----------------------------------------------------------------


def _of_pca(model: AnyEstimator) -> Story:
    summary = summarize(model)
    words = headline(summary), "", _rows_and_features(model)
    facts = (
        Fact("components", str(summary.rank), summary.how_sure),
        Fact("variance explained", percent(summary.explained)),
        Fact("noise", noise_level(summary), "standard deviation"),
    )
    return Story(*words, facts, summary.as_dict(), summary.notes)


def _of_gibbs(model: AnyEstimator) -> Story:
    k, probability = model.n_components_, _probability(model)
    explained = float(to_numpy(model.explained_variance_ratio_).sum())
    noise, spread = float(model.noise_variance_) ** 0.5, float(model.noise_variance_std_)
    draws = model.n_chains * model.n_draws
    lead = (
        f"{_hold(k)} {percent(explained)} of the variance. "
        f"{percent(probability)} of {draws:,} draws from the posterior have this number; all "
        "other uncertainties on this page come from the draws."
    )
    words = f"There {_dimensions(k)} in these data.", lead, _rows_and_features(model)
    facts = (
        Fact("dimensions", str(k), f"in {percent(probability)} of the draws"),
        Fact("of the variance", percent(explained), "explained"),
        Fact(
            "noise",
            significant(noise),
            f"standard deviation ± {significant(spread / noise / 2, 2)}",
        ),
    )
    numbers = {"rank": k, "probability": probability, "noise_variance": model.noise_variance_}
    return _story(model, words, *facts, **numbers, explained=explained, r_hat=model.r_hat_)


def _of_binary(model: AnyEstimator) -> Story:
    k, ones = model.n_components_, _ones(model)
    lead = "Rows differ in how probable ones are, in patterns that columns have in common."
    if k == 0:
        lead = "Columns have ones more or less often, but independently of each other."
    words = f"There {_dimensions(k)} in these zeros and ones.", lead, _rows_and_features(model)
    name = "dimensions" if k != 1 else "dimension"
    facts = (
        Fact(name, str(k), LOWEST),
        Fact("ones", percent(ones), "of the cells of an average row"),
    )
    return _story(model, words, *facts, rank=k, ones=ones)


def _of_table(model: AnyEstimator) -> Story:
    k, likelihoods = model.n_components_, model.likelihoods_
    kinds = Counter(KINDS[likelihood] for likelihood in likelihoods.values())
    lead = "Columns of all kinds vary together, in patterns that rows have more or less of."
    if k == 0:
        lead = "Columns vary independently of each other."
    words = f"There {_dimensions(k)} in this table.", lead, _rows_and_features(model)
    name = "dimensions" if k != 1 else "dimension"
    columns = ", ".join(
        f"{count} {kind.one if count == 1 else kind.many}" for kind, count in kinds.most_common()
    )
    facts = (
        Fact(name, str(k), LOWEST),
        Fact("columns", str(model.n_features_in_), columns),
    )
    return _story(model, words, *facts, rank=k, likelihoods=likelihoods)


def _of_curves(model: AnyEstimator) -> Story:
    k, relevance = model.n_components_, [float(w) for w in model.relevance_]
    noise, gain = float(model.noise_variance_) ** 0.5, _gain(model)
    words = *_curves(model, gain), _rows_and_features(model)
    name = "dimensions" if k != 1 else "dimension"
    facts = (
        Fact(name, str(k), "as requested" if model.method == "map" else LOWEST),
        *_over_planes(gain),
        Fact("noise", significant(noise), "standard deviation"),
    )
    numbers = {"rank": k, "relevance": relevance, "nonlinear_evidence": gain}
    variances = {"noise_variance": model.noise_variance_}
    linear = {"linear_free_energy": model.linear_free_energy_}
    account = _story(model, words, *facts, **numbers, **linear, **variances)
    each = enumerate(relevance, start=1)
    parts = (Fact(f"dimension {h}", f"relevance {significant(w, 2)}") for h, w in each)
    return replace(account, parts=tuple(parts))


def _of_clusters(model: AnyEstimator) -> Story:
    K, weights, ranks = model.n_components_, to_numpy(model.weights_), to_numpy(model.ranks_)
    means = np.sqrt(np.asarray(to_numpy(model.noise_variances_), dtype=np.float64).reshape(K, -1))
    noise = np.sqrt((means**2).mean(axis=1))
    lead = f"{_shares(weights)} {_ranks(ranks.tolist())}"
    words = _clusters(model, "rows"), lead, plural(model.n_features_in_, "feature")
    facts = (
        _cluster_fact(model),
        Fact("dimensions", _span(ranks.tolist()), "in a cluster"),
        Fact("noise", _span([float(s) for s in noise]), "standard deviation in a cluster"),
    )
    numbers = {"n_clusters": K, "weights": weights, "ranks": ranks}
    variances = to_numpy(model.noise_variances_)
    account = _story(model, words, *facts, **numbers, noise_variances=variances)
    each = [
        f"{plural(int(r), 'dimension')}, noise {significant(float(s), 2)}"
        for r, s in zip(ranks, noise, strict=True)
    ]
    return replace(account, parts=_cluster_parts(weights, each))


def _of_kinds(model: AnyEstimator) -> Story:
    K, weights = model.n_components_, to_numpy(model.weights_)
    ones = float(weights @ to_numpy(model.means_).mean(axis=1))
    lead = f"{_shares(weights)} Each cluster has its own probability of a 1 in each column."
    words = (
        _clusters(model, "rows of zeros and ones"),
        lead,
        plural(model.n_features_in_, "feature"),
    )
    facts = (_cluster_fact(model), Fact("ones", percent(ones), "of the cells"))
    account = _story(model, words, *facts, n_clusters=K, weights=weights, ones=ones)
    each = [f"{percent(float(p))} ones" for p in to_numpy(model.means_).mean(axis=1)]
    return replace(account, parts=_cluster_parts(weights, each))


def _of_ratings(model: AnyEstimator) -> Story:
    k, noise = model.n_components_, float(model.noise_variance_) ** 0.5
    low, high = model.bounds_ or (None, None)
    size = (
        f"{plural(model.n_ratings_, 'rating')} of {plural(model.items_.size, 'item')} by "
        f"{plural(model.users_.size, 'user')}"
    )
    lead = (
        f"Ratings scatter about what the model expects with a standard deviation of "
        f"{significant(noise)}: no prediction can be more certain than that."
    )
    said = f"There {_dimensions(k)} of taste in these ratings."
    if k == 0:
        said = "Nothing but biases of users and items stands out in these ratings."
    if model.draws_ is not None:
        said = f"Predictions are averages over {model.draws_.size} draws with {counted(k)} " + (
            "dimension of taste." if k == 1 else "dimensions of taste."
        )
    share = model.n_ratings_ / (model.users_.size * model.items_.size)
    facts = (
        Fact("dimensions" if k != 1 else "dimension", str(k), number_of_tastes(model)),
        Fact("noise", significant(noise), "standard deviation of a rating"),
        Fact("rated", percent(share), "of all pairs"),
    )
    numbers = {"rank": k, "noise_variance": model.noise_variance_, "mean": model.mean_}
    numbers |= {"mean_rating": model.mean_rating_} if model.biases else {}
    sizes = {"n_users": model.users_.size, "n_items": model.items_.size}
    given = {"n_ratings": model.n_ratings_, "lowest": low, "highest": high}
    return _story(model, (said, lead, size), *facts, **numbers, **sizes, **given)


def number_of_tastes(model: AnyEstimator) -> str:
    """Words for the origin of a factorization's number of components."""
    if model.draws_ is None:
        return "found"
    if model.n_components_ == min(model.users_.size, model.items_.size) - 1:
        return "as many as there can be"
    if model.n_components == "auto":
        return f"{counted(MORE)} more than EVB finds"
    return "as given"


def _of_tensor(model: AnyEstimator) -> Story:
    shape, ranks = tuple(int(U.shape[0]) for U in model.factors_), tuple(map(int, model.ranks_))
    sizes = " × ".join(f"{size:,}" for size in shape)
    core = " × ".join(map(str, ranks))
    said = f"A core of {core} makes up this tensor." if min(ranks) else "This tensor is noise."
    noise = float(model.noise_variance_) ** 0.5
    numbers = int(np.prod(ranks)) + sum(m * r for m, r in zip(shape, ranks, strict=True))
    lead = (
        f"{numbers:,} numbers describe {int(np.prod(shape, dtype=object)):,} cells; what is left "
        f"cannot be told from noise with a standard deviation of {significant(noise)}."
    )
    facts = (
        Fact("ranks", core, "one for each mode"),
        Fact("noise", significant(noise), "standard deviation"),
    )
    found = {"shape": shape, "ranks": ranks, "noise_variance": model.noise_variance_}
    words = said, lead, f"tensor of {sizes}"
    account = _story(model, words, *facts, **found, noise=model.noise_)
    modes = enumerate(zip(shape, ranks, strict=True), start=1)
    return replace(
        account, parts=tuple(Fact(f"mode {n}", f"rank {r} of {m:,}") for n, (m, r) in modes)
    )


def _of_any(model: AnyEstimator) -> Story:
    """The story of a model of unknown kind: its size."""
    k = int(getattr(model, "n_components_", 0))
    said, size = f"{plural(k, 'component')}.", plural(model.n_features_in_, "feature")
    return _story(model, (said, "", size), Fact("components", str(k)), rank=k)


# --- words -------------------------------------------------------------------------------------


def _rows_and_features(model: AnyEstimator) -> str:
    return f"{plural(model.n_samples_, 'sample')} × {plural(model.n_features_in_, 'feature')}"


def _dimensions(k: int) -> str:
    return f"{'is' if k == 1 else 'are'} {counted(k)} dimension{'' if k == 1 else 's'}"


def _hold(k: int) -> str:
    return "It holds" if k == 1 else "Together they hold"


def _probability(model: AnyEstimator) -> float:
    """The probability of the number of components that was found."""
    known, k = to_numpy(model.rank_posterior_), model.n_components_
    return float(known[k]) if k < known.size else 0.0


def _ones(model: AnyEstimator) -> float:
    """The probability of 1 in a row whose scores are 0, on average over columns."""
    return float((1 / (1 + np.exp(-np.asarray(to_numpy(model.mean_), dtype=np.float64)))).mean())


def _clusters(model: AnyEstimator, rows: str) -> str:
    K = model.n_components_
    if K == 1:
        return f"These {rows} are one cluster."
    asked = "" if _is_found(model) else ", as requested"
    return f"These {rows} fall into {counted(K)} clusters{asked}."


def _curves(model: AnyEstimator, gain: float) -> tuple[str, str]:
    """A headline and a lead that say whether curves are worth it."""
    k = model.n_components_
    curved = f"{counted(k)} curved dimension{'' if k == 1 else 's'}"
    if not np.isfinite(gain):
        return f"These data are laid out along {curved}, as requested.", ""
    nats = f"{significant(abs(gain))} nats"
    if gain > 0:
        lead = f"Curves are better than planes: they have {nats} more evidence than a linear PCA."
        return f"These data lie along {curved}.", lead
    lead = f"Curves have {nats} less evidence than planes: BayesianPCA is the model to use."
    return "A linear PCA is enough for these data.", lead


def _gain(model: AnyEstimator) -> float:
    """Nats over a linear PCA; NaN for point estimates, which have no evidence to compare."""
    return np.nan if model.method == "map" else float(model.nonlinear_evidence_)


def _over_planes(gain: float) -> tuple[Fact, ...]:
    if not np.isfinite(gain):
        return ()
    sign = "more" if gain > 0 else "less"
    value = f"{significant(abs(gain))} nats {sign}"
    return (Fact("evidence", value, "than a linear PCA"),)


def _is_found(model: AnyEstimator) -> bool:
    return model.n_components in CHOSEN or model.n_components != model.n_components_


def _cluster_fact(model: AnyEstimator) -> Fact:
    K = model.n_components_
    remark = "found" if _is_found(model) else "as requested"
    return Fact("clusters" if K != 1 else "cluster", str(K), remark)


def _shares(weights: Any) -> str:
    if len(weights) == 1:
        return "All rows are in it."
    most, least = percent(float(weights.max())), percent(float(weights.min()))
    if most == least:
        return f"Each holds {most} of the rows."
    return f"The largest holds {most} of the rows, the smallest {least}."


def _cluster_parts(weights: Any, each: list[str]) -> tuple[Fact, ...]:
    shares = [f"{percent(float(w))} of the rows" for w in weights]
    pairs = zip(shares, each, strict=True)
    return tuple(Fact(f"cluster {k}", share, rest) for k, (share, rest) in enumerate(pairs, 1))


def _ranks(ranks: list[int]) -> str:
    if len(set(ranks)) == 1:
        noun = "dimension" if ranks[0] == 1 else "dimensions"
        where = "It has" if len(ranks) == 1 else "Each has"
        return f"{where} {counted(ranks[0])} {noun} of its own."
    return f"Each has dimensions of its own, from {counted(min(ranks))} to {counted(max(ranks))}."


def _span(values: list[Any]) -> str:
    """The range of values in words; a single number if they are alike."""
    low, high = (
        str(v) if isinstance(v, int) else significant(v, 2) for v in (min(values), max(values))
    )
    return low if low == high else f"{low} to {high}"


def _of_views(model: AnyEstimator) -> Story:
    k, V = model.n_components_, model.view_names_.size
    active = np.asarray(model.active_)
    shared, everywhere = int((active.sum(axis=1) > 1).sum()), int(active.all(axis=1).sum())
    explained = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    size = f"{plural(model.n_samples_, 'sample')} × {plural(V, 'table')}, {_features(model)}"
    said = _factors(k, V)
    facts = (
        Fact("factors", str(k), LOWEST if _is_found(model) else "as requested"),
        Fact("shared", str(shared), "in more than one table"),
        Fact("everywhere", str(everywhere), "in all tables"),
    )
    found = _story(
        model,
        (said, _sharing(k, V, shared, everywhere), size),
        *facts[: 3 if V > 2 else 2],
        rank=k,
        views=[str(name) for name in model.view_names_],
        active=active.astype(int).tolist(),
        active_probability=model.active_probability_.tolist(),
        explained=explained.tolist(),
        noise_variance=model.noise_variance_.tolist(),
        likelihoods=model.likelihoods_,
    )
    return replace(found, parts=_factor_parts(model, active, explained))


def _features(model: AnyEstimator) -> str:
    return plural(model.n_features_in_, "feature")


def _factors(k: int, V: int) -> str:
    if V == 1:
        return f"There {_dimensions(k)} in this table."
    if not k:
        return f"No factor drives these {counted(V)} tables."
    drive = "factor drives" if k == 1 else "factors drive"
    return f"{counted(k).capitalize()} {drive} these {counted(V)} tables."


def _sharing(k: int, V: int, shared: int, everywhere: int) -> str:
    """A sentence about the number of shared factors."""
    if V == 1 or not k:
        return ""
    if not shared:
        return "None of them is shared: each is in one table alone."
    if shared == k:
        whole = "All of them are" if k > 1 else "It is"
        return f"{whole} in more than one table."
    own = k - shared
    return (
        f"{counted(shared).capitalize()} {'is' if shared == 1 else 'are'} in more than one table, "
        f"{counted(own)} in one table alone."
    )


def _factor_parts(model: AnyEstimator, active: Any, explained: Any) -> tuple[Fact, ...]:
    """A fact about each factor: the share of each of its views that it explains."""
    names = [str(name) for name in model.view_names_]
    found = []
    for h, (row, shares) in enumerate(zip(active, explained, strict=True), 1):
        where = [f"{percent(float(shares[v]))} of {names[v]}" for v in np.flatnonzero(row)]
        found.append(Fact(f"factor {h}", ", ".join(where)))
    return tuple(found)


STORIES: dict[str, Callable[[AnyEstimator], Story]] = {
    "GibbsPCA": _of_gibbs,
    "BinaryPCA": _of_binary,
    "GeneralizedPCA": _of_table,
    "GPLVM": _of_curves,
    "PCAMixture": _of_clusters,
    "BernoulliMixture": _of_kinds,
    "MatrixFactorization": _of_ratings,
    "BayesianTucker": _of_tensor,
    "MultiViewPCA": _of_views,
}
