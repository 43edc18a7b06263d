"""The page: everything that is on it, and the file that it is written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from os import PathLike
from typing import Any, Unpack

from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators._halves import RankStability
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.summary import FittedPCA, Summary, summarize
from bayespca.estimators.wording import (
    conditional,
    feature_names,
    headline,
    noise_level,
    percent,
    plural,
    significant,
)
from bayespca.io.writing import replacing
from bayespca.version import __version__

from . import figures, halves, loadings, noise, sentences
from .embedding import JsonObject, needed, packed_plotly, to_json
from .scores import Samples, Scores, read_scores

# Segments of the strip of variances that are still wide enough to see.
SEGMENTS = 12


def write(path: str | PathLike[str], model: FittedPCA, **options: Any) -> None:
    """Write the report of a fitted model to an HTML file; options are those of `render`."""
    page = render(model, **options).encode("utf-8")
    with replacing(path) as file:
        file.write(page)


def render(
    model: FittedPCA,
    *,
    ranks: RankReport | None = None,
    stability: RankStability | None = None,
    title: str | None = None,
    source: str | None = None,
    details: Mapping[str, str] | None = None,
    **samples: Unpack[Samples],
) -> str:
    """The report of a fitted `BayesianPCA` as one HTML page that needs nothing else.

    Parameters
    ----------
    model
        A fitted `BayesianPCA`.
    ranks
        Other rules for the number of dimensions, to stand beside the model's.
    stability
        What comes back in half samples (`rank_stability`), to stand beside the probabilities.
    title, source
        Heading of the page, and where the data came from.
    details
        More lines for "how it was computed", in order.
    scores, scores_std
        What ``model.transform(X, return_std=True)`` gives, or a sample of its rows; at most
        10,000 are drawn. None leaves the section out.
    sample_names, labels
        One for each row of scores: what hovering shows, and what colours the points.
    labels_name
        What the labels are, for the legend.
    """
    check_is_fitted(model)
    template, plotly = _template(), packed_plotly()
    summary, names = summarize(model), feature_names(model)
    shown = _figures(model, samples.get("sample_names"))
    points = read_scores(**samples)
    data = {
        "figures": {name: figure.drawing() for name, figure in shown.items()},
        "scores": points.drawing if points else None,
        "loadings": loadings.bars(model, names),
        "shares": [percent(float(s)) for s in to_numpy(model.explained_variance_ratio_)[:50]],
    }
    page = template.render(
        summary=summary,
        title=title or (f"What is in {source}" if source else "Bayesian PCA"),
        source=source,
        headline=headline(summary),
        lead=sentences.lead(summary),
        tiles=_tiles(summary, model),
        strip=_strip(summary, model),
        cards=loadings.cards(model, names),
        loadings_unit=sentences.loadings_unit(model),
        table=loadings.table(model, names),
        figures=shown,
        unequal=[name for name in ("noise", "samples", "cells") if name in shown],
        points=points,
        points_sentence=_points_sentence(points, samples.get("scores"), summary),
        stability=halves.of_numbers(stability, summary) if stability else None,
        back=halves.of_components(stability, summary) if stability else [],
        rules=_rules(ranks, summary),
        agreement=sentences.agreement(ranks) if ranks else "",
        facts=sentences.computed(model, summary, __version__, details),
        style=_asset("style.css"),
        script=_asset("page.js"),
        data=to_json(data),
        plotly=plotly,
    )
    # A name with half a surrogate pair cannot be written as UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")


def _figures(model: FittedPCA, samples: Sequence[object] | None) -> dict[str, figures.Figure]:
    """The figures that there is something to draw in."""
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
    return {figure.id: figure for figure in drawn if figure is not None}


def _template() -> Any:
    jinja2 = needed("jinja2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": percent, "significant": significant, "plural": plural}
    return environment.from_string(_asset("page.html.j2"))


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _tiles(summary: Summary, model: FittedPCA) -> list[tuple[str, str, str]]:
    """Name, value and remark of the numbers at the top."""
    if summary.probability is None:
        rank = ("dimensions", str(summary.rank), "as asked for")
    else:
        rank = (
            "dimensions" if summary.rank != 1 else "dimension",
            str(summary.rank),
            conditional(summary.probability),
        )
    rest = percent(1 - summary.explained)
    return [
        rank,
        ("of the variance", percent(summary.explained), f"explained; {rest} is left"),
        ("noise", noise_level(summary), sentences.noise_unit(model)),
    ]


def _strip(summary: Summary, model: FittedPCA) -> list[tuple[str, float]]:
    """Name and share of each part of the variance, for the strip under the headline."""
    shares = [float(s) for s in to_numpy(model.explained_variance_ratio_)]
    parts = [(str(h + 1), share) for h, share in enumerate(shares[:SEGMENTS])]
    if len(shares) > SEGMENTS:
        parts.append((f"{SEGMENTS + 1}–{len(shares)}", sum(shares[SEGMENTS:])))
    return [*parts, ("noise", max(0.0, 1 - summary.explained))] if parts else []


def _rules(ranks: RankReport | None, summary: Summary) -> list[JsonObject]:
    if ranks is None:
        return []
    found = ranks.ranks()
    longest = max(1, *found.values())
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
