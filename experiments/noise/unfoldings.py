"""Unfoldings of tensors of fluorescence spectra, whose ranks chemistry knows.

Rows are the mode, columns all others. Data are not centred, because the ranks are those of what was
measured. What chemistry leaves over is not noise but smooth: scattered light, and shapes that
depend a little on the concentration.
"""

from __future__ import annotations

import numpy as np

from bayespca import BayesianPCA

from ..comparing import Comparison, number
from ..data import Missing
from ..records import Outcome, Run, Table
from .models import NOISES, all_fitted, cells

# Heavy tails of cells, which need sweeps, are left out.
SHOWN = NOISES[:-1]

# Modes that take seconds.
QUICK = {"amino": (1,), "kinetic": ()}


def unfolded(T: np.ndarray, mode: int) -> np.ndarray:
    return np.moveaxis(T, mode, 0).reshape(T.shape[mode], -1)


def reproduce(run: Run) -> Outcome:
    lines: list[Comparison] = []
    rows: list[tuple[str, ...]] = []
    for name, T in (("amino", run.data.tensor("amino")), *_kinetic(run)):
        for mode in QUICK[name] if run.quick else range(T.ndim):
            X, truth = unfolded(T, mode), run.printed[name][mode]
            what = f"{name}, mode {mode + 1} ({X.shape[0]}×{X.shape[1]:,})"
            default = BayesianPCA(center=False).fit(X)
            half = BayesianPCA(center=False, noise_variance="0db").fit(X).n_components_
            lines.append(number(f"{what}: default", truth, default.n_components_))
            lines.append(number(f'{what}: noise_variance="0db"', truth, half))
            found = cells(all_fitted(X, SHOWN, center=False), SHOWN)
            chosen = f"{default.n_components_}, {default.noise_}"
            rows.append((what, str(truth), chosen, *found, str(half)))
    return Outcome(
        tuple(lines),
        setting="Unfoldings, not centred; of the kinetic data the samples without holes.",
        tables=(
            Table(
                "Rank under each noise model, and in brackets by how many nats its evidence "
                "exceeds that of isotropic noise.",
                ("unfolding", "truth", "default", *SHOWN, 'noise_variance="0db"'),
                tuple(rows),
            ),
        ),
        remarks=(run.printed["words"],),
    )


def _kinetic(run: Run) -> list[tuple[str, np.ndarray]]:
    """The samples without holes, which are zeros."""
    try:
        T = run.data.tensor("kinetic_fluorescence")
    except Missing:
        return []
    return [("kinetic", T[(T != 0).all(axis=(1, 2, 3))])]
