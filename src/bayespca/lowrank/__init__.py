"""What low-rank normal models share: factors, rows with holes, posteriors, densities, kernels."""

from .factors import Factors, Prior, factor_energy

__all__ = ["Factors", "Prior", "factor_energy"]
