"""The command `bayespca`."""

from __future__ import annotations

import sys

from .process import run_and_exit


def main() -> None:
    """Run the command, and end the process with its exit code."""
    run_and_exit(_command)


def _command() -> None:
    """Run the command, or exit with a message on what to install."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(
            f"bayespca: the command needs {error.name}: install it with "
            'pip install "bayespca[cli,io,report]".'
        )
    from .app import run

    run()
