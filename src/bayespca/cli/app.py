"""The commands and their options. The code behind a command is imported when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bayespca.io.nifti_files import is_nifti
from bayespca.version import __version__

from . import options as o
from .help import Verbs, output, verb
from .messages import SETTING, exit_on_sigterm
from .model_options import (
    Factorizing,
    FeatureFiles,
    Imaging,
    NewRatings,
    ReadingRatings,
    Viewing,
    refuse_for_images,
)
from .outputs import FilledOutputs, FitOutputs, RatingOutputs, ViewOutputs
from .standard import COMPLETING, all_to_read, to_read

app = typer.Typer(
    name="bayespca",
    cls=Verbs,
    help="PCA that finds its own number of components and says how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    exit_on_sigterm()
    match sys.argv[1:]:
        # Typer shows the completion for the current shell, even if another one is named.
        case ["--show-completion", ("bash" | "zsh" | "fish" | "powershell") as shell]:
            os.environ[COMPLETING], sys.argv[1:] = f"source_{shell}", []
    app(prog_name="bayespca")


def command(*examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a verb with these examples, whose failures are reported in one sentence."""
    return lambda function: app.command(cls=verb(*examples))(o.grouped(function))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"bayespca {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and warnings.")] = False,
) -> None:
    SETTING.debug = debug


@command(
    "data.csv",
    "wine.csv --label cultivar --report wine.html",
    "survey.csv --likelihood visits=poisson --order pain=low,medium,high",
    "genes.tsv --transpose --scores scores.csv --model m.bpca",
    "cells.h5ad -o out.h5ad",
    "- --json < data.csv",
)
def fit(
    data: o.Data,
    *,
    outputs: FitOutputs,
    json: o.Json = False,
    kind: o.ModelKind,
    columns: o.ColumnKinds,
    fitting: o.Fitting,
    reading: o.Reading,
    where: o.Computing,
) -> None:
    """Find how many components are in DATA, and what they are.

    Columns may be numbers, yes/no, categories, ranks and counts. An array with more than two axes
    (.npy, .npz) is analysed as a tensor.
    """
    from . import fits as work
    from . import kinds
    from .mixed import Choice

    if outputs.annotated is not None and data.suffix.lower() == ".h5ad":
        others = [*(name for name, given in where.given().items() if given), *o.changed(kind)]
        kinds.fit_annotated(data, reading.how(), fitting, outputs, columns, others, as_json=json)
        return
    outputs.refuse_annotated(data)
    other = kinds.requested(data, reading.how(), fitting, kind)
    if other is not None:
        columns.refuse(other.what)
        other.check(fitting, outputs, where)
        kinds.fit(data, reading.how(), other, outputs, as_json=json)
        return
    columns.check()
    instead = fitting.of_numbers(**outputs.drawn(), **where.given())
    choice = Choice(columns, fitting.cap(), fitting.seed, instead)
    work.fit(
        *(data, reading.how(), fitting.model(), outputs),
        where=where,
        choice=choice,
        fit_mixed=kinds.fit_mixed,
        as_json=json,
    )


@command("data.csv", "data.csv --scale --stability", "data.csv --lookalikes 50")
def rank(
    data: o.Data,
    *,
    scale: Annotated[
        bool,
        typer.Option("--scale/--no-scale", help="Divide columns by their standard deviations."),
    ] = False,
    center: Annotated[
        bool, typer.Option("--center/--no-center", help="Remove the column means.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated noise.")] = 0,
    stability: o.Stability = None,
    lookalikes: o.Lookalikes = 0,
    json: o.Json = False,
    reading: o.Reading,
) -> None:
    """Compare the numbers of components that different rules find in DATA."""
    from . import fits as work

    drawn = {"lookalikes": lookalikes, "random_state": seed, "scale": scale, "center": center}
    work.rank(data, reading.how(), drawn, stability=stability, as_json=json)


