"""Run the command as a user would, in this process (seconds faster) or in a process of its own.

`printed` returns both streams; `output` returns standard output, or both streams when a failure is
expected; `run` joins the words of both into one line. On a slow machine standard error also
carries lines of progress. Tests of pipes, signals and exit codes start their own processes.
"""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bayespca.cli import standard
from bayespca.cli.app import app

COMMAND = [sys.executable, "-m", "bayespca"]
# The script that pip puts beside Python when the package is installed.
PROGRAM = Path(sys.executable).parent / "bayespca"


def printed(*arguments, rc=0, cwd=".", env=None):
    """Standard output and standard error of the command, which must exit with `rc`.

    It runs in this process unless `env` is given.
    """
    if env is None:
        with chdir(cwd):
            return printed_inside(*arguments, rc=rc)
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=env,
    )
    assert done.returncode == rc, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout, done.stderr


def output(*arguments, rc=0, **options):
    out, err = printed(*arguments, rc=rc, **options)
    return out if rc == 0 else out + err


def run(*arguments, rc=0, **options):
    return " ".join("".join(printed(*arguments, rc=rc, **options)).split())


# --- always without a new process ----------------------------------------------------------------


def printed_inside(*arguments, rc=0):
    out, err = io.StringIO(), io.StringIO()
    _called(arguments, rc, out, err)
    return out.getvalue(), err.getvalue()


def output_inside(*arguments, rc=0):
    """Both streams in the order in which they were written."""
    both = io.StringIO()
    _called(arguments, rc, both, both)
    return both.getvalue()


def run_inside(*arguments, rc=0):
    return " ".join(output_inside(*arguments, rc=rc).split())


def piped_inside(given, *arguments, rc=0):
    """Standard output, as bytes, and standard error of the command with bytes as its input."""
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given))))
        try:
            _called(arguments, rc, out, err)
        finally:
            standard.forget()
    return out.buffer.getvalue(), err.getvalue()


def _called(arguments, rc, out, err):
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        app(list(map(str, arguments)), prog_name="bayespca")
    said = err.getvalue() if isinstance(out, io.TextIOWrapper) else out.getvalue() + err.getvalue()
    assert stopped.value.code == rc, said
    assert "Traceback" not in said
