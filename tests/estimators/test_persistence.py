"""Model files: a loaded model equals the saved one, and any other content is refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import re
import warnings
import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

import bayespca
from bayespca import BayesianPCA, VariationalPCA, load
from bayespca.datasets import low_rank
from bayespca.estimators import ModelFileError, summarize
from bayespca.estimators._base import ESTIMATORS, Estimator, Fitted, kept_by
from bayespca.io import archive
from bayespca.io.kinds import record_of, records_in
from bayespca.sources.data import Features

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayespca.estimators.RankWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
X = low_rank(60, 8, 2, mean=3.0, random_state=0).X


def assert_same(a, b, where="model"):
    """Assert equality to the last bit, including type, dtype and memory order."""
    assert type(a) is type(b), where
    if isinstance(a, BaseEstimator) or dataclasses.is_dataclass(a):
        assert_same(dict(sorted(vars(a).items())), dict(sorted(vars(b).items())), where)
    elif isinstance(a, np.ndarray) and a.dtype != object:
        assert a.dtype.str == b.dtype.str, where
        assert a.shape == b.shape, where
        assert a.flags.writeable == b.flags.writeable, where
        assert a.tobytes() == b.tobytes(), where
        orders = [array.copy(order="K").flags.c_contiguous for array in (a, b)]
        assert orders[0] == orders[1], where
    elif isinstance(a, np.ndarray):
        assert a.tolist() == b.tolist(), where
    elif isinstance(a, np.random.Generator):
        seeds = [g.bit_generator.seed_seq.state for g in (a, b)]
        assert_same(a.bit_generator.state, b.bit_generator.state, where)
        assert_same(*seeds, where)
    elif isinstance(a, np.random.RandomState):
        assert_same(a.get_state(legacy=False), b.get_state(legacy=False), where)
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (item, other) in enumerate(zip(a, b, strict=True)):
            assert_same(item, other, f"{where}.{i}")
    else:
        assert repr(a) == repr(b), where


def again(model, path):
    model.save(path)
    return load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bayespca"


def outputs(model, data):
    """All that is computed from a fitted model."""
    T = np.asarray(model.transform(data))
    return {
        "scores": model.transform(data, return_std=True),
        "back": model.inverse_transform(T),
        "projected": model.project(data),
        "densities": model.score_samples(data),
        "score": model.score(data),
        "covariance": model.get_covariance(),
        "precision": model.get_precision(),
        "names": model.get_feature_names_out(),
        "sample": model.sample(5, random_state=3),
    }


OURS = [cls for cls in ESTIMATORS.values() if cls.__module__.startswith("bayespca.")]


# --- the same model ----------------------------------------------------------------------------

MODELS = {
    "evb": BayesianPCA(),
    "epb": BayesianPCA("epb"),
    "emap": BayesianPCA("emap"),
    "global-epb": BayesianPCA("global-epb"),
    "global-emap": BayesianPCA("global-emap"),
    "vb": BayesianPCA("vb", prior_variance=5.0),
    "vb, flat": BayesianPCA("vb"),
    "pb": BayesianPCA("pb", prior_variance=5.0),
    "pb-a": BayesianPCA("pb-a", prior_variance=5.0),
    "pb-b": BayesianPCA("pb-b", prior_variance=5.0),
    "map": BayesianPCA("map", prior_variance=5.0),
    "ml": BayesianPCA("ml", n_components=3),
    "laplace": BayesianPCA("laplace"),
    "rank 0": BayesianPCA(n_components=0),
    "uncentred": BayesianPCA(center=False),
    "scaled": BayesianPCA(scale=True),
    "whitened": BayesianPCA(whiten=True),
    "noise given": BayesianPCA(noise_variance=np.float32(1.5)),
    "0 dB": BayesianPCA(noise_variance="0db"),
    "per feature": BayesianPCA(noise="per-feature"),
    "per feature, not converged": BayesianPCA(noise="per-feature", max_iter=2),
    "dense": BayesianPCA(engine="dense"),
    "gram": BayesianPCA(engine="gram"),
    "randomized": BayesianPCA(engine="randomized", random_state=0),
    "streaming": BayesianPCA(engine="streaming"),
    "iterative": BayesianPCA(solver="iterative", random_state=0),
    "Bishop": VariationalPCA(random_state=0),
    "lecture": VariationalPCA(2, prior="unit", center=False, random_state=0),
}


def test_every_method_is_tried():
    ours = [model for model in MODELS.values() if isinstance(model, BayesianPCA)]
    assert {model.method for model in ours} == set(bayespca.spectrum.METHODS)


def test_every_public_estimator_can_be_saved():
    public = {
        getattr(bayespca, name)
        for name in bayespca.__all__
        if isinstance(getattr(bayespca, name), type)
        and issubclass(getattr(bayespca, name), BaseEstimator)
    }
    assert public == set(OURS)
    assert all(hasattr(cls, "save") for cls in public)


@pytest.mark.parametrize("cls", OURS)
def test_every_record_can_be_stored(cls):
    """A field without a kind raises a TypeError that names it."""
    records = records_in(*kept_by(cls).values())
    assert len({record.__name__ for record in records}) == len(records)
    for record in records:
        assert list(record_of(record).kinds) == [f.name for f in dataclasses.fields(record)]


def test_a_record_that_cannot_be_stored_is_named():
    @dataclasses.dataclass(frozen=True)
    class Untold:
        name: str
        callback: object

    with pytest.raises(TypeError, match=r"Untold\.callback cannot be saved: <class 'object'>"):
        record_of(Untold)


@dataclasses.dataclass(frozen=True, eq=False)
class MeanFit:
    mean: Annotated[np.ndarray[Any, np.dtype[np.float64]], 1]

    @property
    def n_features(self):
        return self.mean.size

    def check(self):
        if not np.isfinite(self.mean).all():
            raise ValueError("the mean is not finite")


class MeanModel(Estimator[MeanFit]):
    """An estimator that this package does not know.

    Examples
    --------
    """

    mean_ = Fitted("array of shape (n_features,)", "Of each column.")

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def fit(self, X, y=None):
        self._keep(MeanFit(self.weight * X.mean(axis=0)), Features(X.shape[1]))
        return self


def test_estimators_from_elsewhere(path):
    model = MeanModel(2.0)
    assert not hasattr(model, "mean_")
    assert_same(again(model, path), model)
    assert_same(again(model.fit(X), path), model)
    assert_same(again(model, path).mean_, 2 * X.mean(axis=0))
    assert not hasattr(model, "free_energy_")
    with pytest.raises(AttributeError, match="mean_ cannot be set: it is read from fit_"):
        model.mean_ = 0.0
    with pytest.raises(ValueError, match="the mean is not finite"):
        MeanModel(np.inf).fit(X).save(path)


def test_docstrings_say_what_attributes_are():
    assert MeanModel.__doc__.index("mean_ : array of shape (n_features,)\n    Of each column.") < (
        MeanModel.__doc__.index("Examples")
    )
    assert "posterior_" not in MeanModel.__doc__
    for cls in OURS:
        for name in dir(cls):
            if isinstance(getattr(cls, name), Fitted) and getattr(cls, name).is_of(cls._record):
                assert f"\n{name} : " in cls.__doc__


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(60, 8), (10, 30)])
def test_fitted_models(path, name, dtype, shape):
    data = low_rank(*shape, 2, mean=3.0, random_state=0).X.astype(dtype)
    model = clone(MODELS[name]).fit(data)
    loaded = again(model, path)
    assert_same(loaded, model)
    assert_same(outputs(loaded, data), outputs(model, data))
    assert loaded.components_ is loaded.posterior_.components


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"scale": True, "whiten": True}, {"n_components": 0}])
def test_data_with_holes(path, dtype, options):
    data = X.astype(dtype)
    data[::5, 2] = data[3:9, 6] = np.nan
    model = BayesianPCA(**options).fit(data)
    loaded = again(model, path)
    assert_same(loaded, model)
    assert_same(outputs(loaded, data), outputs(model, data))
    assert_same(loaded.impute(data, return_std=True), model.impute(data, return_std=True))


def test_holes_after_a_fit_of_complete_data(path):
    data = X.copy()
    data[3:9, 6] = np.nan
    model = BayesianPCA().fit(X)
    assert_same(again(model, path).impute(data), model.impute(data))


def test_sparse_data(path):
    sparse = pytest.importorskip("scipy.sparse").random(200, 20, 0.2, "csr", random_state=0)
    model = BayesianPCA().fit(sparse)
    assert_same(again(model, path), model)


@pytest.mark.parametrize("model", [BayesianPCA(), BayesianPCA("typo", n_components=-3)])
def test_unfitted_models(path, model):
    assert_same(again(model, path), model)
    assert_same(
        again(clone(model).set_output(transform="pandas"), path)._sklearn_output_config,
        {"transform": "pandas"},
    )


def test_feature_names_and_output(path):
    frame = pd.DataFrame(X, columns=[f'größe {i} \U0001f600\n"' for i in range(8)])
    model = BayesianPCA().set_output(transform="pandas").fit(frame)
    loaded = again(model, path)
    assert_same(loaded, model)
    pd.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.transform(frame.rename(columns={frame.columns[0]: "other"}))
    with zipfile.ZipFile(path) as zipped:
        names = json.loads(zipped.read("bayespca.json"))["attributes"]["feature_names_in_"]
    assert names == {"$strings": list(frame.columns)}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n", "p", "block"), [(60, 8, 7), (4000, 8, 900), (20, 50, 4)])
def test_partial_fit_goes_on(path, dtype, n, p, block):
    data = low_rank(n, p, 2, mean=3.0, random_state=0).X.astype(dtype)
    model, stopped = BayesianPCA(), BayesianPCA()
    for i in range(0, n, block):
        model.partial_fit(data[i : i + block])
        stopped = again(stopped, path).partial_fit(data[i : i + block])
    assert_same(stopped, model)
    assert_same(again(model, path), model)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -(2**53) - 1, 10**30, 0.1, -0.0, float("nan"), float("inf"), -np.inf, "x"),
        *(np.float32(0.1), np.float64("nan"), np.float16(2), np.int8(-5), np.uint64(2**64 - 1)),
        *(np.bool_(True), np.str_("x"), ""),
    ],
    ids=repr,
)
def test_parameters_of_any_value(path, value):
    model = BayesianPCA(tol=value, random_state=value)
    assert_same(again(model, path), model)


@pytest.mark.parametrize(
    "value",
    [
        *([1, [2.5, None]], (1, (2, []), ()), {"a": 1, 2: (3,)}, np.dtype("f4")),
        *(np.arange(3), np.arange(6.0).reshape(2, 3).T, np.arange(20)[::3], np.array(1.5)),
        np.broadcast_to(np.float32(1), (2, 3)),
        np.array(["a", "b"], dtype=object),
    ],
    ids=repr,
)
def test_other_values(path, value):
    model = BayesianPCA(random_state=value)
    loaded = again(model, path).random_state
    assert_same(loaded, value)


@pytest.mark.parametrize(
    "bits", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox]
)
def test_generators_go_on(path, bits):
    model = BayesianPCA(random_state=np.random.Generator(bits([1, 2]))).fit(X)
    model.random_state.spawn(2)
    model.sample(3)
    loaded = again(model, path)
    assert_same(loaded, model)
    assert_same(loaded.sample(3), model.sample(3))
    children = [m.random_state.spawn(1)[0].normal(size=3) for m in (loaded, model)]
    assert_same(*children)


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.SFC64])
def test_random_states_go_on(path, bits):
    model = BayesianPCA(random_state=np.random.RandomState(bits(3)))
    model.random_state.normal()
    loaded = again(model, path)
    assert_same(loaded, model)
    assert loaded.random_state.normal() == model.random_state.normal()


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_arrays_of_other_libraries_become_numpy_arrays(path, library):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    for options in ({}, {"noise": "per-feature"}, {"n_components": 0}):
        model = BayesianPCA(**options).fit(xp.asarray(X))
        loaded = again(model, path)
        assert type(loaded.components_) is np.ndarray
        ours = np.asarray(loaded.transform(X))
        theirs = np.asarray(model.transform(xp.asarray(X)))
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)
        assert (loaded.components_ == np.asarray(model.components_)).all()
        assert_same(again(loaded, path), loaded)


def test_the_same_model_gives_the_same_bytes(path):
    BayesianPCA().fit(X).save(path)
    first = path.read_bytes()
    again(BayesianPCA().fit(X), path).save(path)
    assert path.read_bytes() == first


def test_saving_leaves_the_model_alone(path):
    model = BayesianPCA(random_state=np.random.default_rng(0)).partial_fit(X)
    before, flags = copy.deepcopy(model), model.mean_.flags.writeable
    assert model.save(str(path)) is None
    assert_same(model._seen.rows[0].tolist(), before._seen.rows[0].tolist())
    assert_same(model.random_state, before.random_state)
    assert model.mean_.flags.writeable == flags


# --- what cannot be saved ----------------------------------------------------------------------


def change(model, **fields):
    """Replace fields of the posterior in a fitted model."""
    posterior = dataclasses.replace(model.posterior_, **fields)
    model.fit_ = dataclasses.replace(model.fit_, posterior=posterior)


class Ours(BayesianPCA):
    """Not in the registry."""


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda m: m.set_params(random_state=object()), TypeError, "random_state: a builtins.obj"),
        (lambda m: m.set_params(random_state=1j), TypeError, "random_state: a builtins.complex"),
        (lambda m: m.set_params(random_state=[{1.5: 2}]), TypeError, r"random_state.0: keys"),
        (lambda m: m.set_params(random_state=np.array([1j])), TypeError, "arrays of complex128"),
        (lambda m: m.set_params(random_state=np.ma.ones(2)), TypeError, "MaskedArray"),
        (lambda m: m.set_params(random_state=np.longdouble(1)), TypeError, "longdouble"),
        (lambda m: m.set_params(random_state=10**2000), TypeError, "1000 digits"),
        (lambda m: m.set_params(tol=[1.0]), ValueError, "tol of a BayesianPCA is not None, a num"),
        (lambda m: setattr(m, "note", "x"), TypeError, "note: it is not an attribute"),
        (lambda m: change(m, mean=m.mean_[1:]), ValueError, "different sizes"),
        (lambda m: change(m, mean=m.mean_.tolist()), ValueError, "mean of a Posterior is not"),
        (lambda m: delattr(m, "fit_"), ValueError, "fit_ is missing"),
        (lambda m: delattr(m, "n_features_in_"), ValueError, "n_features_in_ is missing"),
    ],
)
def test_what_has_no_place_in_a_file(path, change, error, match):
    model = BayesianPCA().fit(X)
    change(model)
    with pytest.raises(error, match=match):
        model.save(path)
    assert not path.exists()


def test_a_list_in_itself(path):
    endless: list = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested more than"):
        BayesianPCA(random_state=endless).save(path)


def test_subclasses_are_not_mistaken(path):
    with pytest.raises(TypeError, match=r"^Ours cannot be saved: only BayesianPCA"):
        Ours().save(path)


def test_errors_of_the_disk_are_sentences(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        BayesianPCA().save(tmp_path / "no" / "model")
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        load(tmp_path / "no")


# --- files that lie ----------------------------------------------------------------------------


def fitted():
    """A small model with every kind of value."""
    data = low_rank(12, 3, 1, strength=20.0, random_state=0).X
    frame = pd.DataFrame(data, columns=["a", "b", "c"])
    model = BayesianPCA(tol=np.float32(1e-3), random_state=np.random.default_rng(0))
    model.set_output(transform="pandas").partial_fit(frame[:6]).partial_fit(frame[6:])
    trace = BayesianPCA(noise="per-feature").fit(frame).trace_
    status = model.status_.but("code", "text")
    model.fit_ = dataclasses.replace(model.fit_, status=status, trace=trace)
    return model


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a model file."""
    path = tmp_path_factory.mktemp("whole") / "model"
    model = fitted()
    assert model.n_components_ == 1
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("fit_.posterior.basis", lambda a: a[1:], "arrays of a HolesPosterior"),
        ("fit_.posterior.scale", lambda a: a[1:], "arrays of a HolesPosterior"),
        ("fit_.posterior.columns.b_cov", lambda a: a[1:], "arrays of Columns"),
        ("fit_.posterior.columns.b_cov", lambda a: a[0], "not a stack of matrices"),
        ("fit_.posterior.columns.b_cov", lambda a: a * np.nan, "moments of Columns"),
        ("fit_.posterior.columns.b_cov", lambda a: -a, "covariances of Columns are not positive"),
        ("fit_.posterior.basis", lambda a: a * np.nan, "basis of a HolesPosterior is not finite"),
        ("fit_.posterior.columns.b", lambda a: a[:, 1:], "arrays of Columns"),
    ],
)
def test_posteriors_with_holes_that_do_not_fit(path, name, change, match):
    data = X.copy()
    data[3:9, 6] = np.nan
    BayesianPCA().fit(data).save(path)
    meta, arrays = archive.read(path)
    archive.write(path, meta, arrays | {name: change(arrays[name])})
    with pytest.raises(ModelFileError, match=match):
        load(path)


