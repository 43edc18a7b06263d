"""Values of options: words to choose from, and texts that are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import typer

# Copies of the words that estimators accept, whose import would take a second: of
# `bayespca.spectrum.METHODS`, `bayespca.lowrank.noise_models.NOISES` with auto,
# `bayespca.engines.ENGINES` and `bayespca.discrete.columns.NAMES`.
Learned = Literal["evb", "epb", "emap", "global-epb", "global-emap"]
PCAMethod = Literal[Learned, "vb", "pb", "pb-a", "pb-b", "map", "ml", "laplace"]
RatingsMethod = Literal["evb", "epb", "emap", "gibbs"]
ViewNoise = Literal["auto", "isotropic", "per-feature"]
OfCells = Literal["student", "student-cells", "autoregressive"]
Noise = Literal[ViewNoise, "per-sample", "both", OfCells]
Engine = Literal["auto", "dense", "gram", "randomized", "sparse", "streaming", "dask"]
LIKELIHOODS = ("normal", "bernoulli", "categorical", "ordinal", "poisson", "negative-binomial")


# --- what an option may be ---------------------------------------------------------------------


def whole_number_or(*words: str, share: bool = False) -> Callable[[str], str]:
    """Callback that accepts whole numbers, these words, and with `share` numbers in (0, 1)."""
    *others, last = ("a whole number", *(["a share such as 0.95"] * share), *words)

    def checked(text: str) -> str:
        if text not in words and not text.isdecimal() and not (share and _is_share(text)):
            raise typer.BadParameter(f"must be {', '.join(others)} or {last}.")
        return text

    return checked


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def components(text: str) -> Any:
    """The value of --n-components: a rank, a share of the variance, or a word."""
    return float(text) if _is_share(text) else as_number(text, int)


def positive_or(*words: str) -> Callable[[str], str]:
    """Callback that accepts positive numbers and these words."""
    *others, last = ("a positive number", *words)

    def checked(text: str) -> str:
        try:
            if text not in words and not 0 < float(text) < float("inf"):
                raise ValueError
        except ValueError:
            raise typer.BadParameter(f"must be {', '.join(others)} or {last}.") from None
        return text

    return checked


def checked_bounds(text: str) -> str:
    try:
        if text not in ("auto", "none"):
            low, high = map(float, text.split(","))
            if not -float("inf") < low < high < float("inf"):
                raise ValueError
    except ValueError:
        raise typer.BadParameter("must be auto, none, or two numbers such as 1,5.") from None
    return text


def checked_clusters(text: str | None) -> str | None:
    if text is not None and text != "auto" and not (text.isdecimal() and int(text)):
        raise typer.BadParameter("must be a whole number of at least 1, or auto.")
    return text


def as_number(text: str, kind: type) -> Any:
    """The text as a number, unless it is a word such as "auto"."""
    return text if text in ("auto", "evb", "mle", "0db") else kind(text)


def one_character(text: str | None) -> str | None:
    names = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    text = names.get(text, text) if text else text
    if text is not None and len(text.encode()) != 1:
        raise typer.BadParameter("must be one character, or tab, space, comma or semicolon.")
    return text


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
