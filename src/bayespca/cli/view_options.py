"""Options of `bayespca views`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .column_options import LIKELIHOODS
from .outputs import Report, Scores, check_places, check_tables
from .panels import MODEL, option, output
from .standard import to_read, to_write
from .values import ViewNoise, as_number, whole_number_or

if TYPE_CHECKING:
    from bayespca.estimators.multi_view import MultiViewPCA


def checked_kinds(texts: list[str] | None) -> list[str] | None:
    """The texts, if they are auto, a likelihood, or likelihoods by table and column."""
    for text in texts or ():
        view, _, kind = text.rpartition("=")
        alone = "=" not in text and len(texts or ()) == 1
        if kind not in ("auto", *LIKELIHOODS) or not (view or alone):
            raise typer.BadParameter(
                f"must be auto or one of {', '.join(LIKELIHOODS)}, alone or for a table or one of "
                "its columns, as in clinic=auto or clinic:stage=ordinal."
            )
    return texts


@dataclass(frozen=True)
class Viewing:
    """Options of the fit to several tables: parameters of `MultiViewPCA`."""

    n_components: Annotated[
        str,
        option(
            "--n-components",
            panel=MODEL,
            callback=whole_number_or("auto"),
            help="The largest number of factors, or auto.",
        ),
    ] = "auto"
    noise: Annotated[ViewNoise, option(panel=MODEL, help="The noise model within each table.")] = (
        ViewNoise.auto
    )

    likelihood: Annotated[
        list[str] | None,
        option(
            metavar="TABLE=KIND",
            panel=MODEL,
            callback=checked_kinds,
            help="The kind of cells in a table: auto, normal, bernoulli, categorical, ordinal, "
            "poisson or negative-binomial, as in clinic=auto, or clinic:stage=ordinal for a "
            "column; may be repeated. A kind alone applies to all tables. Without this option, "
            "only columns of numbers are analysed.",
        ),
    ] = None

    def model(self) -> MultiViewPCA:
        from bayespca.estimators.multi_view import MultiViewPCA

        cap: Any = as_number(self.n_components, int)
        return MultiViewPCA(cap, noise=self.noise.value, likelihood=self.kinds())

    def kinds(self) -> Any:
        """The parameter `likelihood` of `MultiViewPCA`."""
        texts = self.likelihood or ["normal"]
        if texts[0] in ("auto", *LIKELIHOODS):
            return texts[0]
        found: dict[str, Any] = {}
        for text in texts:
            place, _, kind = text.rpartition("=")
            view, _, column = place.partition(":")
            before = found.get(view, {})
            if view in found and not (column and isinstance(before, dict)):
                raise ValueError(
                    f"--likelihood says more than one thing about {view!r}: give a kind for the "
                    "table, or kinds for its columns."
                )
            found[view] = before | {column: kind} if column else kind
        return found


@dataclass(frozen=True)
class ViewOutputs:
    """Files that `views` writes, None for those it does not; `use` is a saved model to apply."""

    report: Report = None
    scores: Scores = None
    loadings: Annotated[
        Path | None, output(callback=to_write(), help="Loadings of the features of all tables.")
    ] = None
    model: Annotated[
        Path | None,
        output("--save", callback=to_write(".bpca"), help="The model, for --model and Python."),
    ] = None
    use: Annotated[
        Path | None,
        output(
            "--model",
            callback=to_read(),
            help="A saved model to apply; FILES may be any of the tables it was fitted to.",
        ),
    ] = None

    def check(self, files: Sequence[Path]) -> None:
        """Raise for contradictory options and for files that cannot be written."""
        if self.use is not None and self.model is not None:
            raise ValueError("--model is used as it is: leave --save out.")
        if self.use is not None and self.scores is None and self.report is None:
            raise ValueError("--model is applied to the tables: give --scores or --report, too.")
        check_tables(self.scores, self.loadings)
        written = [
            ("--report", self.report),
            ("--scores", self.scores),
            ("--loadings", self.loadings),
            ("--save", self.model),
        ]
        check_places(written, read=[("FILES", path) for path in (*files, self.use)])