@pytest.mark.parametrize("unit", [0.0, -1.0, 1e308, {"$float": "nan"}])
def test_a_unit_out_of_range(path, unit):
    data = X.copy()
    data[3:9, 6] = np.nan
    BayesianPCA().fit(data).save(path)
    meta, arrays = archive.read(path)
    archive.write(path, replaced(meta, (*FIELDS, "unit"), unit), arrays)
    with pytest.raises(ModelFileError, match="unit of a HolesPosterior"):
        load(path)


def contents(whole, path):
    path.write_bytes(whole)
    return archive.read(path)


def outcome(path):
    """Load a file: return a model that works, or None after the only error that is allowed."""
    try:
        model = load(path)
    except ModelFileError as error:
        sentence = str(error)
        assert sentence.startswith(str(path)), sentence
        assert len(sentence) < 1000
        return None
    if hasattr(model, "posterior_"):
        use(model)
    return model


def use(model):
    """Call the methods of a loaded model, which must work whatever its numbers are."""
    rows = np.zeros((2, model.n_features_in_))
    model.set_output(transform="default")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.inverse_transform(model.transform(rows))
        model.transform(rows, return_std=True)
        model.score_samples(rows)
        model.sample(2, random_state=0)
        model.get_covariance()
        model.get_precision()
        model.get_feature_names_out()
        summarize(model)


