"""Values of options: words to choose from, and texts that are numbers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import typer


class PCAMethod(StrEnum):
    """Copy of `bayespca.spectrum.METHODS`, whose import would take a second."""

    evb = "evb"
    epb = "epb"
    emap = "emap"
    global_epb = "global-epb"
    global_emap = "global-emap"
    vb = "vb"
    pb = "pb"
    pb_a = "pb-a"
    pb_b = "pb-b"
    map = "map"
    ml = "ml"
    laplace = "laplace"


class RatingsMethod(StrEnum):
    """Methods of `MatrixFactorization`."""

    evb = "evb"
    epb = "epb"
    emap = "emap"
    gibbs = "gibbs"


class Noise(StrEnum):
    """`bayespca.lowrank.noise_models.NOISES`, or auto for the one that the evidence prefers."""

    auto = "auto"
    isotropic = "isotropic"
    per_feature = "per-feature"
    per_sample = "per-sample"
    both = "both"
    student = "student"
    student_cells = "student-cells"
    autoregressive = "autoregressive"


class ViewNoise(StrEnum):
    """Noise models of `MultiViewPCA`."""

    auto = "auto"
    isotropic = "isotropic"
    per_feature = "per-feature"


class Engine(StrEnum):
    """Copy of `bayespca.engines.ENGINES`, whose import would take a second."""

    auto = "auto"
    dense = "dense"
    gram = "gram"
    randomized = "randomized"
    sparse = "sparse"
    streaming = "streaming"
    dask = "dask"


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
    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    text = named.get(text, text) if text else text
    if text is not None and len(text.encode()) != 1:
        raise typer.BadParameter("must be one character, or tab, space, comma or semicolon.")
    return text
