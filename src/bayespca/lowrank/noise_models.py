"""Noise models, the third axis: whether rows, columns or cells have variances of their own.

The noise of cell (i, j) has the variance σ²·uᵢ·vⱼ/τᵢⱼ; a model says which of the factors differ
from 1, each with a gamma prior that is learned (`scales`). Where only rows and columns differ, data
divided by √(uᵢvⱼ) have noise of one variance, so that the closed form applies. Variances of cells
need sweeps with weights. A row's scores are in units of the row's noise, and a column's loadings in
units of the column's noise: their priors are those of the scaled data.
"""

from __future__ import annotations

from dataclasses import dataclass

# The code of the advice that names outlying rows.
OUTLYING_ROWS = "outlying-rows"


@dataclass(frozen=True)
class NoiseModel:
    """Parts of the data that have noise variances of their own.

    Attributes
    ----------
    name
        Name by which users choose it.
    rows, columns, cells
        Whether each of them has a variance of its own.
    neighbours
        Whether noise is correlated between neighbouring features: autoregressive in their order.
    order
        How many features before one its noise depends on; 0 where the evidence is to tell.
    """

    name: str
    rows: bool = False
    columns: bool = False
    cells: bool = False
    neighbours: bool = False
    order: int = 0

    @property
    def needs_rows(self) -> bool:
        """Whether learning it takes the rows themselves, not only sums over them."""
        return self.rows or self.cells

    @property
    def reason(self) -> str:
        """The reason for it, as a sentence without a full stop; empty for equal noise."""
        if self.cells:
            return "Some cells have far larger errors than others"
        if self.neighbours:
            return "Neighbouring features have correlated noise"
        sides = (("features", self.columns), ("samples", self.rows))
        where = " and ".join(f"between the {side}" for side, differs in sides if differs)
        return f"Noise differs {where}" if where else ""


ISOTROPIC = NoiseModel("isotropic")
PER_FEATURE = NoiseModel("per-feature", columns=True)
PER_SAMPLE = NoiseModel("per-sample", rows=True)
BOTH = NoiseModel("both", rows=True, columns=True)
STUDENT = NoiseModel("student", rows=True)
STUDENT_CELLS = NoiseModel("student-cells", columns=True, cells=True)
AUTOREGRESSIVE = NoiseModel("autoregressive", columns=True, neighbours=True)

NOISES = {
    model.name: model
    for model in (
        *(ISOTROPIC, PER_FEATURE, PER_SAMPLE, BOTH),
        *(STUDENT, STUDENT_CELLS, AUTOREGRESSIVE),
    )
}
