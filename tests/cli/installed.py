"""The command as it is installed, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

COMMAND = [sys.executable, "-m", "bayespca"]


def run(*arguments, rc=0):
    """What it prints on both streams, as one line of words."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == rc, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join((done.stdout + done.stderr).split())
