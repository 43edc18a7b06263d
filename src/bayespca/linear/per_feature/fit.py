"""Noise of its own for each feature, as a model: its start, its step, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayespca import inference
from bayespca.arrays.namespaces import array_namespace, to_namespace
from bayespca.arrays.signs import fixed_signs
from bayespca.inference.loop import Info, Run
from bayespca.inference.model import Model
from bayespca.inference.result import Fit
from bayespca.linear.posterior import with_solution
from bayespca.lowrank.posterior import from_solution
from bayespca.lowrank.records import PCAFit, PCAPosterior
from bayespca.spectrum.forms import ClosedForm
from bayespca.spectrum.records import Status

from .data import FeatureMoments, feature_moments
from .step import PerFeatureState, start, step


def fit(X: Any, form: ClosedForm, looping: inference.Looping, *, center: bool = True) -> PCAFit:
    """Fit an array, a sparse matrix or partitions of a Dask collection."""
    model = PerFeatureModel(replace(form, noise_variance=1.0))
    return inference.fit(model, feature_moments(X, center=center), looping)


@dataclass(frozen=True)
class PerFeatureModel(Model[FeatureMoments, PerFeatureState, PCAFit]):
    """A closed form of data divided by the roots of their noise, in turns with that noise."""

    form: ClosedForm

    @property
    def has_one_start(self) -> bool:
        return True

    def start(self, data: FeatureMoments, rng: np.random.Generator) -> PerFeatureState:
        return start(data, self.form)

    def step(self, state: PerFeatureState, data: FeatureMoments) -> tuple[PerFeatureState, Info]:
        return step(state, data, self.form)

    def digests(self, data: FeatureMoments) -> Sequence[Any]:
        return [data.mean, data.matrix]

    def posterior(self, state: PerFeatureState, data: FeatureMoments) -> PCAPosterior:
        like = data.like
        return from_solution(
            state.solution,
            components=fixed_signs(to_namespace(state.components, like)),
            gamma=state.spectrum.singular_values,
            mean=to_namespace(data.mean, like, array_namespace(like).float64),
            scale=to_namespace(np.sqrt(state.psi), like),
            M=data.M,
        )

    def status(self, state: PerFeatureState, data: FeatureMoments) -> Status:
        return state.solution.status

    def described(
        self, found: Fit[PCAPosterior], run: Run[PerFeatureState], data: FeatureMoments
    ) -> PCAFit:
        state = run.state
        return with_solution(
            found,
            state.solution,
            spectrum=state.spectrum,
            noise_variance=np.where(data.squares > 0, state.psi, 0.0),
            n_samples=data.n_samples,
            engine=data.engine,
        )
