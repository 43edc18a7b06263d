"""The findings of any model in words and numbers, for the command, the report and notebooks.

`summary` says more about a PCA with singular values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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
# The share of a tensor's signal whose ranks are said.
SIGNAL_OF_TENSOR = 0.999
LOWEST = "with the lowest free energy of those tried"


@dataclass(frozen=True)
class Fact:
    """A finding: its name, its value in words, and a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Findings:
    """What a model has found, and how certain it is.

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


def findings_of(model: AnyEstimator) -> Findings:
    """The findings of a fitted model of any kind."""
    if not hasattr(model, "spectrum_"):
        return FINDINGS.get(type(model).__name__, _of_any)(model)
    summary = summarize(model)
    facts = (
        Fact("components", str(summary.rank), summary.how_sure),
        Fact("variance explained", percent(summary.explained)),
        Fact("noise", noise_level(summary), "standard deviation"),
    )
    size = _rows_and_features(model)
    return Findings(headline(summary), "", size, facts, summary.as_dict(), summary.notes)


def _said(
    model: AnyEstimator,
    said: str,
    lead: str,
    size: str,
    *facts: Fact,
    parts: tuple[Fact, ...] = (),
    **numbers: Any,
) -> Findings:
    """Findings with the numbers and notes that all models share."""
    common = {"class": type(model).__name__, "headline": said}
    known = {"free_energy": np.nan, "converged": True, "n_iter": 0}
    ended = {name: getattr(model, f"{name}_", default) for name, default in known.items()}
    notes = model.status_.advice if hasattr(model, "status_") else ()
    texts = {"notes": [note.text for note in notes]}
    return Findings(said, lead, size, facts, common | numbers | ended | texts, notes, parts)


def _of_any(model: AnyEstimator) -> Findings:
    """The findings of a model of unknown kind: its size."""
    k = int(getattr(model, "n_components_", 0))
    size = plural(model.n_features_in_, "feature")
    return _said(model, f"{plural(k, 'component')}.", "", size, Fact("components", str(k)), rank=k)


# --- scores and loadings -----------------------------------------------------------------------


def _of_gibbs(model: AnyEstimator) -> Findings:
    k, known = model.n_components_, to_numpy(model.rank_posterior_)
    probability = float(known[k]) if k < known.size else 0.0
    explained = float(to_numpy(model.explained_variance_ratio_).sum())
    noise, spread = float(model.noise_variance_) ** 0.5, float(model.noise_variance_std_)
    draws = model.n_chains * model.n_draws
    return _said(
        model,
        f"There {_dimensions(k)} in these data.",
        f"{'It holds' if k == 1 else 'Together they hold'} {percent(explained)} of the variance. "
        f"{percent(probability)} of {draws:,} draws from the posterior have this number; all "
        "other uncertainties on this page come from the draws.",
        _rows_and_features(model),
        Fact("dimensions", str(k), f"in {percent(probability)} of the draws"),
        Fact("of the variance", percent(explained), "explained"),
        Fact(
            "noise",
            significant(noise),
            f"standard deviation ± {significant(spread / noise / 2, 2)}",
        ),
        rank=k,
        probability=probability,
        noise_variance=model.noise_variance_,
        explained=explained,
        r_hat=model.r_hat_,
    )


def _of_binary(model: AnyEstimator) -> Findings:
    k = model.n_components_
    # The probability of 1 in a row whose scores are 0, on average over columns.
    mean = np.asarray(to_numpy(model.mean_), dtype=np.float64)
    ones = float((1 / (1 + np.exp(-mean))).mean())
    lead = "Rows differ in how probable ones are, in patterns that columns have in common."
    if k == 0:
        lead = "Columns have ones more or less often, but independently of each other."
    return _said(
        model,
        f"There {_dimensions(k)} in these zeros and ones.",
        lead,
        _rows_and_features(model),
        Fact(_noun(k, "dimension"), str(k), LOWEST),
        Fact("ones", percent(ones), "of the cells of an average row"),
        rank=k,
        ones=ones,
    )


def _of_table(model: AnyEstimator) -> Findings:
    k, likelihoods = model.n_components_, model.likelihoods_
    kinds = Counter(KINDS[likelihood] for likelihood in likelihoods.values())
    lead = "Columns of all kinds vary together, in patterns that rows have more or less of."
    if k == 0:
        lead = "Columns vary independently of each other."
    columns = ", ".join(
        f"{count} {kind.one if count == 1 else kind.many}" for kind, count in kinds.most_common()
    )
    return _said(
        model,
        f"There {_dimensions(k)} in this table.",
        lead,
        _rows_and_features(model),
        Fact(_noun(k, "dimension"), str(k), LOWEST),
        Fact("columns", str(model.n_features_in_), columns),
        rank=k,
        likelihoods=likelihoods,
    )


def _of_curves(model: AnyEstimator) -> Findings:
    k, relevance = model.n_components_, [float(w) for w in model.relevance_]
    is_map = model.method == "map"
    # Point estimates have no evidence to compare.
    gain = np.nan if is_map else float(model.nonlinear_evidence_)
    curved, nats = f"{counted(k)} curved {_noun(k, 'dimension')}", f"{significant(abs(gain))} nats"
    if not np.isfinite(gain):
        said, lead = f"These data are laid out along {curved}, as requested.", ""
    elif gain > 0:
        said = f"These data lie along {curved}."
        lead = f"Curves are better than planes: they have {nats} more evidence than a linear PCA."
    else:
        said = "A linear PCA is enough for these data."
        lead = f"Curves have {nats} less evidence than planes: BayesianPCA is the model to use."
    facts = [Fact(_noun(k, "dimension"), str(k), "as requested" if is_map else LOWEST)]
    if np.isfinite(gain):
        value = f"{nats} {'more' if gain > 0 else 'less'}"
        facts.append(Fact("evidence", value, "than a linear PCA"))
    noise = significant(float(model.noise_variance_) ** 0.5)
    return _said(
        model,
        said,
        lead,
        _rows_and_features(model),
        *facts,
        Fact("noise", noise, "standard deviation"),
        parts=tuple(
            Fact(f"dimension {h}", f"relevance {significant(w, 2)}")
            for h, w in enumerate(relevance, start=1)
        ),
        rank=k,
        relevance=relevance,
        nonlinear_evidence=gain,
        linear_free_energy=model.linear_free_energy_,
        noise_variance=model.noise_variance_,
    )


# --- clusters ----------------------------------------------------------------------------------


def _of_clusters(model: AnyEstimator) -> Findings:
    K, weights, ranks = model.n_components_, to_numpy(model.weights_), to_numpy(model.ranks_)
    variances = to_numpy(model.noise_variances_)
    means = np.sqrt(np.asarray(variances, dtype=np.float64).reshape(K, -1))
    noise = np.sqrt((means**2).mean(axis=1))
    least, most = counted(int(ranks.min())), counted(int(ranks.max()))
    own = f"Each has dimensions of its own, from {least} to {most}."
    if least == most:
        nouns = _noun(int(ranks[0]), "dimension")
        own = f"{'It' if K == 1 else 'Each'} has {least} {nouns} of its own."
    each = [
        f"{plural(int(r), 'dimension')}, noise {significant(float(s), 2)}"
        for r, s in zip(ranks, noise, strict=True)
    ]
    return _said(
        model,
        _clusters(model, "rows"),
        f"{_shares(weights)} {own}",
        plural(model.n_features_in_, "feature"),
        _cluster_fact(model),
        Fact("dimensions", _span(ranks.tolist()), "in a cluster"),
        Fact("noise", _span([float(s) for s in noise]), "standard deviation in a cluster"),
        parts=_cluster_parts(weights, each),
        n_clusters=K,
        weights=weights,
        ranks=ranks,
        noise_variances=variances,
    )


def _of_binary_clusters(model: AnyEstimator) -> Findings:
    K, weights = model.n_components_, to_numpy(model.weights_)
    own = to_numpy(model.means_).mean(axis=1)
    ones = float(weights @ own)
    return _said(
        model,
        _clusters(model, "rows of zeros and ones"),
        f"{_shares(weights)} Each cluster has its own probability of a 1 in each column.",
        plural(model.n_features_in_, "feature"),
        _cluster_fact(model),
        Fact("ones", percent(ones), "of the cells"),
        parts=_cluster_parts(weights, [f"{percent(float(p))} ones" for p in own]),
        n_clusters=K,
        weights=weights,
        ones=ones,
    )


# --- ratings, tensors and views ----------------------------------------------------------------


def _of_ratings(model: AnyEstimator) -> Findings:
    k, noise = model.n_components_, float(model.noise_variance_) ** 0.5
    low, high = model.bounds_ or (None, None)
    n, m = model.users_.size, model.items_.size
    said = f"There {_dimensions(k)} of taste in these ratings."
    if k == 0:
        said = "Nothing but biases of users and items stands out in these ratings."
    if model.draws_ is not None:
        said = (
            f"Predictions are averages over {model.draws_.size} draws with {counted(k)} "
            f"{_noun(k, 'dimension')} of taste."
        )
    return _said(
        model,
        said,
        f"Ratings scatter about what the model expects with a standard deviation of "
        f"{significant(noise)}: no prediction can be more certain than that.",
        f"{plural(model.n_ratings_, 'rating')} of {plural(m, 'item')} by {plural(n, 'user')}",
        Fact(_noun(k, "dimension"), str(k), number_of_tastes(model)),
        Fact("noise", significant(noise), "standard deviation of a rating"),
        Fact("rated", percent(model.n_ratings_ / (n * m)), "of all pairs"),
        rank=k,
        noise_variance=model.noise_variance_,
        mean=model.mean_,
        **({"mean_rating": model.mean_rating_} if model.biases else {}),
        n_users=n,
        n_items=m,
        n_ratings=model.n_ratings_,
        lowest=low,
        highest=high,
    )


def number_of_tastes(model: AnyEstimator) -> str:
    """Words for the origin of a factorization's number of components."""
    if model.draws_ is None:
        return "found"
    if model.n_components_ == min(model.users_.size, model.items_.size) - 1:
        return "as many as there can be"
    if model.n_components == "auto":
        return f"{counted(MORE)} more than EVB finds"
    return "as given"


