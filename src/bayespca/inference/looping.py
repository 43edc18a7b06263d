"""`Looping`: the length, starts, callback and checkpoint of the iterations of a fit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from .accelerating import Chart
from .checkpoint import Checkpoint
from .loop import Callback, Run, Step, best_of, run

S = TypeVar("S")


@dataclass(frozen=True)
class Looping:
    """Options that every iteration has.

    `n_init` random starts are tried, each with its own generator from `random_state`, and the
    lowest free energy wins. With `checkpoint`, a path, an interrupted fit is resumed by the next
    one that has the same `mark`. A run is given up once it is clear that its free energy, in the
    units of the data, stays above `to_beat`.
    """

    max_iter: int = 1000
    tol: float = 1e-8
    n_init: int = 1
    random_state: int | np.random.Generator | None = None
    callback: Callback | None = None
    checkpoint: str | os.PathLike[str] | None = None
    mark: str = ""
    to_beat: float = np.inf

    def for_part(self, name: str) -> Looping:
        """These options for one of several iterations of a fit, with a checkpoint of its own.

        A resumed fit passes through the other iterations first.
        """
        if self.checkpoint is None:
            return self
        path = Path(self.checkpoint)
        return replace(self, checkpoint=path.with_name(f"{path.name}.{name}"))

    def run(
        self,
        step: Step[S],
        start: Callable[[np.random.Generator], S],
        *,
        n_init: int | None = None,
        chart: Chart[S] | None = None,
    ) -> Run[S]:
        """Run from each start and return the best run."""
        count = self.n_init if n_init is None else n_init
        runs, keepers = [], []
        for i, rng in enumerate(np.random.default_rng(self.random_state).spawn(count)):
            state = start(rng)
            keeper = self._keeper(i, type(state))
            found = run(
                step,
                state,
                max_iter=self.max_iter,
                tol=self.tol,
                callback=self.callback,
                keeper=keeper,
                chart=chart,
            )
            runs.append(found)
            keepers.append(keeper)
        for keeper in filter(None, keepers):
            keeper.remove()
        return best_of(runs)

    def _keeper(self, index: int, state: type[S]) -> Checkpoint[S] | None:
        if self.checkpoint is None:
            return None
        path = Path(self.checkpoint)
        path = path.with_name(f"{path.name}.{index + 1}") if index else path
        seed = self.random_state if isinstance(self.random_state, int) else None
        mark = f"{self.mark} {seed} {index}"
        return Checkpoint(path, state, fingerprint=mark)
