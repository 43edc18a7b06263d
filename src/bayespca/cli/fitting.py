"""`bayespca fit` and `rank`: fit a file, show the result, write the output files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import is_sparse, to_numpy
from bayespca.estimators._halves import RankStability
from bayespca.estimators._lookalikes import Lookalikes
from bayespca.estimators.pca import BayesianPCA
from bayespca.estimators.ranks import RankReport
from bayespca.estimators.rules import lookalikes_of, rank_report, rank_rules
from bayespca.estimators.stability import is_halved_unasked, stability_of
from bayespca.estimators.summary import summarize
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.lowrank.noise_models import ISOTROPIC
from bayespca.version import __version__

from . import screen
from .inputs import Input, labels_of, open_input
from .mixed import Choice
from .options import Computing
from .outputs import FitOutputs
from .tables import described_components, loadings_table, score_table
from .wording import on_the_command_line

# Most points of the scores that a report draws.
DRAWN = 10_000
# Data are read in this process; their size decides how.
HERE = Computing()
# If the short side is longer, other rank rules would take longer than the fit.
RULES_UP_TO = 5000


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
    with where.opened(data, how if choice is None else choice.how(how)) as given:
        choice = None if choice is None else replace(choice, label=outputs.label)
        mixed = None if choice is None else choice.read(given, how)
        if choice is not None and mixed is not None and fit_mixed is not None:
            fit_mixed(mixed, choice.model(mixed), outputs, start, as_json=as_json)
            return
        labels = None if outputs.label is None else _labels(given, outputs.label)
        given.fit(model.fit, model.tol)
        hints = [] if choice is None else choice.hints(given)
        back = _stability(given, model, outputs.stability)
        found = Found(model, back, _lookalikes(given, model, outputs.lookalikes), hints)
        written = _write_outputs(given, found, outputs, labels, start)
    if as_json:
        _print_json(found, given, written, seconds=time.perf_counter() - start)
    else:
        verbose = outputs.verbose
        _show(found, given, written, seconds=time.perf_counter() - start, verbose=verbose)


def rank(data: Path, how: How, options: dict[str, Any], *, as_json: bool = False) -> None:
    """Show the ranks by all rules side by side."""
    given = open_input(data, how)
    ranks = given.apply("decomposing", partial(rank_report, **options))
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
    if given.table is None:
        raise ValueError(
            "--stability needs the data in memory: use --in-memory, and neither --dask nor "
            "--workers."
        )
    seeded = partial(stability_of, model, random_state=model.random_state)
    return given.apply("half samples", seeded)


def _lookalikes(given: Input, model: BayesianPCA, n_tables: int) -> Lookalikes | None:
    """Tables drawn like the data, if requested."""
    if not n_tables:
        return None
    if given.table is None:
        raise ValueError(
            "--lookalikes needs the data in memory: use --in-memory, and neither --dask nor "
            "--workers."
        )
    seeded = partial(lookalikes_of, model, n_tables=n_tables, random_state=model.random_state)
    return given.apply("look-alikes", seeded)


def _labels(given: Input, label: str) -> np.ndarray:
    if given.table is None:
        raise ValueError(
            "--label needs the data in memory: use --in-memory, and neither --dask nor --workers."
        )
    return labels_of(given.table, label)


# --- what is written ---------------------------------------------------------------------------


def _write_outputs(
    given: Input,
    found: Found,
    outputs: FitOutputs,
    labels: np.ndarray | None,
    start: float,
) -> dict[str, str]:
    """Write the output files, and return their names by kind."""
    written, model = {}, found.model
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
        _write_report(outputs, given, found, labels, start)
        written["report"] = str(outputs.report)
    return written


def _write_report(
    outputs: FitOutputs,
    given: Input,
    found: Found,
    labels: np.ndarray | None,
    start: float,
) -> None:
    from bayespca.report import page

    assert outputs.report is not None
    model = found.model
    scores, std, ids, chosen = _drawn(given, model)
    page.write(
        outputs.report,
        model,
        scores=scores,
        scores_std=std,
        sample_names=ids,
        labels=None if labels is None else labels[chosen],
        labels_name=outputs.label,
        ranks=_rank_rules(given, model),
        stability=found.stability,
        lookalikes=found.lookalikes,
        title=given.file.path.name,
        source=given.file.path.name,
        details=_about(given, model, seconds=time.perf_counter() - start),
    )


def _about(given: Input, model: BayesianPCA, *, seconds: float) -> dict[str, str]:
    """Lines for the report on how it was made."""
    details = {"file": given.file.path.name}
    if given.aside:
        details["columns skipped"] = ", ".join(f"{k} ({why})" for k, why in given.aside.items())
    details["seed"] = str(model.random_state)
    details["command"] = "bayespca " + " ".join(sys.argv[1:])
    details["time"] = f"{seconds:.1f} s"
    return details


def _drawn(given: Input, model: BayesianPCA) -> tuple[np.ndarray, np.ndarray, Any, np.ndarray]:
    """Scores, standard deviations, names and indices of the rows that a report draws.

    These are all rows, or every few rows of large data.
    """
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


# --- what is shown -----------------------------------------------------------------------------


def _print_json(found: Found, given: Input, written: dict[str, str], *, seconds: float) -> None:
    model, numbers = found.model, summarize(found.model).as_dict()
    stability, lookalikes = found.stability, found.lookalikes
    screen.print_json(
        {"file": str(given.file.path), "version": __version__}
        | numbers
        | given.facts
        | {
            "notes": [*numbers["notes"], *_other_kinds(model), *found.hints],
            "singular_values": to_numpy(model.singular_values_),
            "shrunk_singular_values": to_numpy(model.shrunk_singular_values_),
            "explained_variance_ratio": to_numpy(model.explained_variance_ratio_),
            "stability": None if stability is None else stability.as_dict(),
            "lookalikes": None if lookalikes is None else lookalikes.as_dict(),
            "written": written,
            "seconds": round(seconds, 3),
            "memory_mb": screen.peak_memory(),
        }
    )


def _show(
    found: Found, given: Input, written: dict[str, str], *, seconds: float, verbose: bool
) -> None:
    model, title = found.model, given.file.path.name
    notes = [*_other_kinds(model), *found.hints, *given.notes]
    summary, components = summarize(model), found.components()
    drawn = (found.stability, found.lookalikes)
    screen.print_summary(summary, title, components, notes, *drawn, verbose=verbose)
    facts = f"{screen.took(seconds)}, engine {model.engine_}, bayespca {__version__}"
    screen.print_footer(written, facts if verbose else screen.took(seconds))


def _other_kinds(model: BayesianPCA) -> list[str]:
    """A sentence on options for zeros and ones, which a PCA is not meant for."""
    if "zero-one" not in model.status_:
        return []
    return ["--binary fits BinaryPCA to it, and --binary --clusters auto finds clusters of rows."]