def _of_tensor(model: AnyEstimator) -> Findings:
    shape, ranks = tuple(int(U.shape[0]) for U in model.factors_), tuple(map(int, model.ranks_))
    sizes, core = " × ".join(f"{size:,}" for size in shape), " × ".join(map(str, ranks))
    noise = significant(float(model.noise_variance_) ** 0.5)
    numbers = int(np.prod(ranks)) + sum(m * r for m, r in zip(shape, ranks, strict=True))
    shares = [np.cumsum(to_numpy(ratios)) for ratios in model.explained_ratios_]
    leading = [int(np.count_nonzero(share < SIGNAL_OF_TENSOR)) + 1 for share in shares]
    few = " × ".join(map(str, leading))
    held = Fact("of the signal", f"{few} hold {percent(SIGNAL_OF_TENSOR)}")
    return _said(
        model,
        f"A core of {core} makes up this tensor." if min(ranks) else "This tensor is noise.",
        f"{numbers:,} numbers describe {int(np.prod(shape, dtype=object)):,} cells; what is left "
        f"cannot be told from noise with a standard deviation of {noise}.",
        f"tensor of {sizes}",
        Fact("ranks", core, "one for each mode"),
        *([held] if min(ranks) else []),
        Fact("noise", noise, "standard deviation"),
        parts=tuple(
            Fact(f"mode {n}", f"rank {r} of {m:,}")
            for n, (m, r) in enumerate(zip(shape, ranks, strict=True), start=1)
        ),
        shape=shape,
        ranks=ranks,
        ranks_of_signal=tuple(leading) if min(ranks) else ranks,
        noise_variance=model.noise_variance_,
        noise=model.noise_,
    )