def replaced(tree, place, value):
    """A copy of the tree with `value` at a place, or without that place for `del_`."""
    tree = copy.deepcopy(tree)
    inner = tree
    for key in place[:-1]:
        inner = inner[key]
    if value is del_:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return tree


del_ = object()
FIT = ("attributes", "fit_", "$record", "fields")
POSTERIOR = (*FIT, "posterior", "$record")
FIELDS = (*POSTERIOR, "fields")
MEAN = {"$array": {"name": "fit_.posterior.mean", "read_only": False}}
COMPONENTS = {"$array": {"name": "fit_.posterior.components", "read_only": False}}
GENERATOR = ("parameters", "random_state", "$generator")
STATE = (*GENERATOR, "state", "$dict")


def mt19937(**changes):
    """The tree of a RandomState whose key is all zeros, with changes to its state."""
    state = {"key": {"$array": {"name": "key", "read_only": False}}, "pos": 3} | changes
    outer = {"bit_generator": "MT19937", "state": {"$dict": [[k, v] for k, v in state.items()]}}
    outer |= {"has_gauss": 0, "gauss": 0.0}
    return {"$random_state": {"$dict": [[k, v] for k, v in outer.items()]}}


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("class",), "os.system", "unknown class 'os.system'"),
        (("class",), ["BayesianPCA"], "unknown class"),
        (("class",), del_, "the members bayespca, class"),
        (("bayespca",), 3, "unknown class"),
        (("extra",), 3, "the members bayespca, class"),
        (("parameters",), [], "the members center"),
        (("parameters", "method"), del_, "the members center"),
        (("parameters", "fit"), "x", "the members center"),
        (("parameters", "whiten"), [1], "whiten of a BayesianPCA is not None, a number"),
        (("attributes",), None, "where attributes should be"),
        (("attributes", "transform"), "x", "'transform' is unknown"),
        (("attributes", "__class__"), "x", "'__class__' is unknown"),
        (("attributes", "mean_"), None, "'mean_' is unknown"),
        (("attributes", "fit_"), del_, "fit_ is missing"),
        (("attributes", "fit_"), None, "fit_ of a BayesianPCA is not a PCAFit"),
        ((*FIT, "threshold"), del_, "the members posterior, free_energy"),
        ((*FIT, "threshold"), None, "threshold of a PCAFit is not a number"),
        ((*FIT, "n_samples"), True, "n_samples of a PCAFit is not a whole"),
        ((*FIT, "n_samples"), -1, "n_samples of a PCAFit is not a whole"),
        (("attributes", "n_features_in_"), 2**53, "do not match"),
        (("attributes", "n_features_in_"), 4, "do not match"),
        (("attributes", "n_features_in_"), del_, "n_features_in_ is missing"),
        (("attributes", "n_features_in_"), -1, "n_features_in_ of a BayesianPCA is not a whole"),
        ((*FIT, "n_samples"), 3, "does not match its components"),
        (("attributes", "feature_names_in_", "$strings"), ["a", "b"], "does not name 3 features"),
        (("attributes", "feature_names_in_", "$strings"), ["a", "b", 3], "a list of strings"),
        (("attributes", "_sklearn_output_config"), {"$dict": [["fit", "x"]]}, "set_output"),
        (("attributes", "_sklearn_output_config"), {"$dict": [["transform", []]]}, "set_output"),
        (("attributes", "_sklearn_output_config"), {"$dict": [["transform", MEAN]]}, "set_output"),
        ((*FIT, "status"), {"$dict": []}, "status of a PCAFit is not a Status"),
        ((*POSTERIOR, "class"), "Status", "the members exact, advice"),
        ((*POSTERIOR, "class"), "subprocess.Popen", "unknown class 'subprocess.Popen'"),
        ((*FIELDS, "mean"), del_, "the members mean"),
        ((*FIELDS, "more"), 1, "the members mean"),
        ((*FIELDS, "noise_variance"), MEAN, "noise_variance of a Posterior is not a number"),
        (("attributes", "_seen", "$record", "fields", "dtype"), MEAN, "float32 or float64"),
        ((*FIELDS, "noise_variance"), "1", "noise_variance of a Posterior is not a number"),
        (
            (*FIELDS, "mean", "$array", "name"),
            "fit_.posterior.components",
            "mean of a Posterior is not a vector",
        ),
        ((*FIELDS, "mean", "$array", "name"), "none", "no array 'none'"),
        ((*FIELDS, "mean", "$array", "name"), ["none"], "no array"),
        ((*FIELDS, "mean", "$array", "read_only"), 1, "no array"),
        ((*FIELDS, "mean", "$array", "name"), "fit_.rank_posterior", "different sizes"),
        ((*FIELDS, "scale", "$array", "name"), "fit_.posterior.mean", "nothing refers to"),
        ((*FIELDS, "mean"), {"$eval": "1"}, "unknown meaning"),
        ((*FIELDS, "mean"), {}, "unknown meaning"),
        ((*FIELDS, "mean"), {"$float": "nan", "$int": "1"}, "unknown meaning"),
        (("parameters", "tol"), {"$float": "1"}, "nan or inf"),
        (("parameters", "tol"), {"$float": []}, "nan or inf"),
        (("parameters", "tol"), {"$int": "9" * 1001}, "whole number"),
        (("parameters", "tol"), {"$int": "1_0"}, "whole number"),
        (("parameters", "tol"), {"$int": "١"}, "whole number"),
        (("parameters", "tol"), {"$tuple": 3}, "a list should be"),
        (("parameters", "tol"), {"$dict": [3]}, "pairs of keys"),
        (("parameters", "tol"), {"$dict": [[1]]}, "pairs of keys"),
        (("parameters", "tol"), {"$dict": [[[], 1]]}, "neither a string nor"),
        (("parameters", "tol"), {"$dict": [[1, 1], [1, 1]]}, "a key twice"),
        (("parameters", "tol"), {"$dtype": "O"}, "unknown type of numbers"),
        (("parameters", "tol"), {"$dtype": "<f1"}, "unknown type of numbers"),
        (("parameters", "tol"), {"$scalar": {"dtype": "object", "value": 1}}, "unknown type"),
        (("parameters", "tol"), {"$scalar": {"dtype": "int8", "value": 300}}, "range of int8"),
        (("parameters", "tol"), {"$scalar": {"dtype": "float32", "value": 1e300}}, "cannot hold"),
        (("parameters", "tol"), {"$scalar": {"dtype": "float32", "value": "1"}}, "unknown type"),
        ((*GENERATOR, "seed"), {"$dict": []}, "the members entropy"),
        ((*GENERATOR, "seed", "$dict", 0, 1), -1, "an invalid seed"),
        ((*GENERATOR, "seed", "$dict", 0, 1), "x", "an invalid seed"),
        ((*GENERATOR, "seed", "$dict", 2, 1), 2**53, "an invalid seed"),
        ((*STATE, 0, 1), "os.system", "unknown kind 'os.system'"),
        ((*STATE, 0, 1), "MT19937", "without its state"),
        ((*STATE, 1, 1, "$dict", 0, 1), -1, "state is out of range"),
        ((*STATE, 1, 1, "$dict", 0, 1), {"$int": str(2**128)}, "state is out of range"),
        ((*STATE, 1, 1, "$dict", 1, 1), 2, "in a degenerate state"),
        ((*STATE, 3, 1), 2**32, "uinteger is out of range"),
        ((*STATE, 3, 1), 1.5, "of another kind"),
        (("parameters", "random_state"), mt19937(), "in a degenerate state"),
        (("parameters", "random_state"), mt19937(pos=625), "pos is out of range"),
        (("parameters", "random_state"), mt19937(pos=-1), "pos is out of range"),
        (("parameters", "random_state"), mt19937(key=3), "of another kind"),
    ],
)
def test_trees_that_lie(whole, path, place, value, match):
    meta, arrays = contents(whole, path)
    if isinstance(value, dict) and "$random_state" in value:
        arrays["key"] = np.zeros(624, np.uint32)
    archive.write(path, replaced(meta, place, value), arrays)
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert re.fullmatch(
        f"{re.escape(str(path))} is damaged: .*; save the model again\\.", str(caught.value)
    )


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("fit_.posterior.mean", np.zeros(4), "sizes"),
        ("fit_.posterior.mean", np.zeros(3, np.int64), "not a vector of numbers"),
        ("fit_.posterior.mean", np.zeros((3, 1)), "not a vector of numbers"),
        ("fit_.posterior.components", np.zeros((1, 0)), "sizes"),
        ("fit_.posterior.components", np.zeros((1, 4)), "sizes"),
        ("fit_.shrunk_singular_values", np.zeros(2), "sizes"),
        ("fit_.spectrum.singular_values", np.array([1.0, 2.0]), "decreasing order"),
        ("fit_.spectrum.singular_values", np.zeros(50), "does not agree with itself"),
        ("fit_.trace.rank", np.zeros(1, np.int64), "different lengths"),
        ("fit_.trace.rank", np.zeros(1), "not a vector of whole numbers"),
        ("_seen.rows.0", np.zeros((6, 4)), "different sizes"),
        ("_seen.rows.0", np.zeros((5, 3)), "partial_fit state"),
        ("_seen.rows.0", np.full((6, 3), np.nan), "not finite"),
        ("more", np.zeros(3), "nothing refers to"),
    ],
)
def test_arrays_that_do_not_fit(whole, path, name, array, match):
    meta, arrays = contents(whole, path)
    assert name in arrays or name == "more"
    archive.write(path, meta, arrays | {name: array})
    with pytest.raises(ModelFileError, match=match):
        load(path)


