"""`bayespca fit --workers` and `--dask`: the same model as without Dask, or a clear message."""

from __future__ import annotations

import io
import json
import logging
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from dask.base import get_scheduler
from distributed import LocalCluster

import bayespca
from bayespca import BayesianPCA
from bayespca.cli.app import app
from bayespca.datasets import low_rank

from .installed import output_inside, printed_inside

FEATURES = [f"x{j}" for j in range(6)]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as found:
        yield found


def table_of_numbers():
    """EVB keeps one component, but two are most probable, so that there is a second fit."""
    return low_rank(300, 6, 3, strength=0.3, random_state=3).X


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One table split into three files, in both formats, with ids and a column of text."""
    monkeypatch.chdir(tmp_path)
    X = table_of_numbers()
    table = pd.DataFrame(X, columns=FEATURES)
    table.insert(0, "id", [f"s{i}" for i in range(len(X))])
    table["kind"] = "a"
    for i, part in enumerate(np.array_split(np.arange(300), 3)):
        some = table.iloc[part]
        some.to_parquet(f"part-{i}.parquet", index=False, row_group_size=40)
        some.to_csv(f"part-{i}.csv", index=False)
    table.to_parquet("whole.parquet", index=False)
    return tmp_path


def same_model(one, other):
    a, b = bayespca.load(one), bayespca.load(other)
    assert list(a.feature_names_in_) == list(b.feature_names_in_) == FEATURES
    assert a.n_samples_ == b.n_samples_ == 300
    assert a.n_components_ == b.n_components_ == 2
    assert a.rank_posterior_ == pytest.approx(b.rank_posterior_, abs=1e-9)
    assert b.engine_ == "dense"
    assert a.noise_variance_ == pytest.approx(b.noise_variance_, rel=1e-9)
    assert a.components_ == pytest.approx(b.components_, abs=1e-9)
    assert a.components_std_ == pytest.approx(b.components_std_, rel=1e-7)
    assert a.free_energy_ == pytest.approx(b.free_energy_, rel=1e-9)
    assert a.get_params() == b.get_params()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_model_is_that_of_one_process(folder, cluster, ending):
    output_inside("fit", "whole.parquet", "--model", "whole.bpca")
    address = cluster.scheduler_address
    out, _ = printed_inside(
        "fit", f"part-*.{ending}", "--dask", address, "--model", "dask.bpca", "--json"
    )
    told = json.loads(out)
    assert told["engine"] == "dask"
    assert told["id_column"] == "id"
    assert told["columns_set_aside"] == {"kind": "text"}
    same_model("dask.bpca", "whole.bpca")
    output_inside("fit", f"part-*.{ending}", "--model", "streamed.bpca")
    same_model("streamed.bpca", "whole.bpca")


def test_everything_that_a_fit_writes(folder, cluster):
    outputs = ("--scores", "s.csv", "--loadings", "l.csv", "--report", "r.html", "--verbose")
    told = output_inside("fit", "part-*.parquet", "--dask", cluster.scheduler_address, *outputs)
    assert "engine dask" in told
    assert "read by Dask, in 3 blocks" in told
    scores = pd.read_csv("s.csv")
    assert len(scores) == 300
    assert scores["id"].tolist() == [f"s{i}" for i in range(300)]
    assert "dask" in (folder / "r.html").read_text()


def test_workers_of_this_machine(folder):
    told = json.loads(output_inside("fit", "part-*.parquet", "--workers", 2, "--json"))
    assert told["engine"] == "dask"
    assert told["n_samples"] == 300
    assert told["rank"] == BayesianPCA().fit(table_of_numbers()).n_components_


def test_progress_is_dasks_own(folder, cluster, monkeypatch):
    """Dask's progress bar appears on a terminal, and never among the results."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen, out = Terminal(), io.StringIO()
    arguments = ["fit", "part-*.parquet", "--dask", cluster.scheduler_address, "--json"]
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(screen), redirect_stdout(out), pytest.raises(SystemExit) as stopped:
        app(arguments, prog_name="bayespca")
    assert stopped.value.code == 0
    assert "100% Completed" in screen.getvalue()
    found = BayesianPCA().fit(table_of_numbers())
    assert json.loads(out.getvalue())["rank"] == found.n_components_


def unused_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_nobody_answers(folder, monkeypatch):
    monkeypatch.setattr("bayespca.cli.inputs.PATIENCE", 1)
    address = f"tcp://127.0.0.1:{unused_port()}"
    told = output_inside("fit", "part-*.parquet", "--dask", address, rc=1)
    assert f"no Dask scheduler answers at {address} within 1 seconds" in told
    told = output_inside("fit", "part-*.parquet", "--dask", "nonsense://x", rc=1)
    assert "no Dask scheduler answers at nonsense://x" in told
    assert get_scheduler() is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--dask", "tcp://x:1", "--workers", 2), "give only one of them"),
        (("--workers", 2, "--in-memory"), "the workers of a Dask cluster read them"),
        (("--workers", 2, "--stream"), "the workers of a Dask cluster read them"),
    ],
)
def test_options_that_contradict(folder, arguments, words):
    assert words in output_inside("fit", "part-*.parquet", *arguments, rc=1)


def test_files_that_dask_does_not_read(folder):
    np.save("x.npy", np.zeros((5, 3)))
    assert "Dask reads Parquet and CSV files" in output_inside("fit", "x.npy", "--workers", 1, rc=1)
    assert "no such file" in output_inside("fit", "other-*.csv", "--workers", 1, rc=1)
    assert "--in-memory cannot read" in output_inside("fit", "part-*.csv", "--in-memory", rc=1)


