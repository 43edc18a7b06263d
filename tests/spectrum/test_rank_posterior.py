"""The rank posterior against sampled evidences, against the truth, and in edge cases."""

import numpy as np
import pytest
from tests.oracles import rank_posterior as oracle

from bayespca.spectrum import Spectrum, posterior_of_rank, recoverable_strength, spheres
from bayespca.spectrum.rank_posterior import log_evidence, n_sure


def singular_values(n, p, strengths, seed=0):
    """Singular values of centred rows with spikes, in units of the detection limit."""
    rng = np.random.default_rng(seed)
    M, k = n - 1, len(strengths)
    U = np.linalg.qr(rng.standard_normal((p, p)))[0][:, :k]
    scores = rng.standard_normal((n, k)) * np.sqrt(np.array(strengths) * np.sqrt(p / M))
    X = rng.standard_normal((n, p)) + scores @ U.T
    X -= X.mean(axis=0)
    return np.linalg.svd(X, compute_uv=False)[: min(M, p)]


def spectrum(n, p, strengths, seed=0, **options):
    return Spectrum(singular_values(n, p, strengths, seed), (p, n - 1), **options)


def frame_average(a, s):
    """The package's average, with the arguments of `oracle.log_frame_average`."""
    a = np.sort(a)[::-1]
    bulk = spheres.Values(a, np.ones(a.size), 0, a.size)
    gaps, weights = spheres.from_each_on(bulk, len(s))
    averages, *_ = spheres.log_averages(np.array(s)[:, None] * gaps, weights)
    dimension = a.size - np.arange(len(s), dtype=float)
    averages = np.where(dimension > 1, averages + spheres.log_constant(dimension), 0.0)
    gain = spheres.frame(bulk, np.array(s), 0.5).gain
    return float(averages.sum() + (np.array(s) * a[: len(s)]).sum() + gain)


# --- averages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 5, 12, 60])
@pytest.mark.parametrize("spread", [0.1, 3.0, 50.0])
def test_sphere_averages_are_right(d, spread):
    a = np.linspace(0, spread, d)
    assert frame_average(a, [1.0]) == pytest.approx(oracle.log_sphere_average(a), abs=0.06)


def test_the_oracle_of_frames_has_the_exact_average_of_one_direction():
    a = np.linspace(6, 0, 5)
    found, error = oracle.log_frame_average(a, [0.9])
    assert error < 0.01
    assert found == pytest.approx(oracle.log_sphere_average(0.9 * a), abs=4 * error)


FRAMES = {
    "far": [60, 30],
    "close": [31, 30],
    "equal": [30, 30],
    "three far": [80, 50, 30],
    "three close": [32, 31, 30],
    "three equal": [30, 30, 30],
}


@pytest.mark.parametrize("s", [[0.9, 0.85, 0.8], [0.9, 0.6, 0.3]], ids=str)
@pytest.mark.parametrize("name", FRAMES)
def test_averages_over_frames_are_right_where_a_product_of_spheres_is_not(name, s):
    top = FRAMES[name]
    a = np.append(top, np.linspace(6, 2, 8)[len(top) :])
    s = s[: len(top)]
    exact, error = oracle.log_frame_average(a, s, n=600)
    assert error < 0.15
    assert frame_average(a, s) == pytest.approx(exact, abs=0.35 + 3 * error)
    assert oracle.sequential(a, s) < exact + 3 * error, "the product is a lower bound"
    if name == "three far":
        assert oracle.sequential(a, s) < exact - 1, "and a poor one"


# --- evidences ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "p", "strengths"), [(12, 4, []), (30, 5, [4, 3]), (20, 8, []), (9, 12, [3])], ids=str
)
def test_evidences_are_those_of_sampling(n, p, strengths):
    gamma = singular_values(n, p, strengths)
    exact = oracle.log_evidences(gamma**2, p, n - 1, 2)
    found = posterior_of_rank(Spectrum(gamma, (p, n - 1))).log_evidence[:3]
    assert found - found[0] == pytest.approx(exact, abs=0.6)


def drawn(seed, n, p):
    """Number of components above the limit, and γ, of a small data set with up to 3 of them."""
    rng = np.random.default_rng((seed, 7))
    times = rng.uniform(0.5, 6, rng.integers(0, min(4, p)))
    strengths = times * np.sqrt(p / (n - 1))
    W = np.linalg.qr(rng.standard_normal((p, p)))[0][:, : times.size]
    X = (
        rng.standard_normal((n, p))
        + rng.standard_normal((n, times.size)) * np.sqrt(strengths) @ W.T
    )
    gamma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    return int((times > 1).sum()), gamma[: min(p, n - 1)]


