"""Figure 6: local empirical MAP on Artificial1."""

from __future__ import annotations

from ..records import Outcome, Run
from .local_search import outcome


def reproduce(run: Run) -> Outcome:
    return outcome(run, "emap")