@command("m.bpca new.csv -o scores.parquet", "m.bpca - < new.csv > scores.csv")
def transform(
    model: o.ModelOrData,
    data: o.DataAfterModel = None,
    *,
    saved: o.Saved = None,
    out: o.Out = None,
    std: Annotated[bool, output("--std/--no-std", help="Add standard deviations.")] = True,
    json: o.Json = False,
    reading: o.Reading,
    stream: o.Stream = None,
) -> None:
    """Compute scores of the rows of DATA under a MODEL: to --out, or as CSV to standard output.

    The model comes first, or after --model. A mixture also gives the cluster of each row.
    """
    from . import application as work

    model, data = o.model_and_data(model, data, saved)
    work.transform(model, data, reading.how(), out=out, std=std, stream=stream, as_json=json)


@command(
    "m.bpca new.csv", "m.bpca new.csv --alpha 0.001 -o table.csv", "m.bpca new.csv --clean good.csv"
)
def check(
    model: o.Model,
    data: o.Data,
    *,
    alpha: Annotated[
        float, output(help="Share of clean rows above each limit.", min=0.0, max=1.0)
    ] = 0.05,
    clean: Annotated[
        Path | None,
        output(
            help="Clean rows, such as those of the fit, to calibrate the limits with; ten fits.",
            metavar="FILE",
        ),
    ] = None,
    out: o.Out = None,
    json: o.Json = False,
    reading: o.Reading,
) -> None:
    """Find rows of DATA that a MODEL does not expect: Hotelling's T² and Q above their limits.

    The exit code is 0 without alarms, 3 with alarms, and 1 for an error. --out gets both statistics
    of all rows, and what each column contributes.
    """
    from . import monitoring as work

    work.check(model, data, reading.how(), alpha=alpha, clean=clean, out=out, as_json=json)


@command(
    "data.csv -o clean.csv",
    "spectra.npy -o clean.npy --noise autoregressive",
    "dwi.nii.gz -o clean.nii.gz --mask brain.nii.gz --noise-map sigma.nii.gz",
)
def denoise(
    data: o.Data,
    *,
    out: o.NeededOut,
    saved: o.Saved = None,
    save: o.Save = None,
    json: o.Json = False,
    fitting: o.Fitting,
    reading: o.Reading,
    stream: o.Stream = None,
    images: Imaging,
) -> None:
    """Remove noise from DATA: write the posterior mean of the low-rank part.

    A series of volumes (.nii, .nii.gz) is denoised patch by patch.
    """
    if is_nifti(data):
        from .images import denoise_image

        refuse_for_images(fitting, reading.how(), model=saved, save=save, stream=stream)
        denoise_image(data, out, images, as_json=json)
        return
    from . import application as work

    images.refuse()
    modelled = work.Modelled(fitting.model_unless(saved), saved, save)
    work.denoise(data, reading.how(), modelled, out=out, stream=stream, as_json=json)


@command(
    "data.csv -o full.csv --std --draws 5",
    "data.csv -o full.csv --na -999",
    "- -o - < data.csv > full.csv",
)
def impute(
    data: o.Data,
    *,
    out: o.NeededOut,
    beside: FilledOutputs,
    saved: o.Saved = None,
    save: o.Save = None,
    json: o.Json = False,
    columns: o.ColumnKinds,
    fitting: o.Fitting,
    reading: o.Reading,
) -> None:
    """Fill the holes in DATA, with error bars: numbers, yes/no, categories, ranks and counts."""
    from . import application as work
    from .mixed import Choice

    if saved is not None:
        columns.refuse(f"--model, which uses {saved} as it is")
    columns.check()
    choice = Choice(columns, fitting.cap(), fitting.seed, fitting.of_numbers(std=beside.std))
    modelled = work.Modelled(fitting.model_unless(saved), saved, save, choice)
    work.impute(data, reading.how(), modelled, beside, out=out, as_json=json)


