"""Without a terminal, progress is a line now and then, so that no run is silent for long."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bayespca import GibbsPCA, MatrixFactorization
from bayespca.cli import progress, reproduction

SLOW = """
import time
from bayespca.cli import progress as p
from bayespca.inference import Info
p.EVERY = 0.2
with p.progress("reading x.csv", 100) as advance:
    advance(50)
    time.sleep(0.5)
with p.progress("decomposing"):
    time.sleep(0.3)
with p.sweeps("fitting", 1e-8) as seen:
    for n in range(1, 5):
        seen(n, Info(9.0, 3, 1.0, to_gain=10.0**-n))
        time.sleep(0.15)
"""


def test_lines_are_printed_where_there_is_no_terminal():
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert done.stdout == ""
    assert lines[0].startswith("reading x.csv: 50 %, 0 s, about 0 s left")
    assert any(line == "decomposing: 0 s" for line in lines)
    assert any(line.startswith("fitting: sweep") and "nats to gain" in line for line in lines)


class Bar:
    """A stand-in for a progress bar that records its updates."""

    def __init__(self):
        self.seen = []

    def update(self, task, **shown):
        self.seen.append(shown)


@pytest.mark.parametrize("sampler", ["ratings", "PCA"])
def test_samplers_show_how_far_they_are(sampler, monkeypatch):
    bar = Bar()
    monkeypatch.setattr(progress, "_shown", lambda *what, has_bar: nullcontext((bar, 0)))
    rng, options = np.random.default_rng(0), {"n_warmup": 3, "n_draws": 5, "n_chains": 2}
    with progress.sweeps("fitting", 1e-5) as seen, warnings.catch_warnings():
        # So few draws cannot mix.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if sampler == "ratings":
            model = MatrixFactorization("gibbs", random_state=0, **options)
            model.fit(rng.normal(size=(20, 8)), callback=seen)
        else:
            GibbsPCA(random_state=0, **options).fit(rng.normal(size=(20, 8)), callback=seen)
    n = 8 if sampler == "ratings" else 16
    assert [one["completed"] for one in bar.seen] == [k / n for k in range(1, n + 1)]
    assert f"sweep {n} of {n}" in bar.seen[-1]["description"]


@pytest.mark.parametrize(
    ("share", "seconds", "shown"),
    [
        (0.4, 20.0, "x: 40 %, 20 s, about 30 s left"),
        (0.0, 20.0, "x: 0 %, 20 s"),
        (None, 130.0, "x: 2 min 10 s"),
    ],
)
def test_a_line_tells_the_share_and_the_time_left(share, seconds, shown):
    assert progress.line_for("x", share, seconds) == shown


def test_programs_are_shown_as_they_run(tmp_path, monkeypatch):
    shown = []

    @contextmanager
    def progress(what, total):
        shown.append((what, total))
        yield shown.append

    monkeypatch.setattr(reproduction, "progress", progress)
    reproduction.reproduce("icml2011/table1", data=None, quick=True, out=tmp_path / "page")
    (what, total), *shares = shown
    assert (what, total) == ("icml2011/table1, 1 of 1", 1.0)
    assert len(shares) > 3
    assert sum(shares) == pytest.approx(1.0)


def test_the_share_of_a_program_that_runs(tmp_path):
    """The lines on standard error when the output is piped show a share that only grows."""
    slow = f"""
from pathlib import Path
from bayespca.cli import progress, reproduction
progress.EVERY = 0.1
reproduction.reproduce("lecture/kmeans", data=None, quick=True, out=Path({str(tmp_path)!r}))
"""
    done = subprocess.run([sys.executable, "-c", slow], capture_output=True, text=True, check=True)
    shares = re.findall(r"lecture/kmeans, 1 of 1: (\d+) %, .* left", done.stderr)
    assert [int(share) for share in shares] == sorted(int(share) for share in shares)
    assert len(set(shares)) > 2
