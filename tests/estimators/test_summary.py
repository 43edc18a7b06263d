"""The summary says in words what the numbers say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

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
    assert summary.exactly == model.rank_posterior_[3]
    assert summary.at_least == pytest.approx(model.rank_posterior_[3:].sum())
    assert summary.rank_probabilities[3] == summary.exactly
    assert summary.noise_variance == model.noise_variance_
    assert summary.explained == pytest.approx(model.explained_variance_ratio_.sum())
    assert summary.notes == ()
    assert json.loads(json.dumps(summary.as_dict()))["rank"] == 3


def test_a_component_that_evb_drops_can_be_probable(rng):
    """EVB's threshold lies above what noise reaches: just below it, a component is probable."""
    X = at_threshold(0.97, rng)
    evb, kept = (BayesianPCA(n_components=n, center=False).fit(X) for n in ("evb", "auto"))
    assert (evb.n_components_, kept.n_components_) == (2, 3)
    assert kept.shrunk_singular_values_[2] > 0
    at_least = "at least so many with a probability of over 99.9 %, most probably 3"
    assert summarize(evb).how_sure == at_least
    assert summarize(evb).sentence.startswith("There are at least two dimensions")


def test_what_the_data_do_not_determine():
    X = load_diabetes().data
    model = BayesianPCA().fit(X)
    summary = summarize(model)
    assert model.rank_posterior_ is None
    assert (summary.at_least, summary.exactly, summary.most_probable) == (None, None, None)
    assert not summary.determined
    sentence = summary.sentence.replace("dimension", "component")
    assert str(model.status_) == f"Converged after {model.n_iter_} steps. {sentence}"
    assert summary.notes == ()
    capped = BayesianPCA(n_components=1).fit(X)
    assert "not-determined" not in capped.status_
    assert (summarize(capped).given, summarize(capped).how_sure) == (True, "as requested")


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
    assert (summary.at_least, summary.determined, summary.how_sure) == (None, True, "as requested")
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
    assert note.text == "No more than 3 components were allowed; there are more."
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
    for probable, words in (
        (2, "There are two dimensions in these data."),
        (3, "There are at least two dimensions in these data."),
        (1, "There are up to two dimensions in these data."),
        (None, "There are two dimensions in these data."),
    ):
        assert headline(replace(found, most_probable=probable)) == words
