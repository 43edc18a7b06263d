"""`VariationalPCA`: Bishop's variational model, all of its posterior and its bound."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

from bayespca import inference
from bayespca.engines.selection import ENGINES
from bayespca.linear.variational import fit as variational
from bayespca.lowrank.records import VariationalFit
from bayespca.lowrank.variational import Hyper
from bayespca.missing.variational import fit as with_holes
from bayespca.sources.data import Data

from . import _input, _validation
from ._base import Fitted
from ._posterior import PosteriorReader, placed
from .pca import WARNED, RankWarning


class VariationalPCA(PosteriorReader[VariationalFit]):
    """Bishop's variational principal components (icann1999).

    A row is t = Wx + μ + noise, with x ~ N(0, I), noise precision τ ~ Γ(a_τ, b_τ), mean
    μ ~ N(0, β⁻¹I), and columns of W with precisions αᵢ ~ Γ(a_α, b_α) of their own, which switch off
    those that the data do not support. The posterior is Q(X)Q(W)Q(α)Q(μ)Q(τ) (Eq. 14–20), found by
    sweeps that raise the lower bound on the evidence (Eq. 10).

    `BayesianPCA` answers the same question in closed form; this model has priors on its
    hyperparameters, and a distribution over the noise.

    NaN in X are holes, at `fit` and afterwards: mean, noise and columns are found from the cells
    that are there. Each sample then has a covariance of its own, and each row of W.

    Parameters
    ----------
    n_components : int, optional
        Columns of W; one less than features, or than samples where these are fewer, by default.
    prior : {"ard", "unit"}, default="ard"
        ``"unit"``: all αᵢ are 1, the lecture's simpler model.
    center : bool, default=True
        Whether there is a mean μ in the model.
    a_alpha, b_alpha, a_tau, b_tau, beta : float, default=1e-3
        Parameters of the priors, in the units of the data.
    engine : str, default="auto"
        How singular values are computed, as in `BayesianPCA`; of complete data only.
    max_iter : int, default=2000
        Largest number of sweeps.
    tol : float, default=1e-8
        Relative rise of the bound at which sweeps end.
    n_init : int, default=1
        Number of random starts; the highest bound wins. With holes the first one is the closed form
        of the matrix, its holes filled by itself, and only the others are random.
    checkpoint : path, optional
        A file from which a fit that was broken off goes on, as in `BayesianPCA`.
    random_state : int, Generator or None, default=None
        Seed of the starts, and of `sample`.
    """

    weights_ = Fitted(
        "array of shape (n_features, q)",
        "⟨W⟩, all columns, those that are on first: what `HintonDisplay` draws (Figure 4).",
        placed("weights"),
    )
    alpha_ = Fitted("array of shape (q,)", "⟨αᵢ⟩ of these columns.", placed("alpha"))
    lower_bound_ = Fitted("float", "The bound on the log evidence, in nats.")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        prior: str = "ard",
        center: bool = True,
        a_alpha: float = 1e-3,
        b_alpha: float = 1e-3,
        a_tau: float = 1e-3,
        b_tau: float = 1e-3,
        beta: float = 1e-3,
        engine: str = "auto",
        max_iter: int = 2000,
        tol: float = 1e-8,
        n_init: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.prior = prior
        self.center = center
        self.a_alpha = a_alpha
        self.b_alpha = b_alpha
        self.a_tau = a_tau
        self.b_tau = b_tau
        self.beta = beta
        self.engine = engine
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.checkpoint = checkpoint
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, callback: inference.Callback | None = None) -> Self:
        """Fit the model; X and `callback` as in `BayesianPCA`, holes in data in memory included.

        Arrays of other libraries are taken over into NumPy.
        """
        hyper = self._hyper()
        in_memory = self.engine not in ("auto", "streaming")
        data = _input.in_numpy(_input.read(self, X, in_memory=in_memory))
        q = self._checked_components(data.shape)
        looping = _validation.looping(self, callback)
        fitted = self._fitted(data, hyper, q, looping)
        self._keep(fitted, data.features)
        self._report(fitted)
        return self

    def _fitted(
        self, data: Data, hyper: Hyper, q: int | None, looping: inference.Looping
    ) -> VariationalFit:
        if not data.holes:
            return variational.fit(
                data.values,
                hyper,
                looping,
                n_components=q,
                engine=self.engine,
                dtype=str(data.dtype),
            )
        _input.check_any_value(data)
        _validation.check_engine_for_holes(self)
        return with_holes.fit(data.values, hyper, looping, n_components=q, dtype=str(data.dtype))

    def _report(self, fitted: VariationalFit) -> None:
        if not fitted.converged and fitted.trace is not None:
            _validation.warn_of_early_end(fitted.trace, "the bound still rose")
        for advice in fitted.status.advice:
            if advice.code in WARNED:
                warnings.warn(advice.text, RankWarning, stacklevel=3)

    def _hyper(self) -> Hyper:
        _validation.choose("prior", self.prior, ("ard", "unit"))
        _validation.choose("engine", self.engine, ("auto", *ENGINES))
        _validation.check_looping(self)
        return replace(
            _validation.hyperparameters(self),
            alpha=1.0 if self.prior == "unit" else None,
            has_mean=bool(self.center),
        )

    def _checked_components(self, shape: tuple[int | None, int]) -> int | None:
        q = self.n_components
        if q is None:
            return None
        most = min(size for size in shape if size is not None)
        if not isinstance(q, Integral) or not 0 <= q <= most:
            raise ValueError(
                f"n_components must be None or a whole number from 0 to {most}, the smaller side "
                f"of the data; got {q!r}."
            )
        return int(q)
