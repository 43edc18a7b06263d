"""Every closed form against brute-force minimisation, and against the papers' own formulas."""

from __future__ import annotations

import numpy as np
import pytest

from bayespca.spectrum import FAMILIES, MAP, PB_A, PB_B, VB, partially_bayesian, priors
from bayespca.spectrum import closed_form as cf
from oracles.free_energy import minimise_component
from oracles.noise import delta

SHAPES = [(7, 19), (12, 12), (23, 5)]
NOISE = 1.7


def sizes_of(family, shape):
    return family.sizes(*shape)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("c2", [0.3, 40.0])
@pytest.mark.parametrize("strength", [0.9, 1.1, 3.0])
def test_given_prior_agrees_with_brute_force(family, shape, c2, strength):
    prior = priors.GivenPrior(*shape, family, c2)
    gamma = np.sqrt(prior.threshold(NOISE) * NOISE) * strength
    x = np.array([gamma**2 / NOISE])
    best = minimise_component(
        gamma,
        NOISE,
        *shape,
        integrates_a=family.integrates_a,
        integrates_b=family.integrates_b,
        c2=c2,
    )[0]
    kept = strength > 1
    shrunk = gamma * prior.strength(x, NOISE)[0] / x[0] if kept else 0.0
    assert best.product == pytest.approx(shrunk, abs=1e-6 * gamma)
    energy = prior.dropped(NOISE) + prior.point_terms(x, 1, NOISE, 0.0)
    energy += (prior.costs(x, NOISE) - x)[0] if kept else 0.0
    assert best.energy == pytest.approx(energy, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strength", [1.02, 1.3, 3.0])
def test_learned_prior_agrees_with_brute_force(family, shape, strength):
    """The best minimum away from zero has the mean, prior and free energy of the closed form."""
    prior = priors.local_empirical(*shape, family)
    gamma = np.sqrt(prior.threshold(NOISE) * NOISE) * strength
    x = np.array([gamma**2 / NOISE])
    minima = minimise_component(
        gamma, NOISE, *shape, integrates_a=family.integrates_a, integrates_b=family.integrates_b
    )
    best = next(m for m in minima if m.product > 0.05 * gamma)
    assert best.product == pytest.approx(gamma * prior.strength(x, NOISE)[0] / x[0], rel=1e-6)
    c = np.sqrt(NOISE / prior.noise_ratio(x, NOISE)[0])
    assert best.component.ca2 == pytest.approx(c, rel=1e-5)
    energy = (prior.costs(x, NOISE) - x)[0] + prior.point_terms(x, 1, NOISE, 0.0)
    assert best.energy == pytest.approx(energy, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_below_the_learned_edge_nothing_but_zero_is_stable(family, shape):
    gamma = np.sqrt(cf.learned_edge(*shape, *sizes_of(family, shape)) * NOISE) * 0.98
    minima = minimise_component(
        gamma,
        NOISE,
        *shape,
        integrates_a=family.integrates_a,
        integrates_b=family.integrates_b,
        starts=3,
    )
    assert all(abs(m.product) < 1e-3 * gamma for m in minima)


@pytest.mark.parametrize("shape", SHAPES)
def test_evb_threshold_is_where_brute_force_changes_its_mind(shape):
    """2F_h of EVB's best solution away from zero crosses 0 there, which is the value at c = 0."""
    for factor, sign in [(0.995, 1), (1.005, -1)]:
        gamma = np.sqrt(cf.evb_threshold(*shape) * NOISE) * factor
        minima = minimise_component(gamma, NOISE, *shape, integrates_a=True, integrates_b=True)
        best = next(m for m in minima if m.product > 0.05 * gamma)
        assert np.sign(best.energy) == sign


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (1, 1000), (3, 10**7), (500, 2000)])
def test_icml_theorem_4_agrees_with_aistats_proposition_1(shape):
    """Δ_h changes sign at the threshold, and is twice the free energy of the component."""
    x = cf.evb_threshold(*shape)
    assert (
        delta(np.sqrt(x * (1 + 1e-6)), 1.0, *shape)
        < 0
        < delta(np.sqrt(x * (1 - 1e-6)), 1.0, *shape)
    )
    evb = priors.empirical_vb(*shape)
    for strong in x * np.array([1.0, 1.5, 10.0]):
        ours = (evb.costs(np.array([strong]), 1.0) - strong)[0]
        assert ours == pytest.approx(delta(np.sqrt(strong), 1.0, *shape), abs=1e-9 * strong)


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1), (1, 10**7), (300, 301)])
def test_kappa_is_the_root_of_xi(shape):
    alpha = min(shape) / max(shape)

    def phi(x):
        return np.log1p(x) / x - 0.5

    def xi(k):
        return phi(np.sqrt(alpha) * k) + phi(k / np.sqrt(alpha))

    kappa = cf.evb_kappa(*shape)
    assert kappa > 1
    assert xi(kappa * (1 - 1e-9)) > 0 > xi(kappa * (1 + 1e-9))


