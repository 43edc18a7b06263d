"""`bayespca fit` and `rank`: fit a file, show the result, write what was asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators.functions import RankReport, rank_report, rank_rules
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.summary import summarize
from bayespca.estimators.wording import feature_names
from bayespca.io.records import How, Table
from bayespca.io.tables import writable_ending, write_table
from bayespca.version import __version__

from . import screen
from .cluster import DaskCluster
from .inputs import Input, labels_of, open_input

# Points of the scores that a report draws, and features named for each component.
DRAWN, NAMED = 10_000, 3
# Components that are listed in the terminal.
LISTED = 12
# Beyond this short side other rank rules would take longer than the fit.
RULES_UP_TO = 5000


@dataclass(frozen=True)
class Outputs:
    """Files to write, None for those that were not asked for."""

    report: Path | None = None
    scores: Path | None = None
    loadings: Path | None = None
    model: Path | None = None

    def check(self) -> None:
        """Raise before any work is done if something could not be written."""
        for path in (self.scores, self.loadings):
            if path is not None:
                writable_ending(path)
        for path in (self.report, self.scores, self.loadings, self.model):
            if path is not None and not path.absolute().parent.is_dir():
                raise FileNotFoundError(
                    f"cannot write {path}: the folder {path.absolute().parent} does not exist."
                )


def fit(
    data: Path,
    how: How,
    model: BayesianPCA,
    outputs: Outputs,
    *,
    label: str | None = None,
    stream: bool | None = None,
    cluster: DaskCluster | None = None,
    as_json: bool = False,
) -> None:
    """Fit a file and tell what was found."""
    start = time.perf_counter()
    outputs.check()
    if label is not None and outputs.report is None:
        raise ValueError("--label colours the samples in a report: give --report, too.")
    with (cluster or DaskCluster()).opened(data, how, stream=stream) as given:
        labels = None if label is None else _labels(given, label)
        given.apply("fitting", model.fit)
        written = write_outputs(given, model, outputs, labels=labels, label=label, start=start)
    show(model, given, written, seconds=time.perf_counter() - start, as_json=as_json)


def rank(data: Path, how: How, options: dict[str, Any], *, as_json: bool = False) -> None:
    """Every rank rule side by side."""
    given = open_input(data, how)
    ranks = given.apply("decomposing", partial(rank_report, **options))
    if as_json:
        facts = {"file": str(data), **source_facts(given), "ranks": ranks.ranks()}
        screen.print_json(
            facts
            | {
                "evb_probability": ranks.evb_probability,
                "noise_variance": ranks.noise_variance,
                "threshold": ranks.threshold,
            }
        )
        return
    screen.print_ranks(ranks, data.name)
    screen.print_notes(source_notes(given))


def _labels(given: Input, label: str) -> np.ndarray:
    if given.table is None:
        raise ValueError(
            "--label needs the data in memory: use --in-memory, and neither --dask nor --workers."
        )
    return labels_of(given.table, label)


# --- what is written ---------------------------------------------------------------------------


def write_outputs(
    given: Input,
    model: BayesianPCA,
    outputs: Outputs,
    *,
    labels: np.ndarray | None = None,
    label: str | None = None,
    start: float,
) -> dict[str, str]:
    """Write the files that were asked for; what was written, and where."""
    written = {}
    if outputs.model is not None:
        model.save(outputs.model)
        written["model"] = str(outputs.model)
    if outputs.loadings is not None:
        write_table(outputs.loadings, loadings_table(model))
        written["loadings"] = str(outputs.loadings)
    if outputs.scores is not None:
        write_table(outputs.scores, (score_table(model, part) for part in given.parts("scores")))
        written["scores"] = str(outputs.scores)
    if outputs.report is not None:
        _write_report(outputs.report, given, model, labels, label, start)
        written["report"] = str(outputs.report)
    return written


def component_names(model: Any) -> list[str]:
    return [f"component {h + 1}" for h in range(model.n_components_)]


def score_table(model: Any, part: Table, *, std: bool = True) -> Table:
    """Scores of the rows of a table, each followed by its standard deviation."""
    T, spread = model.transform(part, return_std=True)
    names = component_names(model)
    ids = part.ids
    if not std:
        return Table(T, names, ids, part.id_name)
    both = np.stack([T, spread], axis=2).reshape(len(T), -1)
    return Table(
        both, [text for name in names for text in (name, f"{name} std")], ids, part.id_name
    )


def loadings_table(model: Any) -> Table:
    """A row for each feature: its loading on every component, with standard deviation."""
    W, spread = to_numpy(model.components_).T, to_numpy(model.components_std_).T
    both = np.stack([W, spread], axis=2).reshape(len(W), -1)
    names = [text for name in component_names(model) for text in (name, f"{name} std")]
    return Table(both, names, feature_names(model), "feature")


def _write_report(
    path: Path,
    given: Input,
    model: BayesianPCA,
    labels: np.ndarray | None,
    label: str | None,
    start: float,
) -> None:
    from bayespca.report import page

    scores, std, ids, chosen = _drawn(given, model)
    details = {"file": given.file.path.name}
    if given.aside:
        details["columns set aside"] = ", ".join(f"{k} ({why})" for k, why in given.aside.items())
    details["seed"] = str(model.random_state)
    details["command"] = "bayespca " + " ".join(sys.argv[1:])
    details["time"] = f"{time.perf_counter() - start:.1f} s"
    page.write(
        path,
        model,
        scores=scores,
        scores_std=std,
        sample_names=ids,
        labels=None if labels is None else labels[chosen],
        labels_name=label,
        ranks=_rank_rules(given, model),
        title=given.file.path.name,
        source=given.file.path.name,
        details=details,
    )


def _drawn(given: Input, model: BayesianPCA) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray]:
    """Scores of the rows that a report draws: all, or every so many."""
    n = model.n_samples_
    step = -(-n // DRAWN)
    scores, std, ids, first = [], [], [], 0
    for part in given.parts("scores for the report"):
        rows = slice(-first % step, None, step)
        some = Table(part.values[rows], part.names)
        T, spread = model.transform(some, return_std=True) if some.shape[0] else _none(model)
        scores.append(T)
        std.append(spread)
        ids += _row_names(part, first)[rows]
        first += part.shape[0]
    return np.concatenate(scores), np.concatenate(std), ids, np.arange(0, n, step)


def _none(model: BayesianPCA) -> tuple[np.ndarray, np.ndarray]:
    empty = np.empty((0, model.n_components_))
    return empty, empty


def _row_names(part: Table, first: int) -> list[str]:
    return part.ids or [f"row {first + i + 1}" for i in range(part.shape[0])]


def _rank_rules(given: Input, model: BayesianPCA) -> RankReport | None:
    """Other rules than the model's; they need complete data, and all singular values."""
    if model.spectrum_.is_complete:
        return rank_rules(model.spectrum_)
    if model.engine_ == "holes" or min(model.n_samples_, model.n_features_in_) > RULES_UP_TO:
        return None
    rules = partial(rank_report, center=model.center, scale=model.scale)
    return given.apply("other rank rules", rules)


# --- what is shown -----------------------------------------------------------------------------


def show(
    model: Any, given: Input, written: dict[str, str], *, seconds: float, as_json: bool
) -> None:
    """A fitted model on the screen, or as JSON."""
    summary = summarize(model)
    if as_json:
        screen.print_json(
            {"file": str(given.file.path), "version": __version__}
            | summary.as_dict()
            | source_facts(given)
            | {
                "singular_values": to_numpy(model.singular_values_),
                "shrunk_singular_values": to_numpy(model.shrunk_singular_values_),
                "explained_variance_ratio": to_numpy(model.explained_variance_ratio_),
                "written": written,
                "seconds": round(seconds, 3),
                "memory_mb": peak_memory(),
            }
        )
        return
    components = described_components(model)
    screen.print_summary(summary, given.file.path.name, components, source_notes(given))
    memory = peak_memory()
    facts = f"{seconds:.2f} s" + ("" if memory is None else f", {memory:.0f} MB")
    screen.print_footer(written, f"{facts}, engine {model.engine_}, bayespca {__version__}")


def described_components(model: Any) -> list[dict[str, Any]]:
    """The first components, with the features that they are made of."""
    W, names = to_numpy(model.components_), feature_names(model)
    described = []
    for h in range(min(model.n_components_, LISTED)):
        top = np.argsort(-np.abs(W[h]))[:NAMED]
        described.append(
            {
                "component": h + 1,
                "singular_value": float(model.singular_values_[h]),
                "shrunk": float(model.shrunk_singular_values_[h]),
                "explained": float(model.explained_variance_ratio_[h]),
                "mostly": [(names[j], float(W[h, j])) for j in top],
            }
        )
    return described


def source_facts(given: Input) -> dict[str, Any]:
    return {
        "id_column": given.id_column,
        "columns_set_aside": given.aside,
        "streamed": given.is_streamed,
    }


def source_notes(given: Input) -> list[str]:
    """What was found out about a file and may not be what its owner thinks."""
    return list(_source_notes(given))


def _source_notes(given: Input) -> Iterator[str]:
    if given.id_column is not None:
        name = f" {given.id_column!r}" if given.id_column else ""
        yield f"The first column{name} was taken for the names of the rows."
    told = [(k, why) for k, why in given.aside.items() if why not in ("dropped", "row label")]
    if told:
        some = ", ".join(f"{name!r} ({why})" for name, why in told[:6])
        more = f" and {len(told) - 6} more" if len(told) > 6 else ""
        yield f"Set aside, not analysed: {some}{more}."
    if given.is_streamed:
        yield given.how_read


def peak_memory() -> float | None:
    """The most memory that this process has had, in MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / 2**20 if sys.platform == "darwin" else peak / 2**10)
