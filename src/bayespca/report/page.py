"""The report page of any fitted model, as text or as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.resources import files
from os import PathLike
from typing import Any, Unpack

from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import Input
from bayespca.estimators._base import AnyEstimator
from bayespca.estimators._halves import RankStability
from bayespca.estimators._lookalikes import Lookalikes
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.wording import percent, plural, significant
from bayespca.io.writing import replacing

from . import pca
from .embedding import needed, packed_plotly, to_json
from .parts import Content
from .scores import Samples

# Module and function of the page of a model, by the name of its class.
PAGES = {
    "GibbsPCA": "pca.content_of_draws",
    "BinaryPCA": "columns.content_of_bits",
    "GeneralizedPCA": "columns.content",
    "GPLVM": "latent.content",
    "PCAMixture": "clusters.content",
    "BernoulliMixture": "clusters.content",
    "MatrixFactorization": "ratings.content",
    "BayesianTucker": "tensors.content",
    "MultiViewPCA": "views.content",
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
        samples = pca.with_scores(model, X, samples)
        shown = pca.content(
            model,
            samples,
            details or {},
            ranks=ranks,
            stability=stability,
            lookalikes=lookalikes,
        )
    else:
        shown = _page_of(model)(model, X, samples, details or {})
    about = {
        "title": title or (f"What is in {source}" if source else shown.name),
        "source": source,
        "style": _asset("style.css"),
        "script": _asset("page.js"),
        "data": to_json(shown.data),
        "plotly": plotly,
    }
    page = templates.get_template("page.html.j2").render(vars(shown) | about)
    # A name with half a surrogate pair cannot be written as UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")


def _page_of(model: AnyEstimator) -> Callable[..., Content]:
    name = type(model).__name__
    if name == "BayesianPCAImputer":
        raise ValueError(
            "a BayesianPCAImputer keeps only what it needs to fill cells: "
            "BayesianPCA(**imputer.get_params()).fit(X) is the same model, and has a report."
        )
    if name not in PAGES:
        raise ValueError(f"there is no report of a {name}: only of {', '.join(PAGES)} and PCAs.")
    module, function = PAGES[name].split(".")
    found: Callable[..., Content] = getattr(import_module(f".{module}", __package__), function)
    return found


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
