"""A model that only defines its start, step and posterior gets everything else for free."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayespca
from bayespca.datasets import low_rank

from .toy_model import ToyPCA

X = low_rank(300, 8, 3, random_state=0).X


def test_it_is_short():
    lines = (Path(__file__).parent / "toy_model.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 80


def test_the_loop_and_the_search_over_ranks():
    model = ToyPCA().fit(X)
    assert model.n_components_ == 3
    assert model.converged_
    assert model.n_iter_ == len(model.trace_) > 3
    assert model.trace_.rank[-1] == 3
    assert (np.diff(model.trace_.free_energy) <= 1e-9 * abs(model.free_energy_)).all()
    assert model.trace_.free_energy[-1] == model.free_energy_


def test_progress_and_an_early_end():
    seen = []

    def callback(number, info):
        seen.append((number, info.rank))
        return True

    model = ToyPCA().fit(X, callback=callback)
    assert seen == [(1, 0)]
    assert not model.converged_


def killed(number, info):
    """Callback that interrupts a fit in its second step."""
    if number == 2:
        raise KeyboardInterrupt


def test_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    kept = ToyPCA(checkpoint=tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        kept.fit(X, callback=killed)
    assert kept.checkpoint.exists()
    with pytest.raises(ValueError, match="another fit"):
        kept.fit(X + 1)
    seen = []
    kept.fit(X, callback=lambda number, info: seen.append(number))
    assert seen[0] == 2
    assert not kept.checkpoint.exists()
    plain = ToyPCA().fit(X)
    assert np.array_equal(kept.components_, plain.components_)
    assert kept.free_energy_ == plain.free_energy_


def test_model_files(tmp_path):
    model = ToyPCA().fit(X)
    model.save(tmp_path / "toy.bpca")
    again = bayespca.load(tmp_path / "toy.bpca")
    assert type(again) is ToyPCA
    assert np.array_equal(again.transform(X), model.transform(X))
    assert again.trace_.free_energy.tolist() == model.trace_.free_energy.tolist()
    assert np.array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))


def test_notebooks_and_docstring():
    html = ToyPCA().fit(X)._repr_html_()
    assert "ToyPCA" in html
    assert "3\xa0components" in html
    assert "n_components_ : int\n    Components found." in ToyPCA.__doc__


@parametrize_with_checks([ToyPCA()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
