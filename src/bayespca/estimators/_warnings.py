"""Warnings that a fit issues once its result is stored."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayespca.inference.loop import Trace
from bayespca.inference.result import Fit

# Stack level that leads from here, via an estimator's report and `fit`, to the caller of `fit`.
CALLER = 4


def warn(
    fitted: Fit[Any],
    advice: Collection[str] = (),
    category: type[Warning] = UserWarning,
    *,
    what: str = "the free energy still fell",
) -> None:
    """Warn of an iteration that ended early, and of advice with one of these codes.

    Call this from an estimator's report, which its `fit` calls: the stack level counts on it.
    """
    if not fitted.converged and fitted.trace is not None:
        warnings.warn(_early_end(fitted.trace, what), ConvergenceWarning, stacklevel=CALLER)
    for one in fitted.status.advice:
        if one.code in advice:
            warnings.warn(one.text, category, stacklevel=CALLER)


def _early_end(trace: Trace, what: str) -> str:
    """A message with the size of the last change, and a remedy."""
    change = trace.last_change
    by = f" by a fraction of {change:.1e}" if np.isfinite(change) else ""
    return (
        f"{what}{by} in the last of {len(trace)} steps: raise max_iter or tol. The result is "
        "usable."
    )
