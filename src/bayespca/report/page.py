"""The report page of any fitted model, as text or as a file."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from os import PathLike
from typing import Any, Unpack

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators._halves import RankStability
from bayespca.estimators._lookalikes import Lookalikes
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.wording import percent, plural, significant
from bayespca.io.writing import replacing

from . import pca
from .scores import Samples, with_scores

# Module and function of the page of a model, by the name of its class.
PAGES = {
    "GibbsPCA": "pca.content_of_draws",
    "BinaryPCA": "columns.content_of_bits",
    "GeneralizedPCA": "columns.content",
    "GPLVM": "latent.content",
    "PCAMixture": "clusters.content",
    "BernoulliMixture": "clusters.content",
    "MatrixFactorization": "ratings.content",
    "BayesianTucker": "tables.content_of_tensor",
    "MultiViewPCA": "tables.content_of_views",
}


def write(path: str | PathLike[str], model: AnyEstimator, X: Input = None, **options: Any) -> None:
    """Write the report of a fitted model to an HTML file; options are those of `render`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from bayespca import BayesianPCA, report
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(Path(folder) / "r.html", BayesianPCA().fit(X), X)
    ...     [path.name for path in Path(folder).iterdir()]
    ['r.html']
    """
    page = render(model, X, **options).encode("utf-8")
    with replacing(path) as file:
        file.write(page)


def render(
    model: AnyEstimator,
    X: Input = None,
    *,
    ranks: RankReport | None = None,
    stability: RankStability | None = None,
    lookalikes: Lookalikes | None = None,
    title: str | None = None,
    source: str | None = None,
    details: Mapping[str, str] | None = None,
    **samples: Unpack[Samples],
) -> str:
    """The report of a fitted model as a self-contained HTML page.

    >>> from bayespca import BayesianPCA, report
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> page = report.render(BayesianPCA().fit(X), X, title="Three components")
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'

    Parameters
    ----------
    model
        A fitted estimator: a PCA, a GPLVM, a mixture, or a model of binary data, columns of all
        kinds, ratings, a tensor or several tables.
    X
        The data, to show where samples lie and which clusters they are in. For ratings, a matrix or
        users, items and ratings, to check the intervals of predictions. None leaves these out.
    ranks
        Results of other rules for the number of dimensions, to compare with the model's; PCA only.
    stability
        Results for half samples (`rank_stability`), shown next to the probabilities; PCA only.
    lookalikes
        How often rules are right on tables drawn like the data (`rank_report`); PCA only.
    title, source
        Heading of the page, and the name of the data.
    details
        More lines for "how it was computed", in order.
    scores, scores_std
        Result of ``model.transform(X, return_std=True)``, or a sample of its rows, instead of X;
        at most 10,000 are drawn.
    sample_names, labels
        One for each row of scores: names to show on hover, and labels to colour the points by.
    labels_name
        Title of the labels in the legend.
    """
    check_is_fitted(model)
    jinja2, plotly = needed("jinja2"), packed_plotly()
    templates = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_asset),
    )
    templates.filters |= {"percent": percent, "significant": significant, "plural": plural}
    if hasattr(model, "spectrum_"):
        samples = with_scores(model, X, samples)
        shown = pca.content(
            model,
            samples,
            details or {},
            ranks=ranks,
            stability=stability,
            lookalikes=lookalikes,
        )
    else:
        name = type(model).__name__
        if name == "BayesianPCAImputer":
            raise ValueError(
                "a BayesianPCAImputer keeps only what it needs to fill cells: "
                "BayesianPCA(**imputer.get_params()).fit(X) is the same model, and has a report."
            )
        if name not in PAGES:
            known = ", ".join(PAGES)
            raise ValueError(f"there is no report of a {name}: only of {known} and PCAs.")
        module, function = PAGES[name].split(".")
        content = getattr(import_module(f".{module}", __package__), function)
        shown = content(model, X, samples, details or {})
    about = {
        "title": title or (f"What is in {source}" if source else shown.name),
        "source": source,
        "style": _asset("style.css"),
        "script": _asset("page.js"),
        "json": to_json(shown.data),
        "plotly": plotly,
    }
    page = templates.get_template("page.html.j2").render(vars(shown) | about)
    # A name with half a surrogate pair cannot be written as UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# --- one file ----------------------------------------------------------------------------------


def needed(module: str) -> Any:
    """An optional module, or an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            'the report needs jinja2 and plotly: install them with pip install "bayespca[report]".'
        ) from error


def to_json(value: object) -> str:
    """JSON that is safe inside <script>: no tag can open, and numbers are finite or null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # U+2028 and U+2029 end lines in older JavaScript.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # UTF-8 cannot encode half a surrogate pair.
    return text.encode("utf-8", "replace").decode("utf-8")


def _finite(value: object) -> object:
    """The value with None for NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


@lru_cache(maxsize=1)
def packed_plotly() -> str:
    """Plotly's script, compressed to a third of its size; the browser inflates it."""
    script = needed("plotly.offline").get_plotlyjs().encode("utf-8")
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")
