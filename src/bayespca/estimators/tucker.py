"""`BayesianTucker`: Tucker factorization of tensors that finds the size of its core."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, has_nan, to_namespace, to_numpy
from bayespca.arrays.types import Array, ArrayOrPair, FloatArray, Input
from bayespca.io.packages import need
from bayespca.lowrank import imputing
from bayespca.lowrank.from_complete import general
from bayespca.lowrank.holes_posterior import HolesPosterior
from bayespca.noise.signs import LEAST_GAIN, of_variances
from bayespca.spectrum.methods import METHODS
from bayespca.tensors import posterior as read
from bayespca.tensors.data import tucker_cells
from bayespca.tensors.fit import PER_MODE, TuckerFit, better, choose, tucker_model
from bayespca.tensors.modes import times
from bayespca.tensors.posterior import TuckerPosterior
from bayespca.tensors.ranks import unfoldings

from . import _input, _tensors, _validation
from ._base import ChoosesNoise, Fitted, Iterating, Transforming
from ._options import AUTO, POSITIVE, Auto, Option, several, table, word
from .pca import BayesianPCA, RankWarning

# Advice that also gives a warning, besides its place in `status_`.
WARNED = ("empty-slices", "capped-core", "empty-rows", "empty-columns", "near-rank-bound")


def _slice_noise(fit: TuckerFit) -> list[Array]:
    equal = (np.full(M, fit.noise_variance) for M in fit.sizes)
    return list(fit.noise.slices) or [to_namespace(one, fit.core) for one in equal]


class BayesianTucker(ChoosesNoise, Transforming, Iterating[TuckerFit]):
    """Tucker factorization of a tensor that finds the rank of each mode.

    Y = G ×₁ A₁ ×₂ A₂ … ×_N A_N + noise, with normal priors on the core G and the factors Aₙ whose
    variances are learned, the same for a column of Aₙ and its slice of the core
    (Nakajima and Sugiyama 2014, Eq. 37–39). Components that the data do not support are dropped if
    the free energy is lower without them. Holes are allowed, even in 90 % of the cells and more.

    With two modes the core can be absorbed into a factor: the model is then that of `BayesianPCA`,
    solved in closed form. Modes of size 1 after the first carry no information and are skipped.

    Examples
    --------
    >>> import numpy as np
    >>> from bayespca import BayesianTucker
    >>> rng = np.random.default_rng(0)
    >>> core, factors = rng.normal(size=(2, 3, 2)), [rng.normal(size=(20, r)) for r in (2, 3, 2)]
    >>> T = np.einsum("abc,ia,jb,kc->ijk", core, *factors) + rng.normal(size=(20, 20, 20))
    >>> T[rng.random(T.shape) < 0.5] = np.nan
    >>> model = BayesianTucker().fit(T)
    >>> model.ranks_
    (2, 3, 2)
    >>> filled, std = model.impute(return_std=True)
    """

    options = table(
        *("max_iter", "tol", "n_init", "checkpoint", "random_state", "verbose"),
        method="Which variables are integrated out, and whether the prior is learned.\n\n"
        '* ``"evb"``: core and factors integrated out, priors learned. The one to use.\n'
        '* ``"epb"``: only the core integrated out, priors learned.\n'
        '* ``"emap"``: nothing integrated out, priors learned.\n'
        '* ``"pb"``: only the core integrated out, prior given (pTucker of Chu and Ghahramani '
        "2009). A given prior does not choose ranks: free ranks are taken from EVB.\n\n"
        'For ``"epb"`` and ``"emap"`` the global minimum of the free energy is the zero tensor, '
        "whatever the data (Nakajima and Sugiyama 2014, Lemma 2), so these methods find a local "
        "minimum. It exists once the scale that modes can exchange is fixed: here the priors of "
        "all modes have the same geometric mean.",
        ranks=Option(
            "One entry for each mode: a number fixes its rank, None leaves it free. If a rank is "
            "larger than the data support, the core has zeros for the extra components.",
            AUTO
            | several(
                "one entry for each mode, a whole number or None, such as (2, 2, 2)",
                "sequence of int or None",
            ),
        ),
        noise_variance=Option(
            'Variance of the noise. With ``"auto"``, ``"evb"`` estimates it with everything else; '
            "the other methods, whose free energy has no usable minimum over it, take that "
            'estimate. ``"0db"`` is half the mean square of the data.',
            POSITIVE | AUTO | word("0db"),
        ),
        noise='``"isotropic"``: one noise variance for all cells. ``"per-mode"``: the variance of '
        "a cell is a product of one factor for its slice along each mode; the factors have gamma "
        'priors that are learned, so slices with equal noise get equal factors. ``"auto"``: the '
        'evidence chooses between them for ``method="evb"``, if neither ranks nor noise variance '
        "are given (what a rank that is too small leaves over is not noise); all else is "
        "isotropic.",
        prior_variance=Option(
            'For ``"pb"``: prior variance of the entries of the core; entries of factors have 1.',
            POSITIVE,
        ),
        center="Whether to subtract the mean of the slices along the first mode. As in PCA, this "
        "costs one slice.",
        solver=Option(
            '``"auto"``: each sweep solves for each factor in turn. ``"gradient"``, for '
            '``method="emap"`` without holes: each sweep takes one gradient step for each factor '
            "(ARD-Tucker of Mørup and Hansen 2009), and needs many more sweeps."
        ),
        init="Where to start: the closed form of each unfolding, or normal draws.",
    )

    core_ = Fitted(
        "array of shape `ranks_`",
        "Posterior mean of the core for orthonormal factors. Its slices along each mode "
        "are orthogonal to each other, largest first, as in the higher-order SVD.",
    )
    factors_ = Fitted(
        "list of arrays of shape (size of the mode, its rank)",
        "Posterior means, with orthonormal columns.",
        lambda fit: list(fit.factors),
    )
    ranks_ = Fitted("tuple of int", "The size of the core.")
    explained_ratios_ = Fitted(
        "list of arrays of the lengths `ranks_`",
        "Share of each component of each mode in the sum of squares of the tensor without its mean "
        "and noise. A component that stands out from the noise may still be too small to matter: "
        "``[(r > 1e-3).sum() for r in explained_ratios_]`` are the ranks at a resolution of one "
        "in a thousand.",
        lambda fit: fit.explained_ratios,
    )
    noise_variance_ = Fitted(
        "float", "Estimated or given noise variance; the mean over all cells if they differ."
    )
    slice_noise_variances_ = Fitted(
        "list of arrays of the sizes of the modes",
        "Noise variance of each slice along each mode, averaged over its cells: each array has "
        "the mean `noise_variance_`. With N modes, the noise variance of a cell is the product of "
        "those of its N slices, divided by `noise_variance_` to the power N − 1.",
        _slice_noise,
    )
    mean_ = Fitted("array of the shape of a slice", "Mean of the slices; 0 unless `center`.")

    method: Literal["evb", "epb", "emap", "pb"] = "evb"
    _: KW_ONLY
    ranks: Auto | Sequence[int | None] = "auto"
    noise_variance: float | Literal["auto", "0db"] = "auto"
    noise: Literal["auto", "isotropic", "per-mode"] = "auto"
    prior_variance: float = 1.0
    center: bool = False
    solver: Literal["auto", "gradient"] = "auto"
    init: Literal["closed", "random"] = "closed"

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Input,
        y: object = None,
        *,
        mask: Input = None,
        callback: inference.Callback | None = None,
    ) -> Self:
        """Fit a tensor of two modes or more: NumPy, torch or CuPy, of any real dtype.

        NaN marks holes, and so does 0 in `mask`, which has the same shape (as in TensorLy; values
        there are ignored). `callback` is called after each sweep with its number, counting from 1,
        and an object with `free_energy`, `rank` (size of the core), `noise_variance` and `to_gain`
        (see `BayesianPCA.fit`); if it returns True, the iteration ends.
        """
        begin = time.perf_counter()
        self._check_options()
        T, features = _tensors.read_tensor(self, X, mask)
        ranks = _tensors.checked_ranks(self.ranks, tuple(T.shape))
        found = self._found(T, ranks, callback)
        self._keep(self._expanded(found, T), features)
        self._tensor = T
        sizes, core = ("×".join(map(str, s)) for s in (T.shape, self.ranks_))
        noise, energy = found.noise.in_words, f"free energy {found.free_energy:.6g}"
        line = f"{sizes}, {self.method}: core {core}, noise {noise}, {energy}"
        self._report(found, line, begin, advice=WARNED, category=RankWarning)
        return self

    def _check_options(self) -> None:
        self._chosen()
        if self.noise == PER_MODE and self.method != "evb":
            raise ValueError(
                f"noise='per-mode' works with method='evb'; got method={self.method!r}, which can "
                "have noise='isotropic'."
            )
        if self.noise == PER_MODE and self.noise_variance != "auto":
            raise ValueError(
                "noise='per-mode' finds its variances itself: leave noise_variance at 'auto', not "
                f"{self.noise_variance!r}."
            )
        if self.solver == "gradient" and self.method != "emap":
            raise ValueError("solver='gradient' is for method='emap'.")
        if self.prior_variance != 1.0 and self.method != "pb":
            raise ValueError(
                f"prior_variance is for method='pb': method={self.method!r} learns its priors."
            )

    def _found(
        self, T: Array, ranks: tuple[int | None, ...], callback: inference.Callback | None
    ) -> TuckerFit:
        shape = _tensors.squeezed_shape(tuple(T.shape))
        _tensors.check_model(self, T, shape)
        asked = _tensors.squeezed(ranks, tuple(T.shape))
        small = array_namespace(T).reshape(T, shape)
        if len(shape) > 2:
            return self._fitted(small, asked, callback)
        given = {rank for rank in asked if rank is not None}
        if len(given) > 1:
            raise ValueError(f"a matrix has one rank; ranks asks for {asked[0]} and {asked[1]}.")
        return self._of_matrix(small, given.pop() if given else None, callback)

    def _fitted(
        self, T: Array, ranks: tuple[int | None, ...], callback: inference.Callback | None
    ) -> TuckerFit:
        data = tucker_cells(T, center=self.center)
        model = tucker_model(
            data,
            METHODS[self.method],
            ranks=ranks,
            noise_variance=self.noise_variance,
            prior_variance=self.prior_variance,
            by_gradient=self.solver == "gradient",
            init=self.init,
            has_slices=self.noise == PER_MODE,
        )
        looping = _validation.looping(self, callback)
        if not self._chooses_noise(ranks):
            return inference.fit(model, data, looping)
        return choose(model, data, looping, lambda *sums: of_variances(*sums)[1], LEAST_GAIN)

    def _chooses_noise(self, ranks: tuple[int | None, ...]) -> bool:
        found = self.noise_variance == "auto" and all(rank is None for rank in ranks)
        return self.noise == "auto" and self.method == "evb" and found

    # --- matrices ------------------------------------------------------------------------------

    def _of_matrix(
        self, X: Array, rank: int | None, callback: inference.Callback | None
    ) -> TuckerFit:
        def fitted(noise: Literal["isotropic", "both"]) -> TuckerFit:
            model = BayesianPCA(
                self.method,
                n_components="auto" if rank is None else rank,
                noise_variance=self.noise_variance,
                noise=noise,
                prior_variance=self.prior_variance if self.method == "pb" else None,
                center=self.center,
                solver="iterative" if self.init == "random" else "auto",
                max_iter=self.max_iter,
                tol=self.tol,
                n_init=self.n_init,
                checkpoint=self.checkpoint,
                random_state=self.random_state,
            )
            with warnings.catch_warnings():
                # This model gives these warnings in its own words.
                warnings.simplefilter("ignore", RankWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, callback=callback)
            return _tensors.of_matrix(model, X, rank)

        if self._chooses_noise((rank,)):
            return better(fitted("isotropic"), fitted("both"))
        return fitted("both" if self.noise == PER_MODE else "isotropic")

    def _expanded(self, found: TuckerFit, T: Array) -> TuckerFit:
        """Put back the modes that were skipped, with the library, device and type of the tensor."""
        shape = tuple(T.shape)
        # If nothing was found, modes of size 1 have rank 0, too.
        one = int(found.core.size > 0)
        core = found.core.reshape(_tensors.expanded(found.core.shape, shape, one))
        factors = _tensors.expanded(found.factors, shape, np.ones((1, one)))
        slices = found.noise.slices
        if slices:
            slices = _tensors.expanded(slices, shape, np.full(1, found.noise_variance))
        return replace(
            found,
            core=to_namespace(core, T),
            factors=tuple(to_namespace(U, T) for U in factors),
            mean=to_namespace(found.mean.reshape(shape[1:]), T),
            noise=replace(found.noise, slices=tuple(to_namespace(one, T) for one in slices)),
        )

    # --- the tensor and its slices -------------------------------------------------------------

    def reconstruct(self) -> Array:
        """Posterior mean of the tensor without its noise."""
        check_is_fitted(self)
        return times(self.core_, self.factors_) + self.mean_

    def transform(self, X: Input) -> Array:
        """Rows of the first factor for slices along the first mode, which may have holes.

        They are posterior means; for the fitted tensor they are `factors_[0]`.
        """
        check_is_fitted(self)
        T = self._read_slices(X, "transform")
        return to_namespace(self._scores(T), T)

    def inverse_transform(self, X: Input) -> Array:
        """Slices along the first mode from rows of the first factor."""
        check_is_fitted(self)
        rows = _input.read_scores(X, self.ranks_[0], self.core_)
        return times(self.core_, [rows, *self.factors_[1:]]) + self.mean_

    def impute(self, X: Input = None, return_std: bool = False) -> ArrayOrPair:
        """Slices with their holes (NaN) filled by the posterior mean; other cells stay.

        Without X, it fills the fitted tensor. With ``return_std=True`` it also returns the standard
        deviation of what would be measured in each hole, noise included. Observed cells have
        standard deviation 0.
        """
        check_is_fitted(self)
        _validation.choose("return_std", return_std, (False, True))
        fitted = X is None
        if fitted and not hasattr(self, "_tensor"):
            # Models from files and copies lack it.
            raise ValueError("this model does not carry the tensor it was fitted to: pass it as X.")
        T = self._read_slices(self._tensor if fitted else X, "impute")
        filled, std = self._imputed(T, spread=return_std, fitted=fitted)
        return (filled, std) if return_std else filled

    def _imputed(self, T: Array, *, spread: bool, fitted: bool) -> tuple[Array, Array]:
        xp, small = array_namespace(T), self._squeezed(T)
        if not isinstance(self.posterior_, TuckerPosterior):
            found = self.posterior_
            found = found if isinstance(found, HolesPosterior) else general(found)
            pair = imputing.impute(found, small, unknown=self.fit_.unknown)
            filled, std = (xp.reshape(a, T.shape) for a in pair)
            return filled, std
        holes = xp.isnan(small)
        first = read.scores(self.posterior_, small)
        low = to_namespace(read.cells(self.posterior_, first), T)
        filled = xp.reshape(xp.where(holes, low, small), T.shape)
        if not spread:
            return filled, None
        of_cells = read.noise_of_cells(self.posterior_, fitted=fitted)
        variance = read.variances(self.posterior_, first) + of_cells
        std = xp.where(holes, to_namespace(np.sqrt(variance), T), xp.zeros_like(small))
        return filled, xp.reshape(std, T.shape)

    def _scores(self, T: Array) -> FloatArray:
        small = self._squeezed(T)
        if isinstance(self.posterior_, TuckerPosterior):
            mean = read.scores(self.posterior_, small).mean
            return np.pad(mean, ((0, 0), (0, self.ranks_[0] - mean.shape[1])))
        # The factor of the mode that is not of size 1, and the core as a matrix.
        right = next((U for U in self.factors_[1:] if U.shape[0] > 1), self.factors_[-1])
        core = to_numpy(self.core_).astype(np.float64).reshape(self.core_.shape[0], right.shape[1])
        right = to_numpy(right).astype(np.float64)
        return _tensors.scores_of_rows(self.posterior_, small, core, right)

    def _squeezed(self, T: Array) -> Array:
        shape = _tensors.squeezed_shape(tuple(U.shape[0] for U in self.factors_))
        return array_namespace(T).reshape(T, (T.shape[0], *shape[1:]))

    def _read_slices(self, X: Input, method: str) -> Array:
        T, _ = _tensors.read_tensor(self, X, reset=False)
        _input.check_same_place(self, T, method)
        shape = tuple(U.shape[0] for U in self.factors_[1:])
        if tuple(T.shape[1:]) != shape:
            raise ValueError(
                f"slices along the first mode have the shape {tuple(T.shape[1:])}, but "
                f"{type(self).__name__} was fitted with {shape}."
            )
        return T

    # --- elsewhere -----------------------------------------------------------------------------

    def to_tensorly(self) -> Any:
        """The factorization as a ``TuckerTensor`` of TensorLy, without `mean_`."""
        check_is_fitted(self)
        tensorly = need("tensorly", "to_tensorly")
        core, factors = to_numpy(self.core_), [to_numpy(U) for U in self.factors_]
        arrays = [tensorly.tensor(a) for a in (core, *factors)]
        return tensorly.tucker_tensor.TuckerTensor((arrays[0], arrays[1:]))

    # --- scikit-learn --------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The state without the tensor, which copies, pickles and files do not carry along."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_tensor"}

    @property
    def _n_features_out(self) -> int:
        return int(self.ranks_[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags


def tensor_ranks(
    T: Input,
    method: Literal["evb", "epb", "emap"] = "evb",
    *,
    noise_variance: float | Literal["auto", "0db"] = "auto",
) -> tuple[int, ...]:
    """The rank of each mode of a complete tensor, from its unfoldings alone.

    Each unfolding is a matrix, whose rank a closed form gives (Nakajima and Sugiyama 2014,
    Proposition 1 for ``"evb"``): exact, and as fast as a decomposition. Use it to choose ranks for
    compressing layers of networks; `BayesianTucker` starts from these ranks and fits all modes
    together.

    >>> import numpy as np
    >>> from bayespca import tensor_ranks
    >>> rng = np.random.default_rng(0)
    >>> kernel = np.einsum("ia,ja,kl->ijkl", *rng.normal(size=(2, 64, 5)), np.ones((3, 3)))
    >>> tensor_ranks(kernel + 0.1 * rng.normal(size=kernel.shape))
    (5, 5, 1, 1)
    """
    _validation.choose("method", method, ("evb", "epb", "emap"))
    (POSITIVE | AUTO | word("0db")).check("noise_variance", noise_variance)
    T, _ = _tensors.read_tensor(BayesianTucker(), T)
    if has_nan(T):
        raise ValueError("tensor_ranks takes tensors without holes: use BayesianTucker.")
    found = unfoldings(T, method=method, noise_variance=noise_variance)
    return tuple(unfolding.solution.rank for unfolding in found)
