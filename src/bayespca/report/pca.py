"""The page of a PCA: the number of dimensions and why, what they are, and where samples lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Input
from bayespca.estimators._halves import RankStability
from bayespca.estimators._lookalikes import DEFAULT, Lookalikes
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.summary import FittedPCA, Summary, summarize
from bayespca.estimators.wording import (
    CONDITION,
    feature_names,
    headline,
    noise_level,
    percent,
    plural,
)
from bayespca.version import __version__

from . import figures, halves, loadings, noise, sentences
from .embedding import JsonObject
from .parts import Content, Drawings, Strip, StripPart
from .scores import Samples, Scores, read_scores

# How tables like the data come about.
DRAWN = (
    "Each table has the noise of these rows and columns, scores of randomly chosen rows, residuals "
    "permuted within columns, and a plausible number of components."
)
# Most segments of the strip of variances that are wide enough to see.
SEGMENTS = 12


@dataclass(frozen=True, eq=False)
class Beside:
    """Additions to the page of a PCA: other rank rules, half samples, tables drawn like the data,
    and lines on how it ran.
    """

    ranks: RankReport | None = None
    stability: RankStability | None = None
    lookalikes: Lookalikes | None = None
    details: Mapping[str, str] = field(default_factory=dict)


def content(model: FittedPCA, samples: Samples, beside: Beside) -> Content:
    """The page of a fitted `BayesianPCA` or `VariationalPCA`."""
    summary, names = summarize(model), feature_names(model)
    found, points = loadings.directions(model, names), read_scores(**samples)
    shown = _figures(model, samples.get("sample_names"))
    stability, ranks = beside.stability, beside.ranks
    back = halves.of_components(stability, summary) if stability else []
    cards = loadings.cards(found, back)
    found_by = sentences.rules(summary, ranks) if ranks else {}
    size = f"{plural(summary.n_samples, 'sample')} × {plural(summary.n_features, 'feature')}"
    return Content(
        name="Bayesian PCA",
        size=size,
        headline=headline(summary),
        lead=sentences.linked(sentences.lead(summary)),
        tiles=_tiles(summary, model),
        strip=_strip(summary, model),
        notes=summary.notes,
        facts=sentences.computed(model, summary, __version__, beside.details),
        data=Drawings(
            list(shown.values()),
            points,
            loadings.bars(found),
            [percent(float(s)) for s in found.shares[:50]],
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
            "stability": halves.of_numbers(stability, summary) if stability else None,
            "rules": _rules(found_by, summary),
            "lookalikes": beside.lookalikes and _lookalikes(beside.lookalikes),
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
        noise.of_features(model, names),
        noise.of_samples(model, samples),
        noise.of_cells(model, names, samples),
        figures.trace(model),
    ]
    return {
        figure.id: replace(figure, caption=sentences.linked(figure.caption))
        for figure in drawn
        if figure is not None
    }


def _tiles(summary: Summary, model: FittedPCA) -> list[tuple[str, str, str]]:
    """Name, value and remark of each number at the top."""
    noun = "dimensions" if summary.rank != 1 else "dimension"
    sure = f"{summary.how_sure}, {CONDITION}" if summary.exactly else summary.how_sure
    rank = (noun, str(summary.rank), sentences.linked(sure))
    rest = percent(1 - summary.explained)
    return [
        rank,
        ("of the variance", percent(summary.explained), f"explained; {rest} is left"),
        ("noise", noise_level(summary), sentences.noise_unit(model)),
    ]


def _strip(summary: Summary, model: FittedPCA) -> Strip | None:
    """The parts of the variance, for the strip under the headline."""
    return variance_strip([float(s) for s in to_numpy(model.explained_variance_ratio_)])


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


def _rules(found: Mapping[str, int], summary: Summary) -> list[JsonObject]:
    longest = max([1, *found.values()])
    return [
        {
            "name": name,
            "rank": rank,
            "size": round(100 * rank / longest, 1),
            "agrees": rank == summary.rank,
            "about": sentences.RULES.get(name, ""),
        }
        for name, rank in found.items()
    ]


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
