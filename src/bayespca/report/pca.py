"""The pages of PCAs: the number of dimensions and why, what they are, and where samples lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayespca.arrays.types import Input
from bayespca.estimators._halves import RULES, RankStability
from bayespca.estimators._lookalikes import DEFAULT, Lookalikes
from bayespca.estimators.findings import Fact, findings_of
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.summary import FittedPCA, Summary, summarize
from bayespca.estimators.wording import (
    CONDITION,
    feature_names,
    likelihood,
    noise_level,
    percent,
    significant,
)

from . import figures, loadings, parts, sentences
from .figures import Figure
from .parts import Content, Section, Strip, StripPart, Tally, TallyRow
from .scores import Samples, Scores, read_scores, with_scores

# How tables like the data come about.
DRAWN = (
    "Each table has the noise of these rows and columns, scores of randomly chosen rows, residuals "
    "permuted within columns, and a plausible number of components."
)
MIXTURE = (
    "Each dimension is a mixture of features{}. Bars to the right rise together; bars to the left "
    "fall when they rise."
)
NONE = "There are none to describe: no combination of features varies more than noise does."
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
    dimensions = Section("dimensions", "What the dimensions are", sentence=NONE)
    if summary.rank:
        back: list[str] = []
        if stability and stability.rank == summary.rank:
            back = [percent(share) for share in stability.directions.tolist()]
        text = MIXTURE.format(sentences.loadings_unit(model))
        dimensions = parts.dimensions(found, text, back)
    about = _about_points(points, samples.get("scores"), summary)
    where = Section("samples", "Where the samples lie", points=points, sentence=about)
    remark = ""
    if summary.at_least is None and summary.determined:
        remark = "This model finds a number of dimensions, but no probability of it."
        if summary.given:
            remark = "The number of dimensions was given, so it has no probability."
    tallies = (
        stability and _halves(stability, summary),
        ranks and _rules(ranks, summary.rank),
        lookalikes and _lookalikes(lookalikes),
    )
    number = Section(
        "number",
        f"Why {summary.rank or 'none'}",
        figures=_linked(
            figures.scree(model), figures.rank_posterior(model), figures.eigenvalues(model)
        ),
        tallies=[tally for tally in tallies if tally],
        remark=remark,
    )
    noise = _linked(*figures.noise(model, names, samples.get("sample_names")))
    sure = f"{summary.how_sure}, {CONDITION}" if summary.exactly else summary.how_sure
    left = f"explained; {percent(1 - summary.explained)} is left"
    account = replace(
        findings_of(model),
        lead=sentences.linked(sentences.lead(summary)),
        facts=(
            Fact(
                "dimensions" if summary.rank != 1 else "dimension",
                str(summary.rank),
                sentences.linked(sure),
            ),
            Fact("of the variance", percent(summary.explained), left),
            Fact("noise", noise_level(summary), sentences.noise_unit(model)),
        ),
    )
    return parts.content(
        model,
        (dimensions, where if points or about else None, number),
        name="Bayesian PCA",
        account=account,
        strip=variance_strip(found.shares.tolist()),
        found=found,
        details=details,
        facts=sentences.computed(model, summary),
        noise=noise,
        glossary=sentences.GLOSSARY,
    )


def _linked(*drawn: Figure | None) -> list[Figure]:
    """The figures that have something to show, with links to the glossary in their captions."""
    return [replace(figure, caption=sentences.linked(figure.caption)) for figure in drawn if figure]


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


def _rules(ranks: RankReport, rank: int) -> Tally:
    """The numbers that this page and other rules find, and how far they agree."""
    others = {name: found for name, found in ranks.ranks().items() if name != DEFAULT}
    found_by = {sentences.KEPT: rank} | others
    longest = max([1, *found_by.values()])
    rows = [
        TallyRow([name, str(k)], 100 * k / longest, k == rank, sentences.RULES.get(name, ""))
        for name, k in found_by.items()
    ]
    caption = f"{sentences.agreement(found_by)} Rules differ in what they call noise."
    return Tally("rules", "Other ways to count", ("rule", "finds"), rows, caption, finds=1)


def _lookalikes(drawn: Lookalikes) -> Tally:
    """Shares of drawn tables in which each rule was right, and sentences about them."""
    title = "Which rules are right on tables like this one"
    rows = [
        TallyRow(
            ["the rule of this page" if name == DEFAULT else name, percent(share)],
            100 * share,
            name == DEFAULT,
        )
        for name, share in drawn.right.items()
    ]
    caption = f"{drawn.in_words} {drawn.numbers_in_words} {DRAWN}"
    return Tally("lookalikes", title, ("rule", "right in"), rows, caption)


def _about_points(points: Scores | None, given: Any, summary: Summary) -> str:
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


def _halves(stability: RankStability, summary: Summary) -> Tally:
    """Numbers of dimensions with their probabilities and shares of the halves, and a caption."""
    probable = {k for k, p in summary.rank_probabilities.items() if p >= LEAST}
    rows = []
    for rank in sorted(probable | set(stability.ranks) | {summary.rank}):
        probability, share = "–", stability.ranks.get(rank, 0.0)
        if summary.at_least is not None:
            probability = likelihood(summary.rank_probabilities.get(rank, 0.0))
        cells = [str(rank), probability, percent(share)]
        rows.append(TallyRow(cells, 100 * share, rank == summary.rank))
    condition = "" if summary.at_least is None else f"The probability holds {CONDITION}. "
    caption = (
        f"Of the dimensions, {stability.in_words}. The number in a half is "
        f"{RULES[stability.rule]}. {condition}Halves assume less, but know less than the whole: a "
        "weak dimension comes back in few of them, and one that comes back in nearly all does not "
        "depend on a few samples."
    )
    return Tally(
        "halves",
        "What comes back in half of the samples",
        ("number", "probability", "of the halves"),
        rows,
        sentences.linked(caption),
        finds=0,
    )


# --- draws from the posterior ------------------------------------------------------------------


def content_of_draws(
    model: Any, X: Input, samples: Samples, details: Mapping[str, str]
) -> parts.Content:
    """The page of a fitted `GibbsPCA`."""
    found = loadings.directions(model, feature_names(model))
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
            parts.dimensions(found, MIXTURE.format("")),
            parts.where(with_scores(model, X, samples)),
            number,
        ),
        strip=variance_strip(found.shares.tolist()),
        found=found,
        details=chains | dict(details),
    )
