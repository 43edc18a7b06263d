"""Options that all iterative estimators share.

Annotations are evaluated here, because the modules of subclasses do not import their names.
"""

import os
from dataclasses import KW_ONLY
from typing import Any, Generic, TypeVar

from ._base import Estimator

F = TypeVar("F")


class Iterating(Estimator[F], Generic[F]):
    """An estimator that is fitted by iteration; subclasses may have other defaults."""

    _: KW_ONLY
    max_iter: int = 1000
    tol: float = 1e-8
    n_init: int = 1
    checkpoint: str | os.PathLike[str] | None = None
    random_state: Any = None
    verbose: bool = False
