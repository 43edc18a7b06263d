"""The exit code is that of the command, however the process ends; lost output is an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "bayespca"]
TABLE = "a,b,c\n" + "".join(f"{i},{i * i % 7},{i % 5}\n" for i in range(30)) + "1,,2\n"
unix = pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
# Moments after the end of the command at which Ctrl-C arrives.
MOMENTS = {
    "what was registered": "atexit.register(interrupt)",
    "threads": "threading.Thread(target=lambda: (time.sleep(1.5), interrupt(), time.sleep(30)))"
    ".start()",
    "modules": "sys.modules['last'] = type('Last', (), {'__del__': lambda self: interrupt()})()",
}
INTERRUPTED = """
import atexit, os, signal, sys, threading, time
def interrupt(kill=os.kill, process=os.getpid(), number=signal.SIGINT):
    kill(process, number)
{moment}
sys.argv = ["bayespca", "--version"]
from bayespca.cli import main
main()
"""


@unix
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interruption_after_the_command_has_ended(moment):
    code = INTERRUPTED.format(moment=MOMENTS[moment])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("bayespca ")
    assert done.returncode == (0 if moment == "modules" else 130)
    assert done.stderr == ""


@unix
def test_an_interruption_before_the_command_has_begun():
    code = "import os, signal\n" + INTERRUPTED.format(
        moment="sys.meta_path.insert(0, type('Late', (), {'find_spec': lambda *given: "
        "interrupt() if given[-3] == 'typer' else None})())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, "bayespca: interrupted.\n")


@unix
def test_where_nobody_may_interrupt():
    code = INTERRUPTED.format(moment="signal.signal(signal.SIGINT, signal.SIG_IGN); interrupt()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_pools_of_threads_end():
    code = (
        "import sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "ThreadPoolExecutor(2).submit(int)\n"
        "sys.argv = ['bayespca', '--version']\n"
        "from bayespca.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.startswith(b"bayespca ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "buffered"),
    [
        *(("fit x.csv", buffered) for buffered in (True, False)),
        *(("--help", buffered) for buffered in (True, False)),
        *((one, True) for one in ("fit x.csv --json", "impute x.csv -o -", "--version", "fit -h")),
    ],
)
def test_output_that_cannot_be_written(arguments, buffered, tmp_path):
    (tmp_path / "x.csv").write_text(TABLE)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    env |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=env,
            check=False,
        )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == "bayespca: cannot write to standard output: No space left on device."
    assert "Traceback" not in done.stderr


def test_whoever_closes_the_pipe_has_seen_enough(tmp_path):
    (tmp_path / "x.csv").write_text(TABLE)
    for arguments in (["fit", "x.csv"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
        os.close(write)
        assert (done.returncode, done.stderr) == (1, b"")


@unix
def test_an_interruption_while_standard_input_is_read(tmp_path):
    job = subprocess.Popen(
        [*COMMAND, "fit", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    # The command has read part of its standard input and waits for the rest.
    job.stdin.write(TABLE.encode())
    job.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(timeout=3)
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 130
    assert b"interrupted" in said
    assert b"Traceback" not in said
