"""A model in under 80 lines: probabilistic PCA by EM; an information criterion chooses the rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bayespca.arrays.types import Matrix, Vector
from bayespca.estimators import _input, _validation
from bayespca.estimators._base import Estimator, Fitted
from bayespca.inference import Fit, Info, Model, Move, fit
from bayespca.sources.data import Data


@dataclass(frozen=True, eq=False)
class ToyState:
    W: Matrix
    s2: float


@dataclass(frozen=True, eq=False)
class ToyPosterior:
    mean: Vector
    components: Matrix


@dataclass(frozen=True, eq=False)
class ToyFit(Fit[ToyPosterior]): ...


class ToyModel(Model[Data, ToyState, Fit[ToyPosterior]]):
    def start(self, data, rng):
        return ToyState(rng.normal(size=(data.shape[1], 0)), 1.0)

    def step(self, state, data):
        (n, p), k, S, W = data.shape, state.W.shape[1], covariance(data), state.W
        G = np.linalg.inv(W.T @ W + state.s2 * np.eye(k))
        new = S @ W @ np.linalg.inv(state.s2 * np.eye(k) + G @ W.T @ S @ W)
        s2 = max(float(np.trace(S - S @ W @ G @ new.T)) / p, 1e-9)
        C = new @ new.T + s2 * np.eye(p)
        deviance = np.linalg.slogdet(2 * np.pi * C)[1] + np.trace(np.linalg.solve(C, S))
        return ToyState(new, s2), Info(0.5 * (n * deviance + p * k * np.log(n)), k, s2)

    def posterior(self, state, data):
        return ToyPosterior(data.values.mean(0), np.linalg.svd(state.W, full_matrices=False)[0].T)

    def moves(self, data):
        def more(state):
            strongest = np.linalg.eigh(covariance(data) - state.W @ state.W.T)[1][:, -1:]
            return ToyState(np.append(state.W, strongest * state.s2**0.5, axis=1), state.s2)

        return [Move(lambda state: None, more)]


def covariance(data):
    return np.atleast_2d(np.cov(data.values.T, bias=True))


class ToyPCA(TransformerMixin, Estimator[ToyFit]):
    """PCA of a toy."""

    components_ = Fitted("array", "Directions.", lambda fit: fit.posterior.components)
    n_components_ = Fitted("int", "Components found.", lambda fit: len(fit.posterior.components))

    def __init__(self, max_iter=500, tol=1e-10, n_init=1, checkpoint=None, random_state=0):
        self.max_iter, self.tol, self.n_init = max_iter, tol, n_init
        self.checkpoint, self.random_state = checkpoint, random_state

    def fit(self, X, y=None, *, callback=None):
        data = _input.read(self, X, in_memory=True, dense=True, complete=True)
        found = fit(ToyModel(), data, _validation.looping(self, callback))
        return self._keep(found, data.features)

    def transform(self, X):
        check_is_fitted(self)
        return (_input.read_new(self, X, "transform") - self.posterior_.mean) @ self.components_.T
