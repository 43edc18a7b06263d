"""The sentences of the page that depend on the results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from bayespca.estimators.ranks import EVB
from bayespca.estimators.summary import FittedPCA, Summary, noise_model
from bayespca.estimators.wording import (
    MINUS,
    counted,
    holes_sentence,
    kept,
    noise_level,
    noise_sentence,
    nothing_varies,
    percent,
    plural,
    significant,
)
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.version import __version__

METHODS = {
    "evb": "empirical variational Bayes: both factors integrated out, their prior learned",
    "epb": "empirical partially Bayesian: one factor integrated out, the prior learned",
    "emap": "empirical MAP: both factors point-estimated, the prior learned",
    "vb": "variational Bayes with a given prior",
    "pb": "partially Bayesian with a given prior",
    "pb-a": "partially Bayesian with a given prior, scores integrated out",
    "pb-b": "partially Bayesian with a given prior, directions integrated out",
    "map": "maximum a posteriori with a given prior",
    "ml": "probabilistic PCA by maximum likelihood, with the number of dimensions given",
    "laplace": "probabilistic PCA, with the number of dimensions by Minka's evidence",
}
ENGINES = {
    "dense": "singular value decomposition of the whole table",
    "gram": "eigenvalues of the product of the short side",
    "randomized": "randomized block Krylov",
    "sparse": "sparse products, centred without filling in the zeros",
    "streaming": "one pass over blocks of rows",
    "dask": "one pass over blocks of rows by the workers of Dask",
    "holes": "iteration over the values that are there",
}
NOISES = {
    "isotropic": "one noise level",
    "per-feature": "one noise level for each feature",
    "per-sample": "one noise level for each sample",
    "student": "one noise level for each sample",
    "both": "one noise level for each sample and each feature",
    "student-cells": "one noise level for each feature, and one for each cell",
    "autoregressive": "one noise level for each feature, correlated between neighbours",
}
KEPT = "kept"
RULES = {
    KEPT: "the number on this page",
    EVB: "the lowest free energy of empirical variational Bayes",
    "Minka": "the highest evidence, by Laplace's approximation",
    "Marchenko–Pastur edge": "all that is stronger than pure noise could be",
    "Gavish–Donoho": "all that makes the denoised table more accurate",
    "parallel analysis": "all that is stronger than in simulated noise",
    "ScreeNOT": "all that makes the denoised table more accurate, whatever the noise",
    "sign flips": "all that is stronger than in the data with random signs",
    "bi-cross-validation": "what best predicts blocks that were held out",
}


# Words of the page, as they stand there, and what they mean; docs/glossary.md has the same.
GLOSSARY = {
    "component": "A direction in which features vary together; also called a dimension.",
    "if the noise is as assumed": "Probabilities hold if the noise is normal, and differs between "
    "features and samples only as the noise model allows, which the page names.",
    "recoverable": "Components count if more than half of the direction that is found for them is "
    "right. The direction of a weaker one would be mostly noise.",
    "deviations from the model": "Where residuals contradict the noise model, or every further "
    "component raises the evidence, numbers have no probabilities. EVB's number is kept.",
    "evidence": "The probability of the data under a model, averaged over its parameters. "
    "Its logarithm is given in nats.",
    "EVB": "Empirical variational Bayes: it keeps the components that raise a lower bound of the "
    "evidence, and shrinks each by its share of noise.",
    "95 % of the signal": "The signal is the sum of squares without the noise. Many components can "
    "be real although a few hold nearly all of it.",
    "halves of the rows": "Half samples: random halves of the rows, each fitted by itself. A "
    "component that comes back in nearly all of them does not depend on a few rows.",
}


def linked(text: str) -> str:
    """A text as HTML, in which words of the glossary link to it."""
    from markupsafe import Markup, escape

    html = str(escape(text))
    for number, word in enumerate(GLOSSARY, start=1):
        if word != "component":
            html = html.replace(word, f'<a href="#word-{number}">{word}</a>', 1)
    return Markup(html)


def lead(summary: Summary) -> str:
    """The sentences under the headline."""
    k, noise = summary.rank, noise_level(summary)
    if nothing_varies(summary):
        return "All samples are the same in every feature, so there is nothing to describe."
    if k == 0:
        return (
            "That is an answer, not a failure: the features vary, but not together in any way "
            f"that chance would not produce as well. {_sure(summary)}{_unequal(summary)}"
            f"More samples could still reveal something weaker. {holes_sentence(summary)}"
        ).strip()
    holds = "It holds" if k == 1 else "Together they hold"
    text = f"{holds} {percent(summary.explained)} of the variance. "
    if summary.at_least is None:
        text += f"The rest is taken as noise with a standard deviation of {noise}. "
    else:
        text += f"The rest cannot be told from noise with a standard deviation of {noise}. "
    return (text + _unequal(summary) + _sure(summary) + holes_sentence(summary)).strip()


def _unequal(summary: Summary) -> str:
    sentence = noise_sentence(summary)
    return sentence and f"{sentence} "


def _sure(summary: Summary) -> str:
    known = summary.at_least is not None
    return f"Their number: {kept(summary.rank, summary.how_sure)}. " if known else ""


def noise_unit(model: FittedPCA) -> str:
    """The unit of the noise, in words."""
    if noise_model(model).columns:
        return "standard deviation, quietest to noisiest feature"
    if getattr(model, "scale", False):
        return "standard deviation; that of each feature is 1"
    return "standard deviation, in units of the data"


def agreement(found: Mapping[str, int]) -> str:
    """A sentence on how far the rules agree."""
    if not found:
        return ""
    rank, votes = Counter(found.values()).most_common(1)[0]
    if votes == len(found):
        return f"All {counted(votes)} rules find {rank}."
    return f"The rules find from {min(found.values())} to {max(found.values())}."


def loadings_unit(model: FittedPCA) -> str:
    """The unit of the features that loadings refer to, in words."""
    if noise_model(model).columns:
        return ", each in units of its own noise"
    return ", each scaled to standard deviation 1" if getattr(model, "scale", False) else ""


def computed(model: FittedPCA, summary: Summary) -> dict[str, str]:
    """The lines of "how it was computed", as names and values."""
    scaled = getattr(model, "scale", False)
    choices = (("means removed", model.center), ("features scaled", scaled))
    done = [word for word, used in choices if used] or ["none"]
    energy, noise = summary.free_energy, summary.noise
    if len(summary.noise_evidence) > 1:
        # The evidence for the noise models that were tried, best first.
        tried = sorted(summary.noise_evidence.items(), key=lambda item: -item[1])
        others = [(name, f"{nats:+,.0f}") for name, nats in tried if name != ISOTROPIC.name]
        said = [f"{name} {nats.replace('-', MINUS)}" for name, nats in others]
        noise += f"; nats of evidence more than equal noise: {', '.join(said)}"
    facts = {
        "bayespca": f"version {__version__}",
        "Data": f"{plural(summary.n_samples, 'sample')} × {plural(summary.n_features, 'feature')}",
        "Method": f"{summary.method}: {METHODS.get(summary.method, summary.method)}",
        "Preparation": ", ".join([*done, NOISES[noise_model(model).name]]),
        "Engine": f"{summary.engine}: {ENGINES.get(summary.engine, summary.engine)}",
        "Noise": noise,
        "Seed": "none" if model.random_state is None else str(model.random_state),
        "Threshold": significant(summary.threshold, 5) if summary.threshold > 0 else "none",
        "Free energy": f"{significant(energy, 6)} nats" if math.isfinite(energy) else "none",
    }
    if summary.n_iter > 1:
        facts["Steps"] = f"{summary.n_iter:,}" + ("" if summary.converged else ", not settled")
    if getattr(model, "miss_probability_", 0.0) > 0:
        facts["Chance of a missed component"] = f"below {significant(model.miss_probability_, 2)}"
    return facts