def test_what_was_seen_needs_a_fit(whole, path):
    meta, _ = contents(whole, path)
    seen = {key: meta["attributes"][key] for key in ("feature_names_in_", "_sklearn_output_config")}
    archive.write(path, meta | {"attributes": seen}, {})
    with pytest.raises(ModelFileError, match="is missing"):
        load(path)


# --- mutations ---------------------------------------------------------------------------------


def mutated_bytes(whole, rng):
    """The bytes after one or a few flips, deletions, insertions or overwritten pieces."""
    out = bytearray(whole)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        i, n = rng.randrange(len(out)), rng.choice((1, 2, 4, 30))
        j = rng.randrange(len(out))
        kind = rng.randrange(6)
        if kind == 0:
            out[i] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[i : i + n] = rng.randbytes(n)
        elif kind == 2:
            del out[i : i + n]
        elif kind == 3:
            out[i:i] = rng.choice((bytes(n), b"\xff" * n, rng.randbytes(n)))
        elif kind == 4:
            out[i : i + n] = out[j : j + n]
        else:
            out[i : i + n] = rng.choice((bytes(n), b"\xff" * n))
        if not out:
            break
    return bytes(out)


VALUES = [
    *(None, True, 0, -1, 2**53, 1e308, -0.0, "", "x", "os.system", [], {}, [[]], [None] * 50),
    *({"$int": "9" * 1000}, {"$float": "nan"}, {"$float": "-inf"}, {"$tuple": []}, {"$dict": []}),
    *({"$strings": ["a"]}, {"$dtype": "<f8"}, {"$record": {}}, {"$generator": {}}, {"$x": 1}),
]


