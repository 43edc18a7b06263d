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

from .help import model_option, output, reading_option
from .messages import OPTIONS, option_name, reporting_failures
from .standard import to_read, to_write
from .values import (
    Engine,
    Noise,
    PCAMethod,
    as_number,
    checked_clusters,
    checked_likelihood,
    checked_orders,
    components,
    one_character,
    positive_or,
    whole_number_or,
)

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
    model_option(
        "--model", callback=to_read(".bpca"), help="A saved model to use, instead of a new fit."
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
    reading_option(
        "--stream/--in-memory", help="Read in blocks, or all at once; by default the size decides."
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
    reading_option(callback=one_character, help="What separates columns: one character, or tab."),
]
Decimal = Annotated[
    str | None, reading_option(callback=one_character, help="The decimal sign of numbers.")
]
Header = Annotated[
    bool | None, reading_option("--header/--no-header", help="Whether line 1 names the columns.")
]


# --- groups ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """Options for reading the data, if the format is not recognised."""

    delimiter: Delimiter = None
    decimal: Decimal = None
    units: Annotated[
        bool, reading_option("--units", help="Read 1,234.5, 12 % and $3.20 as numbers.")
    ] = False
    header: Header = None
    id_column: Annotated[
        str | None,
        reading_option("--id-column", "--id", help="The column that names the rows; '' for none."),
    ] = None
    na: Annotated[
        list[str] | None,
        reading_option(
            help="Another text for a missing value, besides NA and the like; may be repeated."
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        reading_option(help="A column to skip, by name or as #3; may be repeated."),
    ] = None
    array: Annotated[
        str | None, reading_option(help="Which array (.npz), layer (.h5ad) or sheet (.xlsx).")
    ] = None
    transpose: Annotated[
        bool,
        reading_option(
            "--transpose", help="Rows are features, columns are samples: genes × samples."
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
    reading_option(
        "--dask",
        metavar="ADDRESS",
        help="Fit on a Dask cluster: the address of its scheduler, such as tcp://host:8786.",
    ),
]
DaskWorkers = Annotated[
    int | None,
    reading_option(
        "--workers", metavar="N", min=1, help="Fit with N processes on this machine (Dask)."
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
        from .inputs import DaskCluster

        return DaskCluster(self.dask, self.workers).opened(path, how, stream=self.stream)


@dataclass(frozen=True)
class Fitting:
    """Options of the fit: parameters of `BayesianPCA`."""

    method: Annotated[PCAMethod, model_option(help="How to find the rank.")] = "evb"
    scale: Annotated[
        bool,
        model_option(
            "--scale/--no-scale",
            help="Divide columns by their standard deviations, if their units differ.",
        ),
    ] = False
    center: Annotated[
        bool, model_option("--center/--no-center", help="Remove the column means.")
    ] = True
    n_components: Annotated[
        str,
        model_option(
            callback=whole_number_or("auto", "evb", "mle", share=True),
            help="The largest number allowed; auto keeps the most probable number, evb the one "
            "with the lowest free energy. "
            "With --method ml the number itself, a share of the variance such as 0.95, or mle.",
        ),
    ] = "auto"
    noise_variance: Annotated[
        str, model_option(callback=positive_or("auto", "0db"), help="A number, auto or 0db.")
    ] = "auto"
    prior_variance: Annotated[float | None, model_option(min=0, help="c², for vb, pb and map.")] = (
        None
    )
    noise: Annotated[
        Noise, model_option(help="The noise model; auto: the one that the evidence prefers.")
    ] = "auto"
    engine: Annotated[Engine, model_option(help="How to compute singular values.")] = "auto"
    seed: Annotated[int, model_option(min=0, help="Seed of everything random.")] = 0

    def model_unless(self, saved: Path | None) -> BayesianPCA:
        """The model to fit; with a saved one, raise for options that would change it."""
        if saved is not None:
            for name in (name for name in changed(self) if name != "seed"):
                raise ValueError(
                    f"{option_name(name)} is for a new fit, but --model uses {saved} as it is: "
                    "leave one of them out."
                )
        return self.model()

    def of_numbers(self, **others: object) -> tuple[str, ...]:
        """Those given options, among these and `others`, that only a PCA of numbers has."""
        named = [name for name in changed(self) if name not in ("seed", "n_components")]
        if self.n_components != "auto" and not self.n_components.isdecimal():
            named.append("n_components")
        named += [name for name, given in others.items() if given]
        return tuple(map(option_name, named))

    def cap(self) -> Any:
        """The largest rank allowed, or a word such as "auto"."""
        return components(self.n_components)

    def variance(self) -> Any:
        """The noise variance, or a word such as "auto"."""
        return as_number(self.noise_variance, float)

    def model(self) -> BayesianPCA:
        from bayespca.estimators.pca import BayesianPCA

        return BayesianPCA(
            self.method,
            n_components=self.cap(),
            noise_variance=self.variance(),
            prior_variance=self.prior_variance,
            center=self.center,
            scale=self.scale,
            noise=self.noise,
            engine=self.engine,
            random_state=self.seed,
        )


@dataclass(frozen=True)
class ModelKind:
    """Options that make `fit` fit another model than a PCA."""

    clusters: Annotated[
        str | None,
        model_option(
            metavar="K",
            callback=checked_clusters,
            help="Find K clusters of rows, each with a PCA of its own; or auto.",
        ),
    ] = None
    binary: Annotated[
        bool, model_option("--binary", help="Fit a model of zeros and ones; NaN are holes.")
    ] = False
    binarize: Annotated[
        float | None, model_option(metavar="T", help="With --binary: values above T count as 1.")
    ] = None

    curves: Annotated[
        bool,
        model_option(
            "--curves", help="Fit a curved latent space (GP-LVM), and compare it with a linear PCA."
        ),
    ] = False

    def n_clusters(self) -> int | str:
        """The number of clusters, or "auto"."""
        assert self.clusters is not None
        return self.clusters if self.clusters == "auto" else int(self.clusters)


@dataclass(frozen=True)
class ColumnKinds:
    """Options for the kinds of columns; by default they are guessed from the table."""

    likelihood: Annotated[
        str | None,
        model_option(
            metavar="KINDS",
            callback=checked_likelihood,
            help="The kind of columns: auto, one of normal, bernoulli, categorical, ordinal, "
            "poisson, negative-binomial, or by column: stage=ordinal,visits=poisson. By default, "
            "auto for tables with columns of text or of true and false, and normal for tables of "
            "numbers.",
        ),
    ] = None
    order: Annotated[
        list[str] | None,
        model_option(
            metavar="COLUMN=LEVELS",
            callback=checked_orders,
            help="Levels of a column of text, lowest first: pain=low,medium,high; may be repeated.",
        ),
    ] = None
    row_sizes: Annotated[
        bool,
        model_option(
            "--row-sizes",
            help="Counts are relative to the sum of their row: library sizes of cells.",
        ),
    ] = False
    numbers_only: Annotated[
        bool,
        model_option("--numbers-only", help="Analyse only columns of numbers; skip those of text."),
    ] = False

    def check(self) -> None:
        if self.numbers_only and self.named():
            raise ValueError(
                f"--numbers-only contradicts {self.named()[0]}: leave one of them out."
            )

    def refuse(self, what: str) -> None:
        """Raise if any of these options is given; `what` names the model that has none of them."""
        for name in [*self.named(), *(["--numbers-only"] * self.numbers_only)]:
            raise ValueError(f"{name} does not apply to {what}: leave it out.")

    def named(self) -> list[str]:
        asked = (f.name for f in fields(self) if f.name != "numbers_only")
        return [option_name(name) for name in asked if getattr(self, name)]

    def for_all(self) -> str | None:
        """The likelihood of all columns, if there is a single one."""
        text = self.likelihood
        return text if text not in (None, "auto") and "=" not in text else None

    def by_column(self) -> dict[str, str]:
        text = self.likelihood or ""
        pairs = (part.rpartition("=") for part in text.split(",") if "=" in part)
        return {name.strip(): kind.strip() for name, _, kind in pairs}

    def orders(self) -> dict[str, list[str]]:
        pairs = (text.partition("=") for text in self.order or ())
        return {name: [level.strip() for level in levels.split(",")] for name, _, levels in pairs}


def changed(group: Any) -> list[str]:
    """Names of those options of a group that differ from their defaults."""
    return [f.name for f in fields(group) if getattr(group, f.name) != f.default]


def model_and_data(first: Path, second: Path | None, saved: Path | None) -> tuple[Path, Path]:
    """Paths of the model and the data, given as MODEL DATA or as DATA with --model."""
    if saved is None and second is None:
        raise ValueError(
            f"there is only {first}: give a model and data, as in bayespca transform m.bpca a.csv."
        )
    if saved is not None and second is not None:
        raise ValueError(f"--model {saved} and {first} both name a model: leave one of them out.")
    return (first, second) if second is not None else (saved or first, first)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: a parameter whose type is a group becomes one option for each field.

    A failure of the command is reported in one sentence.
    """
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: dict[str, inspect.Parameter] = {}
    kind = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            inner = get_type_hints(groups[name], include_extras=True)
            for field in fields(groups[name]):
                parameters[field.name] = inspect.Parameter(
                    field.name, kind, default=field.default, annotation=inner[field.name]
                )
        else:
            parameters[name] = parameter.replace(kind=kind, annotation=hints[name])

    @functools.wraps(command)
    def with_groups(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        with reporting_failures(as_json=options.get("json", False)):
            command(**options)

    OPTIONS.update(parameters)
    with_groups.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    with_groups.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return with_groups
