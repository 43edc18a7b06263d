"""The rank of each mode from its unfolding alone, by EVB's closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayespca.arrays.namespaces import to_numpy
from bayespca.arrays.types import Array, FloatArray
from bayespca.engines.decomposing import decompose
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS
from bayespca.spectrum.records import Solution, Spectrum

from .modes import unfolded


@dataclass(frozen=True, eq=False)
class Unfolding:
    """Singular values of an unfolding, their closed form, and the left vectors (M, k)."""

    spectrum: Spectrum
    solution: Solution
    left: FloatArray


def unfoldings(
    T: Array,
    *,
    method: str = "evb",
    noise_variance: float | str = "auto",
    spare: int = 0,
    needed: tuple[int | None, ...] = (),
) -> tuple[Unfolding, ...]:
    """The closed form of every unfolding.

    Each has `needed` vectors, or `spare` more than the closed form keeps.
    """
    form = ClosedForm(METHODS[method], noise_variance=noise_variance)
    counts = needed or (None,) * T.ndim
    return tuple(_unfolding(unfolded(T, n), form, spare, count) for n, count in enumerate(counts))


def _unfolding(X: Array, form: ClosedForm, spare: int, needed: int | None) -> Unfolding:
    plan = replace(form, n_features=int(X.shape[0]))
    # Transposed, because engines return right vectors.
    found = decompose(
        X.T,
        plan=plan,
        center=False,
        n_needed=needed or spare,
        random_state=0,
        dead_rows=form.sets_rows_aside,
    )
    solution = plan(found.spectrum)
    known = found.spectrum.singular_values.size
    count = min(solution.rank + spare if needed is None else needed, known)
    return Unfolding(found.spectrum, solution, to_numpy(found.right(count)).T)
