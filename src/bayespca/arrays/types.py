"""The types of arrays, in one place."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Arrays of any namespace that the array API knows: NumPy, torch, CuPy. None of them shares a type
# with the others, so that this one says what is meant, and checks nothing.
Array: TypeAlias = Any
FloatArray: TypeAlias = NDArray[np.float64]