def _of_views(model: AnyEstimator) -> Findings:
    k, V = model.n_components_, model.view_names_.size
    active, names = np.asarray(model.active_), [str(name) for name in model.view_names_]
    shared, everywhere = int((active.sum(axis=1) > 1).sum()), int(active.all(axis=1).sum())
    explained = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    if V == 1:
        said = f"There {_dimensions(k)} in this table."
    elif not k:
        said = f"No factor drives these {counted(V)} tables."
    else:
        drive = "factor drives" if k == 1 else "factors drive"
        said = f"{counted(k).capitalize()} {drive} these {counted(V)} tables."
    facts = (
        Fact("factors", str(k), LOWEST if _is_found(model) else "as requested"),
        Fact("shared", str(shared), "in more than one table"),
        Fact("everywhere", str(everywhere), "in all tables"),
    )
    parts = []
    for h, (row, shares) in enumerate(zip(active, explained, strict=True), 1):
        where = [f"{percent(float(shares[v]))} of {names[v]}" for v in np.flatnonzero(row)]
        parts.append(Fact(f"factor {h}", ", ".join(where)))
    features = plural(model.n_features_in_, "feature")
    return _said(
        model,
        said,
        "" if V == 1 or not k else _sharing(k, shared),
        f"{plural(model.n_samples_, 'sample')} × {plural(V, 'table')}, {features}",
        *facts[: 3 if V > 2 else 2],
        parts=tuple(parts),
        rank=k,
        views=names,
        active=active.astype(int).tolist(),
        active_probability=model.active_probability_.tolist(),
        explained=explained.tolist(),
        noise_variance=model.noise_variance_.tolist(),
        likelihoods=model.likelihoods_,
    )


