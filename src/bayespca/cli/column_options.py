"""Options of `fit` and `impute` that describe the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from .panels import MODEL, option

# Copy of `bayespca.discrete.columns.NAMES`, whose import would take a second.
LIKELIHOODS = ("normal", "bernoulli", "categorical", "ordinal", "poisson", "negative-binomial")


def checked_likelihood(text: str | None) -> str | None:
    """The text, if it is auto, a likelihood, or likelihoods by column."""
    for part in [] if text is None else text.split(","):
        name = part.rpartition("=")[2].strip()
        if name not in ("auto", *LIKELIHOODS) or ("," in (text or "") and "=" not in part):
            raise typer.BadParameter(
                f"must be auto, one of {', '.join(LIKELIHOODS)}, or such names by column, as in "
                "stage=ordinal,visits=poisson."
            )
    return text


def checked_orders(texts: list[str] | None) -> list[str] | None:
    for text in texts or ():
        name, _, levels = text.partition("=")
        if not name or len(levels.split(",")) < 2:
            raise typer.BadParameter("must be a column and its levels, as in pain=low,medium,high.")
    return texts


@dataclass(frozen=True)
class ColumnKinds:
    """Options for the kinds of columns; by default they are guessed from the table."""

    likelihood: Annotated[
        str | None,
        option(
            metavar="KINDS",
            panel=MODEL,
            callback=checked_likelihood,
            help="The kind of columns: auto, one of normal, bernoulli, categorical, ordinal, "
            "poisson, negative-binomial, or by column: stage=ordinal,visits=poisson. By default, "
            "auto for tables with columns of text or of true and false, and normal for tables of "
            "numbers.",
        ),
    ] = None
    order: Annotated[
        list[str] | None,
        option(
            metavar="COLUMN=LEVELS",
            panel=MODEL,
            callback=checked_orders,
            help="Levels of a column of text, lowest first: pain=low,medium,high; may be repeated.",
        ),
    ] = None
    row_sizes: Annotated[
        bool,
        option(
            "--row-sizes",
            panel=MODEL,
            help="Counts are relative to the sum of their row: library sizes of cells.",
        ),
    ] = False
    numbers_only: Annotated[
        bool,
        option(
            "--numbers-only",
            panel=MODEL,
            help="Analyse only columns of numbers; skip those of text.",
        ),
    ] = False

    def check(self) -> None:
        """Raise for options that contradict each other."""
        if self.numbers_only and self.named():
            raise ValueError(
                f"--numbers-only contradicts {self.named()[0]}: leave one of them out."
            )

    def refuse(self, what: str) -> None:
        """Raise if any of these options is given; `what` names the model that has none of them."""
        for name in [*self.named(), *(["--numbers-only"] * self.numbers_only)]:
            raise ValueError(f"{name} does not apply to {what}: leave it out.")

    def named(self) -> list[str]:
        """Given options that request columns of all kinds."""
        asked = (f.name for f in fields(self) if f.name != "numbers_only")
        return [f"--{name.replace('_', '-')}" for name in asked if getattr(self, name)]

    def for_all(self) -> str | None:
        """The likelihood of all columns, if there is a single one."""
        text = self.likelihood
        return text if text not in (None, "auto") and "=" not in text else None

    def by_column(self) -> dict[str, str]:
        """The given likelihoods, by column."""
        text = self.likelihood or ""
        pairs = (part.rpartition("=") for part in text.split(",") if "=" in part)
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    def orders(self) -> dict[str, list[str]]:
        """Ordered levels, by column."""
        pairs = (text.partition("=") for text in self.order or ())
        return {name: [level.strip() for level in levels.split(",")] for name, _, levels in pairs}
