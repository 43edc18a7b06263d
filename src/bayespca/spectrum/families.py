"""Posterior families: which factor is integrated out, and which is point-estimated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A restriction of the posterior r(A, B) of V ≈ B Aᵀ, with V of size L×M.

    A (M×H, one row per sample) and B (L×H, one row per feature) are each either integrated out
    or point-estimated. A point-estimated factor has zero posterior covariance; everything else
    about a family follows from that, through its integrated sizes.

    >>> from bayespca.spectrum import MAP, PB_A, VB
    >>> [family.sizes(12, 100) for family in (VB, PB_A, MAP)]
    [(12, 100), (0, 100), (0, 0)]
    """

    name: str
    integrates_a: bool
    integrates_b: bool

    def sizes(self, L: float, M: float) -> tuple[float, float]:
        """Integrated sizes (l, m): L and M where B and A are integrated out, 0 where not."""
        return (L if self.integrates_b else 0), (M if self.integrates_a else 0)


VB = Family("VB", integrates_a=True, integrates_b=True)
PB_A = Family("PB-A", integrates_a=True, integrates_b=False)
PB_B = Family("PB-B", integrates_a=False, integrates_b=True)
MAP = Family("MAP", integrates_a=False, integrates_b=False)

FAMILIES = (VB, PB_A, PB_B, MAP)


def partially_bayesian(L: float, M: float) -> Family:
    """PB: the one of PB-A and PB-B with the lower free energy (icml2011 Lemma 1).

    It is the one that integrates the longer factor, for a given and for a learned prior alike
    (aistats2014 Theorem 1); at L = M the two give the same answer.

    >>> from bayespca.spectrum import partially_bayesian
    >>> partially_bayesian(12, 100).name
    'PB-A'
    """
    return PB_A if M >= L else PB_B