def places(tree, above=()):
    for key, item in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*above, key)
        if isinstance(item, dict | list):
            yield from places(item, (*above, key))


def mutated_tree(meta, rng):
    """The tree with one place removed, or replaced by another value or by a piece of the tree."""
    everywhere = list(places(meta))
    place, other = rng.choice(everywhere), rng.choice(everywhere)
    value = rng.choice([del_, *VALUES])
    if rng.random() < 0.4:
        value = meta
        for key in other:
            value = value[key]
    return replaced(meta, place, value)


def mutated_array(array, rng):
    kind = rng.randrange(5)
    if kind == 0:
        return np.resize(array, [rng.randrange(5) for _ in range(rng.randrange(4))])
    if kind == 1:
        return array.astype(rng.choice(["f4", "i8", "?", ">f8", "u1"]))
    if kind == 2:
        return array * rng.choice([0.0, -1.0, np.nan, np.inf, 1e300])
    return array[:-1] if kind == 3 else array.T


def test_damaged_bytes_load_the_same_or_not_at_all(whole, path):
    rng = random.Random(0)
    path.write_bytes(whole)
    model = load(path)
    for _ in range(1000):
        path.write_bytes(mutated_bytes(whole, rng))
        found = outcome(path)
        if found is not None:
            found.set_output(transform="pandas")
            assert_same(found, model)


