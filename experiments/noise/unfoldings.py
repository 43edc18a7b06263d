"""Unfoldings of tensors of fluorescence spectra, whose ranks chemistry knows.

Rows are the mode, columns all others. Data are not centred, because the ranks are those of what was
measured. What chemistry leaves over is not noise but smooth: scattered light, and shapes that
depend a little on the concentration.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayespca import BayesianPCA

from ..comparing import Comparison, value
from ..data import Missing
from ..records import Outcome, Run, Table
from .models import NOISES, all_fitted, cells

# Heavy tails of cells, which need sweeps, are left out.
SHOWN = NOISES[:-1]
# A component that is of interest has at least such a share of the squares.
SHARE = 2e-4

# Modes that take seconds.
QUICK = {"amino": (1,), "kinetic": ()}
DEFAULT, HALF = "default", 'noise_variance="0db"'
SHARES = f"{100 * SHARE:g} % of the squares or more"
ORDER = (DEFAULT, "chosen noise", HALF, SHARES)


def unfolded(T: np.ndarray, mode: int) -> np.ndarray:
    return np.moveaxis(T, mode, 0).reshape(T.shape[mode], -1)


def reproduce(run: Run) -> Outcome:
    lines: list[Comparison] = []
    rows: list[tuple[str, ...]] = []
    for name, T in run.each((("amino", run.data.tensor("amino")), *_kinetic(run))):
        modes = QUICK[name] if run.quick else range(T.ndim)
        found = [ranks(unfolded(T, mode)) for mode in run.each(modes, 0.3)]
        truth = [run.printed[name][mode] for mode in modes]
        for rule in (DEFAULT, HALF, SHARES) if found else ():
            lines.append(value(f"{name}: {rule}", _tuple(truth), _tuple(r[rule] for r in found)))
        for mode, of_mode, true in run.each(zip(modes, found, truth, strict=True), 0.7):
            X = unfolded(T, mode)
            what = f"{name}, mode {mode + 1} ({X.shape[0]}×{X.shape[1]:,})"
            fits = cells(all_fitted(X, SHOWN, center=False), SHOWN)
            rows.append((what, str(true), *(str(of_mode[rule]) for rule in ORDER), *fits))
    return Outcome(
        tuple(lines),
        setting="Unfoldings, not centred; of the kinetic data the samples without holes.",
        tables=(
            Table(
                "Rank by each rule and under each noise model, and in brackets by how many nats "
                "its evidence exceeds that of isotropic noise.",
                ("unfolding", "chemistry", *ORDER, *SHOWN),
                tuple(rows),
            ),
        ),
        remarks=(run.printed["words"],),
    )


def ranks(X: np.ndarray) -> dict[str, int | str]:
    """What can be said of the rank of an unfolding without a choice of the noise model."""
    default = BayesianPCA(center=False).fit(X)
    half = BayesianPCA(center=False, noise_variance="0db").fit(X)
    squares = np.linalg.svd(X, compute_uv=False) ** 2
    return {
        DEFAULT: default.n_components_,
        "chosen noise": default.noise_,
        HALF: half.n_components_,
        SHARES: int((squares >= SHARE * squares.sum()).sum()),
    }


def _tuple(numbers: Iterable[object]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _kinetic(run: Run) -> list[tuple[str, np.ndarray]]:
    """The samples without holes, which are zeros."""
    try:
        T = run.data.tensor("kinetic_fluorescence")
    except Missing:
        return []
    return [("kinetic", T[(T != 0).all(axis=(1, 2, 3))])]
