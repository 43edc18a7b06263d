"""Figure 5: local empirical PB on Artificial1."""

from __future__ import annotations

from ..records import Outcome, Run
from .local_search import outcome


def reproduce(run: Run) -> Outcome:
    return outcome(run, "epb")
