"""`bayespca fit` and `rank`: fit a file, show the result, write the output files; `demo`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.estimators._halves import HALVES, RankStability
from bayespca.estimators._lookalikes import Lookalikes
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.rules import lookalikes_of, rank_report, rank_rules
from bayespca.estimators.stability import is_halved_unasked, stability_of
from bayespca.estimators.summary import summarize
from bayespca.estimators.wording import feature_names
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.version import __version__

from . import screen
from .inputs import Input, labelled, open_input
from .messages import on_the_command_line
from .mixed import Choice
from .models import by_component, described_components, score_table
from .options import Computing
from .outputs import FitOutputs, command_line, write_files

# Most points of the scores that a report draws.
DRAWN = 10_000
# Data are read in this process; their size decides how.
HERE = Computing()
# If the short side is longer, other rank rules would take longer than the fit.
RULES_UP_TO = 5000
# A PCA is not meant for such data.
ZEROS_AND_ONES = (
    "--binary fits BinaryPCA to it, and --binary --clusters auto finds clusters of rows."
)


@dataclass(frozen=True)
class Found:
    """A fitted model; its stability in half samples, and tables drawn like the data, if computed.

    `hints` are sentences on other analyses of the data.
    """

    model: BayesianPCA
    stability: RankStability | None
    lookalikes: Lookalikes | None = None
    hints: Sequence[str] = ()

    def components(self) -> list[dict[str, object]]:
        """Description of the components, with the shares of halves in which they reappear."""
        described = described_components(self.model)
        if self.stability is None or self.stability.rank != self.model.n_components_:
            return described
        shares = self.stability.directions.tolist()
        return [row | {"back": share} for row, share in zip(described, shares, strict=False)]


def fit(
    data: Path,
    how: How,
    model: BayesianPCA,
    outputs: FitOutputs,
    *,
    where: Computing = HERE,
    choice: Choice | None = None,
    fit_mixed: Callable[..., None] | None = None,
    as_json: bool = False,
) -> None:
    """Fit a file, write output files, and report the result.

    With a `choice`, `fit_mixed` analyses columns of all kinds if a table has them.
    """
    start = time.perf_counter()
    outputs.check(data)
    with where.opened(data, how if choice is None else choice.how(how)) as opened:
        hints: list[str] = []
        if choice is not None:
            choice = replace(choice, labels=outputs.labels)
            mixed = choice.read(opened, how)
            if mixed is not None and fit_mixed is not None:
                fit_mixed(mixed, choice.model(mixed), outputs, start, as_json=as_json)
                return
            hints = choice.hints(opened)
        given, labels = labelled(opened, outputs.labels)
        given.fit(model.fit, model.tol)
        if "zero-one" in model.status_:
            hints = [ZEROS_AND_ONES, *hints]
        back = _stability(given, model, outputs.stability)
        found = Found(model, back, _lookalikes(given, model, outputs.lookalikes), hints)
        written = write_files(
            ("model", outputs.model, model.save),
            ("loadings", outputs.loadings, lambda path: write_table(path, _loadings(model))),
            (
                "scores",
                outputs.scores,
                lambda path: write_table(
                    path, (score_table(model, part) for part in given.parts("scores"))
                ),
            ),
            (
                "report",
                outputs.report,
                lambda path: _write_report(path, given, found, labels, start),
            ),
        )
    seconds = time.perf_counter() - start
    if as_json:
        numbers, likeness = summarize(model).as_dict(), found.lookalikes
        screen.print_json(
            {"file": str(given.file.path), "version": __version__}
            | numbers
            | given.facts
            | {
                "notes": [*numbers["notes"], *hints],
                "singular_values": to_numpy(model.singular_values_),
                "shrunk_singular_values": to_numpy(model.shrunk_singular_values_),
                "explained_variance_ratio": to_numpy(model.explained_variance_ratio_),
                "stability": None if back is None else back.as_dict(),
                "lookalikes": None if likeness is None else likeness.as_dict(),
                "written": written,
                "seconds": round(seconds, 3),
                "memory_mb": screen.peak_memory(),
            }
        )
        return
    notes, drawn = [*hints, *given.notes], (back, found.lookalikes)
    components, verbose = found.components(), outputs.verbose
    title, summary = given.file.path.name, summarize(model)
    screen.print_summary(summary, title, components, notes, *drawn, verbose=verbose)
    facts = f"{screen.took(seconds)}, engine {model.engine_}, bayespca {__version__}"
    screen.print_footer(written, facts if verbose else screen.took(seconds))


def rank(
    data: Path, how: How, options: dict[str, Any], *, stability: bool | None, as_json: bool
) -> None:
    """Show the ranks by all rules side by side."""
    given = open_input(data, how)
    n_halves: Any = "auto" if stability is None else HALVES * stability
    ranks = given.apply("decomposing", partial(rank_report, n_halves=n_halves, **options))
    if as_json:
        facts = {"file": str(data), **given.facts, "ranks": ranks.ranks()}
        screen.print_json(
            facts
            | {
                "rank": ranks.n_components,
                "how_sure": ranks.how_sure,
                "sentence": ranks.sentence,
                "rank_probabilities": ranks.probabilities,
                "noise": ranks.noise,
                "why": on_the_command_line(ranks.why),
                "not_asked": on_the_command_line(ranks.not_asked),
                "noise_variance": ranks.noise_variance,
                "threshold": ranks.threshold,
                "stability": None if ranks.stability is None else ranks.stability.as_dict(),
                "lookalikes": None if ranks.lookalikes is None else ranks.lookalikes.as_dict(),
            }
        )
        return
    screen.print_ranks(ranks, data.name)
    screen.print_notes(given.notes)


def _stability(given: Input, model: BayesianPCA, wanted: bool | None) -> RankStability | None:
    """Stability in half samples, if requested, or if it takes no longer than the fit."""
    if wanted is None:
        dense = given.table is not None and not is_sparse(given.table.values)
        wanted = dense and is_halved_unasked(model)
    if not wanted:
        return None
    _in_memory(given, "--stability")
    seeded = partial(stability_of, model, random_state=model.random_state)
    return given.apply("half samples", seeded)


def _lookalikes(given: Input, model: BayesianPCA, n_tables: int) -> Lookalikes | None:
    """Tables drawn like the data, if requested."""
    if not n_tables:
        return None
    _in_memory(given, "--lookalikes")
    seeded = partial(lookalikes_of, model, n_tables=n_tables, random_state=model.random_state)
    return given.apply("look-alikes", seeded)


def _in_memory(given: Input, option: str) -> Table:
    """The table, which an option needs."""
    if given.table is None:
        raise ValueError(
            f"{option} needs the data in memory: use --in-memory, and neither --dask nor --workers."
        )
    return given.table


# --- what is written ---------------------------------------------------------------------------


def _loadings(model: BayesianPCA) -> Table:
    """A row for each feature: its loading on each component, with standard deviation."""
    W, spread = to_numpy(model.components_).T, to_numpy(model.components_std_).T
    return by_component(W, spread, feature_names(model), "feature")


def _write_report(
    path: Path,
    given: Input,
    found: Found,
    labels: dict[str, Any],
    start: float,
) -> None:
    from bayespca.report import page

    model, name = found.model, given.file.path.name
    scores, std, ids, chosen = _drawn(given, model)
    ranks = _rank_rules(given, model)
    details = {"file": name}
    if given.aside:
        details["columns skipped"] = ", ".join(f"{k} ({why})" for k, why in given.aside.items())
    details["seed"] = str(model.random_state)
    details["command"] = command_line()
    details["time"] = f"{time.perf_counter() - start:.1f} s"
    page.write(
        path,
        model,
        scores=scores,
        scores_std=std,
        sample_names=ids,
        labels=labels["labels"][chosen] if labels else None,
        labels_name=labels.get("labels_name"),
        ranks=ranks,
        stability=found.stability,
        lookalikes=found.lookalikes,
        title=name,
        source=name,
        details=details,
    )


def _drawn(given: Input, model: BayesianPCA) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray]:
    """Scores, standard deviations, names and indices of the rows that a report draws.

    These are all rows, or every few rows of large data.
    """
    n = model.n_samples_
    step = -(-n // DRAWN)
    none = np.empty((0, model.n_components_))
    scores, std, ids, first = [], [], [], 0
    for part in given.parts("scores for the report"):
        rows = slice(-first % step, None, step)
        some = Table(part.values[rows], part.names)
        T, spread = model.transform(some, return_std=True) if some.shape[0] else (none, none)
        scores.append(T)
        std.append(spread)
        names = part.ids or [f"row {first + i + 1}" for i in range(part.shape[0])]
        ids += names[rows]
        first += part.shape[0]
    return np.concatenate(scores), np.concatenate(std), ids, np.arange(0, n, step)


def _rank_rules(given: Input, model: BayesianPCA) -> RankReport | None:
    """Ranks by other rules than the model's, which need complete data and all singular values."""
    if model.spectrum_.is_complete:
        return rank_rules(model.spectrum_)
    if model.engine_ == "holes" or min(model.n_samples_, model.n_features_in_) > RULES_UP_TO:
        return None
    # The rules would not use the rescaled data that the model has fitted.
    if model.noise_ != ISOTROPIC.name:
        return None
    rules = partial(rank_report, center=model.center, scale=model.scale, n_halves=0)
    return given.apply("other rank rules", rules)


def demo(folder: Path) -> None:
    """Write a table of wines, and run `bayespca fit` on it."""
    from sklearn.datasets import load_wine

    wines = load_wine()
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "wine.csv"
    ids = [f"wine {i + 1}" for i in range(len(wines.data))]
    cultivars = np.array([f"cultivar {c + 1}" for c in wines.target], dtype=object)
    names = [name.replace("_", " ") for name in wines.feature_names]
    write_table(data, Table(wines.data, names, ids, "wine", {"cultivar": cultivars}))
    outputs = FitOutputs(
        report=folder / "wine.html",
        scores=folder / "scores.csv",
        loadings=folder / "loadings.csv",
        model=folder / "wine.bpca",
        label=["cultivar"],
    )
    files = {name: path for name, path in vars(outputs).items() if isinstance(path, Path)}
    options = " ".join(f"--{name} {path}" for name, path in files.items())
    out = screen.console()
    out.print(f"[dim]$ bayespca fit {data} --label cultivar {options}[/dim]\n")
    model = BayesianPCA(random_state=0)
    fit(data, How(), model, outputs)
    out.print(f"\nOpen [bold]{outputs.report}[/bold] in a browser to see it.")
