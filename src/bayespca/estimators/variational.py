"""`VariationalPCA`: Bishop's variational model, with its whole posterior and its bound."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

from bayespca import inference
from bayespca.arrays.types import Input
from bayespca.linear.variational import fit as variational
from bayespca.lowrank.records import VariationalFit
from bayespca.missing.variational import fit as with_holes

from . import _input, _validation
from ._base import Fitted
from ._options import COLUMNS, Auto, Engine, Option, current, table
from ._posterior import PosteriorReader, knowing_rows, placed
from .pca import WARNED, RankWarning


class VariationalPCA(PosteriorReader[VariationalFit]):
    """Bishop's variational principal components (Bishop 1999).

    A row is t = Wx + μ + noise, with x ~ N(0, I), noise precision τ ~ Γ(a_τ, b_τ), mean
    μ ~ N(0, β⁻¹I), and columns of W with precisions αᵢ ~ Γ(a_α, b_α) of their own, which switch off
    columns that the data do not support. Sweeps raise the lower bound on the evidence (Eq. 10) to
    find the posterior Q(X)Q(W)Q(α)Q(μ)Q(τ) (Eq. 14–20).

    `BayesianPCA` answers the same question in closed form; this model has priors on its
    hyperparameters, and a distribution over the noise.

    NaN in X marks holes, both in `fit` and afterwards: the fit uses the observed cells. Each
    sample, and each row of W, then has its own covariance.

    >>> from bayespca import VariationalPCA
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> model = VariationalPCA(random_state=0).fit(X)
    >>> model.n_components_, model.weights_.shape
    (3, (12, 11))
    """

    options = table(
        *("a_alpha", "b_alpha", "a_tau", "b_tau", "beta", "max_iter", "checkpoint", "verbose"),
        n_components=COLUMNS,
        prior=Option(
            '``"ard"`` learns the αᵢ; ``"unit"`` fixes all of them at 1, which is simpler.'
        ),
        center="Whether the model has a mean μ.",
        engine="How to compute singular values, as in `BayesianPCA`; for complete data only.",
        tol="Sweeps end when the bound has, by estimate, less than this share of it left to gain.",
        n_init="Number of random starts; the highest bound wins. With holes the first start is "
        "the closed form of the matrix with its holes filled, and only the others are random.",
        random_state="Seed of the starts, and of `sample`.",
    )

    weights_ = Fitted(
        "array of shape (n_features, q)",
        "⟨W⟩ with all its columns, active ones first; `HintonDisplay` draws it (Figure 4).",
        placed("weights"),
    )
    alpha_ = Fitted("array of shape (q,)", "⟨αᵢ⟩ of these columns.", placed("alpha"))
    lower_bound_ = Fitted("float", "The bound on the log evidence, in nats.")

    n_components: int | Auto = "auto"
    _: KW_ONLY
    prior: Literal["ard", "unit"] = "ard"
    center: bool = True
    a_alpha: float = 1e-3
    b_alpha: float | Auto = "auto"
    a_tau: float = 1e-3
    b_tau: float | Auto = "auto"
    beta: float | Auto = "auto"
    engine: Engine = "auto"
    max_iter: int = 2000

    def fit(
        self, X: Input, y: object = None, *, callback: inference.Callback | None = None
    ) -> Self:
        """Fit the model; X and `callback` are as in `BayesianPCA`. Holes need data in memory.

        Arrays of other libraries are converted to NumPy.
        """
        start = time.perf_counter()
        asked = self._chosen()
        in_memory = asked.engine not in ("auto", "streaming")
        data = _input.read(self, X, in_memory=in_memory)
        data = replace(data, values=_input.as_numpy(data.values))
        q = None if asked.n_components == "auto" else int(asked.n_components)
        most = min(size for size in data.shape if size is not None)
        if q is not None and q > most:
            raise ValueError(
                f"n_components must be 'auto' or a whole number from 0 to {most}, the smaller side "
                f"of the data; got {asked.n_components!r}."
            )
        looping = _validation.looping(self, callback)
        hyper = replace(
            _validation.hyperparameters(self),
            alpha=1.0 if self.prior == "unit" else None,
            has_mean=bool(self.center),
        )
        settings: dict[str, Any] = {"n_components": q, "dtype": str(data.dtype)}
        if data.holes:
            _input.check_any_value(data)
            if self.engine != "auto":
                raise ValueError(
                    "Input X contains NaN, which are holes for engine='auto'; "
                    f"engine={self.engine!r} is for complete data: leave it at 'auto', or fill the "
                    "holes first."
                )
            fitted = with_holes.fit(data.values, hyper, looping, **settings)
        else:
            engine = current(self, "engine")
            fitted = variational.fit(data.values, hyper, looping, engine=engine, **settings)
        fitted = knowing_rows(data, fitted)
        self._keep(fitted, data.features)
        found = f"variational, engine {fitted.engine}: rank {fitted.n_components}"
        bound = f"lower bound {fitted.lower_bound:.6g} after {fitted.n_iter} sweeps"
        size = f"{fitted.n_samples}×{fitted.n_features}"
        warned: dict[str, Any] = {"advice": WARNED, "category": RankWarning}
        what = "the bound still rose"
        self._report(fitted, f"{size}, {found}, {bound}", start, what=what, **warned)
        return self
