"""A run that is interrupted at any moment and resumed ends as if nothing had happened."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

from bayespca import GPLVM, BayesianPCA, BernoulliMixture, BinaryPCA, PCAMixture, VariationalPCA
from bayespca.inference import Checkpoint, fingerprint, run
from bayespca.io.archive import ModelFileError
from cases import EVERY_CASE


@dataclass(frozen=True)
class Point:
    x: np.ndarray
    label: str = "p"


@dataclass(frozen=True)
class Energy:
    free_energy: float
    rank: int = 1
    noise_variance: float = 0.5


def descend(point):
    """Gradient descent on a quartic, slow enough to be interrupted."""
    x = point.x - 0.01 * point.x**3
    return Point(x, point.label), Energy(float((x**4).sum()))


def storage(path, mark="a", every=0.0):
    return Checkpoint(path, Point, fingerprint=mark, every=every)


START = Point(np.linspace(-1, 2, 7))


def test_a_run_is_taken_up_where_it_was(tmp_path):
    path = tmp_path / "run.ckpt"
    whole = run(descend, START, max_iter=50, tol=0.0)

    def fail(number, info):
        if number == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(descend, START, max_iter=50, tol=0.0, callback=fail, storage=storage(path))
    steps = []
    again = run(
        descend,
        START,
        max_iter=50,
        tol=0.0,
        callback=lambda number, info: steps.append(number),
        storage=storage(path),
    )
    assert steps[0] == 20
    np.testing.assert_array_equal(again.state.x, whole.state.x)
    np.testing.assert_array_equal(again.trace.free_energy, whole.trace.free_energy)
    assert again.reason == whole.reason == "max_iter"


def test_a_finished_run_is_found_finished(tmp_path):
    path = tmp_path / "run.ckpt"
    done = run(descend, START, max_iter=5, tol=0.0, storage=storage(path))

    def refuse(point):
        raise AssertionError

    again = run(refuse, START, max_iter=5, tol=0.0, storage=storage(path))
    np.testing.assert_array_equal(again.state.x, done.state.x)
    storage(path).remove()
    assert not path.exists()


def test_that_of_another_fit_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    run(descend, START, max_iter=5, tol=0.0, storage=storage(path))
    with pytest.raises(ValueError, match=r"run\.ckpt is the checkpoint of another fit"):
        storage(path, mark="b").find()


def test_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "run.ckpt"
    run(descend, START, max_iter=5, tol=0.0, storage=storage(path))
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ModelFileError, match=r"run\.ckpt"):
        storage(path).find()


def test_it_is_not_written_all_the_time(tmp_path):
    path = tmp_path / "run.ckpt"
    run(descend, START, max_iter=5, tol=0.0, storage=storage(path, every=60.0))
    assert not path.exists()


def test_fingerprints_tell_data_and_options_apart():
    x = np.arange(4.0)
    marks = {
        fingerprint(x, "a"),
        fingerprint(x, "b"),
        fingerprint(x + 1e-12, "a"),
        fingerprint(x.reshape(2, 2), "a"),
        fingerprint(x.astype(np.float32), "a"),
    }
    assert len(marks) == 5
    assert fingerprint(x[::1], "a") == fingerprint(x.copy(), "a")


rng = np.random.default_rng(0)
WHOLE = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8))
HOLES = np.where(rng.random(WHOLE.shape) < 0.3, np.nan, WHOLE)
ONES = np.where(np.isnan(HOLES), np.nan, WHOLE > 0)
FITS = {
    "sweeps": (BayesianPCA("vb", prior_variance=1.0, solver="iterative", random_state=0), WHOLE),
    "several starts": (BayesianPCA("epb", solver="iterative", n_init=2, random_state=0), WHOLE),
    "per feature": (BayesianPCA(noise="per-feature"), WHOLE),
    "holes": (BayesianPCA(), HOLES),
    "holes, per feature": (BayesianPCA(noise="per-feature", tol=1e-12), HOLES),
    "holes, maximum likelihood": (BayesianPCA("ml", n_components=2), HOLES),
    "Bishop": (VariationalPCA(random_state=0), WHOLE),
    "clusters": (PCAMixture(3, init="k-means", n_init=2, random_state=0), HOLES),
    "clusters of ones": (BernoulliMixture(4, n_init=2, random_state=0), ONES),
    "clusters of ones, EM": (BernoulliMixture(3, method="ml", random_state=0), WHOLE > 0),
    "ones": (BinaryPCA(), ONES),
    "ones, several starts": (BinaryPCA(3, init="random", n_init=2, random_state=0), ONES),
    "curves": (GPLVM(3, n_inducing=8, tol=1e-6, random_state=0), WHOLE),
    "curves, several starts": (
        GPLVM(2, n_inducing=8, n_init=2, tol=1e-6, random_state=0),
        HOLES,
    ),
    "curves, points": (GPLVM(2, "map", tol=1e-10), WHOLE),
}


@pytest.mark.parametrize("name", FITS)
def test_every_iteration_can_be_taken_up_again(name, tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    model, X = FITS[name]
    whole = clone(model).fit(X)
    path = tmp_path / "fit.ckpt"
    kept = clone(model).set_params(checkpoint=path)
    steps = []

    def broken(number, info):
        steps.append(number)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.fit(X, callback=broken)
    assert path.exists()
    kept.fit(X, callback=lambda number, info: steps.append(number))
    assert steps[4] == 4  # the fourth step again, not the first
    assert kept.free_energy_ == whole.free_energy_
    name = next(one for one in ("components_", "embedding_", "means_") if hasattr(whole, one))
    for ours, theirs in zip(getattr(kept, name), getattr(whole, name), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(kept.trace_.free_energy, whole.trace_.free_energy)
    assert list(tmp_path.iterdir()) == []


def test_another_seed_is_another_fit(tmp_path, monkeypatch):
    monkeypatch.setattr("bayespca.inference.checkpoint.EVERY", 0.0)
    options = {"solver": "iterative", "checkpoint": tmp_path / "fit.ckpt"}

    def broken(number, info):
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BayesianPCA("epb", random_state=0, **options).fit(WHOLE, callback=broken)
    with pytest.raises(ValueError, match="checkpoint of another fit"):
        BayesianPCA("epb", random_state=1, **options).fit(WHOLE)


CODE = """
import sys, time
import numpy as np
from bayespca import GPLVM, BayesianPCA, BernoulliMixture, BinaryPCA, PCAMixture
from bayespca.inference import checkpoint
checkpoint.EVERY = 0.0
X = np.random.default_rng(0).normal(size=(200, 30)) * np.linspace(1, 3, 30)
X[:, :6] += np.random.default_rng(1).normal(size=(200, 1)) * 2
slow = lambda number, info: time.sleep(0.03)
model = {model}.set_params(checkpoint=sys.argv[1]).fit({data}, callback=slow)
sys.stdout.write(repr((model.free_energy_, model.{attribute}.tolist(), model.n_iter_)))
"""
KILLED = [
    (
        "BayesianPCA(noise='per-feature', tol=0.0, max_iter=300)",
        "X",
        "feature_noise_variance_",
    ),
    ("PCAMixture(3, init='k-means', tol=0.0, max_iter=40, random_state=0)", "X", "means_"),
    ("BernoulliMixture(6, tol=0.0, max_iter=40, random_state=0)", "X > 1", "means_"),
    ("BinaryPCA(tol=0.0, max_iter=40)", "X > 1", "components_"),
    (
        "GPLVM(2, n_inducing=8, tol=0.0, max_iter=10, random_state=0)",
        "X[:80, :8]",
        "embedding_",
    ),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "data", "attribute"),
    KILLED if EVERY_CASE else [KILLED[0], KILLED[-1]],
    ids=lambda text: text[:9],
)
def test_a_fit_that_is_killed_ends_as_if_nothing_had_happened(model, data, attribute, tmp_path):
    code = CODE.format(model=model, data=data, attribute=attribute)
    command = [sys.executable, "-W", "ignore", "-c", code]
    whole = subprocess.run(
        [*command, str(tmp_path / "a")], capture_output=True, text=True, check=True
    )
    path = tmp_path / "b"
    for _ in range(2):
        job = subprocess.Popen([*command, str(path)], stdout=subprocess.DEVNULL)
        before = path.stat().st_mtime_ns if path.exists() else 0
        while not path.exists() or path.stat().st_mtime_ns == before:
            assert job.poll() is None
            time.sleep(0.002)
        time.sleep(0.05)
        job.send_signal(signal.SIGKILL)
        job.wait()
    assert path.exists()
    again = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
    assert again.stdout == whole.stdout
    assert not path.exists()
