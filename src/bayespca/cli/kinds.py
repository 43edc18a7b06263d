"""`bayespca fit` of models other than a plain PCA: tensors, clusters, zeros and ones, curves."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.estimators.findings import findings_of
from bayespca.io.array_files import is_tensor_file, read_tensor
from bayespca.io.records import How, Table
from bayespca.io.tables import write_table
from bayespca.version import __version__

from . import screen, using
from .inputs import labels_of, open_input
from .mixed import MixedInput
from .options import Computing, Fitting, ModelKind
from .outputs import FitOutputs
from .progress import progress, sweeps
from .tables import cell_loadings, table_of_scores
from .wording import renamed

# Initial number of clusters of zeros and ones; those that the data do not support disappear.
MOST_CLUSTERS = 10
# Options of `fit` for the parameters of mixtures.
CLUSTERS = {"n_components": "clusters", "ranks": "n_components"}


@dataclass(frozen=True)
class AskedModel:
    """A model to fit, `what` it is called in messages, and the options of `fit` that it takes.

    `names` maps parameters in Python to options of the command if their names differ.
    """

    model: Any
    what: str
    takes: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def check(self, fitting: Fitting, outputs: FitOutputs, where: Computing) -> None:
        """Raise for options that do not apply to such a model."""
        unused = [name for name in fitting.changed() if name not in (*self.takes, "seed")]
        unused += ["loadings"] * (outputs.loadings is not None)
        unused += [name for name, given in outputs.drawn().items() if given]
        unused += [name for name in ("dask", "workers", "stream") if getattr(where, name)]
        for name in unused:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} does not apply to {self.what}: leave it out.")


def asked(data: Path, how: How, fitting: Fitting, kind: ModelKind) -> AskedModel | None:
    """The model that the options or the file require; None for a PCA."""
    if kind.binarize is not None and not kind.binary:
        raise ValueError("--binarize needs --binary: give both.")
    kinds = {"--binary": kind.binary, "--clusters": kind.clusters is not None}
    others = [option for option, given in kinds.items() if given]
    if kind.curves and others:
        raise ValueError(f"--curves and {others[0]} are different models: leave one of them out.")
    others += ["--curves"] * kind.curves
    is_tensor = is_tensor_file(data, how)
    if is_tensor and others:
        raise ValueError(
            f"{data} holds a tensor, to which {others[0]} does not apply: leave it out."
        )
    if is_tensor:
        return _tucker(fitting)
    if kind.curves:
        return _curves(fitting)
    if kind.clusters is not None:
        return _kinds_of_rows(fitting, kind) if kind.binary else _mixture(fitting, kind)
    return _binary(fitting, kind) if kind.binary else None


def _tucker(fitting: Fitting) -> AskedModel:
    from bayespca.estimators.tucker import BayesianTucker

    method: Any = fitting.method.value
    noise: Any = fitting.noise.value
    variance = fitting.variance()
    model = BayesianTucker(method, noise=noise, noise_variance=variance, random_state=fitting.seed)
    return AskedModel(model, "a tensor", ("method", "noise", "noise_variance"))


def _mixture(fitting: Fitting, kind: ModelKind) -> AskedModel:
    from bayespca.estimators.mixture import PCAMixture

    noise: Any = "isotropic" if fitting.noise.value == "auto" else fitting.noise.value
    clusters: Any = kind.n_clusters()
    ranks: Any = fitting.cap()
    model = PCAMixture(clusters, ranks=ranks, noise=noise, random_state=fitting.seed)
    return AskedModel(model, "clusters", ("n_components", "noise"), CLUSTERS)


def _kinds_of_rows(fitting: Fitting, kind: ModelKind) -> AskedModel:
    from bayespca.estimators.bernoulli import BernoulliMixture

    clusters = kind.n_clusters()
    most = MOST_CLUSTERS if isinstance(clusters, str) else clusters
    model = BernoulliMixture(most, binarize=kind.binarize, random_state=fitting.seed)
    return AskedModel(model, "clusters of zeros and ones", (), CLUSTERS)


def _binary(fitting: Fitting, kind: ModelKind) -> AskedModel:
    from bayespca.estimators.binary_pca import BinaryPCA

    cap: Any = fitting.cap()
    model = BinaryPCA(cap, binarize=kind.binarize, random_state=fitting.seed)
    return AskedModel(model, "zeros and ones", ("n_components",))


def _curves(fitting: Fitting) -> AskedModel:
    from bayespca.estimators.gplvm import GPLVM

    noise: Any = "isotropic" if fitting.noise.value == "auto" else fitting.noise.value
    cap: Any = fitting.cap()
    model = GPLVM(cap, noise=noise, center=fitting.center, random_state=fitting.seed)
    return AskedModel(model, "curves", ("n_components", "noise", "center"))


# --- fitting -----------------------------------------------------------------------------------


def fit(data: Path, how: How, wanted: AskedModel, outputs: FitOutputs, *, as_json: bool) -> None:
    """Fit the model, write output files, and report the result."""
    start = time.perf_counter()
    outputs.check(data)
    try:
        found = _fitted(data, how, wanted.model, outputs)
    except ValueError as error:
        raise ValueError(renamed(str(error), wanted.names)) from error
    _tell(found, outputs, start, as_json=as_json)


def fit_mixed(
    given: MixedInput, model: Any, outputs: FitOutputs, start: float, *, as_json: bool
) -> None:
    """Fit a table with columns of all kinds; the command began at `start`."""
    assert given.table is not None
    samples = _samples(given.table, outputs)
    given.fit(model.fit, model.tol)
    about = (given.file.path, samples, given.facts, given.notes_on(model))
    _tell(FoundKind(model, given.table, *about, read=given.frame), outputs, start, as_json=as_json)


def _tell(found: FoundKind, outputs: FitOutputs, start: float, *, as_json: bool) -> None:
    """Write output files, and report the result."""
    data, written = found.source, _write(found, outputs)
    seconds = time.perf_counter() - start
    account = findings_of(found.model)
    if as_json:
        about = {"file": str(data), "version": __version__} | account.numbers | found.facts
        about["notes"] = [*account.numbers["notes"], *found.notes]
        ended = {"written": written, "seconds": round(seconds, 3)}
        screen.print_json(about | ended | {"memory_mb": screen.peak_memory()})
        return
    screen.print_findings(account, data.name, found.notes)
    screen.print_footer(written, f"{screen.took(seconds)}, bayespca {__version__}")


@dataclass(frozen=True, eq=False)
class FoundKind:
    """A fitted model with its data, and facts and notes about them.

    `read` is the input of the model if that is not the table itself.
    """

    model: Any
    data: Any
    source: Path
    samples: dict[str, Any]
    facts: dict[str, Any]
    notes: list[str]
    read: Any = None

    def scores(self) -> Table:
        """Scores from `transform`; for curves, those that the fit has already computed."""
        if "scores" in self.samples:
            return table_of_scores(self.samples["scores"], self.samples["scores_std"], self.data)
        if using.uses_of(self.model).tensors:
            T = np.asarray(self.model.transform(self.data))
            return Table(T, [f"component {h + 1}" for h in range(T.shape[1])])
        transformed = using.uses_of(self.model).transform
        assert transformed is not None
        return transformed(self.model, self.data, std=True)


def _fitted(data: Path, how: How, model: Any, outputs: FitOutputs) -> FoundKind:
    if using.uses_of(model).tensors:
        return _fit_tensor(data, how, model)
    return _fit_table(data, how, model, outputs)


def _fit_tensor(data: Path, how: How, model: Any) -> FoundKind:
    with progress(f"reading {data.name}"):
        T = read_tensor(data, how)
    with sweeps("fitting", model.tol) as callback:
        model.fit(T, callback=callback)
    return FoundKind(model, T, data, {}, {}, [])


def _fit_table(data: Path, how: How, model: Any, outputs: FitOutputs) -> FoundKind:
    given = open_input(data, how, stream=False)
    assert given.table is not None
    samples = _samples(given.table, outputs)
    if hasattr(model, "binarize"):
        _check_bits(model, given.table)
    given.fit(model.fit, model.tol)
    samples |= _known_points(model)
    return FoundKind(model, given.table, data, samples, given.facts, given.notes)


def _samples(table: Table, outputs: FitOutputs) -> dict[str, Any]:
    """Names of the samples, and the labels that colour them."""
    if outputs.label is None:
        return {"sample_names": table.ids}
    labels = labels_of(table, outputs.label)
    return {"sample_names": table.ids, "labels": labels, "labels_name": outputs.label}


def _known_points(model: Any) -> dict[str, Any]:
    """Latent points from the fit, which would take longer to compute again."""
    if not hasattr(model, "embedding_"):
        return {}
    return {"scores": model.embedding_, "scores_std": model.embedding_std_}


def _check_bits(model: Any, table: Table) -> None:
    """Raise for values other than 0 and 1; limit the number of clusters to that of rows."""
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    wrong = np.argwhere(~_is_bit(values))
    if model.binarize is None and wrong.size:
        i, j = wrong[0].tolist()
        name = repr(table.names[j]) if table.names else str(j)
        raise ValueError(
            f"--binary needs zeros, ones and holes, but column {name} holds {values[i, j]:g} in "
            f"row {i + 1}: recode it, or give --binarize T to count values above T as 1."
        )
    if type(model).__name__ == "BernoulliMixture":
        model.n_components = min(model.n_components, len(values))


def _is_bit(values: np.ndarray) -> np.ndarray:
    return np.asarray((values == 0) | (values == 1) | np.isnan(values))


def _write(found: FoundKind, outputs: FitOutputs) -> dict[str, str]:
    written = {}
    if outputs.model is not None:
        found.model.save(outputs.model)
        written["model"] = str(outputs.model)
    if outputs.scores is not None:
        write_table(outputs.scores, found.scores())
        written["scores"] = str(outputs.scores)
    if outputs.loadings is not None:
        write_table(outputs.loadings, cell_loadings(found.model))
        written["loadings"] = str(outputs.loadings)
    if outputs.report is not None:
        from bayespca.report import page

        name = found.source.name
        command = {"command": "bayespca " + " ".join(sys.argv[1:])}
        about = {"title": name, "source": name, "details": command}
        shown = found.data if found.read is None else found.read
        page.write(outputs.report, found.model, shown, **about, **found.samples)
        written["report"] = str(outputs.report)
    return written