# --- words -------------------------------------------------------------------------------------


def _rows_and_features(model: AnyEstimator) -> str:
    return f"{plural(model.n_samples_, 'sample')} × {plural(model.n_features_in_, 'feature')}"


def _noun(k: int, noun: str) -> str:
    return noun if k == 1 else f"{noun}s"


def _dimensions(k: int) -> str:
    return f"{'is' if k == 1 else 'are'} {counted(k)} {_noun(k, 'dimension')}"


def _is_found(model: AnyEstimator) -> bool:
    return model.n_components in CHOSEN or model.n_components != model.n_components_


def _clusters(model: AnyEstimator, rows: str) -> str:
    K = model.n_components_
    if K == 1:
        return f"These {rows} are one cluster."
    asked = "" if _is_found(model) else ", as requested"
    return f"These {rows} fall into {counted(K)} clusters{asked}."


def _cluster_fact(model: AnyEstimator) -> Fact:
    K, remark = model.n_components_, "found" if _is_found(model) else "as requested"
    return Fact(_noun(K, "cluster"), str(K), remark)


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


def _span(values: list[Any]) -> str:
    """The range of values in words; a single number if they are alike."""
    low, high = (
        str(v) if isinstance(v, int) else significant(v, 2) for v in (min(values), max(values))
    )
    return low if low == high else f"{low} to {high}"


def _sharing(k: int, shared: int) -> str:
    """A sentence about the number of shared factors, of k."""
    if not shared:
        return "None of them is shared: each is in one table alone."
    if shared == k:
        whole = "All of them are" if k > 1 else "It is"
        return f"{whole} in more than one table."
    return (
        f"{counted(shared).capitalize()} {'is' if shared == 1 else 'are'} in more than one table, "
        f"{counted(k - shared)} in one table alone."
    )


FINDINGS: dict[str, Callable[[AnyEstimator], Findings]] = {
    "GibbsPCA": _of_gibbs,
    "BinaryPCA": _of_binary,
    "GeneralizedPCA": _of_table,
    "GPLVM": _of_curves,
    "PCAMixture": _of_clusters,
    "BernoulliMixture": _of_binary_clusters,
    "MatrixFactorization": _of_ratings,
    "BayesianTucker": _of_tensor,
    "MultiViewPCA": _of_views,
}
