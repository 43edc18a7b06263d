"""The likelihoods of single columns of the matrix, by name."""

from __future__ import annotations

from collections.abc import Mapping

from .bernoulli import BERNOULLI
from .likelihood import Likelihood
from .negative_binomial import NEGATIVE_BINOMIAL
from .normal import NORMAL
from .ordinal import ORDINAL
from .poisson import POISSON

LIKELIHOODS: Mapping[str, Likelihood] = {
    one.name: one for one in (NORMAL, BERNOULLI, POISSON, NEGATIVE_BINOMIAL, ORDINAL)
}
