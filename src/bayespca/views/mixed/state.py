"""The state of sweeps over views with their own likelihoods."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bayespca.arrays.types import FloatArray, Index, Matrix, Vector
from bayespca.discrete.data import Sites
from bayespca.discrete.normals import Normals
from bayespca.discrete.step import evaluated_all

from ..pattern import InViews, cost_of_pattern
from .data import MixedViews

# The least prior variance of loadings and means, in units of natural parameters.
LEAST = 1e-8
# The prior variance of the means of centred numbers, in units of their noise. If it were learned,
# it would converge to 0 too slowly.
UNIT = 1.0


@dataclass(frozen=True, eq=False)
class MixedState(InViews):
    """All that the next sweep needs.

    Attributes
    ----------
    rows
        The posterior of A: (n, H).
    columns
        For each view the posterior of its rows of (B, μ), with the factors in the view only:
        (q_v, H_v + 1).
    prior
        c_vh², the prior variance of the loadings of each factor in each view, 0 if the factor is
        not in the view: (V, H).
    spread
        The prior variance of the means of each view: (V,).
    found
        The sites of cells under these posteriors.
    parameters
        Parameters of the likelihoods.
    energy
        The free energy, including the cost of the pattern.
    calm
        Whether the free energy has nearly settled, so that factors may leave views.
    """

    rows: Normals
    columns: tuple[Normals, ...]
    prior: Matrix
    spread: Vector
    found: Sites
    parameters: tuple[Matrix, ...]
    energy: float = np.inf
    calm: bool = False

    def on(self, v: int) -> Index:
        """The factors in a view."""
        return np.flatnonzero(self.prior[v])

    def wide(self, v: int) -> Index:
        """Indices of the factors in a view and of the mean, among all factors and the mean."""
        return np.append(self.on(v), self.rank)

    def prior_of(self, v: int) -> FloatArray:
        """Prior variances of the loadings in a view, and of its means: (H_v + 1,)."""
        return np.append(self.prior[v, self.on(v)], self.spread[v])

    def all_columns(self, table: MixedViews) -> Normals:
        """(B, μ) of all columns, 0 where a factor is not in a view."""
        q, width = table.view.size, self.rank + 1
        size = width * (width + 1) // 2
        out = Normals(np.zeros((q, width)), np.zeros((q, size)), np.zeros(q))
        for v, js in enumerate(table.columns):
            some = self.columns[v].among(self.wide(v), width)
            out.mean[js], out.cov[js], out.log_dets[js] = some.mean, some.cov, some.log_dets
        return out

    def with_energy(self, table: MixedViews) -> MixedState:
        """F = −Σ⟨log p(x | z)⟩ + KL(r(A)‖prior) + Σ_v KL(r(B_v, μ_v)‖prior) + `cost_of_pattern`."""
        energy = self.rows.energies(np.ones(self.rank)).sum() - self.found.log_likelihood.sum()
        energy += sum(
            columns.energies(self.prior_of(v)).sum() for v, columns in enumerate(self.columns)
        )
        return replace(self, energy=float(energy) + cost_of_pattern(self.active, table.sizes))

    def evaluated(self, table: MixedViews) -> MixedState:
        """The state with sites, priors and free energy computed from its posterior."""
        cells = table.cells.at(self.parameters)
        found = evaluated_all(self.rows, self.all_columns(table), cells)
        return replace(self, found=found).with_best_priors(table).with_energy(table)

    def with_best_priors(self, table: MixedViews) -> MixedState:
        prior, spread = np.zeros_like(self.prior), self.spread.copy()
        for v, columns in enumerate(self.columns):
            if table.sizes[v]:
                best = best_priors(columns)
                prior[v, self.on(v)] = best[:-1]
                spread[v] = UNIT if table.alike[v] else best[-1]
        return replace(self, prior=prior, spread=spread)

    def in_order(self, factors: Index) -> MixedState:
        columns = []
        for v, old in enumerate(self.columns):
            place = {int(h): i for i, h in enumerate(self.on(v))}
            order = [place[h] for h in factors.tolist() if h in place]
            columns.append(old.only(np.array([*order, len(place)], dtype=np.intp)))
        rows, prior = self.rows.only(factors), self.prior[:, factors]
        return replace(self, rows=rows, columns=tuple(columns), prior=prior)

    def without(self, h: int) -> MixedState:
        """Drop a factor; the natural parameters of the others stay as they are."""
        columns = tuple(
            old.beside_zero(int(np.count_nonzero(self.prior[v, :h]))) if self.prior[v, h] else old
            for v, old in enumerate(self.columns)
        )
        rows, prior = self.rows.beside_zero(h), np.delete(self.prior, h, axis=1)
        return replace(self, rows=rows, columns=columns, prior=prior, energy=np.inf)


def best_priors(columns: Normals) -> FloatArray:
    """Prior variances of loadings and means that minimise the free energy: the mean of ⟨b²⟩."""
    return np.asarray(np.maximum(columns.squares.mean(axis=0), LEAST))
