"""Functions for one job each: factorize or denoise a matrix."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from bayespca import arrays, engines
from bayespca.arrays.namespaces import array_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.arrays.types import Array, Input
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.methods import METHODS

from . import _input
from .pca import BayesianPCA

# Its square is a number, too.
LARGEST = 1e150

Factors = tuple[Array, Array, Array, dict[str, Any]]


def evbmf(Y: Input, sigma2: float | None = None, H: int | None = None) -> Factors:
    """Empirical variational Bayes matrix factorization: Y ≈ U S Vᵀ, with the rank found.

    Parameters
    ----------
    Y
        An L×M matrix of any shape and scale; it is not centred.
    sigma2
        Noise variance; estimated by minimising the free energy if not given.
    H
        The largest rank allowed.

    Returns
    -------
    U, S, V
        L×k, k×k diagonal and M×k: the posterior mean of the low-rank matrix is ``U @ S @ V.T``.
        k = 0 is a legal answer.
    post
        ``ma``, ``mb``, ``sa2``, ``sb2`` (moments of the k components with cₐ = c_b,
        Nakajima and Sugiyama 2014, Eq. 15), ``cacb`` (learned prior scales cₐc_b), ``sigma2`` and
        ``F`` (free energy, nats).

    Examples
    --------
    >>> from bayespca import evbmf
    >>> from bayespca.datasets import low_rank
    >>> U, S, V, post = evbmf(low_rank(60, 40, 2, random_state=0).X)
    >>> U.shape, S.shape, V.shape
    ((60, 2), (2, 2), (40, 2))
    """
    return _factorize(Y, ClosedForm(METHODS["evb"], H, _noise(sigma2)))


def vbmf(Y: Input, cacb: float, sigma2: float | None = None, H: int | None = None) -> Factors:
    """Variational Bayes matrix factorization with given prior scales `cacb` = cₐc_b.

    Everything else is as in `evbmf` (Nakajima, Sugiyama and Babacan 2011, Theorem 3).

    >>> from bayespca import vbmf
    >>> from bayespca.datasets import low_rank
    >>> U, S, V, post = vbmf(low_rank(60, 40, 2, random_state=0).X, cacb=1.0, sigma2=1.0)
    >>> (U @ S @ V.T).shape
    (60, 40)
    """
    if not (isinstance(cacb, Real) and 0 < float(cacb) < LARGEST):
        raise ValueError(f"cacb must be positive and below {LARGEST:.0e}, got {cacb!r}.")
    return _factorize(Y, ClosedForm(METHODS["vb"], H, _noise(sigma2), float(cacb) ** 2))


def _noise(sigma2: float | None) -> float | str:
    return "auto" if sigma2 is None else sigma2


def _factorize(Y: Input, form: ClosedForm) -> Factors:
    Y = _input.read_matrix(Y)
    xp = array_namespace(Y)
    found = engines.decompose(Y.T, plan=form, center=False, n_needed=form.n_needed, dead_rows=True)
    solution = form(found.spectrum)
    k = solution.rank
    U = fixed_signs(found.right(k)).T
    gamma = found.spectrum.singular_values[:k] * found.spectrum.scale
    V = xp.matmul(Y.T, U) / arrays.to_namespace(gamma, Y)
    S = xp.zeros((k, k), dtype=Y.dtype, device=Y.device)
    for h, value in enumerate(solution.shrunk_singular_values):
        S[h, h] = float(value)
    moments = solution.moments.with_equal_priors()
    post = {
        "ma": moments.mean_a[:k],
        "mb": moments.mean_b[:k],
        "sa2": moments.variance_a[:k],
        "sb2": moments.variance_b[:k],
        "cacb": np.sqrt(moments.prior_variance_a[:k] * moments.prior_variance_b[:k]),
        "sigma2": solution.noise_variance,
        "F": solution.free_energy,
    }
    return U, S, V, post


def denoise(X: Input, **options: Any) -> Array:
    """Remove noise from data: return the posterior mean of the low-rank matrix, plus the mean.

    Options are those of `BayesianPCA`.

    >>> from bayespca import denoise
    >>> from bayespca.datasets import low_rank
    >>> X = low_rank(100, 12, 3, random_state=0).X
    >>> denoise(X).shape
    (100, 12)
    """
    model = BayesianPCA(**options).fit(X)
    return model.denoise(X)
