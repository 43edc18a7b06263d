"""Outputs of commands, and checks before any work that they can be written."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

from .help import output
from .options import Lookalikes, Out, Stability
from .standard import to_read, to_write

Report = Annotated[Path | None, output(callback=to_write(".html"), help="An HTML page to read.")]

Scores = Annotated[
    Path | None, output(callback=to_write(), help="Scores of the samples, with std.")
]


@dataclass(frozen=True)
class FitOutputs:
    """Files that `fit` writes, None for those it does not; and options of its results."""

    report: Report = None
    scores: Scores = None
    loadings: Annotated[
        Path | None, output(callback=to_write(), help="Loadings of the features, with std.")
    ] = None
    model: Annotated[
        Path | None,
        output(
            "--model",
            "--save",
            callback=to_write(".bpca"),
            help="The model, for transform, denoise, impute and Python.",
        ),
    ] = None
    annotated: Annotated[
        Path | None,
        output(
            "--out",
            "-o",
            help="For DATA in .h5ad: a copy with components where scanpy looks for them (.h5ad).",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        output(help="A column that is no feature; the first given colours samples in the report."),
    ] = None
    stability: Stability = None
    lookalikes: Lookalikes = 0
    verbose: Annotated[
        bool, output("--verbose", "-v", help="Also print noise, evidence and singular values.")
    ] = False

    @property
    def labels(self) -> Sequence[str]:
        """Columns that are no features."""
        return self.label or ()

    def drawn(self) -> dict[str, object]:
        """The options that need tables or halves to be drawn, which only a PCA of numbers has."""
        return {"stability": self.stability, "lookalikes": self.lookalikes}

    def refuse_annotated(self, data: Path) -> None:
        if self.annotated is not None:
            raise ValueError(
                f"--out writes annotated data, but {data} is not an .h5ad file: use --scores, "
                "--loadings, --report or --model."
            )

    def check(self, data: Path) -> None:
        check_tables(self.scores, self.loadings)
        written = [(f"--{o}", getattr(self, o)) for o in ("report", "scores", "loadings", "model")]
        check_places(written, read=[("DATA", data)])


@dataclass(frozen=True)
class FilledOutputs:
    """Outputs besides the filled table: standard deviations of filled cells, their intervals or
    probabilities, and a number of draws.
    """

    std: Annotated[
        bool,
        output(
            "--std",
            help="Also write the standard deviations of the filled cells, to a file beside --out.",
        ),
    ] = False
    intervals: Annotated[
        bool,
        output(
            "--intervals",
            help="Also write a 95 % interval of each filled cell, or its probability.",
        ),
    ] = False
    draws: Annotated[
        int, output(help="Number of draws to write as well, for multiple imputation.", min=0)
    ] = 0

    def named(self) -> list[str]:
        return [f"--{name}" for name, given in vars(self).items() if given]

    def places(self, out: Path) -> list[tuple[str, Path]]:
        """The files that `impute` writes, each with its option."""
        options = ("std", "intervals")
        single = [(f"--{o}", self.place(out, o)) for o in options if getattr(self, o)]
        drawn = (("--draws", self.of_draw(out, i)) for i in range(self.draws))
        return [("--out", out), *single, *drawn]

    def of_draw(self, out: Path, i: int) -> Path:
        return self.place(out, f"draw-{i + 1:0{len(str(self.draws))}d}")

    @staticmethod
    def place(path: Path, what: str) -> Path:
        """Path of a further output: data.csv becomes data-std.csv."""
        is_packed = path.suffix in (".gz", ".bz2", ".zst")
        endings = "".join(path.suffixes[-2:]) if is_packed else path.suffix
        return path.with_name(f"{path.name.removesuffix(endings)}-{what}{endings}")


@dataclass(frozen=True)
class RatingOutputs:
    """Outputs of a model of ratings and their files; None for those that are not requested.

    `save` is the file for the model, `out` for the predictions, `report` for the page.
    """

    predict: Annotated[
        Path | None,
        output(
            callback=to_read(), help="A file of pairs (user, item) whose ratings are predicted."
        ),
    ] = None
    recommend: Annotated[
        int | None,
        output(metavar="N", min=1, help="The N best items that each user has not rated."),
    ] = None
    users: Annotated[
        str | None,
        output(
            help="Users to recommend to: ids separated by commas, or a file with one on each line."
        ),
    ] = None
    out: Out = None
    report: Report = None
    save: Annotated[
        Path | None,
        output(
            "--save",
            "--model",
            callback=to_write(".bpca"),
            help="The model, for bayespca ratings MODEL and Python.",
        ),
    ] = None

    def check(self, data: Path, beside: Named = ()) -> None:
        if self.predict is not None and self.recommend is not None:
            raise ValueError("--predict and --recommend write to the same place: give one of them.")
        if self.users is not None and self.recommend is None:
            raise ValueError("--users says whom to recommend to: give --recommend, too.")
        if self.out is not None and self.predict is None and self.recommend is None:
            raise ValueError("--out is for predictions: give --predict or --recommend, too.")
        if self.predict is not None and not self.predict.is_file():
            raise FileNotFoundError(f"{self.predict} does not exist.")
        check_tables(self.out)
        users = Path(self.users) if self.users and os.path.isfile(self.users) else None
        read = [("FILE", data), ("--predict", self.predict), ("--users", users), *beside]
        written = [("--out", self.out), ("--report", self.report), ("--save", self.save)]
        check_places(written, read=read)


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


def write_files(*files: tuple[str, Path | None, Callable[[Path], object]]) -> dict[str, str]:
    """Write those files that are requested, and return their paths by kind."""
    written = {}
    for kind, path, write in files:
        if path is not None:
            write(path)
            written[kind] = str(path)
    return written


def command_line() -> str:
    return "bayespca " + " ".join(sys.argv[1:])


def write_report(path: Path, model: Any, data: Any, title: str, **samples: Any) -> None:
    """Write the page of a model; title and source are the name of the data."""
    from bayespca.report import page

    details = {"command": command_line()}
    page.write(path, model, data, title=title, source=title, details=details, **samples)


def check_tables(*paths: Path | None) -> None:
    """Raise if an ending names no format in which tables can be written."""
    from bayespca.io.tables import writable_ending

    for path in filter(None, paths):
        writable_ending(path)


# Options with the files that they name.
Named = Sequence[tuple[str, Path | None]]


def check_places(written: Named, *, read: Named) -> None:
    """Raise if a file cannot be written, or would replace one that is also read or written."""
    outputs = [(option, path) for option, path in written if path is not None]
    inputs = [(option, one) for option, path in read if path is not None for one in _meant(path)]
    for option, path in outputs:
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {path}: the folder {path.absolute().parent} does not exist."
            )
        for other, given in inputs:
            if _is_same(path, given):
                raise ValueError(
                    f"{option} would write {path} over the file that {other} names: choose another "
                    "name."
                )
    for (option, path), (other, its) in combinations(outputs, 2):
        if _is_same(path, its):
            raise ValueError(
                f"{option} and {other} would both write {path}: choose another name for one."
            )


def _meant(path: Path) -> list[Path]:
    """The files that match a path with wildcards; an empty list if there are none."""
    from bayespca.io.files import files_of

    try:
        return files_of(path)
    except FileNotFoundError:
        return []


def _is_same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return False
