"""The types of arrays, in one place.

An annotation may say how many axes an array has: model files are checked against it (`io.kinds`).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Arrays of any namespace that the array API knows: NumPy, torch, CuPy. They have no type in common,
# so this one says what is meant and checks nothing.
Array: TypeAlias = Any
FloatArray: TypeAlias = NDArray[np.float64]
# The dtype of such arrays, in their namespace; and NumPy's.
AnyDType: TypeAlias = Any
DType: TypeAlias = np.dtype[Any]
# NumPy's arrays of float32 or float64, and of anything.
Floats: TypeAlias = NDArray[np.floating[Any]]
Numbers: TypeAlias = NDArray[Any]
# scipy's sparse matrices and arrays, of any format.
Sparse: TypeAlias = Any
# Data as users pass them, before they are examined: arrays of any library, sparse matrices, frames,
# lists, paths, iterators, Dask collections. The public layer finds out what they are.
Input: TypeAlias = Any
# Result of a method with the option `return_std`: an array, or a pair of the array and its standard
# deviations.
ArrayOrPair: TypeAlias = Any
# A seed as users pass it.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

# Arrays with a given number of axes, or any (None): of any namespace, then NumPy's.
ArrayTensor: TypeAlias = Annotated[Array, None]
ArrayVector: TypeAlias = Annotated[Array, 1]
ArrayMatrix: TypeAlias = Annotated[Array, 2]
ArrayMatrices: TypeAlias = Annotated[Array, 3]
Vector: TypeAlias = Annotated[FloatArray, 1]
Matrix: TypeAlias = Annotated[FloatArray, 2]
Matrices: TypeAlias = Annotated[FloatArray, 3]
Stacks: TypeAlias = Annotated[FloatArray, 4]

# Places in other arrays.
Index: TypeAlias = NDArray[np.intp]
Counts: TypeAlias = Annotated[NDArray[np.int64], 1]
# Strings, as objects.
Names: TypeAlias = Annotated[NDArray[np.object_], 1]
# Numbers or strings.
Identifiers: TypeAlias = Annotated[NDArray[Any], 1]

DOUBLE: np.dtype[Any] = np.dtype(np.float64)
