"""The commands and their options. The code behind a command is imported when it runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bayespca.io.nifti_files import is_nifti
from bayespca.version import __version__

from . import options as o
from .column_options import ColumnKinds
from .failures import SETTING, end_when_told, in_one_sentence
from .helping import Verbs, verb
from .imaging_options import Imaging, refuse_for_images
from .outputs import FitOutputs, RatingOutputs
from .panels import OUTPUT
from .rating_options import Factorizing, FeatureFiles, NewRatings, ReadingRatings
from .standard import COMPLETING, all_to_read, to_read
from .view_options import Viewing, ViewOutputs

app = typer.Typer(
    name="bayespca",
    cls=Verbs,
    help="PCA that finds its own number of components and says how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> None:
    end_when_told()
    match sys.argv[1:]:
        # Typer shows the completion for the current shell, even if another one is named.
        case ["--show-completion", ("bash" | "zsh" | "fish" | "powershell") as shell]:
            os.environ[COMPLETING], sys.argv[1:] = f"source_{shell}", []
    app(prog_name="bayespca")


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


@app.command(
    cls=verb(
        "data.csv",
        "wine.csv --label cultivar --report wine.html",
        "survey.csv --likelihood visits=poisson --order pain=low,medium,high",
        "genes.tsv --transpose --scores scores.csv --model m.bpca",
        "cells.h5ad -o out.h5ad",
        "- --json < data.csv",
    )
)
@o.grouped
def fit(
    data: o.Data,
    *,
    outputs: FitOutputs,
    json: o.Json = False,
    kind: o.ModelKind,
    columns: ColumnKinds,
    fitting: o.Fitting,
    reading: o.Reading,
    where: o.Computing,
) -> None:
    """Find how many components are in DATA, and what they are.

    Columns may be numbers, yes/no, categories, ranks and counts. An array with more than two axes
    (.npy, .npz) is analysed as a tensor.
    """
    with in_one_sentence(as_json=json):
        from . import fitting as work
        from . import kinds
        from .mixed import Choice

        if outputs.annotated is not None and data.suffix.lower() == ".h5ad":
            from .annotated import fit_annotated

            asked = where.given()
            others = [*(name for name in asked if asked[name]), *kind.given()]
            fit_annotated(data, reading.how(), fitting, outputs, columns, others, as_json=json)
            return
        outputs.refuse_annotated(data)
        other = kinds.asked(data, reading.how(), fitting, kind)
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


@app.command(cls=verb("data.csv", "data.csv --scale --stability", "data.csv --lookalikes 50"))
@o.grouped
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
    with in_one_sentence(as_json=json):
        from . import fitting as work

        drawn = o.halves(stability) | {"lookalikes": lookalikes, "random_state": seed}
        work.rank(data, reading.how(), drawn | {"scale": scale, "center": center}, as_json=json)


@app.command(cls=verb("m.bpca new.csv -o scores.parquet", "m.bpca - < new.csv > scores.csv"))
@o.grouped
def transform(
    model: o.ModelOrData,
    data: o.DataAfterModel = None,
    *,
    saved: o.Saved = None,
    out: o.Out = None,
    std: Annotated[
        bool,
        typer.Option("--std/--no-std", help="Add standard deviations.", rich_help_panel=OUTPUT),
    ] = True,
    json: o.Json = False,
    reading: o.Reading,
    stream: o.Stream = None,
) -> None:
    """Compute scores of the rows of DATA under a MODEL: to --out, or as CSV to standard output.

    The model comes first, or after --model. A mixture also gives the cluster of each row.
    """
    with in_one_sentence(as_json=json):
        from . import applying as work

        model, data = o.model_and_data(model, data, saved)
        work.transform(model, data, reading.how(), out=out, std=std, stream=stream, as_json=json)


@app.command(
    cls=verb(
        "m.bpca new.csv",
        "m.bpca new.csv --alpha 0.001 -o table.csv",
        "m.bpca new.csv --clean good.csv",
    )
)
@o.grouped
def check(
    model: o.Model,
    data: o.Data,
    *,
    alpha: Annotated[
        float,
        typer.Option(
            help="Share of clean rows above each limit.", min=0.0, max=1.0, rich_help_panel=OUTPUT
        ),
    ] = 0.05,
    clean: Annotated[
        Path | None,
        typer.Option(
            help="Clean rows, such as those of the fit, to calibrate the limits with; ten fits.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
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
    with in_one_sentence(as_json=json):
        from . import checking as work

        work.check(model, data, reading.how(), alpha=alpha, clean=clean, out=out, as_json=json)


@app.command(
    cls=verb(
        "data.csv -o clean.csv",
        "spectra.npy -o clean.npy --noise autoregressive",
        "dwi.nii.gz -o clean.nii.gz --mask brain.nii.gz --noise-map sigma.nii.gz",
    )
)
@o.grouped
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
    with in_one_sentence(as_json=json):
        if is_nifti(data):
            from .imaging import denoise_image

            refuse_for_images(fitting, reading.how(), model=saved, save=save, stream=stream)
            denoise_image(data, out, images, as_json=json)
            return
        from . import applying as work

        images.refuse()
        modelled = work.Modelled(fitting.model_unless(saved), saved, save)
        work.denoise(data, reading.how(), modelled, out=out, stream=stream, as_json=json)


@app.command(
    cls=verb(
        "data.csv -o full.csv --std --draws 5",
        "data.csv -o full.csv --na -999",
        "- -o - < data.csv > full.csv",
    )
)
@o.grouped
def impute(
    data: o.Data,
    *,
    out: o.NeededOut,
    std: Annotated[
        bool,
        typer.Option(
            "--std",
            help="Also write the standard deviations of the filled cells, to a file beside --out.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Also write a 95 % interval of each filled cell, or its probability.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    draws: Annotated[
        int,
        typer.Option(
            help="Number of draws to write as well, for multiple imputation.",
            min=0,
            rich_help_panel=OUTPUT,
        ),
    ] = 0,
    saved: o.Saved = None,
    save: o.Save = None,
    json: o.Json = False,
    columns: ColumnKinds,
    fitting: o.Fitting,
    reading: o.Reading,
) -> None:
    """Fill the holes in DATA, with error bars: numbers, yes/no, categories, ranks and counts."""
    with in_one_sentence(as_json=json):
        from . import applying as work
        from .filling import FilledOutputs
        from .mixed import Choice

        if saved is not None:
            columns.refuse(f"--model, which uses {saved} as it is")
        columns.check()
        choice = Choice(columns, fitting.cap(), fitting.seed, fitting.of_numbers(std=std))
        modelled = work.Modelled(fitting.model_unless(saved), saved, save, choice)
        beside = FilledOutputs(std=std, intervals=intervals, draws=draws)
        work.impute(data, reading.how(), modelled, beside, out=out, as_json=json)


@app.command(
    cls=verb(
        "ratings.csv --predict pairs.csv -o predicted.csv",
        "u.data --recommend 10 --users 7,12",
        "u.data --user-features users.csv --item-features items.csv --save m.bpca",
        "u.data --times --predict pairs.csv -o p.csv",
        "ratings.csv --columns who,what,stars --save m.bpca --report r.html",
    )
)
@o.grouped
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
    with in_one_sentence(as_json=json):
        from . import rating as work
        from .cluster import DaskCluster

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


@app.command(cls=verb("m.bpca pairs.csv -o predicted.csv", "m.bpca pairs.csv --new theirs.csv"))
@o.grouped
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
    with in_one_sentence(as_json=json):
        from . import recommending as work

        names = reading.names()
        work.predict(model, pairs, reading.how(), names, new=new, out=out, as_json=json)


@app.command(
    cls=verb("m.bpca --user 196", "m.bpca --user ann --user bob -n 5", "m.bpca --new theirs.csv")
)
@o.grouped
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
    with in_one_sentence(as_json=json):
        from . import recommending as work

        work.recommend(model, user or [], n, new=new, out=out, as_json=json)


@app.command(
    cls=verb(
        "genes.csv proteins.csv --id sample --report r.html",
        "a.parquet b.parquet c.parquet --scores scores.csv --save m.bpca",
        "genes.csv clinic.csv --id sample --likelihood clinic=auto",
        "genes.csv --model m.bpca --scores new.csv",
    )
)
@o.grouped
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
    with in_one_sentence(as_json=json):
        from . import viewing as work

        work.views(files, reading.how(), fitting.model(), outputs, as_json=json)


@app.command(cls=verb("m.bpca", "m.bpca --json"))
def info(model: o.Model, json: o.Json = False) -> None:
    """Show what a MODEL file holds, and which commands use it."""
    with in_one_sentence(as_json=json):
        from . import applying as work

        work.info(model, as_json=json)


@app.command(cls=verb("lecture --quick", "icml2011/table1 --data datasets/ -o page/"))
def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="icml2011, icann1999, aistats2014, lecture, note or all; or one table or figure, "
            "as in icml2011/table1.",
        ),
    ] = "all",
    data: Annotated[
        Path | None,
        typer.Option(help="A folder with data sets; by default, BAYESPCA_DATA."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer seeds and smaller sizes: some minutes.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the page.")] = Path(
        "bayespca-reproduction"
    ),
) -> None:
    """Recompute the tables and figures of the papers, next to the printed ones."""
    with in_one_sentence():
        from . import reproducing as work

        work.reproduce(target, data=data, quick=quick, out=out)


@app.command(cls=verb("", "-o try/"))
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder for the files.")] = Path(
        "bayespca-demo"
    ),
) -> None:
    """Analyse an embedded table of wines, and write its report."""
    with in_one_sentence():
        from .demonstration import demo as show

        show(out)
