"""HTML that a notebook shows for a fitted estimator: a static card with a small scree plot.

It has no scripts and fetches nothing, so it survives in saved notebooks and needs no other package.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bayespca.spectrum.records import Advice

from . import wording
from .summary import FittedPCA, summarize

# Number of singular values that fit side by side.
SHOWN = 40
WIDTH, HEIGHT, MARGIN = 300, 120, 8
# Beside a value this many times the threshold, the others would vanish on a linear scale.
STEEP = 12

STYLE = """
.bayespca-card { --ink:#1f2733; --soft:#5d6878; --line:#dfe3e8; --paper:#fff; --accent:#1f5fa8;
 --faint:#aab3bf; --warm:#b4521e; color:var(--ink); background:var(--paper); max-width:44rem;
 border:1px solid var(--line); border-radius:10px; padding:14px 18px;
 font:14px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif; display:flex; flex-wrap:wrap;
 gap:8px 28px; align-items:center }
.bayespca-card > div { flex:1 1 18rem; min-width:0 }
.bayespca-card > svg { flex:0 1 300px; min-width:0; max-width:100%; height:auto }
.bayespca-card strong { display:block; font:600 19px/1.3 Georgia,"Times New Roman",serif }
.bayespca-card p { margin:4px 0 0; color:var(--soft) }
.bayespca-card ul { margin:8px 0 0; padding:0 0 0 1.1em; color:var(--ink) }
@media (prefers-color-scheme: dark) { .bayespca-card { --ink:#e6e9ee; --soft:#a3adba;
 --line:#363d47; --paper:#171b21; --accent:#7ab4f5; --faint:#66717f; --warm:#f0a070 } }
[data-jp-theme-light="true"] .bayespca-card, .vscode-light .bayespca-card { --ink:#1f2733;
 --soft:#5d6878; --line:#dfe3e8; --paper:#fff; --accent:#1f5fa8; --faint:#aab3bf; --warm:#b4521e }
[data-jp-theme-light="false"] .bayespca-card, .vscode-dark .bayespca-card { --ink:#e6e9ee;
 --soft:#a3adba; --line:#363d47; --paper:#171b21; --accent:#7ab4f5; --faint:#66717f;
 --warm:#f0a070 }
"""


# Numbers that the card shows if a model has them.
NAMED = (
    ("nonlinear_evidence_", "evidence over a linear PCA"),
    ("noise_variance_", "noise variance"),
    ("free_energy_", "free energy"),
)


def fragment(model: BaseEstimator) -> str:
    """The HTML of a fitted estimator: a full card for a PCA, a short one for others."""
    if hasattr(model, "spectrum_"):
        summary = summarize(model)
        said = [Advice("noise", sentence)] if (sentence := wording.noise_sentence(summary)) else []
        numbers = (
            wording.kept(summary.rank, summary.how_sure),
            f"{wording.percent(summary.explained)} of the variance",
            f"noise {wording.noise_level(summary)} (standard deviation)",
            f"{wording.plural(summary.n_samples, 'sample')} × "
            f"{wording.plural(summary.n_features, 'feature')}",
        )
        notes = (*said, *summary.notes)
        return _card(wording.headline(summary), " · ".join(numbers), notes, _scree(model))
    parts = []
    if hasattr(model, "n_components_"):
        parts.append(wording.plural(model.n_components_, "component"))
    if hasattr(model, "ranks_"):
        parts.append(f"ranks {', '.join(str(int(rank)) for rank in model.ranks_)}")
    for name, words in NAMED:
        value = getattr(model, name, None)
        if isinstance(value, float) and np.isfinite(value):
            parts.append(f"{words} {wording.significant(value)}")
    if hasattr(model, "n_samples_"):
        parts.append(wording.plural(model.n_samples_, "sample"))
    if hasattr(model, "n_features_in_"):
        parts.append(wording.plural(model.n_features_in_, "feature"))
    advice = model.status_.advice if hasattr(model, "status_") else ()
    return _card(type(model).__name__, " · ".join(parts), advice)


def _card(title: str, numbers: str, notes: Iterable[Advice], picture: str = "") -> str:
    items = "".join(f"<li>{escape(note.text)}</li>" for note in notes)
    return (
        f'<style>{STYLE}</style><div class="bayespca-card"><div>'
        f"<strong>{escape(title)}</strong><p>{escape(numbers)}</p>"
        f"{f'<ul>{items}</ul>' if items else ''}</div>{picture}</div>"
    )


def _scree(model: FittedPCA) -> str:
    """Singular values as stems: those above the dashed threshold are kept."""
    spectrum, k = model.spectrum_, model.n_components_
    gamma = spectrum.singular_values[:SHOWN]
    if not gamma.size or not gamma[0] > 0:
        return ""
    # In units of the largest: the data may have any scale.
    heights, cut = _heights(gamma / gamma[0], float(model.threshold_) / spectrum.scale / gamma[0])
    across = (np.arange(gamma.size) + 0.5) / gamma.size * (WIDTH - 2 * MARGIN) + MARGIN
    floor, room = HEIGHT - MARGIN, HEIGHT - 2 * MARGIN
    stems, line = "", ""
    for h, (x, height) in enumerate(zip(across, heights, strict=True)):
        color, top = "accent" if h < k else "faint", floor - height * room
        stems += (
            f'<g style="stroke:var(--{color});fill:var(--{color})"><line x1="{x:.1f}" '
            f'x2="{x:.1f}" y1="{floor:.1f}" y2="{top:.1f}" stroke-width="2"/>'
            f'<circle cx="{x:.1f}" cy="{top:.1f}" r="2.5"/></g>'
        )
    if cut is not None:
        y = f"{floor - cut * room:.1f}"
        line = (
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" '
            'style="stroke:var(--warm)" stroke-dasharray="5 4"/>'
        )
    said = f"The {gamma.size} largest singular values; {k} kept"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{said}"><title>{said}</title>{stems}{line}</svg>'
    )


def _heights(values: Any, cut: float) -> tuple[Any, float | None]:
    """Heights of values and threshold between 0 and 1; logarithmic if one dwarfs the rest."""
    known = bool(np.isfinite(cut) and cut > 0)
    if known and STEEP * cut < 1:
        bottom = min(cut, float(values[values > 0].min())) / 2
        values, cut = (1 - np.log(np.maximum(v, bottom)) / np.log(bottom) for v in (values, cut))
    top = max(1.0, float(cut)) if known else 1.0
    return values / top, float(cut) / top if known else None