def test_other_trees_load_or_are_refused(whole, path):
    rng = random.Random(0)
    meta, arrays = contents(whole, path)
    for _ in range(400):
        tree = mutated_tree(meta, rng)
        try:
            archive.write(path, tree, arrays)
        except ValueError:
            continue
        outcome(path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_arrays_load_or_are_refused(whole, path):
    rng = random.Random(0)
    meta, arrays = contents(whole, path)
    for _ in range(200):
        name = rng.choice(sorted(arrays))
        archive.write(path, meta, arrays | {name: mutated_array(arrays[name], rng)})
        outcome(path)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, bool, np.uint64])
def test_arrays_of_other_numbers_are_refused(whole, path, dtype):
    """Half-precision arrays were once loaded, and the first call raised a TypeError."""
    meta, arrays = contents(whole, path)
    for name in (name for name, array in arrays.items() if array.dtype.kind == "f"):
        archive.write(path, meta, arrays | {name: arrays[name].astype(dtype)})
        with pytest.raises(ModelFileError, match="is damaged"):
            load(path)


def test_the_documented_reader_reads(path):
    """The example in docs/model-file.md must run as it is printed."""
    text = (Path(__file__).parents[2] / "docs" / "model-file.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(import json.*?)```", text, flags=re.DOTALL)[1]
    model = BayesianPCA().fit(X)
    model.save(path)
    space = {"path": path, "X": X}
    exec(example, space)
    assert_same(space["scores"], model.transform(X))
