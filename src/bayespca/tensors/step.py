"""The step of the iteration: a sweep over all factors and the core, by coordinates or gradients."""

from __future__ import annotations

from functools import partial

from bayespca.inference.loop import Info, Step

from . import complete, gradient, holes
from .data import Cells
from .updates import Equations, Model, State, finished


def stepping(data: Cells, model: Model, *, by_gradient: bool = False) -> Step[State]:
    """The step that suits the data."""
    if by_gradient:
        return partial(gradient.step, data=data, model=model)
    return partial(_swept, data=data, model=model)


def _swept(state: State, data: Cells, model: Model) -> tuple[State, Info]:
    state, here = holes.moved(state, data)
    equations: Equations
    if data.is_whole:
        here = filled(here, state)
        state, equations = complete.swept(state, here, model)
    else:
        state, equations = holes.swept(state, here, model)
    return finished(state, equations, here, model)


def equations_of(state: State, data: Cells) -> Equations:
    """What the data say of the core with the factors as they are."""
    if data.is_whole:
        return complete.projected(state, filled(data, state))
    return holes.gathered(state, data)


def filled(data: Cells, state: State) -> Cells:
    """With what the state expects in the holes that are to be filled."""
    return data.filled(holes.low_rank(state, data)) if data.seen is not None else data
