"""The command `bayespca`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command, or say what has to be installed for it."""
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
