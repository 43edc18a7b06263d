"""Write model files of ratings in format version 3, each with a record of its model's answers.

This was run once, with bayespca as it was before method="gibbs" for ratings.
"""

from __future__ import annotations

import warnings

import numpy as np
from make import FOLDER, factorizations
from make_version_2 import described

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, (model, inputs) in factorizations().items():
        model.save(FOLDER / f"version-3-{name}.bpca")
        np.savez_compressed(FOLDER / f"version-3-{name}.npz", **described(model, inputs))
