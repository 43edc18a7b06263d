"""Options in the panels of the help."""

from __future__ import annotations

from typing import Any

import typer

READING, MODEL, OUTPUT = "Reading data", "The model", "Output"


def option(*names: str, panel: str, **settings: Any) -> Any:
    """An option in a panel of the help."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def output(*names: str, **settings: Any) -> Any:
    """An option in the panel for outputs."""
    return option(*names, panel=OUTPUT, **settings)
