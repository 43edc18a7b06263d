"""`bayespca fit` of models other than a plain PCA, and of annotated data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayespca.arrays.namespaces import to_numpy
from bayespca.estimators.findings import findings_of
from bayespca.estimators.wording import kept
from bayespca.io.array_files import is_tensor_file
from bayespca.io.packages import need
from bayespca.io.records import How, Table, first_line
from bayespca.io.tables import write_table
from bayespca.io.writing import replacing_path

from . import models, screen
from .inputs import labelled, open_input, open_tensor
from .messages import option_name, renamed
from .mixed import MixedInput
from .options import ColumnKinds, Computing, Fitting, ModelKind, changed
from .outputs import FitOutputs, check_places, write_files, write_report
from .progress import progress, sweeps

# Initial number of clusters of zeros and ones; those that the data do not support disappear.
MOST_CLUSTERS = 10
# Options of `fit` for the parameters of mixtures.
CLUSTERS = {"n_components": "clusters", "ranks": "n_components"}
# Options of a fit that `scverse.pca` also has.
SHARED = ("noise", "n_components", "seed")


@dataclass(frozen=True)
class RequestedModel:
    """A model to fit, `what` it is called in messages, and the options of `fit` that it takes.

    `names` maps parameters in Python to options of the command if their names differ.
    """

    model: Any
    what: str
    takes: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    def check(self, fitting: Fitting, outputs: FitOutputs, where: Computing) -> None:
        unused = [name for name in changed(fitting) if name not in (*self.takes, "seed")]
        unused += ["loadings"] * (outputs.loadings is not None)
        unused += [name for name, given in outputs.drawn().items() if given]
        unused += [name for name in ("dask", "workers", "stream") if getattr(where, name)]
        for name in unused:
            raise ValueError(f"{option_name(name)} does not apply to {self.what}: leave it out.")


def requested(data: Path, how: How, fitting: Fitting, kind: ModelKind) -> RequestedModel | None:
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
    cap, seed, binarize = fitting.cap(), fitting.seed, kind.binarize
    noise: Any = fitting.noise
    one_noise: Any = "isotropic" if noise == "auto" else noise
    if is_tensor:
        from bayespca.estimators.tucker import BayesianTucker

        method: Any = fitting.method
        variance = fitting.variance()
        tucker = BayesianTucker(method, noise=noise, noise_variance=variance, random_state=seed)
        return RequestedModel(tucker, "a tensor", ("method", "noise", "noise_variance"))
    if kind.curves:
        from bayespca.estimators.gplvm import GPLVM

        curves = GPLVM(cap, noise=one_noise, center=fitting.center, random_state=seed)
        return RequestedModel(curves, "curves", ("n_components", "noise", "center"))
    clusters: Any = None if kind.clusters is None else kind.n_clusters()
    if kind.binary and clusters is not None:
        from bayespca.estimators.bernoulli import BernoulliMixture

        most = MOST_CLUSTERS if clusters == "auto" else clusters
        bits = BernoulliMixture(most, binarize=binarize, random_state=seed)
        return RequestedModel(bits, "clusters of zeros and ones", (), CLUSTERS)
    if clusters is not None:
        from bayespca.estimators.mixture import PCAMixture

        mixture = PCAMixture(clusters, ranks=cap, noise=one_noise, random_state=seed)
        return RequestedModel(mixture, "clusters", ("n_components", "noise"), CLUSTERS)
    if kind.binary:
        from bayespca.estimators.binary_pca import BinaryPCA

        binary = BinaryPCA(cap, binarize=binarize, random_state=seed)
        return RequestedModel(binary, "zeros and ones", ("n_components",))
    return None


# --- fits --------------------------------------------------------------------------------------


def fit(
    data: Path, how: How, wanted: RequestedModel, outputs: FitOutputs, *, as_json: bool
) -> None:
    start = time.perf_counter()
    outputs.check(data)
    model = wanted.model
    try:
        if models.uses_of(model).tensors:
            T = open_tensor(data, how)
            with sweeps("fitting", model.tol) as callback:
                model.fit(T, callback=callback)
            found = FittedKind(model, T, data, {}, {}, [])
        else:
            given, samples = labelled(open_input(data, how, stream=False), outputs.labels)
            assert given.table is not None
            samples |= {"sample_names": given.table.ids}
            if hasattr(model, "binarize"):
                _check_bits(model, given.table)
            given.fit(model.fit, model.tol)
            if hasattr(model, "embedding_"):
                # Latent points from the fit, which would take longer to compute again.
                samples |= {"scores": model.embedding_, "scores_std": model.embedding_std_}
            found = FittedKind(model, given.table, data, samples, given.facts, given.notes)
    except ValueError as error:
        raise ValueError(renamed(str(error), wanted.names)) from error
    found.report(outputs, start, as_json=as_json)


def fit_mixed(
    given: MixedInput, model: Any, outputs: FitOutputs, start: float, *, as_json: bool
) -> None:
    """Fit a table with columns of all kinds; the command began at `start`."""
    assert given.table is not None
    samples = {"sample_names": given.table.ids} | labelled(given, outputs.labels)[1]
    given.fit(model.fit, model.tol)
    about = (given.file.path, samples, given.facts, given.notes_on(model))
    found = FittedKind(model, given.table, *about, read=given.frame)
    found.report(outputs, start, as_json=as_json)


@dataclass(frozen=True, eq=False)
class FittedKind:
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
            scores, std = self.samples["scores"], self.samples["scores_std"]
            return models.by_component(scores, std, self.data.ids, self.data.id_name)
        uses = models.uses_of(self.model)
        if uses.tensors:
            return models.slice_scores(self.model, self.data)
        assert uses.transform is not None
        return uses.transform(self.model, self.data, std=True)

    def loadings(self) -> Table:
        """A row for each column of natural parameters: its loading on each component."""
        model = self.model
        names = models.component_names(model.n_components_)
        return Table(to_numpy(model.components_).T, names, model.cell_names_, "feature")

    def report(self, outputs: FitOutputs, start: float, *, as_json: bool) -> None:
        """Write output files, and show the result; the command began at `start`."""
        model, name = self.model, self.source.name
        shown = self.data if self.read is None else self.read
        written = write_files(
            ("model", outputs.model, model.save),
            ("scores", outputs.scores, lambda path: write_table(path, self.scores())),
            ("loadings", outputs.loadings, lambda path: write_table(path, self.loadings())),
            (
                "report",
                outputs.report,
                lambda path: write_report(path, model, shown, name, **self.samples),
            ),
        )
        screen.print_fit(
            {"file": str(self.source)},
            name,
            findings_of(model),
            written,
            self.notes,
            start,
            as_json=as_json,
            facts=self.facts,
        )


def _check_bits(model: Any, table: Table) -> None:
    """Raise for values other than 0 and 1; limit the number of clusters to that of rows."""
    values = table.values if isinstance(table.values, np.ndarray) else table.values.toarray()
    wrong = np.argwhere((values != 0) & (values != 1) & ~np.isnan(values))
    if model.binarize is None and wrong.size:
        i, j = wrong[0].tolist()
        name = repr(table.names[j]) if table.names else str(j)
        raise ValueError(
            f"--binary needs zeros, ones and holes, but column {name} holds {values[i, j]:g} in "
            f"row {i + 1}: recode it, or give --binarize T to count values above T as 1."
        )
    if type(model).__name__ == "BernoulliMixture":
        model.n_components = min(model.n_components, len(values))


# --- annotated data ----------------------------------------------------------------------------


def fit_annotated(
    data: Path,
    how: How,
    fitting: Fitting,
    outputs: FitOutputs,
    columns: ColumnKinds,
    others: Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Write a copy of annotated data with the results of `scverse.pca`."""
    from bayespca.scverse.annotated import pca

    out = outputs.annotated
    assert out is not None
    given = [name for name in changed(fitting) if name not in SHARED]
    given += [name for name in vars(outputs) if name != "annotated" and getattr(outputs, name)]
    given += [name for name in vars(columns) if name != "likelihood" and getattr(columns, name)]
    for name in [*given, *others]:
        raise ValueError(
            f"{option_name(name)} cannot be combined with --out: leave one of them out."
        )
    if how != How(array=how.array):
        raise ValueError(f"{data} is annotated: options on how to read a table do not apply to it.")
    if columns.likelihood not in (None, "auto") and columns.for_all() is None:
        raise ValueError("Annotated data have one --likelihood for all genes.")
    check_places([("--out", out)], read=[("DATA", data)])
    start = time.perf_counter()
    adata = _read_annotated(data)
    with progress(f"fitting {data.name}"):
        pca(
            adata,
            layer=how.array,
            noise=fitting.noise,
            likelihood=columns.for_all() or "auto",
            n_components=fitting.cap(),
            random_state=fitting.seed,
        )
    with replacing_path(out) as temporary:
        adata.write_h5ad(temporary)
    about, written = adata.uns["pca"], {"annotated": str(out)}
    likelihood, rank = about["params"]["likelihood"], about["n_components"]
    if as_json:
        screen.print_json(
            {
                "file": str(data),
                "shape": list(adata.shape),
                "rank": rank,
                "how_sure": about.get("how_sure"),
                "likelihood": likelihood,
                "explained_variance_ratio": about["variance_ratio"].tolist(),
                "written": written,
            }
        )
        return
    facts = {
        "components": kept(rank, about["how_sure"]) if "how_sure" in about else str(rank),
        "likelihood": likelihood,
        "written to": "obsm['X_pca'], varm['PCs'], uns['pca'], and standard deviations beside them",
    }
    n, p = adata.shape
    screen.print_facts(data.name, f"{n} cells × {p} genes", facts)
    screen.print_footer(written, screen.took(time.perf_counter() - start))


def _read_annotated(path: Path) -> Any:
    anndata = need("anndata", f"reading {path}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with progress(f"reading {path.name}"):
            return anndata.read_h5ad(path)
    except Exception as error:
        # anndata and h5py raise errors of many types for a damaged file.
        raise ValueError(f"{path} cannot be read as .h5ad: {first_line(error)}") from error
