"""What commands write, and the checks that it can be written before any work is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from .options import Out, Stability, output


@dataclass(frozen=True)
class FitOutputs:
    """Files that `fit` writes, None for those that were not asked for; what else it finds out."""

    report: Annotated[Path | None, output(help="An HTML page to read.")] = None
    scores: Annotated[Path | None, output(help="Scores of the samples, with std.")] = None
    loadings: Annotated[Path | None, output(help="Loadings of the features, with std.")] = None
    model: Annotated[Path | None, output(help="The model, for transform and Python.")] = None
    label: Annotated[str | None, output(help="Column that colours samples in the report.")] = None
    stability: Stability = None

    def check(self) -> None:
        check_tables(self.scores, self.loadings)
        check_folders(self.report, self.scores, self.loadings, self.model)
        if self.label is not None and self.report is None:
            raise ValueError("--label colours the samples in a report: give --report, too.")


@dataclass(frozen=True)
class RatingOutputs:
    """What is to be made of a model of ratings, and where it goes; None for what was not asked for.

    `save` is the file of the model, `out` that of the predictions.
    """

    predict: Annotated[
        Path | None,
        output(help="A file of pairs (user, item) whose ratings are predicted."),
    ] = None
    recommend: Annotated[
        int | None,
        output(
            metavar="N",
            min=1,
            help="The N best items that each user has not rated.",
        ),
    ] = None
    users: Annotated[
        str | None,
        output(
            help="Users to recommend to: ids with commas between them, or a file with one a line.",
        ),
    ] = None
    out: Out = None
    save: Annotated[
        Path | None,
        output("--save", "--model", help="The model, for Python: bayespca.load."),
    ] = None

    def check(self) -> None:
        """Raise before any work is done for what contradicts itself or cannot be written."""
        if self.predict is not None and self.recommend is not None:
            raise ValueError("--predict and --recommend write to the same place: give one of them.")
        if self.users is not None and self.recommend is None:
            raise ValueError("--users tells whom to recommend to: give --recommend, too.")
        if self.out is not None and self.predict is None and self.recommend is None:
            raise ValueError("--out is for predictions: give --predict or --recommend, too.")
        if self.predict is not None and not self.predict.is_file():
            raise FileNotFoundError(f"{self.predict} does not exist.")
        check_tables(self.out)
        check_folders(self.out, self.save)


def check_tables(*paths: Path | None) -> None:
    """Raise where an ending names no format that tables can be written in."""
    from bayespca.io.tables import writable_ending

    for path in filter(None, paths):
        writable_ending(path)


def check_folders(*paths: Path | None) -> None:
    """Raise where the folder of a file does not exist."""
    for path in filter(None, paths):
        if not path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {path}: the folder {path.absolute().parent} does not exist."
            )


def check_table(path: Path | None) -> None:
    """Raise where a table could not be written."""
    check_tables(path)
    check_folders(path)