def test_a_mistake_in_a_file_is_told_by_the_worker(folder, cluster):
    text = (folder / "part-2.csv").read_text().splitlines()
    text[-1] = text[-1].replace(text[-1].split(",")[2], "oops")
    (folder / "part-2.csv").write_text("\n".join(text) + "\n")
    told = output_inside("fit", "part-*.csv", "--dask", cluster.scheduler_address, rc=1)
    assert "part-2.csv, line 101, column 'x1': 'oops' is not a number" in told


def test_without_dask(folder):
    code = (
        "import sys; sys.modules['dask'] = sys.modules['distributed'] = None; "
        "from bayespca.cli.app import app; app(['fit', 'part-*.parquet', '--workers', '2'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'needs dask: install it with pip install "bayespca[dask]".' in done.stderr
    assert "Traceback" not in done.stderr


def test_holes_with_everything_that_can_be_written(folder, cluster):
    table = pd.read_parquet("whole.parquet")
    # A table in memory with fewer holes is filled before it is fitted, unlike rows on workers.
    table.loc[::2, ["x3", "x4"]] = np.nan
    table.to_parquet("holes.parquet", index=False)
    names = ("report", "html"), ("scores", "csv"), ("loadings", "csv"), ("model", "bpca")
    wanted = [word for name, end in names for word in (f"--{name}", f"{name}.{end}")]
    output_inside("fit", "holes.parquet", "--dask", cluster.scheduler_address, *wanted)
    output_inside("fit", "holes.parquet", "--model", "local.bpca")
    ours, local = bayespca.load("model.bpca"), bayespca.load("local.bpca")
    assert ours.n_components_ == local.n_components_
    assert ours.noise_variance_ == pytest.approx(local.noise_variance_, rel=1e-8)
    assert len(pd.read_csv("scores.csv")) == 300
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
    said = output_inside("rank", "holes.parquet")
    table, why = said.split("Because of the holes")
    assert "EVB" in table
    assert "Minka" not in table
    assert "Minka" in why


# --- ratings -----------------------------------------------------------------------------------


@pytest.fixture
def rated(tmp_path, monkeypatch):
    """Ratings split into three files, in both formats, and whole in one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    users, items = np.nonzero(rng.random((60, 40)) < 0.5)
    stars = 3 + (a[users] * b[items]).sum(axis=1) + 0.3 * rng.normal(size=users.size)
    whole = pd.DataFrame({"user": users + 7, "film": items, "stars": stars.round(3)})
    for i, part in enumerate(np.array_split(np.arange(len(whole)), 3)):
        whole.iloc[part].to_csv(f"part-{i}.csv", index=False)
        whole.iloc[part].to_parquet(f"part-{i}.parquet", index=False)
    whole.to_csv("whole.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ratings_are_factorized_as_by_one_process(rated, cluster, ending):
    output_inside("ratings", "whole.csv", "--save", "one.bpca")
    address = cluster.scheduler_address
    out, _ = printed_inside(
        "ratings", f"part-*.{ending}", "--dask", address, "--save", "m.bpca", "--json"
    )
    said = json.loads(out)
    assert said["columns"] == ["user", "film", "stars"]
    one, other = bayespca.load("one.bpca"), bayespca.load("m.bpca")
    assert one.n_components_ == other.n_components_ == said["rank"] == 2
    np.testing.assert_array_equal(one.users_, other.users_)
    assert one.predict(7, one.items_) == pytest.approx(other.predict(7, one.items_), rel=1e-6)


def test_ids_of_all_files_are_of_one_kind(rated, cluster):
    """If one file names its users, the numeric ids in the other files are read as text."""
    named = pd.read_csv("part-1.csv").astype({"user": str})
    named["user"] = "u" + named["user"]
    named.to_csv("part-1.csv", index=False)
    address = cluster.scheduler_address
    output_inside("ratings", "part-*.csv", "--dask", address, "--save", "m.bpca")
    users = set(bayespca.load("m.bpca").users_)
    assert {"7", "u30"} <= users
    # The first name comes after the rows that the client inspects.
    long = pd.concat([pd.read_csv("part-0.csv").astype({"user": str})] * 40)
    long.iloc[-1, 0] = "somebody"
    long.to_csv("long.csv", index=False)
    said = output_inside("ratings", "long.csv", "--dask", address, rc=1)
    assert "ids of users look like whole numbers" in " ".join(said.split())


def test_ratings_that_no_cluster_can_take(rated, cluster):
    address = cluster.scheduler_address
    said = output_inside("ratings", "whole.csv", "--dask", address, "--workers", 2, rc=1)
    assert "give only one of them" in " ".join(said.split())
    said = output_inside("ratings", "whole.csv", "--dask", address, "--method", "gibbs", rc=1)
    assert "draws from ratings in memory" in " ".join(said.split())
    said = output_inside("ratings", "nothing-*.csv", "--dask", address, rc=1)
    assert "there is no such file" in " ".join(said.split())
    pd.read_csv("part-1.csv").rename(columns={"film": "song"}).to_csv("part-1.csv", index=False)
    said = output_inside("ratings", "part-*.csv", "--dask", address, rc=1)
    assert "name them with --columns" in " ".join(said.split())
    output_inside("ratings", "whole.csv", "--save", "one.bpca")
    said = output_inside("ratings", "one.bpca", "--dask", address, "--recommend", 2, rc=1)
    assert "--dask and --workers are for fits" in " ".join(said.split())
