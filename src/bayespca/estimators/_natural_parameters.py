"""Options, attributes, scores and posterior draws that `BinaryPCA` and `GeneralizedPCA` share.

Annotations are evaluated here, because the modules of subclasses do not import their names.
"""

from dataclasses import KW_ONLY, replace
from typing import Any, Generic, Literal, TypeVar

from bayespca.arrays.types import ArrayOrPair, DType, Input, Numbers
from bayespca.discrete import posterior as read
from bayespca.discrete.data import TableCells
from bayespca.discrete.fit import BinaryFit, TableFit
from bayespca.discrete.gibbs.fit import columns
from bayespca.discrete.gibbs.fit import fit as draw

from . import _arviz, _validation
from ._base import BY_RANK, PER_COMPONENT, Fitted, Iterating, Transforming, typed
from ._options import Option, whole

F = TypeVar("F", bound=BinaryFit | TableFit)
# Above this, chains that start at one place are still on their way (Vehtari et al. 2021 ask for
# 1.01, for results that are quoted to the last digit).
LARGEST_R_HAT = 1.1
WITH_DRAWS = ("normal", "bernoulli", "categorical", "ordinal")

# Options for the tables of both classes.
OPTIONS: dict[str, Option | str] = {
    "method": Option(
        '``"vb"`` finds the variational posterior. ``"gibbs"`` finds it first and then draws from '
        "the exact posterior; predictions are better and take minutes. The number of components, "
        "the components and densities remain those of the variational posterior; predictions for "
        "cells and scores average over draws, which have ten more components unless "
        "`n_components` gives their number. It needs normal, Bernoulli, categorical or ordinal "
        "cells, and keeps their noise and cut points fixed."
    ),
    "n_draws": Option("Number of draws to keep from each chain.", whole(1)),
    "n_warmup": Option("Number of sweeps before the first draw.", whole(0)),
    "n_chains": Option("Number of chains, all of which start at the variational answer.", whole(1)),
    "thin": Option("Number of sweeps for each draw.", whole(1)),
    "init": "Where sweeps start: at the closed form of the cells about their columns, or at "
    "normal draws.",
    "n_init": 'Number of random starts, with ``init="random"``; the lowest free energy wins.',
}


class NaturalPCA(Transforming, Iterating[F], Generic[F]):
    """PCA of natural parameters."""

    n_components_ = Fitted("int", "Number of components found; 0 is a legal answer.")
    explained_variance_ = Fitted(
        PER_COMPONENT,
        "Variance of the natural parameters along each component.",
        typed(lambda fit: read.score_variance(fit.posterior)),
    )
    free_energy_by_rank_ = Fitted("array", BY_RANK)
    free_energy_ = Fitted(
        "float",
        "−log of a bound on the evidence that takes natural parameters to be normal; in "
        "nats, all constants included.",
    )
    n_samples_ = Fitted("int", "Number of rows.")
    draws_ = Fitted(
        "NaturalDraws or None",
        'Loadings and means of each chain and draw, with ``method="gibbs"``; else None.',
        lambda fit: fit.posterior.draws,
    )
    r_hat_ = Fitted(
        "dict or None",
        "Rank-normalised split R-hat of the log likelihood of the cells and of the variance of the "
        "natural parameters, computed by ArviZ. None without draws, or if ArviZ is not installed.",
    )
    ess_ = Fitted("dict or None", "Bulk effective sample size of the same quantities.")

    _: KW_ONLY
    method: Literal["vb", "gibbs"] = "vb"
    n_draws: int = 100
    n_warmup: int = 500
    n_chains: int = 2
    thin: int = 5

    def _cells_of(self, X: Input) -> tuple[TableCells, DType]:
        """The cells of rows, and the dtype of what is computed from them."""
        raise NotImplementedError

    def score_samples(self, X: Input) -> Numbers:
        raise NotImplementedError

    def transform(self, X: Input, return_std: bool = False) -> ArrayOrPair:
        """Posterior mean of the scores of rows; with `return_std` also standard deviations.

        Scores are coordinates along the orthonormal components, given the observed cells.
        """
        cells, dtype = self._cells_of(X)
        T, std = (part.astype(dtype) for part in read.scores(self.posterior_, cells))
        return (T, std) if return_std else T

    def score(self, X: Input, y: object = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def _checked_cap(self) -> int | None:
        """The cap on the rank, once all options have been checked; None if there is none."""
        self._chosen()
        defaults = type(self)().get_params(deep=False)
        for name in _validation.SCHEDULE:
            if self.method != "gibbs" and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs method='gibbs', but the method is "
                    f"{self.method!r}: leave it at {defaults[name]}."
                )
        if self.init == "closed" and self.n_init != 1:
            raise ValueError(
                f"n_init={self.n_init} asks for several starts, but init='closed' has only one: "
                "use init='random', or leave n_init at 1."
            )
        return _validation.largest_rank(self.n_components)

    def _with_draws(self, fitted: F, cells: TableCells, most: int | None) -> F:
        """The fit with draws from the posterior of these cells, with ``method="gibbs"``."""
        if self.method == "vb":
            return fitted
        found = fitted.posterior
        H = columns(found.prior.size, most, cells.shape)
        _validation.check_draws(self, cells.shape[1] * (H + 1), "loadings")
        draws = draw(
            cells,
            (found.b, found.prior),
            H,
            schedule=_validation.schedule(self),
            rng=_validation.generator(self.random_state),
        )
        r_hat, ess = _arviz.diagnostics(draws.quantities()) or (None, None)
        mixing = _arviz.mixing(r_hat, LARGEST_R_HAT, "n_warmup and thin")
        _arviz.warn(mixing)
        posterior: Any = replace(found, draws=draws)
        status = fitted.status + mixing
        return replace(fitted, posterior=posterior, r_hat=r_hat, ess=ess, status=status)
