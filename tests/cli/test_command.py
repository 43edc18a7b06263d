"""The installed command, run as a user would, in an empty folder."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import bayespca
from bayespca.cli import application, inputs, progress, values
from bayespca.datasets import low_rank
from bayespca.engines import ENGINES
from bayespca.inference import Info
from bayespca.spectrum import METHODS

from .installed import COMMAND, PROGRAM, output, output_inside


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulated(n=80, p=6, rank=2):
    return low_rank(n, p, rank, random_state=0).X


def frame(X):
    table = pd.DataFrame(X, columns=[f"gene {j}" for j in range(X.shape[1])])
    table.insert(0, "sample", [f"s{i}" for i in range(len(X))])
    # These texts are not categories, because they all differ.
    table["kind"] = [f"kind of {i}" for i in range(len(X))]
    return table


# --- every format ------------------------------------------------------------------------------


def write_h5ad(X, path):
    anndata = pytest.importorskip("anndata", reason="anndata is not installed")
    anndata.AnnData(X).write_h5ad(path)


FORMATS = {
    "x.csv": lambda X, path: frame(X).to_csv(path, index=False),
    "x.tsv": lambda X, path: frame(X).to_csv(path, index=False, sep="\t"),
    "x.csv.gz": lambda X, path: frame(X).to_csv(path, index=False),
    "x.parquet": lambda X, path: frame(X).to_parquet(path),
    "x.feather": lambda X, path: frame(X).to_feather(path),
    "x.npy": lambda X, path: np.save(path, X),
    "x.npz": lambda X, path: np.savez(path, X=X),
    "x.mtx": lambda X, path: scipy.io.mmwrite(path, sp.coo_array(X), precision=17),
    "x.h5ad": write_h5ad,
}


@pytest.mark.parametrize("name", FORMATS)
def test_fit_on_every_format(name, folder):
    X = simulated()
    FORMATS[name](X, folder / name)
    found = json.loads(output("fit", name, "--json", "--scores", "scores.csv"))
    expected = bayespca.BayesianPCA().fit(X)
    assert found["rank"] == expected.n_components_ == 2
    assert found["noise_variance"] == pytest.approx(expected.noise_variance_, rel=1e-9)
    assert found["n_samples"] == 80
    scores = pd.read_csv("scores.csv")
    T, std = expected.transform(X, return_std=True)
    np.testing.assert_allclose(scores["component 1"], T[:, 0], atol=1e-8)
    np.testing.assert_allclose(scores["component 2 std"], std[:, 1], atol=1e-8)


@pytest.mark.parametrize("name", ["s.tsv", "s.parquet", "s.feather", "s.npy", "s.npz"])
def test_output_in_the_format_that_the_ending_names(name, folder):
    X = simulated()
    np.save("x.npy", X)
    output_inside("fit", "x.npy", "--scores", name, "--loadings", f"l{name}")
    readers = {
        "s.tsv": lambda path: pd.read_csv(path, sep="\t").to_numpy(),
        "s.parquet": lambda path: pd.read_parquet(path).to_numpy(),
        "s.feather": lambda path: pd.read_feather(path).to_numpy(),
        "s.npy": np.load,
        "s.npz": lambda path: np.load(path)["X"],
    }
    T = bayespca.BayesianPCA().fit(X).transform(X)
    np.testing.assert_allclose(readers[name](name)[:, [0, 2]], T, atol=1e-8)
    assert Path(f"l{name}").exists()


# --- the commands ------------------------------------------------------------------------------


def test_help_and_version():
    out = output("--help")
    for name in ("fit", "rank", "transform", "denoise", "impute", "info", "demo"):
        assert f" {name} " in out
    assert output("--version").strip() == f"bayespca {bayespca.__version__}"
    assert "--method" in output("fit", "-h")


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not installed beside Python")
def test_the_program_is_the_same():
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"bayespca {bayespca.__version__}"


def test_fit_for_people(folder):
    frame(simulated()).to_csv("x.csv", index=False)
    out = output("fit", "x.csv", "--model", "m.bpca", "--loadings", "l.csv")
    assert "80 samples × 6 features" in out
    assert "components" in out
    assert "gene" in out
    assert "The first column 'sample' was read as the names of the rows." in out
    assert "Skipped columns: 'kind' (text)." in out
    assert "m.bpca" in out
    loadings = pd.read_csv("l.csv")
    assert loadings["feature"].tolist() == [f"gene {j}" for j in range(6)]


def test_transform_with_columns_in_another_order(folder):
    table = frame(simulated())
    table.to_csv("x.csv", index=False)
    output("fit", "x.csv", "--model", "m.bpca", "--scores", "a.csv")
    table[["gene 3", "sample", *(f"gene {j}" for j in (5, 4, 2, 1, 0))]].to_csv(
        "y.csv", index=False
    )
    output("transform", "m.bpca", "y.csv", "--out", "b.csv", "--id-column", "sample")
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), pd.read_csv("b.csv"))
    printed = output("transform", "m.bpca", "x.csv", "--no-std").splitlines()
    assert printed[0] == "sample,component 1,component 2"
    assert len(printed) == 81
    as_json = json.loads(output("transform", "m.bpca", "x.csv", "--json"))
    assert as_json["scores"]["component 1"] == pytest.approx(pd.read_csv("a.csv")["component 1"])
    assert as_json["ids"][:2] == ["s0", "s1"]


def test_rank(folder):
    X = simulated()
    np.save("x.npy", X)
    found = json.loads(output_inside("rank", "x.npy", "--json"))
    assert found["ranks"] == bayespca.rank_report(X).ranks()
    out = output("rank", "x.npy")
    assert all(name in out for name in found["ranks"])


def test_denoise_keeps_the_layout(folder):
    table = frame(simulated())
    table.to_csv("x.csv", index=False)
    output("denoise", "x.csv", "-o", "y.csv")
    clean = pd.read_csv("y.csv")
    assert list(clean.columns) == list(table.columns)
    assert clean["kind"].tolist() == table["kind"].tolist()
    genes = [f"gene {j}" for j in range(6)]
    X = table[genes].to_numpy()
    np.testing.assert_allclose(clean[genes], bayespca.denoise(X), atol=1e-8)


def test_impute(folder):
    X = simulated()
    Y = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
    frame(Y).to_csv("x.csv", index=False, na_rep="NA")
    found = json.loads(output("impute", "x.csv", "-o", "y.csv", "--std", "--draws", "2", "--json"))
    assert found["holes"] == np.isnan(Y).sum()
    files = ["y.csv", "y-std.csv", "y-draw-1.csv", "y-draw-2.csv"]
    assert list(found["written"].values()) == files
    filled, std, *draws = (
        pd.read_csv(name)[[f"gene {j}" for j in range(6)]].to_numpy() for name in files
    )
    expected, expected_std = bayespca.BayesianPCA().fit(Y).impute(Y, return_std=True)
    np.testing.assert_allclose(filled, expected, atol=1e-8)
    np.testing.assert_allclose(std, expected_std, atol=1e-8)
    holes = np.isnan(Y)
    assert (draws[0] != draws[1])[holes].all()
    np.testing.assert_allclose(draws[0][~holes], Y[~holes])


def test_what_comes_back_is_shown_beside_the_probability(folder):
    X = simulated()
    frame(X).to_csv("x.csv", index=False)
    found = json.loads(output("fit", "x.csv", "--json", "--report", "r.html"))
    stability = found["stability"]
    assert (stability["rank"], len(stability["directions"])) == (found["rank"], found["rank"])
    assert sum(stability["ranks"].values()) == pytest.approx(1.0)
    assert "What comes back in half of the samples" in Path("r.html").read_text(encoding="utf-8")
    said = output("fit", "x.csv")
    assert "half samples" in said
    assert "comes back" in said
    assert json.loads(output("fit", "x.csv", "--json", "--no-stability"))["stability"] is None
    assert json.loads(output("rank", "x.csv", "--json", "--no-stability"))["stability"] is None
    assert json.loads(output("rank", "x.csv", "--json"))["stability"]["n_halves"] == 100
    assert "2 of 2 come back in" in output("rank", "x.csv", "--stability")


def test_what_is_assumed_of_holes_is_said(folder):
    X = simulated()
    frame(X).to_csv("x.csv", index=False)
    frame(np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)).to_csv("y.csv")
    assert "missing at random" not in output("fit", "x.csv")
    said = " ".join(output("fit", "y.csv", "--report", "r.html").split())
    assert "assumed to be missing at random" in said
    assert "assumed to be missing at random" in Path("r.html").read_text(encoding="utf-8")


def test_impute_says_that_there_are_no_holes(folder):
    table = frame(simulated())
    table.to_csv("x.csv", index=False)
    assert "There are no holes in the data" in output("impute", "x.csv", "-o", "y.csv")
    pd.testing.assert_frame_equal(pd.read_csv("y.csv"), table)


def test_info(folder):
    np.save("x.npy", simulated())
    output("fit", "x.npy", "--scale", "--model", "m.bpca")
    assert "BayesianPCA(random_state=0, scale=True)" in output("info", "m.bpca")
    found = json.loads(output("info", "m.bpca", "--json"))
    assert found["parameters"]["scale"] is True
    assert found["rank"] == 2
    bayespca.BayesianPCA().save("new.bpca")
    assert "not fitted" in output("info", "new.bpca")
    assert json.loads(output("info", "new.bpca", "--json"))["fitted"] is False


def test_noise_of_each_feature_is_told(folder):
    X = simulated(n=200, p=8) * np.geomspace(1, 30, 8)
    np.save("x.npy", X)
    expected = bayespca.BayesianPCA().fit(X)
    found = json.loads(output("fit", "x.npy", "--json"))
    assert found["noise"] == expected.noise_ == "per-feature"
    assert found["noise_evidence"] == pytest.approx(expected.noise_evidence_)
    variances = expected.feature_noise_variance_
    assert found["feature_noise"] == pytest.approx([variances.min(), variances.max()])
    assert found["outliers"] is None
    text = " ".join(output("fit", "x.npy", "--verbose").split())
    nats = f"{expected.noise_evidence_['per-feature']:,.0f}"
    assert f"Noise differs between the features ({nats} nats more evidence than equal" in text
    equal = json.loads(
        output("fit", "x.npy", "--json", "--noise", "isotropic", "--n-components", 2)
    )
    assert (equal["noise"], equal["noise_evidence"], equal["feature_noise"]) == (
        *("isotropic", {}),
        None,
    )


def test_models_of_other_estimators(folder):
    X = simulated()
    np.save("x.npy", X)
    bayespca.VariationalPCA(random_state=0).fit(X).save("v.bpca")
    assert json.loads(output_inside("info", "v.bpca", "--json"))["rank"] == 2
    assert output_inside("transform", "v.bpca", "x.npy", "--no-std").startswith("component 1,comp")
    bayespca.BayesianPCAImputer().fit(X).save("i.bpca")
    shown = " ".join(output_inside("info", "i.bpca").split())
    assert "6 features" in shown
    assert "class BayesianPCAImputer() used by bayespca impute" in shown
    assert "i.bpca holds a BayesianPCAImputer" in output_inside(
        "transform", "i.bpca", "x.npy", rc=1
    )
    bayespca.BayesianPCA().save("new.bpca")
    assert "a model that is not fitted" in output_inside("transform", "new.bpca", "x.npy", rc=1)


def test_demo_and_report(folder):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    pytest.importorskip("plotly", reason="plotly is not installed")
    out = output("demo")
    assert "178 samples × 13 features" in out
    written = {path.name for path in Path("bayespca-demo").iterdir()}
    assert written == {"wine.csv", "wine.html", "scores.csv", "loadings.csv", "wine.bpca"}
    page = Path("bayespca-demo/wine.html").read_text(encoding="utf-8")
    assert "wine 17" in page
    assert "cultivar 3" in page


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.npy"])
def test_streams_give_the_same(name, folder):
    FORMATS[name](simulated(2000), folder / name)
    whole = json.loads(output("fit", name, "--json", "--in-memory", "--scores", "a.csv"))
    stream = json.loads(output("fit", name, "--json", "--stream", "--scores", "b.csv"))
    assert (stream["streamed"], whole["streamed"]) == (True, False)
    assert stream["rank"] == whole["rank"]
    assert stream["noise_variance"] == pytest.approx(whole["noise_variance"], rel=1e-9)
    a, b = pd.read_csv("a.csv"), pd.read_csv("b.csv")
    is_std = a.columns.str.endswith(" std")
    pd.testing.assert_frame_equal(a.loc[:, ~is_std], b.loc[:, ~is_std], rtol=1e-6, atol=1e-8)
    # A fit in memory recognises the rows it has seen; those of a stream might be new.
    np.testing.assert_allclose(b.loc[:, is_std], a.loc[:, is_std], rtol=1e-3)


def test_a_stream_can_be_denoised_and_reported(folder):
    pytest.importorskip("plotly", reason="plotly is not installed")
    frame(simulated(2000)).to_csv("x.csv", index=False)
    output("fit", "x.csv", "--stream", "--report", "x.html", "--model", "m.bpca")
    assert Path("x.html").stat().st_size < 6e6
    output("denoise", "x.csv", "--stream", "-o", "y.parquet")
    output("transform", "m.bpca", "x.csv", "--stream", "-o", "t.npy")
    assert np.load("t.npy").shape == (2000, 4)


# --- bad input ---------------------------------------------------------------------------------


BAD = {
    "missing.csv": (None, r"missing.csv does not exist"),
    "delimiter.csv": ("a:b\n1:2\n3:4\n", "delimiter.csv has no column of numbers"),
    "ragged.csv": ("a,b\n1,2\n3,4,5\n", "ragged.csv, line 3 has 3 fields"),
    "mixed.csv": ("a,b\n1,2\n3,4\n5,oops\n", "mixed.csv, line 4, column 'b': 'oops'"),
    "twice.csv": ("a,a\n1,2\n3,4\n", "two columns called 'a'"),
    "unknown.xyz": ("1,2", "ending '.xyz', which is not known"),
    "nothing.csv": ("", "nothing.csv is empty"),
    "binary.csv": ("\x00\x01\x02", "binary.csv cannot be read as text"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name, folder):
    content, sentence = BAD[name]
    if content is not None:
        Path(name).write_text(content)
    out = output_inside("fit", name, rc=1)
    assert sentence in out
    assert len(out.strip().splitlines()) == 1
    told = json.loads(output_inside("fit", name, "--json", rc=1))
    assert told == {"error": out.strip().removeprefix("bayespca: ")}


def test_an_empty_column_is_set_aside(folder):
    table = frame(simulated())
    table["empty"] = np.nan
    table.to_csv("x.csv", index=False)
    assert "'empty' (empty)" in output("fit", "x.csv")


def test_a_model_of_other_columns(folder):
    table = frame(simulated())
    table.to_csv("x.csv", index=False)
    output("fit", "x.csv", "--model", "m.bpca")
    table.rename(columns={"gene 2": "other"}).to_csv("y.csv", index=False)
    out = output("transform", "m.bpca", "y.csv", rc=1)
    assert "fitted on other columns: the table has no 'gene 2' (1 of 6 columns are absent)" in out
    assert "is not a bayespca model file" in output("transform", "x.csv", "x.csv", rc=1)


@pytest.mark.parametrize(
    ("name", "option", "sentence"),
    [
        ("x.npy", ["--delimiter", ","], "the option --delimiter does not apply to .npy files"),
        ("x.npy", ["--drop", "a"], "the option --drop does not apply to .npy files"),
        ("x.csv", ["--array", "X"], "the option --array does not apply to .csv files"),
        ("x.parquet", ["--na", "-1"], "the option --na does not apply to .parquet files"),
        ("x.npz", ["--no-header"], "the option --header does not apply to .npz files"),
    ],
)
def test_options_are_not_ignored(name, option, sentence, folder):
    FORMATS[name](simulated(), folder / name)
    assert sentence in output_inside("fit", name, *option, rc=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_target(folder):
    np.save("x.npy", simulated())
    Path("closed").mkdir(mode=0o500)
    assert "no permission" in output("fit", "x.npy", "--scores", "closed/a.csv", rc=1)


def test_targets_that_cannot_be(folder):
    np.save("x.npy", simulated())
    Path("folder.csv").mkdir()
    assert "it is a folder" in output("fit", "x.npy", "--scores", "folder.csv", rc=1)
    assert "does not exist" in output("fit", "x.npy", "--model", "no/m.bpca", rc=1)
    assert "ending '.doc'" in output("fit", "x.npy", "--scores", "a.doc", rc=1)


def test_a_full_disk(folder):
    """No file may grow beyond 4 kB: the old target stays, and no temporary file is left behind."""
    np.save("x.npy", simulated(400))
    Path("a.csv").write_text("before")
    limited = f"ulimit -f 4; exec {' '.join(COMMAND)} fit x.npy --scores a.csv"
    done = subprocess.run(
        ["bash", "-c", limited],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert done.returncode == 1
    assert "cannot write a.csv: the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "x.npy"]
    assert Path("a.csv").read_text() == "before"


def test_an_interrupted_run_leaves_no_half_file(folder):
    """Ctrl-C halfway through a line of the output file."""
    code = (
        "import os, signal, sys\n"
        "import bayespca.io.tables as tables\n"
        "def half(path, parts):\n"
        "    path.write_text('component 1\\n0.1')\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "tables.WRITERS['.csv'] = half\n"
        "sys.argv = ['bayespca', 'fit', 'x.csv', '--stream', '--scores', 'a.csv']\n"
        "from bayespca.cli import main\n"
        "main()\n"
    )
    frame(simulated(60)).to_csv("x.csv", index=False)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["x.csv"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "x.csv", "--method", "foo"],
        ["fit", "x.csv", "--n-components", "many"],
        ["fit", "x.csv", "--noise-variance", "-1"],
        ["fit", "x.csv", "--delimiter", "ab"],
        ["fit", "x.csv", "--colour", "red"],
        ["denoise", "x.csv"],
        ["paint", "x.csv"],
        ["impute", "x.csv", "-o", "y.csv", "--draws", "-1"],
    ],
)
def test_wrong_usage_ends_with_2(arguments, folder):
    output_inside(*arguments, rc=2)


def test_debug_shows_where(folder):
    done = subprocess.run(
        [*COMMAND, "--debug", "fit", "no.csv"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_output_that_nobody_reads(folder):
    np.save("x.npy", simulated(20_000))
    output("fit", "x.npy", "--model", "m.bpca")
    line = f"{' '.join(COMMAND)} transform m.bpca x.npy | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


# --- silence and the terminal ------------------------------------------------------------------


def test_nothing_but_json(folder):
    np.save("x.npy", simulated())
    done = subprocess.run(
        [*COMMAND, "fit", "x.npy", "--json"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    json.loads(done.stdout)
    assert "NaN" not in done.stdout
    assert "Infinity" not in done.stdout


def test_progress_is_silent_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.progress("reading", 10) as advance:
        advance(5)
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "")


def test_one_bar_at_a_time(folder, monkeypatch):
    """Older versions of rich refuse a second bar."""
    pytest.importorskip("plotly", reason="plotly is not installed")
    shown = []

    @contextmanager
    def alone(what, total=None):
        assert not open_bars, f"{what} within {open_bars}"
        open_bars.append(what)
        shown.append(what)
        try:
            yield lambda *seen: None
        finally:
            open_bars.pop()

    open_bars = []
    for module in (inputs, application):
        monkeypatch.setattr(module, "progress", alone)
    monkeypatch.setattr(inputs, "sweeps", alone)
    frame(simulated(500)).to_csv("x.csv", index=False)
    outputs = ["--report", "r.html", "--scores", "s.csv", "--model", "m.bpca"]
    for way in ("--stream", "--in-memory"):
        output_inside("fit", "x.csv", way, *outputs)
        output_inside("denoise", "x.csv", way, "-o", "d.csv")
        output_inside("transform", "m.bpca", "x.csv", way, "-o", "t.csv")
    output_inside("rank", "x.csv")
    output_inside("impute", "x.csv", "-o", "i.csv", "--draws", "1")
    assert {"reading", "fitting", "scores", "denoising", "decomposing", "filling"} <= set(shown)


def on_terminal(code):
    """The output of a Python program on a wide terminal."""
    return subprocess.run(
        ["script", "-qec", f'{sys.executable} -c "{code}"', "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    ).stdout


@pytest.mark.skipif(shutil.which("script") is None, reason="needs the program script")
@pytest.mark.parametrize(("patience", "is_shown"), [(0.1, True), (60.0, False)])
def test_progress_is_shown_on_terminals_after_a_while(patience, is_shown):
    code = (
        f"import time; from bayespca.cli import progress as p; p.PATIENCE = {patience}\n"
        "with p.progress('reading', 10) as advance: advance(5); time.sleep(0.6)"
    )
    assert ("reading" in on_terminal(code)) == is_shown


def test_a_bar_is_as_full_as_the_logarithm_of_what_is_left():
    assert progress.share_done(100.0, 100.0, 1e-2) == 0.0
    assert progress.share_done(100.0, 1.0, 1e-2) == pytest.approx(0.5)
    assert progress.share_done(100.0, 1e-3, 1e-2) == 1.0
    assert progress.share_done(0.0, math.inf, 1e-2) == 0.0


def test_a_bar_says_how_much_is_left():
    info = Info(-1999.0, 8, 0.5, to_gain=3.14)
    assert progress.words_for(12, info, 0.002) == (
        "sweep 12, 8 components, 3.1 nats to gain (until 0.002)"
    )
    assert progress.words_for(1, Info(-1999.0, 1, 0.5), 0.002) == "sweep 1, 1 component"


@pytest.mark.skipif(shutil.which("script") is None, reason="needs the program script")
def test_sweeps_are_shown_on_terminals():
    code = (
        "import time; from bayespca.cli import progress as p; p.PATIENCE = 0.1\n"
        "from bayespca.inference import Info\n"
        "with p.sweeps('fitting', 1e-8) as seen:\n"
        "    for n in range(1, 8): seen(n, Info(9.0, 3, 1.0, to_gain=10.0**-n)); time.sleep(0.1)"
    )
    shown = on_terminal(code)
    assert "3 components" in shown
    assert "nats to gain (until 1e-07)" in shown


def test_options_name_everything_there_is():
    assert set(get_args(values.PCAMethod)) == set(METHODS)
    assert set(get_args(values.Engine)) == {"auto", *ENGINES}
