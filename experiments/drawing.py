"""The look that all figures share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# One colour for a method wherever it is drawn.
COLOURS = {
    "evb": "#1f5fa8",
    "vb": "#1f5fa8",
    "epb": "#c8681c",
    "pb": "#c8681c",
    "pb-a": "#2e8b57",
    "emap": "#8a4fa3",
    "map": "#8a4fa3",
    "ml": "#6b7280",
}
REFERENCE = "#6b7280"


def panels(n: int = 1, *, width: float = 4.6, height: float = 3.4) -> tuple[Figure, list[Any]]:
    """A figure with n panels side by side. Made without pyplot, which would keep it for ever."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n, height), layout="constrained")
    axes = [figure.add_subplot(1, n, i + 1) for i in range(n)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e5e7eb", linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes
