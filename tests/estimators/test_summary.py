"""The summary says in words what the numbers say."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bayespca import BayesianPCA
from bayespca.datasets import low_rank
from bayespca.estimators import summarize
from bayespca.estimators.wording import headline, ordinal
from bayespca.spectrum import Spectrum, solve


def codes(model):
    return [note.code for note in summarize(model).notes]


def matrix_with(gamma, n, p, rng):
    """A matrix with given singular values and random singular vectors."""
    U = np.linalg.qr(rng.normal(size=(n, len(gamma))))[0]
    V = np.linalg.qr(rng.normal(size=(p, len(gamma))))[0]
    return (U * gamma) @ V.T


def at_threshold(relative, rng, n=300, p=40):
    """Data with two strong components and one at `relative` times the threshold."""
    noise = np.linalg.svd(rng.normal(size=(n, p)), compute_uv=False)
    noise[:3] = noise[3]
    gamma = np.sort(np.r_[200.0, 100.0, noise[2:]])[::-1]
    for _ in range(50):  # the noise, and so the threshold, depends a little on the third
        gamma[2] = relative * solve(Spectrum(gamma, (p, n))).threshold
    return matrix_with(gamma, n, p, rng)


def test_numbers_are_those_of_the_model(rng):
    X = low_rank(100, 20, 3, random_state=2).X
    model = BayesianPCA().fit(X)
    summary = summarize(model)
    assert (summary.n_samples, summary.n_features, summary.rank) == (100, 20, 3)
    assert summary.probability == model.rank_posterior_[3]
    assert summary.rank_probabilities[3] == summary.probability
    assert summary.noise_variance == model.noise_variance_
    assert summary.explained == pytest.approx(model.explained_variance_ratio_.sum())
    assert summary.notes == ()
    assert json.loads(json.dumps(summary.as_dict()))["rank"] == 3


@pytest.mark.parametrize(
    ("relative", "code", "text"),
    [
        (
            1.015,
            "near-threshold-kept",
            "The 3rd component is within 2 % of the threshold, just ab",
        ),
        (
            0.985,
            "near-threshold-dropped",
            "The 3rd component is within 2 % of the threshold, just",
        ),
    ],
)
def test_a_component_next_to_the_threshold_is_named(rng, relative, code, text):
    model = BayesianPCA(center=False).fit(at_threshold(relative, rng))
    note = next(note for note in summarize(model).notes if note.code == code)
    assert note.text.startswith(text)


def test_a_component_far_from_the_threshold_is_not(rng):
    assert not [
        code
        for code in codes(BayesianPCA().fit(low_rank(100, 20, 3, random_state=0).X))
        if "near" in code
    ]


def test_a_component_that_is_probable_though_dropped_is_told(rng):
    """EVB's threshold lies above what noise reaches: just below it, a component is probable."""
    X = at_threshold(0.97, rng)
    model = BayesianPCA(center=False).fit(X)
    [note] = [note for note in summarize(model).notes if "rank" in note.code]
    assert note.text.startswith("EVB keeps 2; the most probable number is 3, with ")
    assert note.text.endswith(" %, if the noise is as assumed.")
    probable = BayesianPCA(n_components="probable", center=False).fit(X)
    assert probable.n_components_ == 3
    assert probable.shrunk_singular_values_[2] > 0
    assert "EVB keeps 2; the most probable number is 3" in str(probable.status_)


def test_an_uncertain_rank_is_told_with_its_rivals():
    """With few rows, the rank that EVB keeps may be less probable than all others together."""
    notes = []
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(12, 8)) * [4, 3, 1, 1, 1, 1, 1, 1]
        notes += summarize(BayesianPCA(noise="isotropic").fit(X)).notes
    texts = [note.text for note in notes if note.code == "uncertain-rank"]
    assert texts
    assert all(
        re.match(r"The rank is not certain: rank \d has probability .*, rank", t) for t in texts
    )


def test_a_feature_in_other_units_is_named(rng):
    X = low_rank(100, 5, 2, random_state=0).X
    X[:, 3] *= 1000
    equal = BayesianPCA(noise="isotropic").fit(X)
    assert "feature 3 almost alone" in " ".join(n.text for n in summarize(equal).notes)
    assert "single-feature" not in codes(BayesianPCA(scale=True).fit(X))
    own = BayesianPCA().fit(X)
    assert own.noise_ == "per-feature"
    assert "single-feature" not in codes(own)


def test_a_rank_that_was_told_has_no_probability():
    summary = summarize(
        BayesianPCA("ml", n_components=2).fit(low_rank(100, 20, 3, random_state=0).X)
    )
    assert summary.probability is None
    assert summary.rank == 2


def test_rank_zero(rng):
    summary = summarize(BayesianPCA().fit(rng.normal(size=(50, 10))))
    assert (summary.rank, summary.explained) == (0, 0.0)


def test_noise_of_each_feature_is_averaged(rng):
    X = np.column_stack([low_rank(100, 10, 2, random_state=0).X, np.full(100, 3.0)])
    model = BayesianPCA(noise="per-feature").fit(X)
    assert summarize(model).noise_variance == pytest.approx(
        model.feature_noise_variance_[:10].mean()
    )
    least, most = summarize(model).feature_noise
    assert 0 < least < summarize(model).noise_variance < most


def test_a_cap_that_was_reached_is_told():
    X = low_rank(100, 20, 5, random_state=0).X
    note = next(
        n for n in summarize(BayesianPCA(n_components=3).fit(X)).notes if n.code == "capped"
    )
    assert note.text.startswith("No more than 3 components were allowed; at this noise, 2 more")
    assert "capped" not in codes(BayesianPCA(n_components=5).fit(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_early_stop_is_told(rng):
    model = BayesianPCA(noise="per-feature", max_iter=2, tol=0).fit(
        low_rank(100, 10, 2, random_state=0).X
    )
    assert "not-converged" in codes(model)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (21, "21st")]
)
def test_ordinals(number, text):
    assert ordinal(number) == text


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_how_many_one_needs(rng):
    model = BayesianPCA(noise_variance=1.0).fit(matrix_with([100.0, 30.0, 20.0], 80, 9, rng))
    squares = model.shrunk_singular_values_**2
    for share in (0.5, 0.8, 0.95, 0.99, 1.0):
        k = model.components_for(share)
        assert squares[:k].sum() >= share * squares.sum() * (1 - 1e-12)
        assert squares[: k - 1].sum() < share * squares.sum()
    assert model.components_for(1.0) == model.n_components_ == 3
    assert summarize(model).components_for == {0.8: 1, 0.95: 2, 0.99: 3}
    assert headline(summarize(model)) == (
        "There are three dimensions in these data; two hold 95 % of the signal."
    )


@pytest.mark.parametrize("share", [0, -0.1, 1.01, np.nan])
def test_a_share_that_is_none(share, rng):
    model = BayesianPCA().fit(rng.normal(size=(20, 4)))
    assert model.components_for(0.95) == 0
    with pytest.raises(ValueError, match="share must be above 0"):
        model.components_for(share)


def test_the_headline_says_where_the_most_probable_number_is_another(rng):
    found = summarize(BayesianPCA(noise_variance=1.0).fit(matrix_with([100.0, 90.0], 80, 9, rng)))
    for probabilities, words in (
        ({2: 0.9, 3: 0.1}, "There are two dimensions in these data."),
        ({2: 0.3, 3: 0.7}, "There are at least two dimensions in these data."),
        ({1: 0.7, 2: 0.3}, "There are up to two dimensions in these data."),
        ({}, "There are two dimensions in these data."),
    ):
        assert headline(replace(found, rank_probabilities=probabilities)) == words
