"""`rank_report(X, lookalikes=…)`: how often rules are right on tables drawn like X."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from bayespca import BayesianPCA, rank_report
from bayespca.datasets import noisy
from bayespca.estimators._input import read
from bayespca.estimators._lookalikes import Lookalikes, _plausible, _sizes, of_fit
from bayespca.estimators.rules import lookalikes_of
from bayespca.noise.asked import Asked

RECORD = Lookalikes(
    truth=np.array([3, 3, 3, 4]),
    weights=np.array([0.2, 0.2, 0.2, 0.4]),
    found={
        "kept by default": np.array([3, 3, 2, 4]),
        "parallel analysis": np.array([2, 2, 3, 3]),
    },
)


def test_the_record_by_hand():
    assert RECORD.right == pytest.approx({"kept by default": 0.8, "parallel analysis": 0.2})
    assert RECORD.n_tables == {3: 3, 4: 1}
    assert RECORD.right_by_number() == pytest.approx({3: 2 / 3, 4: 1.0})
    assert RECORD.right_by_number("parallel analysis") == pytest.approx({3: 1 / 3, 4: 0.0})
    assert RECORD.in_words == (
        "On tables like this one the default is right in 80 %, parallel analysis in 20 %."
    )
    assert RECORD.numbers_in_words == (
        "Of 4 drawn tables, the default found 3 in 67 % of 3, 4 in 100 % of 1."
    )
    assert json.loads(json.dumps(RECORD.as_dict()))["right_by_number"]["kept by default"]["4"] == 1
    lines = [line.split() for line in str(RECORD).splitlines()]
    assert ["kept", "by", "default", "80", "%", "67", "%", "100", "%"] in lines
    assert ["tables", "4", "3", "1"] in lines


def test_strong_components_are_found_in_nearly_all_tables():
    X = noisy("white", 150, 15, 3, random_state=0).X
    found = rank_report(X, n_halves=0, lookalikes=12).lookalikes
    assert found.n_tables == {3: 12}
    assert found.right["kept by default"] >= 0.9
    assert found.right["EVB"] >= 0.9
    assert set(found.right) <= set(rank_report(X, n_halves=0).ranks())
    assert found.weights.sum() == pytest.approx(1)


def test_rules_that_assume_equal_noise_fail_where_it_is_not():
    X = noisy("columns", 150, 15, 3, random_state=0).X
    right = rank_report(X, n_halves=0, lookalikes=10).lookalikes.right
    assert right["kept by default"] >= 0.9
    assert right["Minka"] <= 0.2


def test_noise_has_no_components():
    X = noisy("white", 150, 15, 3, strength=0, random_state=0).X
    found = rank_report(X, n_halves=0, lookalikes=8).lookalikes
    assert 0 in found.n_tables
    assert found.right_by_number()[0] >= 0.8


def test_a_component_near_the_limit_is_found_in_some_tables():
    X = noisy("white", 120, 20, 1, strength=0.0, random_state=1).X
    X = X + 0.85 * np.outer(np.random.default_rng(0).normal(size=120), np.full(20, 20**-0.5))
    found = rank_report(X, n_halves=0, lookalikes=30).lookalikes
    assert 0.3 < found.right["kept by default"] < 1
    assert len(found.n_tables) > 1


def test_seeds():
    X = noisy("white", 60, 10, 2, strength=0.6, random_state=0).X
    one, same, other = (
        rank_report(X, n_halves=0, lookalikes=8, random_state=s).lookalikes for s in (0, 0, 1)
    )
    assert one.as_dict() == same.as_dict()
    assert one.as_dict() != other.as_dict()
    model = BayesianPCA().fit(X)
    before = model.n_components_, model.free_energy_
    assert lookalikes_of(model, X, n_tables=8).as_dict() == one.as_dict()
    assert before == (model.n_components_, model.free_energy_)


def test_the_mean_is_a_component_of_data_that_are_not_centred():
    X = noisy("white", 100, 10, 2, random_state=0).X + 5
    found = rank_report(X, n_halves=0, lookalikes=5, center=False).lookalikes
    assert found.n_tables == {3: 5}
    assert found.right["kept by default"] >= 0.8


def test_units_do_not_matter_to_scaled_data():
    X, units = noisy("white", 60, 6, 2, random_state=0).X, 2.0 ** np.arange(-3, 3)
    one, other = (
        rank_report(values, scale=True, n_halves=0, lookalikes=5).lookalikes
        for values in (X, X * units)
    )
    assert one.as_dict() == other.as_dict()


def test_columns_and_rows_that_repeat_others_do_so_in_drawn_tables():
    X = noisy("columns", 60, 6, 2, random_state=0).X
    X = np.c_[X, X[:, 0] + X[:, 1]]
    X = np.r_[X, X[:20]]
    model, tables = BayesianPCA().fit(X), []

    def ranks(values):
        tables.append(values)
        return {"kept by default": 2}

    rng = np.random.default_rng(0)
    of_fit(model.fit_, read(BayesianPCA(), X), ranks, Asked(), n_tables=3, rng=rng)
    assert len(tables) == 3
    for values in tables:
        assert values.shape == X.shape
        assert values[:, 6] == pytest.approx(values[:, 0] + values[:, 1])
        np.testing.assert_array_equal(values[60:], values[:20])
        assert np.unique(values, axis=0).shape[0] == 60


def test_noise_of_cells_is_that_of_columns():
    X = noisy("gross", 150, 12, 2, random_state=0).X
    model = BayesianPCA(noise="student-cells").fit(X)
    asked, data = Asked(), read(BayesianPCA(), X)
    found = of_fit(
        model.fit_,
        data,
        lambda values: {"kept by default": len(values)},
        asked,
        n_tables=2,
        rng=np.random.default_rng(0),
    )
    assert (found.found["kept by default"] == 150).all()


def test_plausible_numbers():
    """Those with at least 5 %; the number and its neighbours if there are no probabilities."""
    X = noisy("white", 100, 12, 3, random_state=0).X
    fit = BayesianPCA().fit(X).fit_
    known = replace(fit, rank_posterior=np.array([0, 0, 0.04, 0.6, 0.3, 0.06]))
    assert _plausible(known) == pytest.approx({3: 0.625, 4: 0.3125, 5: 0.0625})
    assert _plausible(replace(fit, rank_posterior=np.empty(0))) == dict.fromkeys((2, 3, 4), 1 / 3)
    none = replace(BayesianPCA(n_components=0).fit(X).fit_, rank_posterior=np.empty(0))
    assert _plausible(none) == dict.fromkeys((0, 1), 1 / 2)


def test_each_number_gets_some_of_the_tables():
    assert _sizes(np.array([0.9, 0.1]), 50).tolist() == [41, 9]
    assert _sizes(np.array([0.5, 0.3, 0.2]), 4).sum() == 4
    for total in range(1, 40):
        sizes = _sizes(np.array([0.6, 0.3, 0.1]), total)
        assert sizes.sum() == total
        assert sizes.min() >= min(5, total // 3)


def test_what_no_tables_can_be_drawn_from(tmp_path):
    X = noisy("white", 30, 8, 2, random_state=0).X
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match="contains NaN: look-alikes are drawn from complete data"):
        rank_report(np.where(X > 1, np.nan, X), lookalikes=5)
    with pytest.raises(ValueError, match="look-alikes need dense data: call toarray"):
        rank_report(sp.csr_matrix(X), lookalikes=5)
    with pytest.raises(ValueError, match="look-alikes need data in memory"):
        rank_report(np.load(tmp_path / "x.npy", mmap_mode="r"), lookalikes=5)
    with pytest.raises(ValueError, match="3 rows are too few to draw tables"):
        rank_report(X[:3], lookalikes=5)
    with pytest.raises(ValueError, match="lookalikes must be at least 1, or 0 for none, got -1"):
        rank_report(X, lookalikes=-1)
    with pytest.raises(ValueError, match="the data have no noise"):
        rank_report(np.zeros((10, 4)), n_halves=0, lookalikes=5)
    for other in ({"n_components": 2}, {"noise_variance": 1.0}, {"method": "vb"}):
        with pytest.raises(ValueError, match="look-alikes show how often method='evb'"):
            lookalikes_of(BayesianPCA(**other).fit(X), X)


def test_the_report_prints_them():
    X = noisy("columns", 60, 8, 2, random_state=0).X
    assert rank_report(X, n_halves=0).lookalikes is None
    assert "like this one" not in str(rank_report(X, n_halves=0))
    found = rank_report(X, n_halves=6, lookalikes=5)
    assert found.lookalikes.in_words in str(found)
    assert "of the halves" in str(found)
