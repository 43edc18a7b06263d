"""The options that several commands share, in groups; `grouped` gives a command a whole group."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from .panels import MODEL, READING, option, output
from .standard import to_read, to_write
from .values import (
    Engine,
    Noise,
    PCAMethod,
    as_number,
    checked_clusters,
    components,
    one_character,
    positive_or,
    whole_number_or,
)
from .wording import OPTIONS

if TYPE_CHECKING:
    from bayespca.estimators.pca import BayesianPCA
    from bayespca.io.records import How

    from .inputs import Input


# --- arguments and single options --------------------------------------------------------------

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        callback=to_read(),
        help="A table: rows are samples, columns are features. - is standard input.",
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", callback=to_read(".bpca"), help="A model file, written by fit."
    ),
]
ModelOrData = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", callback=to_read(), help="A model file; or DATA, with --model."
    ),
]
DataAfterModel = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        callback=to_read(),
        help="A table with the columns that the model was fitted on.",
    ),
]
Saved = Annotated[
    Path | None,
    option(
        "--model",
        panel=MODEL,
        callback=to_read(".bpca"),
        help="A saved model to use, instead of a new fit.",
    ),
]
Save = Annotated[
    Path | None,
    output(
        "--save", callback=to_write(".bpca"), help="The model, for --model, transform and Python."
    ),
]
Json = Annotated[bool, output("--json", help="Print one JSON object and nothing else.")]
_OUT = output(
    "--out",
    "-o",
    callback=to_write(),
    help="Where to write; the ending names the format; - prints CSV.",
)
Out = Annotated[Path | None, _OUT]
NeededOut = Annotated[Path, _OUT]
Stream = Annotated[
    bool | None,
    option(
        "--stream/--in-memory",
        panel=READING,
        help="Read in blocks, or all at once; by default the size decides.",
    ),
]
Stability = Annotated[
    bool | None,
    output(
        "--stability/--no-stability",
        help="Say how often the number and each component come back in halves of the rows; by "
        "default if that takes no longer than the fit.",
    ),
]
Lookalikes = Annotated[
    int,
    output(
        "--lookalikes",
        min=0,
        metavar="N",
        help="Draw N tables like DATA, such as 50, and say how often each rule finds their number "
        "of components. Each takes as long as a fit.",
    ),
]
Delimiter = Annotated[
    str | None,
    option(
        panel=READING,
        callback=one_character,
        help="What separates columns: one character, or tab.",
    ),
]
Decimal = Annotated[
    str | None,
    option(panel=READING, callback=one_character, help="The decimal sign of numbers."),
]
Header = Annotated[
    bool | None,
    option("--header/--no-header", panel=READING, help="Whether line 1 names the columns."),
]


# --- groups ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Options for reading the data, if the format is not recognised."""

    delimiter: Delimiter = None
    decimal: Decimal = None
    units: Annotated[
        bool,
        option("--units", panel=READING, help="Read 1,234.5, 12 % and $3.20 as numbers."),
    ] = False
    header: Header = None
    id_column: Annotated[
        str | None,
        option(
            "--id-column",
            "--id",
            panel=READING,
            help="The column that names the rows; '' for none.",
        ),
    ] = None
    na: Annotated[
        list[str] | None,
        option(
            panel=READING,
            help="Another text for a missing value, besides NA and the like; may be repeated.",
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        option(panel=READING, help="A column to skip, by name or as #3; may be repeated."),
    ] = None
    array: Annotated[
        str | None,
        option(panel=READING, help="Which array (.npz), layer (.h5ad) or sheet (.xlsx)."),
    ] = None
    transpose: Annotated[
        bool,
        option(
            "--transpose",
            panel=READING,
            help="Rows are features, columns are samples: genes × samples.",
        ),
    ] = False

    def how(self) -> How:
        from bayespca.io.records import How

        return How(
            delimiter=self.delimiter,
            decimal=self.decimal,
            header=self.header,
            id_column=self.id_column,
            missing=tuple(self.na) if self.na else None,
            drop=tuple(self.drop or ()),
            array=self.array,
            transpose=self.transpose,
            units=self.units,
        )


DaskAddress = Annotated[
    str | None,
    option(
        "--dask",
        metavar="ADDRESS",
        panel=READING,
        help="Fit on a Dask cluster: the address of its scheduler, such as tcp://host:8786.",
    ),
]
DaskWorkers = Annotated[
    int | None,
    option(
        "--workers",
        metavar="N",
        panel=READING,
        min=1,
        help="Fit with N processes on this machine (Dask).",
    ),
]


@dataclass(frozen=True)
class Computing:
    """Options of reading: in this process, all at once or in blocks, or by Dask workers."""

    stream: Stream = None
    dask: DaskAddress = None
    workers: DaskWorkers = None

    def given(self) -> dict[str, bool]:
        """Whether each option is given; --in-memory does not count."""
        return {name: bool(getattr(self, name)) for name in ("stream", "dask", "workers")}

    def opened(self, path: Path, how: How) -> AbstractContextManager[Input]:
        """A context with the input of a command."""
        from .cluster import DaskCluster

        return DaskCluster(self.dask, self.workers).opened(path, how, stream=self.stream)


@dataclass(frozen=True)
class Fitting:
    """Options of the fit: parameters of `BayesianPCA`."""

    method: Annotated[PCAMethod, option(panel=MODEL, help="How to find the rank.")] = PCAMethod.evb
    scale: Annotated[
        bool,
        option(
            "--scale/--no-scale",
            panel=MODEL,
            help="Divide columns by their standard deviations, if their units differ.",
        ),
    ] = False
    center: Annotated[
        bool, option("--center/--no-center", panel=MODEL, help="Remove the column means.")
    ] = True
    n_components: Annotated[
        str,
        option(
            panel=MODEL,
            callback=whole_number_or("auto", "evb", "mle", share=True),
            help="The largest number allowed; auto keeps the most probable number, evb the one "
            "with the lowest free energy. "
            "With --method ml the number itself, a share of the variance such as 0.95, or mle.",
        ),
    ] = "auto"
    noise_variance: Annotated[
        str,
        option(panel=MODEL, callback=positive_or("auto", "0db"), help="A number, auto or 0db."),
    ] = "auto"
    prior_variance: Annotated[
        float | None, option(panel=MODEL, min=0, help="c², for vb, pb and map.")
    ] = None
    noise: Annotated[
        Noise,
        option(panel=MODEL, help="The noise model; auto: the one that the evidence prefers."),
    ] = Noise.auto
    engine: Annotated[Engine, option(panel=MODEL, help="How to compute singular values.")] = (
        Engine.auto
    )
    seed: Annotated[int, option(panel=MODEL, min=0, help="Seed of everything random.")] = 0

    def model_unless(self, saved: Path | None) -> BayesianPCA:
        """The model to fit; with a saved one, raise for options that would change it."""
        if saved is not None:
            for name in (name for name in self.changed() if name != "seed"):
                raise ValueError(
                    f"--{name.replace('_', '-')} is for a new fit, but --model uses {saved} as "
                    "it is: leave one of them out."
                )
        return self.model()

    def changed(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def of_numbers(self, **others: object) -> tuple[str, ...]:
        """Those given options, among these and `others`, that only a PCA of numbers has."""
        named = [name for name in self.changed() if name not in ("seed", "n_components")]
        if self.n_components != "auto" and not self.n_components.isdecimal():
            named.append("n_components")
        named += [name for name, given in others.items() if given]
        return tuple(f"--{name.replace('_', '-')}" for name in named)

    def cap(self) -> Any:
        """The largest rank allowed, or a word such as "auto"."""
        return components(self.n_components)

    def variance(self) -> Any:
        """The noise variance, or a word such as "auto"."""
        return as_number(self.noise_variance, float)

    def model(self) -> BayesianPCA:
        from bayespca.estimators.pca import BayesianPCA

        return BayesianPCA(
            self.method.value,
            n_components=self.cap(),
            noise_variance=self.variance(),
            prior_variance=self.prior_variance,
            center=self.center,
            scale=self.scale,
            noise=self.noise.value,
            engine=self.engine.value,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class ModelKind:
    """Options that make `fit` fit another model than a PCA."""

    clusters: Annotated[
        str | None,
        option(
            metavar="K",
            panel=MODEL,
            callback=checked_clusters,
            help="Find K clusters of rows, each with a PCA of its own; or auto.",
        ),
    ] = None
    binary: Annotated[
        bool,
        option("--binary", panel=MODEL, help="Fit a model of zeros and ones; NaN are holes."),
    ] = False
    binarize: Annotated[
        float | None,
        option(metavar="T", panel=MODEL, help="With --binary: values above T count as 1."),
    ] = None

    curves: Annotated[
        bool,
        option(
            "--curves",
            panel=MODEL,
            help="Fit a curved latent space (GP-LVM), and compare it with a linear PCA.",
        ),
    ] = False

    def given(self) -> list[str]:
        """Names of the options that differ from their defaults."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]

    def n_clusters(self) -> int | str:
        """The number of clusters, or "auto"."""
        assert self.clusters is not None
        return self.clusters if self.clusters == "auto" else int(self.clusters)


def model_and_data(first: Path, second: Path | None, saved: Path | None) -> tuple[Path, Path]:
    """Paths of the model and the data, given as MODEL DATA or as DATA with --model."""
    if saved is None and second is None:
        raise ValueError(
            f"there is only {first}: give a model and data, as in bayespca transform m.bpca a.csv."
        )
    if saved is not None and second is not None:
        raise ValueError(f"--model {saved} and {first} both name a model: leave one of them out.")
    return (first, second) if second is not None else (saved or first, first)


def halves(stability: bool | None) -> dict[str, Any]:
    """The option of `rank_report` for the number of half samples."""
    from bayespca.estimators._halves import HALVES

    return {"n_halves": "auto" if stability is None else HALVES * stability}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: a parameter whose type is a group becomes one option for each field."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters |= _fields(groups[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = parameter.replace(kind=kind, annotation=hints[name])

    @functools.wraps(command)
    def with_groups(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        command(**options)

    OPTIONS.update(parameters)
    with_groups.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    with_groups.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return with_groups


def _fields(group: Any) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    }
