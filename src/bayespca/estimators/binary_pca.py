"""`BinaryPCA`: logistic PCA of zeros and ones, with the number of components found."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY
from typing import Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.types import DType, Input, Numbers
from bayespca.discrete import posterior as read
from bayespca.discrete.data import TableCells, bits, known_table
from bayespca.discrete.fit import BinaryFit, binary_model
from bayespca.inference.result import extended

from . import _binary, _input, _validation
from ._base import PER_ENTRY, PER_FEATURE, Fitted, typed
from ._natural_parameters import OPTIONS, NaturalPCA
from ._options import Auto, table


class BinaryPCA(NaturalPCA[BinaryFit], _binary.BinaryReader[BinaryFit]):
    """Logistic PCA for tables of zeros and ones with holes; finds its number of components.

    A cell is 1 with probability σ(aᵢᵀbⱼ + μⱼ), with normal priors on scores a, loadings b and means
    μ, whose variances are learned, one for each component. Sweeps lower the free energy to find
    the posterior, in which each row and each column has its own covariance; components that the
    data do not support disappear. Averages of the logistic likelihood over normal logits have
    closed forms, and so do probabilities of cells: the more uncertain, the nearer to ½.

    NaN marks holes, both in `fit` and afterwards: only observed cells count.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import BinaryPCA
    >>> rng = np.random.default_rng(0)
    >>> logits = 2 * rng.normal(size=(200, 2)) @ rng.normal(size=(2, 30))
    >>> X = (rng.random((200, 30)) < 1 / (1 + np.exp(-logits))).astype(float)
    >>> X[rng.random(X.shape) < 0.1] = np.nan
    >>> model = BinaryPCA().fit(X)
    >>> model.n_components_
    2
    >>> bool(np.isnan(model.impute(X)).any())
    False
    """

    options = table(
        *("n_components", "max_iter", "tol", "binarize", "checkpoint", "random_state", "verbose"),
        **OPTIONS,
    )

    components_ = Fitted(
        PER_ENTRY,
        "Orthonormal directions in the space of logits.",
        typed(lambda fit: fit.posterior.components),
    )
    mean_ = Fitted(PER_FEATURE, "Logits at scores of 0.", typed(lambda fit: fit.posterior.b[:, -1]))
    n_components: int | Auto = "auto"
    _: KW_ONLY
    init: Literal["closed", "random"] = "closed"
    max_iter: int = 500
    tol: float = 1e-6
    binarize: float | None = None

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Fit the model; `callback` is as in `BayesianPCA`.

        If an error occurs, the estimator stays as it was.
        """
        start, cap = time.perf_counter(), self._checked_cap()
        data = _binary.read(self, X, reset=True)
        table = known_table(bits(data))
        model = binary_model(table, n_components=cap, init=self.init)
        fitted = inference.fit(model, table, _validation.looping(self, callback))
        kept = extended(fitted, BinaryFit, dtype=np.dtype(data.dtype))
        self._keep(self._with_draws(kept, bits(data), cap), data.features)
        (n, p), k = data.shape, self.n_components_
        energy = f"free energy {fitted.free_energy:.6g} after {fitted.n_iter} sweeps"
        self._report(fitted, f"{n}×{p}, binary: rank {k}, {energy}", start)
        return self

    # --- scores --------------------------------------------------------------------------------

    def inverse_transform(self, X: Input) -> Numbers:
        """Probabilities of 1 in the cells of rows with given scores."""
        check_is_fitted(self)
        T = _input.read_scores(X, self.n_components_, self.components_)
        return read.at_scores(self.posterior_, T).astype(T.dtype)

    # --- cells ---------------------------------------------------------------------------------

    def predict_proba(self, X: Input) -> Numbers:
        """Probability of 1 in each cell, given the observed cells of its row: (n, p).

        It averages over scores, loadings and means.
        """
        cells, dtype = self._cells_of(X)
        return read.probabilities(self.posterior_, cells).astype(dtype)

    def impute(self, X: Input, kind: Literal["probability", "value"] = "probability") -> Numbers:
        """Rows with their holes (NaN) filled by the probability of 1; other cells stay.

        With ``kind="value"`` holes are filled by 0 or 1, whichever is more probable.
        """
        data = self._read(X)
        return _binary.filled(data, read.probabilities(self.posterior_, bits(data)), kind)

    # --- densities -----------------------------------------------------------------------------

    def score_samples(self, X: Input) -> Numbers:
        """Lower bound on the log probability of the known cells of each row."""
        return read.log_density(self.posterior_, self._cells_of(X)[0])

    def _cells_of(self, X: Input) -> tuple[TableCells, DType]:
        data = self._read(X)
        return bits(data), data.dtype