@command(
    "ratings.csv --predict pairs.csv -o predicted.csv",
    "u.data --recommend 10 --users 7,12",
    "u.data --user-features users.csv --item-features items.csv --save m.bpca",
    "u.data --times --predict pairs.csv -o p.csv",
    "ratings.csv --columns who,what,stars --save m.bpca --report r.html",
)
def ratings(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            callback=to_read(),
            help="Ratings, one on each line: a user, an item and a rating; or a saved model. "
            "With --dask and --workers the name may have wildcards.",
        ),
    ],
    *,
    outputs: RatingOutputs,
    json: o.Json = False,
    fitting: Factorizing,
    reading: ReadingRatings,
    features: FeatureFiles,
    dask: o.DaskAddress = None,
    workers: o.DaskWorkers = None,
) -> None:
    """Factorize ratings of items by users; predict others, or recommend items.

    Predictions go to --out, or as CSV to standard output.
    """
    from . import ratings as work
    from .inputs import DaskCluster

    cluster, names = DaskCluster(dask, workers), reading.names()
    work.ratings(
        data,
        reading.how(),
        names,
        fitting.model(has_features=features.are_given),
        outputs,
        features=features,
        cluster=cluster,
        as_json=json,
    )


@command("m.bpca pairs.csv -o predicted.csv", "m.bpca pairs.csv --new theirs.csv")
def predict(
    model: o.Model,
    pairs: Annotated[
        Path,
        typer.Argument(
            metavar="PAIRS",
            callback=to_read(),
            help="Pairs of a user and an item, one on each line. - is standard input.",
        ),
    ],
    *,
    new: NewRatings = None,
    out: o.Out = None,
    json: o.Json = False,
    reading: ReadingRatings,
) -> None:
    """Predict ratings of PAIRS under a MODEL of ratings: to --out, or as CSV to standard output.

    The column `known` says which part of a pair was in the fit: both, user, item or neither.
    Unknown users and items get average predictions.
    """
    from . import ratings as work

    names = reading.names()
    work.predict(model, pairs, reading.how(), names, new=new, out=out, as_json=json)


@command("m.bpca --user 196", "m.bpca --user ann --user bob -n 5", "m.bpca --new theirs.csv")
def recommend(
    model: o.Model,
    *,
    user: Annotated[
        list[str] | None, typer.Option("--user", help="A user to serve; may be repeated.")
    ] = None,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Items for each user.")] = 10,
    new: NewRatings = None,
    out: o.Out = None,
    json: o.Json = False,
) -> None:
    """Recommend the best items that a user has not rated, under a MODEL of ratings.

    Results go to --out, or as CSV to standard output; without --user and --new, for all users.
    """
    from . import ratings as work

    work.recommend(model, user or [], n, new=new, out=out, as_json=json)


@command(
    "genes.csv proteins.csv --id sample --report r.html",
    "a.parquet b.parquet c.parquet --scores scores.csv --save m.bpca",
    "genes.csv clinic.csv --id sample --likelihood clinic=auto",
    "genes.csv --model m.bpca --scores new.csv",
)
def views(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            callback=all_to_read,
            help="Tables of the same samples, one row for each; files give views their names. "
            "- is standard input.",
        ),
    ],
    *,
    outputs: ViewOutputs,
    json: o.Json = False,
    fitting: Viewing,
    reading: o.Reading,
) -> None:
    """Find the factors of several tables of the same samples, and which tables each is in.

    Rows are joined by their names, in the first column or the one that --id names; a table may lack
    samples. Without names, rows belong together by position.
    """
    from . import views as work

    work.views(files, reading.how(), fitting.model(), outputs, as_json=json)


@command("m.bpca", "m.bpca --json")
def info(model: o.Model, json: o.Json = False) -> None:
    """Show what a MODEL file holds, and which commands use it."""
    from . import application as work

    work.info(model, as_json=json)


@command("lecture --quick", "icml2011/table1 --data datasets/ -o page/")
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="icml2011, icann1999, aistats2014, lecture, note, noise, views, claims, rankbench "
            "or all; or one table or figure, "
            "as in icml2011/table1.",
        ),
    ] = "all",
    data: Annotated[
        Path | None, typer.Option(help="A folder with data sets; by default, BAYESPCA_DATA.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds and smaller sizes: some minutes.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the page.")] = Path(
        "bayespca-reproduction"
    ),
) -> None:
    """Recompute the tables and figures of the papers, next to the printed ones."""
    from . import reproduction as work

    work.reproduce(target, data=data, quick=quick, out=out)


@command("", "-o try/")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the files.")] = Path(
        "bayespca-demo"
    ),
) -> None:
    """Analyse an embedded table of wines, and write its report."""
    from .fits import demo as show

    show(out)
