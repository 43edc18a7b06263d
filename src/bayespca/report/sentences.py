"""The sentences of the page that depend on what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators.functions import RankReport
from bayespca.estimators.summary import FittedPCA, Summary
from bayespca.estimators.wording import counted, likelihood, percent, plural, significant

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
RULES = {
    "EVB": "the lowest free energy of empirical variational Bayes",
    "Minka": "the highest evidence, by Laplace's approximation",
    "Marchenko–Pastur edge": "all that is stronger than pure noise could be",
    "Gavish–Donoho": "all that makes the denoised table more accurate",
    "parallel analysis": "all that is stronger than in simulated noise",
}


def lead(summary: Summary, model: FittedPCA) -> str:
    """Two or three sentences under the headline."""
    k, noise = summary.rank, noise_range(model)
    if k == 0:
        return (
            "That is an answer, not a failure: the features vary, but not together in any way "
            f"that chance would not produce as well. {_sure(summary)}"
            "More samples could still reveal something weaker."
        ).strip()
    holds = "It holds" if k == 1 else "Together they hold"
    text = f"{holds} {percent(summary.explained)} of the variance. "
    if summary.probability is None:
        return text + f"The rest is taken as noise with a standard deviation of {noise}."
    text += f"The rest cannot be told from noise with a standard deviation of {noise}. "
    return (text + _sure(summary)).strip()


def _sure(summary: Summary) -> str:
    if summary.probability is None:
        return ""
    return (
        f"The probability that the number is exactly {counted(summary.rank) if summary.rank else 0}"
        f" is {likelihood(summary.probability)}. "
    )


def noise_range(model: FittedPCA) -> str:
    """The noise's standard deviation, or the smallest and largest of the features."""
    if isinstance(model.noise_variance_, float):
        return significant(model.noise_variance_**0.5)
    std = np.sqrt(to_numpy(model.noise_variance_).astype(np.float64))
    return f"{significant(float(std.min()), 2)} to {significant(float(std.max()), 2)}"


def noise_unit(model: FittedPCA) -> str:
    """What the noise is measured in."""
    if not isinstance(model.noise_variance_, float):
        return "standard deviation, quietest to noisiest feature"
    if getattr(model, "scale", False):
        return "standard deviation; that of each feature is 1"
    return "standard deviation, in units of the data"


def agreement(ranks: RankReport) -> str:
    """What the rules say together."""
    found = list(ranks.ranks().values())
    rank, votes = Counter(found).most_common(1)[0]
    if votes == len(found):
        return f"All {counted(votes)} rules find {rank}."
    spread = f"from {min(found)} to {max(found)}"
    if 2 * votes < len(found):
        return f"The rules disagree: they find {spread}."
    of = f"{counted(votes).capitalize()} of {counted(len(found))} rules"
    return f"{of} find {rank}; together they range {spread}."


def loadings_unit(model: FittedPCA) -> str:
    """What a loading of the model refers to."""
    if not isinstance(model.noise_variance_, float):
        return ", each in units of its own noise"
    return ", each scaled to standard deviation 1" if getattr(model, "scale", False) else ""


def computed(
    model: FittedPCA, summary: Summary, version: str, details: Mapping[str, str] | None
) -> dict[str, str]:
    """How it was computed, as names and values."""
    facts = {
        "bayespca": f"version {version}",
        "Data": f"{plural(summary.n_samples, 'sample')} × {plural(summary.n_features, 'feature')}",
        "Method": f"{summary.method}: {METHODS.get(summary.method, summary.method)}",
        "Preparation": _preparation(model),
        "Engine": f"{summary.engine}: {ENGINES.get(summary.engine, summary.engine)}",
        "Seed": "none" if model.random_state is None else str(model.random_state),
        "Threshold": significant(summary.threshold, 5) if summary.threshold > 0 else "none",
        "Free energy": f"{significant(summary.free_energy, 6)} nats",
    }
    if summary.n_iter > 1:
        facts["Steps"] = f"{summary.n_iter:,}" + ("" if summary.converged else ", not settled")
    if getattr(model, "miss_probability_", 0.0) > 0:
        facts["Chance of a missed component"] = f"below {significant(model.miss_probability_, 2)}"
    return facts | {str(key): str(value) for key, value in (details or {}).items()}


def _preparation(model: FittedPCA) -> str:
    scaled = getattr(model, "scale", False)
    choices = (("means removed", model.center), ("features scaled", scaled))
    done = [word for word, used in choices if used]
    own = getattr(model, "noise", "") == "per-feature"
    noise = "one noise level for each feature" if own else "one noise level"
    return ", ".join([*(done or ["none"]), noise])
