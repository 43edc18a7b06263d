"""`bayespca reproduce`: runs the programs in experiments/, and writes the page of their results.

In a checkout, experiments/ is next to src/; in an installed package, it is inside the package.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.table import Table as Grid

from . import screen
from .progress import progress

PACKAGE = "bayespca_experiments"
MARKS = {"differs": "[red]differs[/red]", "skipped": "[dim]skipped[/dim]"}


def experiments() -> ModuleType:
    """The package of programs, imported under a name of its own."""
    if PACKAGE in sys.modules:
        return sys.modules[PACKAGE]
    root = Path(__file__).parents[1]
    places = (root.parents[1] / "experiments", root / "experiments")
    folder = next((place for place in places if (place / "__init__.py").is_file()), None)
    if folder is None:
        raise ImportError(
            "the programs that reproduce the papers are not part of this installation: install "
            'bayespca from its wheel, or from a checkout with pip install -e ".[all]".'
        )
    spec = spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[PACKAGE] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reproduce(target: str, *, data: Path | None, quick: bool, out: Path) -> None:
    """Run the programs of `target`, print each result when it is ready, and write the page."""
    experiments()
    page = import_module(f"{PACKAGE}.page")
    running = import_module(f"{PACKAGE}.running")
    missing = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"the page needs {' and '.join(missing)}: install what it takes with "
            'pip install "bayespca[plot,report]".'
        )
    if data is not None and not data.is_dir():
        raise ValueError(f"{data} is no folder: --data names the folder with the data sets.")
    folders = tuple(Path(folder) for folder in (data, os.environ.get("BAYESPCA_DATA")) if folder)
    places = import_module(f"{PACKAGE}.data").Data(folders)
    console = screen.console()
    chosen = running.chosen(target)
    for number, (paper, program) in enumerate(chosen, start=1):
        with progress(f"{paper}/{program}, {number} of {len(chosen)}", 1.0) as advance:
            result, outcome = running.reproduce(
                paper, program, data=places, quick=quick, advance=advance
            )
            page.keep(out, result, outcome.figures)
        _show(console, result, page.duration(result.seconds))
    markdown, html = page.write(out)
    console.print(f"\nThe page is in [bold]{html}[/bold], and as Markdown in {markdown}.")


def _show(console: Any, result: Any, time: str) -> None:
    console.print(
        f"\n[bold]{result.paper}/{result.program}[/bold]  {result.title}  [dim]{time}[/dim]"
    )
    if result.skipped:
        console.print(f"  skipped: {result.skipped}")
        return
    grid = Grid(box=None, padding=(0, 2), show_header=True, header_style="dim")
    for name in ("", "printed", "computed", ""):
        grid.add_column(name)
    for line in result.comparisons:
        grid.add_row(line.what, line.printed, line.computed, MARKS.get(line.verdict, line.verdict))
    console.print(grid)
