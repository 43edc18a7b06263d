"""Numbers, noise and probabilities in words."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bayespca import BayesianPCA, VariationalPCA
from bayespca.datasets import low_rank
from bayespca.estimators import summarize
from bayespca.estimators.wording import (
    CONDITION,
    counted,
    holes_sentence,
    in_brief,
    kept,
    likelihood,
    noise_level,
    noise_sentence,
    percent,
    plural,
    significant,
    undetermined,
)
from bayespca.lowrank.noise_models import NOISES
from bayespca.spectrum.records import Advice


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (-0.51449, "−0.514"),
        (154.8, "155"),
        (1234.0, "1,230"),
        (3.5e8, "3.50·10⁸"),
        (1.5e-7, "1.50·10⁻⁷"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "not known"),
    ],
)
def test_significant(value, text):
    assert significant(value) == text


def test_significant_digits():
    assert significant(8447.163, 6) == "8447.16"
    assert significant(350984.0, 6) == "350984"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1e-5, "under 0.1 %"),
        (0.004, "0.4 %"),
        (0.36, "36 %"),
        (0.997, "99.7 %"),
        (0.9999, "over 99.9 %"),
        (1, "100 %"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


def test_no_certainty():
    assert likelihood(1.0).startswith("over 99")
    assert likelihood(0.0) == likelihood(1e-12) == "under 0.1 %"


def test_counting():
    assert [counted(n) for n in (0, 1, 10, 11, 12000)] == ["no", "one", "ten", "11", "12,000"]
    assert plural(1, "sample") == "1\N{NO-BREAK SPACE}sample"
    assert plural(2000, "sample") == "2,000\N{NO-BREAK SPACE}samples"


# --- noise -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def summary():
    return summarize(BayesianPCA(noise="isotropic").fit(low_rank(40, 5, 1, random_state=0).X))


def test_every_noise_has_a_sentence(summary):
    for name in NOISES:
        assert bool(noise_sentence(replace(summary, noise=name))) == (name != "isotropic")


def test_equal_noise_is_not_mentioned(summary):
    assert noise_sentence(summary) == ""
    assert noise_level(summary) == significant(summary.noise_variance**0.5)
    assert noise_sentence(replace(summary, noise_evidence={"per-feature": -3.0})) == ""
    other = summarize(VariationalPCA(random_state=0).fit(low_rank(40, 5, 1, random_state=0).X))
    assert (other.noise, noise_sentence(other)) == ("isotropic", "")


def test_what_is_assumed_of_holes_is_said_where_there_are_some(summary):
    assert holes_sentence(summary) == ""
    assert "missing at random" in holes_sentence(replace(summary, engine="holes"))


def test_what_speaks_for_a_noise(summary):
    found = replace(
        summary, noise="per-feature", noise_evidence={"per-feature": 78.3}, feature_noise=(1.0, 9.0)
    )
    assert noise_sentence(found) == (
        "Noise differs between the features (78\N{NO-BREAK SPACE}nats more evidence than equal "
        "noise)."
    )
    assert noise_level(found) == "1.0 to 3.0"
    asked = replace(found, noise_evidence={})
    assert noise_sentence(asked) == "Noise differs between the features, as the options specify."


@pytest.mark.parametrize(
    ("noise", "count", "end"),
    [
        ("per-sample", 0, "specify."),
        ("per-sample", 1, " One sample is probably an outlier."),
        ("both", 12, " 12 samples are probably outliers."),
        ("student-cells", 2, " Two cells are probably outliers."),
    ],
)
def test_outliers_are_counted(summary, noise, count, end):
    assert noise_sentence(replace(summary, noise=noise, outliers=count)).endswith(end)


def test_outliers_that_a_note_names_are_not_counted_again(summary):
    notes = (Advice("outlying-rows", "Of 100 rows 1 is outlying."),)
    found = replace(summary, noise="per-sample", outliers=1, notes=notes)
    assert "outlier" not in noise_sentence(found)


# --- how sure a number is ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "probabilities", "text"),
    [
        (2, [0.0, 0.1, 0.7, 0.2], "with a probability of 70 %"),
        (0, [0.8, 0.2], "with a probability of 80 %"),
        (1, [0.0, 1.0], "with a probability of over 99.9 %"),
        (2, [0.0, 0.3, 0.45, 0.25], "from 1 to 3 with a probability of over 99.9 %"),
        (2, [0.05, 0.05, 0.45, 0.42, 0.03], "from 1 to 3 with a probability of 92 %"),
        (0, [0.45, 0.35, 0.15, 0.05], "from 0 to 2 with a probability of 95 %"),
        (3, [0.06, 0.1, 0.4, 0.44], "from 1 to 3 with a probability of 94 %"),
        (1, [0.0, 0.4, 0.6], "at least so many with a probability of over 99.9 %, most probably 2"),
        (2, [0.0, 0.7, 0.3], "at least so many with a probability of 30 %, most probably 1"),
        (0, [0.4, 0.6], "at least so many with a probability of over 99.9 %, most probably 1"),
        (3, [0.5, 0.5], "at least so many with a probability of under 0.1 %, most probably 0"),
    ],
)
def test_how_sure_a_number_is(k, probabilities, text):
    assert in_brief(k, probabilities) == text
    assert kept(k, text) == f"{k}, {text}, {CONDITION}"


def test_what_the_data_do_not_determine_has_no_percentage():
    beyond = "more cannot be told apart from deviations from the model"
    assert in_brief(1, ()) == f"stands out; {beyond}"
    assert kept(0, in_brief(0, ())) == f"0 stand out; {beyond}"
    assert undetermined(1, 1) == f"One component stands out; {beyond}."
    assert undetermined(3, 2) == (
        f"Three components stand out; {beyond}. Two hold 95 % of the signal."
    )
    assert kept(4, "as requested") == "4, as requested"


def test_a_printed_probability_has_its_condition(capsys):
    X = low_rank(40, 8, 2, random_state=0).X
    model = BayesianPCA(verbose=True).fit(X)
    assert in_brief(2, model.rank_posterior_) in capsys.readouterr().out
    assert CONDITION in model._repr_html_()


def test_the_readme_has_the_condition_wherever_it_prints_a_probability():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    said = [line for line in text.splitlines() if re.search(r"probability of .*\d %", line)]
    assert said
    assert all(CONDITION in line for line in said)
