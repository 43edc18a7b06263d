"""The command as people run it: in a process of its own, or inside this one."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from bayespca.cli.app import app

COMMAND = [sys.executable, "-m", "bayespca"]


def printed(*arguments, rc=0, **options):
    """What the command prints to standard output and to standard error; it must end with `rc`.

    `options` are those of the process: `cwd`, `env`.
    """
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == rc, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def run(*arguments, rc=0, **options):
    """What it prints on both streams, as one line of words."""
    return " ".join("".join(printed(*arguments, rc=rc, **options)).split())


def printed_inside(*arguments, rc=0):
    """`printed` without a new process, which takes seconds; for what is not about processes."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        app(list(map(str, arguments)), prog_name="bayespca")
    assert stopped.value.code == rc, out.getvalue() + err.getvalue()
    assert "Traceback" not in err.getvalue()
    return out.getvalue(), err.getvalue()


def run_inside(*arguments, rc=0):
    """`run` without a new process."""
    return " ".join("".join(printed_inside(*arguments, rc=rc)).split())