def test_log_scores_of_small_data_are_those_of_the_exact_posterior():
    """Log scores lose at most 0.1 nats, within the error of so few data sets. If the truth is drawn
    from the exact posterior, the loss is a divergence. docs/rank.md has both for 400 data sets.
    """
    shapes = [(10, 3), (20, 3), (15, 4), (30, 4), (12, 5), (25, 5), (15, 6), (40, 6)]
    scores, divergences = [], []
    for seed, (n, p) in enumerate(shapes):
        truth, gamma = drawn(seed, n, p)
        found = np.log(posterior_of_rank(Spectrum(gamma, (p, n - 1))).detectable[:p])
        exact = oracle.log_posterior(gamma**2, p, n - 1)
        scores.append(exact[truth] - found[truth])
        divergences.append(np.exp(exact) @ (exact - found))
    assert np.mean(scores) < 0.1 + 2 * np.std(scores) / np.sqrt(len(scores))
    assert np.mean(divergences) < 0.06


@pytest.mark.parametrize(
    ("n", "p", "k", "strengths"),
    [(30, 5, 1, [1.6]), (30, 5, 2, [6, 1.7]), (60, 6, 2, [3, 1.5]), (20, 12, 3, [5, 3, 2])],
    ids=str,
)
def test_how_many_can_be_recovered_is_what_sampling_says(n, p, k, strengths):
    gamma, M = singular_values(n, p, strengths, seed=3), n - 1
    exact = oracle.shares_above(gamma**2, p, M, k, recoverable_strength(p, M))
    found = log_evidence(Spectrum(gamma, (p, M)), k)[1]
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(exact, abs=0.08)


@pytest.mark.parametrize(("weak", "number"), [([1.55, 1.5], 3), ([1.9, 1.5], 4)])
def test_certain_components_can_be_recovered_or_not(weak, number):
    """Of 10,000 features and 40,000 rows, those below the limit of recovery (1.69) are certain."""
    (L, M), v = (10_000, 40_000), np.array([40, 30, 20, *weak]) / 2
    gamma = np.sqrt(M * (1 + v) * (1 + L / M / v))
    seen = Spectrum(gamma, (L, M), sum_of_squares=M * (L + v.sum()))
    found = posterior_of_rank(seen)
    assert n_sure(seen, 5) >= 4
    assert found.detectable[5] > 0.99
    assert found.rank == number
    assert found.probabilities[number] > 0.99


@pytest.mark.parametrize(("L", "M"), [(13, 177), (60, 60), (400, 90)])
def test_half_of_a_recoverable_direction_is_right(L, M):
    """Large matrices with the same ratio of sides: the squared cosine on the shorter side."""
    times, rng = 1500 // max(L, M), np.random.default_rng(0)
    L, M = L * times, M * times
    v = recoverable_strength(L, M)
    u, w = rng.standard_normal(L), rng.standard_normal(M)
    X = rng.standard_normal((L, M)) + np.sqrt(v) * np.outer(u / np.linalg.norm(u), w)
    left, _, right = np.linalg.svd(X, full_matrices=False)
    found, true = (left[:, 0], u) if L <= M else (right[0], w)
    assert (found @ true) ** 2 / (true @ true) == pytest.approx(0.5, abs=0.06)


def test_the_oracle_of_evidences_has_that_of_one_component():
    """Rank 1 has an exact evidence: a sum over a grid of averages over a sphere."""
    n, p = 15, 4
    _, gamma = drawn(3, n, p)
    found = oracle.log_evidences(gamma**2, p, n - 1, 1, n=4000, kept=0.95)[1]
    assert found == pytest.approx(oracle.log_evidence_of_one(gamma**2, p, n - 1), abs=0.1)


def test_no_number_is_impossible_that_sampling_finds_possible():
    """One value of three is large: rank 0 is almost impossible at the noise that fits rank 1, but
    not at the noise that fits rank 0.
    """
    gamma, p, M = np.array([9.49, 2.49, 2.08]), 3, 9
    found = posterior_of_rank(Spectrum(gamma, (p, M))).detectable
    exact = np.exp(oracle.log_posterior(gamma**2, p, M, n=3000))
    assert found[0] == pytest.approx(exact[0], rel=0.3)
    assert found[1:p] == pytest.approx(exact[1:], abs=0.05)


@pytest.mark.parametrize("strengths", [[], [8.0], [9.0, 6.0, 5.0]], ids=len)
def test_strong_components_are_counted(strengths):
    found = posterior_of_rank(spectrum(300, 30, strengths))
    assert found.rank == len(strengths)
    assert found.probabilities[found.rank] > 0.5
    assert found.probabilities.sum() == pytest.approx(1)
    assert found.detectable.sum() == pytest.approx(1)


