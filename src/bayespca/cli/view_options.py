"""What `bayespca views` takes besides its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .outputs import Report, Scores, check_places, check_tables
from .panels import MODEL, option, output
from .standard import to_read, to_write
from .values import ViewNoise, as_number, whole_number_or

if TYPE_CHECKING:
    from bayespca.estimators.multi_view import MultiViewPCA


@dataclass(frozen=True)
class Viewing:
    """What to fit to several tables; as the parameters of `MultiViewPCA`."""

    n_components: Annotated[
        str,
        option(
            "--n-components",
            panel=MODEL,
            callback=whole_number_or("auto"),
            help="The largest number of factors, or auto.",
        ),
    ] = "auto"
    noise: Annotated[
        ViewNoise, option(panel=MODEL, help="What has noise of its own in each table.")
    ] = ViewNoise.auto

    def model(self) -> MultiViewPCA:
        from bayespca.estimators.multi_view import MultiViewPCA

        cap: Any = as_number(self.n_components, int)
        return MultiViewPCA(cap, noise=self.noise.value)


@dataclass(frozen=True)
class ViewOutputs:
    """What `views` writes, None for what was not asked for; `use` is a saved model to apply."""

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
            help="A saved model to apply to these tables, any of those it was fitted to.",
        ),
    ] = None

    def check(self, files: Sequence[Path]) -> None:
        """Raise before any work is done for what contradicts itself or cannot be written."""
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
