"""The pages of PCAs: the number of dimensions and why, what they are, and where samples lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators._halves import RULES, RankStability
from bayespca.estimators._lookalikes import DEFAULT, Lookalikes
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.summary import FittedPCA, Summary, summarize
from bayespca.estimators.wording import (
    CONDITION,
    feature_names,
    headline,
    likelihood,
    noise_level,
    percent,
    plural,
    significant,
)
from bayespca.version import __version__

from . import figures, loadings, parts, sentences
from .embedding import JsonObject
from .loadings import Directions
from .parts import Content, Strip, StripPart
from .scores import Samples, Scores, read_scores

# How tables like the data come about.
DRAWN = (
    "Each table has the noise of these rows and columns, scores of randomly chosen rows, residuals "
    "permuted within columns, and a plausible number of components."
)
# Numbers of dimensions that are less probable than this are left out, unless a half found them.
LEAST = 0.01
# Most segments of the strip of variances that are wide enough to see.
SEGMENTS = 12


def content(
    model: FittedPCA,
    samples: Samples,
    details: Mapping[str, str],
    *,
    ranks: RankReport | None,
    stability: RankStability | None,
    lookalikes: Lookalikes | None,
) -> Content:
    """The page of a fitted `BayesianPCA` or `VariationalPCA`."""
    summary, names = summarize(model), feature_names(model)
    found, points = loadings.directions(model, names), read_scores(**samples)
    shown = _figures(model, samples.get("sample_names"))
    back: list[str] = []
    if stability and stability.rank == summary.rank:
        back = [percent(share) for share in stability.directions.tolist()]
    cards = loadings.cards(found, back)
    found_by: dict[str, int] = {}
    if ranks:
        others = {name: rank for name, rank in ranks.ranks().items() if name != DEFAULT}
        found_by = {sentences.KEPT: summary.rank} | others
    longest = max([1, *found_by.values()])
    rules = [
        {
            "name": name,
            "rank": rank,
            "size": round(100 * rank / longest, 1),
            "agrees": rank == summary.rank,
            "about": sentences.RULES.get(name, ""),
        }
        for name, rank in found_by.items()
    ]
    size = f"{plural(summary.n_samples, 'sample')} × {plural(summary.n_features, 'feature')}"
    sure = f"{summary.how_sure}, {CONDITION}" if summary.exactly else summary.how_sure
    return Content(
        name="Bayesian PCA",
        size=size,
        headline=headline(summary),
        lead=sentences.linked(sentences.lead(summary)),
        tiles=[
            (
                "dimensions" if summary.rank != 1 else "dimension",
                str(summary.rank),
                sentences.linked(sure),
            ),
            (
                "of the variance",
                percent(summary.explained),
                f"explained; {percent(1 - summary.explained)} is left",
            ),
            ("noise", noise_level(summary), sentences.noise_unit(model)),
        ],
        strip=variance_strip(to_numpy(model.explained_variance_ratio_).tolist()),
        notes=summary.notes,
        facts=sentences.computed(model, summary, __version__, details),
        data=parts.drawings(
            list(shown.values()), points, loadings.bars(found), found.shares.tolist()
        ),
        template="pca.html.j2",
        more={
            "summary": summary,
            "cards": cards,
            "loadings_unit": sentences.loadings_unit(model),
            "table": loadings.table(found),
            "figures": shown,
            "unequal": [name for name in ("noise", "samples", "cells") if name in shown],
            "points": points,
            "points_sentence": _points_sentence(points, samples.get("scores"), summary),
            "stability": stability and _halves(stability, summary),
            "rules": rules,
            "lookalikes": lookalikes and _lookalikes(lookalikes),
            "agreement": sentences.agreement(found_by),
            "glossary": sentences.GLOSSARY,
        },
    )


def with_scores(model: FittedPCA, X: Input, samples: Samples) -> Samples:
    """The samples, with the scores of X unless scores are given."""
    if X is None or samples.get("scores") is not None:
        return samples
    scores, std = model.transform(X, return_std=True)
    return {**samples, "scores": scores, "scores_std": std}


def _figures(model: FittedPCA, samples: Sequence[object] | None) -> dict[str, figures.Figure]:
    """The figures that have something to show, by id."""
    names = feature_names(model)
    drawn = [
        figures.scree(model),
        figures.rank_posterior(model),
        figures.eigenvalues(model),
        figures.noise_of_features(model, names),
        figures.noise_of_samples(model, samples),
        figures.noise_of_cells(model, names, samples),
        figures.trace(model),
    ]
    return {
        figure.id: replace(figure, caption=sentences.linked(figure.caption))
        for figure in drawn
        if figure is not None
    }


def variance_strip(shares: Sequence[float]) -> Strip | None:
    """A strip of the shares of components and the rest; None without components."""
    named = [(str(h + 1), share) for h, share in enumerate(shares[:SEGMENTS])]
    if len(shares) > SEGMENTS:
        named.append((f"{SEGMENTS + 1}–{len(shares)}", sum(shares[SEGMENTS:])))
    if not named:
        return None
    parts = [StripPart(name, share, f"component {name}") for name, share in named]
    rest = StripPart("rest", max(0.0, 1 - sum(shares)), "the rest", rest=True)
    return Strip(
        [*parts, rest],
        "Share of the variance of each component",
        "The variance of the data: numbered parts are the dimensions, the last is noise.",
    )


def _lookalikes(drawn: Lookalikes) -> JsonObject:
    """Shares of drawn tables in which each rule was right, and sentences about them."""
    rules = [
        {
            "name": "the rule of this page" if name == DEFAULT else name,
            "share": percent(share),
            "size": round(100 * share, 1),
            "agrees": name == DEFAULT,
        }
        for name, share in drawn.right.items()
    ]
    return {"rules": rules, "caption": f"{drawn.in_words} {drawn.numbers_in_words} {DRAWN}"}


def _points_sentence(points: Scores | None, given: Any, summary: Summary) -> str:
    if summary.rank == 0:
        return ""
    if points is None:
        return (
            "The rows were read once and not kept, so the samples are not drawn here."
            if given is None
            else ""
        )
    if points.n_components > 1:
        text = "Each dot is a sample; samples near each other are alike. Choose any two components."
    else:
        text = "Each dot is a sample: its place along the one dimension, in the order of the data."
    if points.n_points < points.n_samples:
        text += f" {points.n_points:,} of {points.n_samples:,} samples are drawn, picked at random."
    elif points.n_points < summary.n_samples:
        text += f" {points.n_points:,} of {summary.n_samples:,} samples are drawn."
    if points.n_components < summary.rank:
        text += f" The first {points.n_components} of {summary.rank} components can be chosen."
    return text


def _halves(stability: RankStability, summary: Summary) -> JsonObject:
    """Numbers of dimensions with their probabilities and shares of the halves, and a caption."""
    probable = {k for k, p in summary.rank_probabilities.items() if p >= LEAST}
    numbers = []
    for rank in sorted(probable | set(stability.ranks) | {summary.rank}):
        probability, share = "–", stability.ranks.get(rank, 0.0)
        if summary.at_least is not None:
            probability = likelihood(summary.rank_probabilities.get(rank, 0.0))
        numbers.append(
            {
                "rank": rank,
                "probability": probability,
                "share": percent(share),
                "size": 100 * share,
                "kept": rank == summary.rank,
            }
        )
    condition = "" if summary.at_least is None else f"The probability holds {CONDITION}. "
    caption = (
        f"Of the dimensions, {stability.in_words}. The number in a half is "
        f"{RULES[stability.rule]}. {condition}Halves assume less, but know less than the whole: a "
        "weak dimension comes back in few of them, and one that comes back in nearly all does not "
        "depend on a few samples."
    )
    return {"numbers": numbers, "caption": sentences.linked(caption)}


# --- draws from the posterior ------------------------------------------------------------------


def content_of_draws(
    model: Any, X: Input, samples: Samples, details: Mapping[str, str]
) -> parts.Content:
    """The page of a fitted `GibbsPCA`."""
    shares = to_numpy(model.explained_variance_ratio_)
    found = Directions(
        to_numpy(model.components_),
        to_numpy(model.components_std_),
        shares,
        feature_names(model),
    )
    points = read_scores(**with_scores(model, X, samples))
    counted = figures.rank_posterior(model)
    why = f"Why {model.n_components_}"
    worst = max(float(np.max(value)) for value in model.r_hat_.values() if np.size(value))
    least = min(float(np.min(value)) for value in model.ess_.values() if np.size(value))
    chains = {
        "Chains": f"{model.n_chains} of {model.n_draws:,} draws after {model.n_warmup:,} sweeps",
        "Largest R-hat": f"{significant(worst, 4)}; chains agree where it is near 1",
        "Fewest effective draws": significant(least, 3),
    }
    number = None if counted is None else parts.Section("number", why, figures=[counted])
    return parts.content(
        model,
        (
            parts.dimensions(found),
            parts.where("Where the samples lie", points),
            number,
            parts.every(found),
        ),
        strip=variance_strip(shares.tolist()),
        found=found,
        details=chains | dict(details),
    )