def test_known_noise_is_taken_as_such():
    whole = spectrum(100, 30, [4, 3])
    right = posterior_of_rank(whole, noise_variance=1.0)
    assert right.rank == 2
    assert posterior_of_rank(whole, noise_variance=100.0).rank == 0
    # If the given noise is too small, the rest of the noise must become components.
    assert posterior_of_rank(whole, noise_variance=0.25).rank > 10


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_units_do_not_matter(scale):
    gamma = singular_values(60, 20, [5, 2])
    found = posterior_of_rank(Spectrum(gamma / gamma[0], (20, 59), scale=scale))
    plain = posterior_of_rank(Spectrum(gamma, (20, 59)))
    assert found.probabilities == pytest.approx(plain.probabilities, abs=1e-9)


@pytest.mark.parametrize(("n", "p"), [(400, 300), (150, 800)])
def test_a_truncated_spectrum_has_nearly_the_same(n, p):
    gamma = singular_values(n, p, [20, 10, 4, 2])
    whole = posterior_of_rank(Spectrum(gamma, (p, n - 1)))
    part = posterior_of_rank(Spectrum(gamma[:20], (p, n - 1), float(gamma @ gamma)))
    assert part.probabilities[:10] == pytest.approx(whole.probabilities[:10], abs=0.1)


def test_thousands_of_components_have_a_window_of_ranks():
    strong = np.exp(np.linspace(9, 5, 200))
    gamma = np.append(strong, singular_values(800, 600, []))
    found = posterior_of_rank(Spectrum(gamma, (800, 999)))
    assert abs(found.rank - 200) <= 2
    assert found.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("values", "shape", "rank"),
    [
        ([0.0, 0.0], (2, 5), 0),
        ([3.0], (1, 9), 0),
        ([3.0], (7, 1), 0),
        ([3.0, 2.0, 0.0, 0.0], (4, 30), 2),
        ([3.0, 2.0, 1e-16, 1e-17], (4, 30), 2),
        ([1.0, 1.0, 1.0, 1.0], (4, 30), 0),
    ],
    ids=["zeros", "one feature", "two rows", "exact rank", "rounding", "all equal"],
)
def test_edges(values, shape, rank):
    found = posterior_of_rank(Spectrum(values, shape))
    assert found.rank == rank
    assert np.isfinite(found.probabilities).all()
    assert found.probabilities.sum() == pytest.approx(1)


# --- calibration -------------------------------------------------------------------------------


def test_what_is_announced_is_right_as_often():
    """Ranks 0–5, strengths log-uniform from 0.5 to 30 limits (unlike the prior), four shapes."""
    rng = np.random.default_rng(0)
    shapes, announced, right, scores = [(30, 13), (60, 20), (40, 90), (100, 40)], [], [], []
    for i in range(320):
        n, p = shapes[i % 4]
        t = np.exp(rng.uniform(np.log(0.5), np.log(30), rng.integers(6)))
        found = posterior_of_rank(spectrum(n, p, t, seed=i)).probabilities
        truth = int((t > recoverable_strength(p, n - 1) / np.sqrt(p / (n - 1))).sum())
        announced.append(found.max())
        right.append(found.argmax() == truth)
        scores.append(np.log(max(found[truth], 1e-12)))
    bins = np.minimum((np.array(announced) * 5).astype(int), 4)
    for b in np.unique(bins):
        inside = bins == b
        share, n = np.mean(np.array(right)[inside]), inside.sum()
        expected = np.mean(np.array(announced)[inside])
        assert abs(share - expected) < 3 * np.sqrt(expected * (1 - expected) / n) + 0.02
    assert np.mean(scores) > -0.6


def test_nats_per_component_count_up_to_half_of_all_directions():
    shown = spectrum(60, 10, [5.0, 2.0])
    plain, more = posterior_of_rank(shown), posterior_of_rank(shown, per_component=0.7)
    known = np.isfinite(plain.log_evidence) & np.isfinite(more.log_evidence)
    ranks = np.flatnonzero(known)
    gained = more.log_evidence[ranks] - plain.log_evidence[ranks]
    assert ranks.size > 5
    expected = 0.7 * np.minimum(ranks, 5)
    assert gained - gained[0] == pytest.approx(expected - expected[0], abs=1e-9)


@pytest.mark.parametrize("strength", [1e6, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("n_weak", [0, 1])
def test_how_strong_sure_components_are_does_not_matter(strength, n_weak):
    """Three certain components, 10³ to 10¹² times larger, beside none or one that is in doubt."""
    gamma = singular_values(200, 20, [40.0, 30.0, 20.0] + n_weak * [1.6])
    known = gamma.copy()
    known[:3] *= 1e3
    stronger = gamma.copy()
    stronger[:3] *= strength
    expected, found = (
        posterior_of_rank(Spectrum(values, (20, 199))).probabilities for values in (known, stronger)
    )
    assert expected[3 + n_weak] > 0.3
    assert found == pytest.approx(expected, abs=1e-3)