def test_published_value_of_kappa():
    """For square matrices √α·κ is the well-known constant 2.5129."""
    assert cf.evb_kappa(100, 100) == pytest.approx(2.5128624172523393, rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("c", [0.5, 3.0, 1e9])
def test_thresholds_as_printed_for_a_given_prior(shape, c):
    """icml2011 Eq. 23, 25, 26, 28, 33."""
    L, M = shape
    s, e = NOISE, NOISE / c**2
    kappa = (L + M) / 2 + s / (2 * c**2)
    printed = {
        PB_A: np.sqrt(s) * np.sqrt(M + s / c**2),
        PB_B: np.sqrt(s) * np.sqrt(L + s / c**2),
        VB: np.sqrt(s) * np.sqrt(kappa + np.sqrt(max(kappa**2 - L * M, 0))),
        MAP: s / c,
    }
    for family, threshold in printed.items():
        ours = np.sqrt(s * cf.given_threshold(e, *family.sizes(L, M)))
        assert ours == pytest.approx(threshold, rel=1e-7)
    pb = partially_bayesian(L, M)
    ours = np.sqrt(s * cf.given_threshold(e, *pb.sizes(L, M)))
    assert ours == pytest.approx(np.sqrt(s * (max(L, M) + s / c**2)), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_flat_prior_limits(shape):
    """icml2011 Eq. 34 and 35: PB and simple-VB agree under a flat prior; Eq. 10: PB-A."""
    L, M = shape
    assert cf.given_threshold(0.0, L, M) == pytest.approx(max(L, M))
    assert cf.given_threshold(0.0, *partially_bayesian(L, M).sizes(L, M)) == max(L, M)
    assert cf.given_threshold(0.0, 0, M) == M
    assert cf.given_threshold(0.0, 0, 0) == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_learned_formulas_as_printed(shape):
    """aistats2014 Eq. 10, 11, 22, 23, 25, 26, with the errata."""
    L, M = shape
    s, short, long = NOISE, min(shape), max(shape)
    gamma = np.sqrt(s) * 3 * np.sqrt(L + M)
    x = np.array([gamma**2 / s])
    kappa = cf.evb_kappa(L, M)
    evb = np.sqrt(s * (L + M + np.sqrt(L * M) * (kappa + 1 / kappa)))
    r = 1 - (M + L) * s / gamma**2
    evb_shrunk = gamma / 2 * (r + np.sqrt(r**2 - 4 * L * M * s**2 / gamma**4))
    epb = np.sqrt(s * (L + M + np.sqrt(2 * L * M + short**2)))
    root = np.sqrt(gamma**4 - 2 * (L + M) * s * gamma**2 + long**2 * s**2)
    epb_shrunk = gamma / 2 * (1 + (-long * s + root) / gamma**2)
    emap = np.sqrt(2 * s * (M + L))
    emap_shrunk = (gamma + np.sqrt(gamma**2 - 2 * s * (M + L))) / 2
    for prior, threshold, shrunk in [
        (priors.empirical_vb(L, M), evb, evb_shrunk),
        (priors.local_empirical(L, M, partially_bayesian(L, M)), epb, epb_shrunk),
        (priors.local_empirical(L, M, MAP), emap, emap_shrunk),
    ]:
        assert np.sqrt(s * prior.threshold(s)) == pytest.approx(threshold, rel=1e-12)
        assert gamma * prior.strength(x, s)[0] / x[0] == pytest.approx(shrunk, rel=1e-12)


@pytest.mark.parametrize("shape", [(10, 300), (200, 200), (1000, 30)])
def test_thresholds_are_ordered_as_in_aistats_eq_35(shape):
    edge = (np.sqrt(shape[0]) + np.sqrt(shape[1])) ** 2
    epb = priors.local_empirical(*shape, partially_bayesian(*shape)).threshold(1.0)
    emap = priors.local_empirical(*shape, MAP).threshold(1.0)
    assert epb < edge <= min(cf.evb_threshold(*shape), emap * (1 + 1e-12))


@pytest.mark.parametrize("shape", [(9, 30), (30, 9)])
@pytest.mark.parametrize("c2", [0.5, 50.0])
def test_pb_chooses_the_lower_free_energy(shape, c2):
    """icml2011 Lemma 1: compare the gains of PB-A and PB-B."""
    gamma2 = 4 * (shape[0] + shape[1]) * NOISE
    x = np.array([gamma2 / NOISE])
    gains = {}
    for family in (PB_A, PB_B):
        prior = priors.GivenPrior(*shape, family, c2)
        best = minimise_component(
            np.sqrt(gamma2),
            NOISE,
            *shape,
            integrates_a=family.integrates_a,
            integrates_b=family.integrates_b,
            c2=c2,
            starts=1,
        )[0]
        gains[family.name] = (prior.costs(x, NOISE) - x)[0]
        assert best.energy - prior.point_terms(x, 1, NOISE, 0.0) == pytest.approx(
            gains[family.name], abs=1e-6
        )
    chosen = partially_bayesian(*shape).name
    # The two point-estimate different numbers of entries, whose densities cannot be compared. Their
    # gains over dropping the component can, and the paper's rule takes the stricter one.
    assert gains[chosen] == max(gains.values())
